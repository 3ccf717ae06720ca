//! What can be kept up to date while the rows of a live source come.
//!
//! A relation over a live source changes as rows come. A step is *maintained* if an operator of ours tells
//! how its result changes when its input does; its last snapshot is then what the step gives over all rows
//! together. Every other step can be computed once, when the source has ended.

use crate::properties::properties;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Distinct, LogicalPlan, Unnest};

/// Why a step cannot be maintained; none if it can be.
pub fn unmaintained(plan: &LogicalPlan) -> Option<String> {
    match plan {
        LogicalPlan::RecursiveQuery(_) => Some("a recursive query is computed from the beginning".to_string()),
        LogicalPlan::Distinct(Distinct::On(_)) => Some(
            "distinct on keeps one row of each group by its order; group by these columns, with first_value(… \
             order by …)"
                .to_string(),
        ),
        LogicalPlan::Limit(limit) if !matches!(*limit.input, LogicalPlan::Sort(_)) => {
            Some("which rows a limit keeps is open; add order by".to_string())
        }
        LogicalPlan::Unnest(unnest) if !is_one_list(unnest) => {
            Some("one list is unnested at a time, one level deep, and structs are not; take fields by name".to_string())
        }
        _ => plan.expressions().iter().find(|e| e.is_volatile()).map(|e| {
            format!("{e} is another value each time, so a row that leaves could not be found again")
        }),
    }
}

fn is_one_list(unnest: &Unnest) -> bool {
    let lists = unnest.list_type_columns.as_slice();
    unnest.struct_type_columns.is_empty() && matches!(lists, [(_, list)] if list.depth == 1)
}

/// Refuses a relation that changes and cannot be maintained.
pub(crate) fn check(plan: &LogicalPlan) -> Result<()> {
    if let Some(LogicalPlan::Sort(_)) = ordered(plan).filter(|_| live(plan).unwrap_or(false)) {
        return plan_err!(
            "unbounded sort: the changes of a live result have no order of rows; add limit for the first rows, or \
             leave out order by"
        );
    }
    plan.apply(|step| match unmaintained(step).filter(|_| live(step).unwrap_or(false)) {
        Some(reason) => plan_err!("the result cannot be kept up to date while rows come: {reason}"),
        None => Ok(TreeNodeRecursion::Continue),
    })?;
    Ok(())
}

/// The sort without a limit that a plan's rows are ordered by.
fn ordered(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => Some(plan),
        LogicalPlan::Projection(projection) => ordered(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => ordered(&alias.input),
        _ => None,
    }
}

fn live(plan: &LogicalPlan) -> Result<bool> {
    let properties = properties(plan)?;
    Ok(properties.time.is_none() && !properties.bounded)
}
