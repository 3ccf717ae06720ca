//! `interpolate(from, to, at)`: the value that lies so far on the way from one number to another of its type.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

const NAME: &str = "interpolate";

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::from(Interpolate { signature: Signature::any(3, Volatility::Immutable) }))
});

/// The function behind [`interpolate`].
pub(crate) fn function() -> Arc<ScalarUDF> {
    Arc::clone(&FUNCTION)
}

/// The value of which `at`, a float, says how far it lies on the way from `from` to `to`, which are of one
/// type; 0 is the first, 1 the second. A whole number is rounded. Null if one of the three is.
pub fn interpolate(from: Expr, to: Expr, at: Expr) -> Expr {
    FUNCTION.call(vec![from, to, at])
}

/// The scalar function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Interpolate {
    signature: Signature,
}

impl ScalarUDFImpl for Interpolate {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(NAME, args.arg_fields[0].data_type().clone(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [from, to, at] = ColumnarValue::values_to_arrays(&args.args)?
            .try_into()
            .or_else(|args: Vec<_>| exec_err!("{NAME} takes 3 arguments, not {}", args.len()))?;
        if from.data_type() != to.data_type() {
            return internal_err!("{NAME} between {} and {}", from.data_type(), to.data_type());
        }
        let Some(at) = at.as_primitive_opt::<Float64Type>() else {
            return internal_err!("{NAME}: how far is a float, not {}", at.data_type());
        };
        let at: Vec<Option<f64>> = at.iter().collect();
        Ok(ColumnarValue::Array(whimbrel_temporal::interpolate(&from, &to, &at)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::{DFSchema, ScalarValue};
    use datafusion::logical_expr::lit;
    use datafusion::logical_expr::simplify::SimplifyContext;
    use datafusion::optimizer::simplify_expressions::ExprSimplifier;

    #[test]
    fn numbers_keep_their_type() {
        let constant = |of: Expr| {
            let context = SimplifyContext::builder().with_schema(Arc::new(DFSchema::empty())).build();
            match ExprSimplifier::new(context).simplify(of).unwrap() {
                Expr::Literal(value, _) => value,
                other => panic!("{other} is not constant"),
            }
        };
        let between =
            |from: ScalarValue, to: ScalarValue| constant(interpolate(lit(from), lit(to), lit(0.5)));
        assert_eq!(between(3_i32.into(), 4_i32.into()), ScalarValue::from(4_i32));
        assert_eq!(between(1.0.into(), 2.0.into()), ScalarValue::from(1.5));
        assert!(between(1.0.into(), ScalarValue::Float64(None)).is_null());
    }
}
