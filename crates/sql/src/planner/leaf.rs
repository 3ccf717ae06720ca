//! The sources of a query: each is read in as many shards as there are, or in one if it has few rows.

use super::placed::{Placed, Spread};
use super::{Planner, is_opaque};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::{LogicalPlan, TableScan};
use std::sync::Arc;
use whimbrel_plan::nodes::{Exchange, Movement, Node, Scope};
use whimbrel_plan::{PlanSource, node, properties, source_of};

/// Whether this brings all rows of something to one shard.
pub(super) fn is_whole(exchange: &Exchange) -> bool {
    let one = exchange.shards == Some(1) && exchange.scope == Scope::Global;
    one && matches!(exchange.movement, Movement::ReShard)
}

impl Planner<'_> {
    /// A source, or what brings all rows of one to one shard.
    pub(super) fn leaf(&self, plan: &LogicalPlan) -> Result<Placed> {
        let inside = match node(plan) {
            Some(Node::Exchange(exchange)) => &exchange.input,
            _ => plan,
        };
        let known = properties(inside)?;
        if known.time.is_some() || !known.bounded || is_opaque(plan)? {
            return Ok(self.as_is(plan.clone()));
        }
        let estimate = self.estimator.estimate(inside);
        let read = rows_read(self, inside);
        if read < self.few_rows {
            let plan = recut(inside, 1)?.unwrap_or_else(|| plan.clone());
            return Ok(Placed::one(plan, estimate));
        }
        let spread = Spread::anyhow();
        if let Some(plan) = recut(inside, self.shards)? {
            return Ok(Placed { plan, spread, estimate, bytes: 0.0, cost: 0.0 });
        }
        let placed = Placed { plan: inside.clone(), spread, estimate, bytes: 0.0, cost: 0.0 };
        match known.shards == self.shards {
            true => Ok(placed),
            false => self.moved(placed, Movement::ReShard, Scope::Global, self.shards, Spread::anyhow()),
        }
    }
}

/// How many rows are read from the sources below.
fn rows_read(planner: &Planner<'_>, plan: &LogicalPlan) -> f64 {
    match plan.inputs().as_slice() {
        [] => planner.estimator.estimate(plan).rows,
        inputs => inputs.iter().map(|input| rows_read(planner, input)).sum(),
    }
}

/// The plan with its source cut into so many shards, if nothing is done to the rows that depends on how they are
/// cut, and the source can be.
fn recut(plan: &LogicalPlan, shards: usize) -> Result<Option<LogicalPlan>> {
    if properties(plan)?.shards == shards && is_bare(plan) {
        return Ok(Some(plan.clone()));
    }
    match plan {
        LogicalPlan::TableScan(scan) => {
            let cut = source_of(scan).and_then(|source| source.with_shards(shards));
            Ok(cut.map(|source| {
                LogicalPlan::TableScan(TableScan { source: Arc::new(PlanSource(source)), ..scan.clone() })
            }))
        }
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            let inputs = plan.inputs().into_iter().map(|input| recut(input, shards));
            let inputs = inputs.collect::<Result<Option<Vec<_>>>>()?;
            inputs.map(|inputs| plan.with_new_exprs(plan.expressions(), inputs)).transpose()
        }
        _ => Ok(None),
    }
}

/// Whether this is rows of a source, one by one.
fn is_bare(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(is_bare)
        }
        _ => false,
    }
}

/// The plan with all its sources read in one shard.
pub(super) fn in_one(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_down(|plan| match node(&plan) {
        Some(Node::Exchange(exchange)) if is_whole(exchange) => match recut(&exchange.input, 1)? {
            Some(source) => Ok(Transformed::yes(source)),
            None => Ok(Transformed::no(plan)),
        },
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}
