//! Which side of a join is kept in memory: the one that is expected to have fewer rows.
//!
//! A hash join keeps its left side and looks the rows of the right one up. Invariant: the columns of the
//! plan, and their order, stay.

use super::{Estimate, Estimator};
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use std::sync::Arc;

/// The plan with the smaller side of every join on the left.
///
/// # Errors
/// `Plan` if a join cannot be built again with its sides exchanged.
pub fn smaller_sides_first(plan: LogicalPlan, estimator: &Estimator<'_>) -> Result<LogicalPlan> {
    Ok(with_smaller_build_sides(plan, estimator)?.0)
}

fn with_smaller_build_sides(plan: LogicalPlan, estimator: &Estimator<'_>) -> Result<(LogicalPlan, Estimate)> {
    let inputs = plan.inputs().into_iter().map(|input| with_smaller_build_sides(input.clone(), estimator));
    let (inputs, estimates): (Vec<_>, Vec<_>) = inputs.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let estimate = estimator.of_inputs(&plan, estimates.clone());
    let plan = match inputs.is_empty() {
        true => plan,
        false => plan.with_new_exprs(plan.expressions(), inputs)?,
    };
    match (&plan, estimates.as_slice()) {
        (LogicalPlan::Join(join), [left, right])
            if estimator.rows_of_channel(left) > estimator.rows_of_channel(right) && !join.null_aware =>
        {
            Ok((swapped(join)?, estimate))
        }
        _ => Ok((plan, estimate)),
    }
}

fn swapped(join: &Join) -> Result<LogicalPlan> {
    let on = join.on.iter().map(|(l, r)| (r.clone(), l.clone())).collect();
    let other = Join::try_new(
        Arc::clone(&join.right),
        Arc::clone(&join.left),
        on,
        join.filter.clone(),
        swapped_join_type(join.join_type),
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let has_both_sides =
        matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full);
    if !has_both_sides {
        return Ok(LogicalPlan::Join(other));
    }
    let columns = join.schema.columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(LogicalPlan::Join(other)))?))
}

fn swapped_join_type(kind: JoinType) -> JoinType {
    match kind {
        JoinType::Inner => JoinType::Inner,
        JoinType::Full => JoinType::Full,
        JoinType::Left => JoinType::Right,
        JoinType::Right => JoinType::Left,
        JoinType::LeftSemi => JoinType::RightSemi,
        JoinType::RightSemi => JoinType::LeftSemi,
        JoinType::LeftAnti => JoinType::RightAnti,
        JoinType::RightAnti => JoinType::LeftAnti,
        JoinType::LeftMark => JoinType::RightMark,
        JoinType::RightMark => JoinType::LeftMark,
    }
}
