//! The scans of a query: each reads its source in as many shards as there are, or in one if it has few rows.

use super::placement::{Key, Partitioning, Placed, Scheme};
use super::range_partitions::RangePartitions;
use super::{Planner, is_opaque};
use crate::single_shard::is_single_shard;
use crate::tree::transform_down;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::{LogicalPlan, TableScan};
use std::sync::Arc;
use whimbrel_plan::nodes::{Movement, Node, Scope};
use whimbrel_plan::{PlanSource, node, properties, source_of};

impl Planner<'_> {
    /// A scan, or the exchange that brings all of its rows to one shard.
    ///
    /// # Errors
    /// `Plan` if the source has no properties.
    pub(super) fn scan(&self, plan: &LogicalPlan) -> Result<Placed> {
        let source = match node(plan) {
            Some(Node::Exchange(exchange)) => &exchange.input,
            _ => plan,
        };
        let properties_source = properties(source)?;
        if properties_source.time.is_some() || is_opaque(plan)? {
            return Ok(self.as_is(plan.clone()));
        }
        let estimate = self.estimator.estimate(source);
        if rows_read(self, source)? < self.few_rows {
            let plan = with_shards(source, 1, &RangePartitions::default())?.unwrap_or_else(|| plan.clone());
            return Ok(Placed::single(plan, estimate));
        }
        if let Some(plan) = with_shards(source, self.shards, &self.ranges)? {
            let partitioning = partitioning_of_source(&plan)?;
            return Ok(Placed { plan, partitioning, estimate, bytes: 0.0, cost: 0.0 });
        }
        let partitioning = Partitioning::unknown();
        let placed = Placed { plan: source.clone(), partitioning, estimate, bytes: 0.0, cost: 0.0 };
        match properties_source.shards == self.shards {
            true => Ok(placed),
            false => {
                self.moved(placed, Movement::ReShard, Scope::Global, self.shards, Partitioning::unknown())
            }
        }
    }
}

/// How many rows are read from the sources below: infinitely many of one that does not end.
///
/// # Errors
/// `Plan` if a source has no properties.
pub(super) fn rows_read(planner: &Planner<'_>, plan: &LogicalPlan) -> Result<f64> {
    match plan.inputs().as_slice() {
        [] if !properties(plan)?.bounded => Ok(f64::INFINITY),
        [] => Ok(planner.estimator.estimate(plan).rows),
        inputs => inputs.iter().map(|input| rows_read(planner, input)).sum(),
    }
}

/// The partitioning of the rows of a source.
fn partitioning_of_source(plan: &LogicalPlan) -> Result<Partitioning> {
    let whimbrel_plan::Placement::Ranges(same, bounds) = properties(plan)?.placement else {
        return Ok(Partitioning::unknown());
    };
    let columns = plan.schema().columns().into_iter().filter(|column| same.contains(&column.name));
    let key = |column| Key { columns: vec![column], scheme: Scheme::Ranges(Arc::clone(&bounds)) };
    Ok(Partitioning::Multiple(columns.map(key).collect()))
}

/// The plan with its source in so many shards. `None` if the source cannot be cut, or an operator depends on
/// how it is.
fn with_shards(plan: &LogicalPlan, shards: usize, ranges: &RangePartitions) -> Result<Option<LogicalPlan>> {
    if properties(plan)?.shards == shards && is_row_by_row(plan) && ranges.is_empty() {
        return Ok(Some(plan.clone()));
    }
    match plan {
        LogicalPlan::TableScan(scan) => {
            let cut = source_of(scan).and_then(|source| {
                ranges.apply(&scan.table_name, &source).or_else(|| source.with_shards(shards))
            });
            Ok(cut.map(|source| {
                LogicalPlan::TableScan(TableScan { source: Arc::new(PlanSource(source)), ..scan.clone() })
            }))
        }
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            let inputs = plan.inputs().into_iter().map(|input| with_shards(input, shards, ranges));
            let inputs = inputs.collect::<Result<Option<Vec<_>>>>()?;
            inputs.map(|inputs| plan.with_new_exprs(plan.expressions(), inputs)).transpose()
        }
        _ => Ok(None),
    }
}

/// Whether a plan is a source with row-by-row operators above it.
fn is_row_by_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(is_row_by_row)
        }
        _ => false,
    }
}

/// The plan with all of its sources read in one shard.
///
/// # Errors
/// `Plan` if a source cannot be read in one shard.
pub(super) fn in_one_shard(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_down(plan, &mut |plan| match node(&plan) {
        Some(Node::Exchange(exchange)) if is_single_shard(exchange) => {
            match with_shards(&exchange.input, 1, &RangePartitions::default())? {
                Some(source) => Ok(Transformed::yes(source)),
                None => Ok(Transformed::no(plan)),
            }
        }
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}
