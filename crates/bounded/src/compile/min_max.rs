//! `max(x)` or `min(x)` alone, compiled as the first row in the order of `x`.

use crate::error::Result;
use crate::expression::is_double;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};

/// The plan of the first row in the order of a `max` or `min`; `None` for any other aggregate.
pub(super) fn first_row_plan(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let ([], [call]) = (aggregate.group_expr.as_slice(), aggregate.aggr_expr.as_slice()) else {
        return Ok(None);
    };
    let Expr::AggregateFunction(AggregateFunction { func, params }) = call.clone().unalias() else {
        return Ok(None);
    };
    let ascending = match func.name() {
        "min" => true,
        "max" => false,
        _ => return Ok(None),
    };
    let [value @ Expr::Column(_)] = params.args.as_slice() else { return Ok(None) };
    // NaN is the largest key, but `max` ignores it.
    if params.filter.is_some() || is_double(&value.get_type(aggregate.input.schema())?) {
        return Ok(None);
    }
    let mut first = LogicalPlanBuilder::from(aggregate.input.as_ref().clone());
    // A column that is never null has nothing to be filtered, and a filter would stand in the way of the
    // limit.
    if value.nullable(aggregate.input.schema())? {
        first = first.filter(value.clone().is_not_null())?;
    }
    let first =
        first.project([value.clone()])?.sort([value.clone().sort(ascending, false)])?.limit(0, Some(1))?;
    Ok(Some(first.build()?))
}
