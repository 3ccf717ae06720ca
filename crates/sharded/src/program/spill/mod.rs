//! What operators do whose memory is limited: what they hold is as small as it can be, and what is too much goes to
//! files.
//!
//! DataFusion's sorts and groups write what they hold to files, given batches that hold no more than their rows; its
//! joins and windows do not. Here they are run on parts of their input that can be computed by themselves: a join on
//! the rows whose keys have the same hash, a window on some of its partitions.

mod compact;
mod file;
mod join;
mod read_once;
mod window;

use crate::unary::UnaryExec;
use compact::Compact;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use join::SpillingJoinExec;
use std::sync::Arc;
use window::WindowInPartsExec;

/// How many of the first rows of an order are kept in memory while the others pass.
const HEAP_ROWS: usize = 1024;

/// The plan, with operators that can spill in place of those that cannot. No optimizer rule may run behind this.
pub(super) fn spilling(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        Ok(match prepared(&plan)? {
            Some(prepared) => Transformed::yes(prepared),
            None => Transformed::no(plan),
        })
    })
    .data()
}

/// The operator that takes the place of this one, if there is one.
fn prepared(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return Ok(SpillingJoinExec::of(join)?.map(|join| Arc::new(join) as Arc<dyn ExecutionPlan>));
    }
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        return Ok(WindowInPartsExec::of(window).map(|window| Arc::new(window) as Arc<dyn ExecutionPlan>));
    }
    plan.downcast_ref::<SortExec>().map_or(Ok(None), spilling_sort)
}

/// A sort whose input can be written to files. One for few of the first rows holds only these, and stays as it is.
fn spilling_sort(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let fetch = sort.fetch();
    if fetch.is_some_and(|rows| rows <= HEAP_ROWS) {
        return Ok(None);
    }
    let all = Arc::new(sort.with_fetch(None));
    let input: Arc<dyn ExecutionPlan> = Arc::new(UnaryExec::new(Compact, Arc::clone(sort.input())));
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    let sorted = all.replace_children(vec![input], options)?;
    Ok(Some(match fetch {
        None => sorted,
        rows => Arc::new(GlobalLimitExec::new(sorted, 0, rows)),
    }))
}
