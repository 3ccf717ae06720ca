//! Operators under a memory limit: they hold as little as they can, and spill the rest to files.
//!
//! DataFusion's sorts and aggregates spill, if their batches hold the memory of their own rows only. Its
//! joins and windows do not. Here these run on independent parts of their input: a join on the rows whose
//! keys have the same hash, a window on some of its partitions.

mod compact_input;
mod join;
mod partition;
mod window;

use super::sort::in_memory;
use crate::substitute::{Substitute, SubstituteExec};
use crate::unary::UnaryExec;
use compact_input::Compact;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use join::SpillingJoin;
use std::sync::Arc;
use window::PartitionedWindow;

/// A sort with a limit of at most so many rows keeps them in memory.
const HEAP_ROWS: usize = 1024;

/// Replaces operators that cannot spill by operators that can. No optimizer rule may run after this.
///
/// # Errors
/// If an operator cannot be rebuilt.
pub(super) fn with_spilling(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        Ok(match replacement(&plan)? {
            Some(replacement) => Transformed::yes(replacement),
            None => Transformed::no(plan),
        })
    })
    .data()
}

/// The operator that replaces this one, if there is one.
fn replacement(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return Ok(SpillingJoin::of(join)?.map(node));
    }
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        return Ok(PartitionedWindow::of(window).map(node));
    }
    plan.downcast_ref::<SortExec>().map_or(Ok(None), spilling_sort)
}

/// A substitute as a node of the plan.
fn node<S: Substitute>(substitute: S) -> Arc<dyn ExecutionPlan> {
    Arc::new(SubstituteExec(substitute))
}

/// A sort that can spill. One with a small limit keeps few rows, and stays as it is.
fn spilling_sort(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let fetch = sort.fetch();
    if fetch.is_some_and(|rows| rows <= HEAP_ROWS) {
        return Ok(None);
    }
    let all = Arc::new(sort.with_fetch(None));
    let input: Arc<dyn ExecutionPlan> = Arc::new(UnaryExec::new(Compact, Arc::clone(sort.input())));
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    let sorted = in_memory(all.replace_children(vec![input], options)?)?;
    Ok(Some(match fetch {
        None => sorted,
        rows => Arc::new(GlobalLimitExec::new(sorted, 0, rows)),
    }))
}
