//! `to_timestamp(x)` of a float that fails if `x` seconds after 1970 are out of range; DataFusion's function
//! returns the nearest instant. For arguments of other types it is DataFusion's function.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_err};
use datafusion::functions::datetime;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    vec![Arc::new(ScalarUDF::from(ToTimestamp { any: datetime::to_timestamp(&ConfigOptions::default()) }))]
}

/// `to_timestamp(x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToTimestamp {
    /// DataFusion's function.
    any: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for ToTimestamp {
    fn name(&self) -> &str {
        self.any.name()
    }

    fn signature(&self) -> &Signature {
        self.any.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.any.return_type(types)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let any = self.any.inner().with_updated_config(config)?;
        Some(ScalarUDF::from(ToTimestamp { any: Arc::new(any) }))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let of_float = match args.first() {
            Some(seconds) => info.get_data_type(seconds)?.is_floating(),
            None => false,
        };
        Ok(match of_float {
            true => ExprSimplifyResult::Original(args),
            false => ExprSimplifyResult::Simplified(self.any.call(args)),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(seconds) = args.args.first().filter(|seconds| seconds.data_type().is_floating()) {
            let seconds = cast(&seconds.to_array(args.number_rows)?, &DataType::Float64)?;
            let is_instant = |seconds: f64| (seconds * 1e9).abs() < i64::MAX as f64;
            if let Some(wrong) =
                seconds.as_primitive::<Float64Type>().iter().flatten().find(|s| !is_instant(*s))
            {
                return exec_err!(
                    "to_timestamp: {wrong:e} seconds after 1970 are not between the years 1677 and 2262"
                );
            }
        }
        self.any.invoke_with_args(args)
    }
}
