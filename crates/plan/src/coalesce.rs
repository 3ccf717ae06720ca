//! `coalesce(x, 0)` of a large `x`. DataFusion rewrites it as `case when x is not null then x else 0 end`,
//! which contains `x` twice, so that nested calls grow exponentially. Here such a call is replaced by a
//! function that computes each argument once. It computes all of them, so the arguments after the first must
//! be columns or literals, which cannot fail.

use crate::depth::size;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::is_not_null;
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::{Arc, LazyLock};

/// An argument of at most this many parts may be duplicated.
const SMALL: usize = 8;

/// The rule that simplifies expressions, without such growth.
#[derive(Debug)]
pub(crate) struct Coalesce(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for Coalesce {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let names = NamePreserver::new(&plan);
        let of_named = |expr: Expr| {
            let name = names.save(&expr);
            Ok(avoid_duplicates(expr)?.update_data(|expr| name.restore(expr)))
        };
        let plan = plan.map_expressions(|expr| match expr {
            expr if !expr.exists(|expr| Ok(duplicates_large(expr)))? => Ok(Transformed::no(expr)),
            // Each group has a name of its own.
            Expr::GroupingSet(_) => expr.map_children(of_named),
            expr => of_named(expr),
        })?;
        plan.transform_data(|plan| self.0.rewrite(plan, config))
    }
}

/// Replaces the calls that would duplicate large arguments. The types of the expression are coerced.
///
/// # Errors
/// None of its own.
pub(crate) fn avoid_duplicates(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| {
        if !duplicates_large(&expr) {
            return Ok(Transformed::no(expr));
        }
        Ok(match expr {
            Expr::ScalarFunction(call) => Transformed::yes(FUNCTION.call(call.args)),
            other => Transformed::no(other),
        })
    })
}

/// Whether it is a call that would duplicate a large argument.
fn duplicates_large(expr: &Expr) -> bool {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return false };
    let Some((first, others)) = args.split_first() else { return false };
    let cannot_fail = |expr: &Expr| matches!(expr, Expr::Literal(..) | Expr::Column(_));
    matches!(func.name(), "coalesce" | "nvl") && others.iter().all(cannot_fail) && size(first).parts > SMALL
}

static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| {
    ScalarUDF::from(EagerCoalesce { signature: Signature::variadic_any(Volatility::Immutable) })
});

/// The function that stands in for a `coalesce` of a large first argument.
pub(crate) fn eager_coalesce() -> Arc<ScalarUDF> {
    Arc::new(FUNCTION.clone())
}

/// The first argument that is not null. All arguments are computed.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EagerCoalesce {
    signature: Signature,
}

impl ScalarUDFImpl for EagerCoalesce {
    fn name(&self) -> &str {
        "eager_coalesce"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(first) => Ok(first.clone()),
            None => internal_err!("{} has arguments", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().all(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let mut arrays = args.args.into_iter().map(|arg| arg.into_array(rows));
        let Some(first) = arrays.next() else { return internal_err!("{} has arguments", self.name()) };
        let known = arrays.try_fold(first?, |known, next| -> Result<ArrayRef> {
            match known.null_count() {
                0 => Ok(known),
                _ => Ok(zip(&is_not_null(&known)?, &known, &next?)?),
            }
        })?;
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&known, 0)?),
            false => ColumnarValue::Array(known),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::functions::core::expr_fn::coalesce;
    use datafusion::logical_expr::{col, lit};

    #[test]
    fn large_arguments_are_there_once() {
        let nested = (0..100).fold(col("a"), |expr, _| coalesce(vec![expr + lit(1), lit(0)]));
        let once = avoid_duplicates(nested).unwrap().data;
        assert_eq!(size(&once).parts, 401);
        assert!(!once.exists(|expr| Ok(duplicates_large(expr))).unwrap());
    }

    #[test]
    fn small_arguments_and_those_that_may_fail_stay() {
        let small = coalesce(vec![col("a") + lit(1), lit(0)]);
        assert!(!avoid_duplicates(small).unwrap().transformed);
        let large = (0..SMALL as i64).fold(col("a"), |sum, n| sum + lit(n));
        let failing = coalesce(vec![large, lit(1) / lit(0)]);
        assert!(!avoid_duplicates(failing).unwrap().transformed);
    }
}
