//! Functions of DataFusion that are computed otherwise for arguments of some types.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A function with the name of one of DataFusion's, which it is for arguments of other types.
#[derive(Debug)]
pub(super) struct Overridden {
    /// DataFusion's function.
    others: Arc<ScalarUDF>,
    /// Its arguments; what they are cast to is up to `coerce`.
    signature: Signature,
    /// What arguments are cast to; `None` leaves that to DataFusion's function.
    coerce: fn(&[DataType]) -> Option<Vec<DataType>>,
    /// The type of the values by those of the arguments; `None` where it is DataFusion's function.
    returns: fn(&[DataType]) -> Option<DataType>,
    /// Computes the values of all rows.
    compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
}

impl Overridden {
    /// A function in the place of one of DataFusion's.
    pub(super) fn function(
        others: Arc<ScalarUDF>,
        coerce: fn(&[DataType]) -> Option<Vec<DataType>>,
        returns: fn(&[DataType]) -> Option<DataType>,
        compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
    ) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::from(Overridden { others, signature, coerce, returns, compute }))
    }
}

/// There is one function of a name.
impl PartialEq for Overridden {
    fn eq(&self, other: &Overridden) -> bool {
        self.others == other.others
    }
}

impl Eq for Overridden {}

impl Hash for Overridden {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.others.hash(state);
    }
}

impl ScalarUDFImpl for Overridden {
    fn name(&self) -> &str {
        self.others.name()
    }

    fn aliases(&self) -> &[String] {
        self.others.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let Some(types) = (self.coerce)(types) {
            return Ok(types);
        }
        let fields = types.iter().map(|kind| Arc::new(Field::new("", kind.clone(), true)));
        let fields = fields_with_udf(&fields.collect::<Vec<_>>(), self.others.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        (self.returns)(types).map_or_else(|| self.others.return_type(types), Ok)
    }

    fn is_strict(&self) -> bool {
        self.others.is_strict()
    }

    /// The optimizer knows more of DataFusion's function.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let types = args.iter().map(|arg| info.get_data_type(arg)).collect::<Result<Vec<_>>>()?;
        Ok(match (self.returns)(&types) {
            Some(_) => ExprSimplifyResult::Original(args),
            None => ExprSimplifyResult::Simplified(self.others.call(args)),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        if (self.returns)(&types).is_none() {
            return self.others.invoke_with_args(args);
        }
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let computed = (self.compute)(&arrays)?;
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?),
            false => ColumnarValue::Array(computed),
        })
    }
}
