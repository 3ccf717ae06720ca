//! `length(x)` of a list: how many values are in it. Of a text it is how many characters it has, and that is
//! DataFusion's function. Which is meant is known when the query is planned, and no plan has the function of
//! this file.
//!
//! ```sql
//! select length([1, 2, null]), length('text');  -- 3, 4
//! ```

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions::unicode::character_length;
use datafusion::functions_nested::length::array_length_udf;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};
use std::sync::Arc;

/// The function.
pub(crate) fn length() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Length { signature: Signature::user_defined(Volatility::Immutable) }))
}

/// `length(x)`, of a list or a string.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    /// One argument of any type.
    signature: Signature,
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        "length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [kind] if is_list(kind) => Ok(types.to_vec()),
            [text] if is_text(text) => Ok(types.to_vec()),
            _ => Ok(types.iter().map(|_| DataType::Utf8).collect()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [kind] if is_list(kind) => Ok(DataType::Int64),
            _ => character_length().return_type(types),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let list = match args.as_slice() {
            [value] => is_list(&info.get_data_type(value)?),
            _ => false,
        };
        Ok(ExprSimplifyResult::Simplified(match list {
            true => cast(array_length_udf().call(args), DataType::Int64),
            false => character_length().call(args),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.arg_fields.first().is_some_and(|field| is_list(field.data_type())) {
            true => array_length_udf().invoke_with_args(args)?.cast_to(&DataType::Int64, None),
            false => character_length().invoke_with_args(args),
        }
    }
}

/// Whether a type is one of lists.
fn is_list(kind: &DataType) -> bool {
    matches!(kind, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

/// Whether a type is one of strings.
fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}
