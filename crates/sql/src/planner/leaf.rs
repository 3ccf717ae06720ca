//! The sources of a query: each is read in as many shards as there are, or in one if it has few rows.

use super::placed::{Cut, Key, Placed, Spread};
use super::ranges::Cuts;
use super::{Planner, is_opaque};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::{LogicalPlan, TableScan};
use std::sync::Arc;
use whimbrel_plan::nodes::{Exchange, Movement, Node, Scope};
use whimbrel_plan::{PlanSource, node, properties, source_of};

/// Whether this brings all rows of something to one shard.
pub(crate) fn is_whole(exchange: &Exchange) -> bool {
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
        if known.time.is_some() || is_opaque(plan)? {
            return Ok(self.as_is(plan.clone()));
        }
        let estimate = self.estimator.estimate(inside);
        if rows_read(self, inside)? < self.few_rows {
            let plan = recut(inside, 1, &Cuts::default())?.unwrap_or_else(|| plan.clone());
            return Ok(Placed::one(plan, estimate));
        }
        if let Some(plan) = recut(inside, self.shards, &self.cuts)? {
            let spread = lying(&plan)?;
            return Ok(Placed { plan, spread, estimate, bytes: 0.0, cost: 0.0 });
        }
        let spread = Spread::anyhow();
        let placed = Placed { plan: inside.clone(), spread, estimate, bytes: 0.0, cost: 0.0 };
        match known.shards == self.shards {
            true => Ok(placed),
            false => self.moved(placed, Movement::ReShard, Scope::Global, self.shards, Spread::anyhow()),
        }
    }
}

/// How many rows are read from the sources below: no number is too large for one that does not end.
pub(super) fn rows_read(planner: &Planner<'_>, plan: &LogicalPlan) -> Result<f64> {
    match plan.inputs().as_slice() {
        [] if !properties(plan)?.bounded => Ok(f64::INFINITY),
        [] => Ok(planner.estimator.estimate(plan).rows),
        inputs => inputs.iter().map(|input| rows_read(planner, input)).sum(),
    }
}

/// How the rows of a source lie.
fn lying(plan: &LogicalPlan) -> Result<Spread> {
    let whimbrel_plan::Spread::Within(same, bounds) = properties(plan)?.spread else {
        return Ok(Spread::anyhow());
    };
    let columns = plan.schema().columns().into_iter().filter(|column| same.contains(&column.name));
    let key = |column| Key { columns: vec![column], cut: Cut::Ranges(Arc::clone(&bounds)) };
    Ok(Spread::Many(columns.map(key).collect()))
}

/// The plan with its source cut into so many shards, if nothing is done to the rows that depends on how they are
/// cut, and the source can be.
fn recut(plan: &LogicalPlan, shards: usize, cuts: &Cuts) -> Result<Option<LogicalPlan>> {
    if properties(plan)?.shards == shards && is_bare(plan) && cuts.is_empty() {
        return Ok(Some(plan.clone()));
    }
    match plan {
        LogicalPlan::TableScan(scan) => {
            let cut = source_of(scan).and_then(|source| {
                cuts.applied(&scan.table_name, &source).or_else(|| source.with_shards(shards))
            });
            Ok(cut.map(|source| {
                LogicalPlan::TableScan(TableScan { source: Arc::new(PlanSource(source)), ..scan.clone() })
            }))
        }
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            let inputs = plan.inputs().into_iter().map(|input| recut(input, shards, cuts));
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
        Some(Node::Exchange(exchange)) if is_whole(exchange) => {
            match recut(&exchange.input, 1, &Cuts::default())? {
                Some(source) => Ok(Transformed::yes(source)),
                None => Ok(Transformed::no(plan)),
            }
        }
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}
