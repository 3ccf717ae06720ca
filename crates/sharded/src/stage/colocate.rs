//! Colocates the shards of a live source without time: one channel reads them, so that one clock gives all
//! rows the instant of their arrival.
//!
//! A scan of several shards becomes the union of its shards, with a column for the number of the shard. An
//! exchange by that column moves the rows back to their shards. If an exchange follows the scan, it moves the
//! rows from the one channel directly. A source with a time keeps its shards: its rows have their instants.

use crate::dataset::LiveDataset;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, TableScan, ident, lit};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use whimbrel_plan::nodes::extension;
use whimbrel_plan::{Exchange, Node, Scope, Source, Stream, node, source_of};

/// Reads every live source without time in one channel. The result is the same.
///
/// # Errors
/// `Plan` if the plan cannot be rebuilt.
pub(crate) fn colocate_live_sources(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut arrivals = Arrivals::default();
    plan.transform_down(|plan| arrivals.rewrite(plan)).data()
}

/// The live sources with several shards, by their address: one that is scanned twice is read once.
#[derive(Default)]
struct Arrivals {
    by_source: HashMap<usize, Arrival>,
}

/// All rows of a source in one shard.
#[derive(Clone)]
struct Arrival {
    rows: Stream,
    /// The column with the number of the shard that a row was sent to.
    shard_column: String,
    shards: usize,
}

impl Arrivals {
    /// Rewrites a scan, or an exchange above one.
    fn rewrite(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::TableScan(scan) = &plan
            && let Some(arrival) = self.arrival(scan)?
        {
            let redistributed =
                arrival.rows.multicast(ident(&arrival.shard_column), Some(arrival.shards), Scope::Global)?;
            let columns = with_columns_of(scan, redistributed)?;
            return Ok(Transformed::new(columns, true, TreeNodeRecursion::Jump));
        }
        match node(&plan) {
            Some(Node::Ingress(_)) => Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump)),
            Some(Node::Exchange(exchange)) => Ok(match self.rewrite_exchange(exchange)? {
                Some(exchange) => Transformed::new(exchange, true, TreeNodeRecursion::Jump),
                None => Transformed::no(plan),
            }),
            _ => Ok(Transformed::no(plan)),
        }
    }

    /// An exchange right above a scan: it moves the rows from the one channel.
    fn rewrite_exchange(&mut self, exchange: &Exchange) -> Result<Option<LogicalPlan>> {
        let Some(scan) = scan_below(&exchange.input) else { return Ok(None) };
        let Some(arrival) = self.arrival(scan)? else { return Ok(None) };
        let shards = Some(exchange.shards.unwrap_or(arrival.shards));
        let rows = with_columns_of(scan, arrival.rows)?;
        let input = exchange.input.clone().into_inner().transform_down(|plan| match plan {
            LogicalPlan::TableScan(_) => Ok(Transformed::new(rows.clone(), true, TreeNodeRecursion::Jump)),
            plan => Ok(Transformed::no(plan)),
        });
        Ok(Some(extension(exchange.with_input(input.data()?, shards)?)))
    }

    /// The colocated rows of a scan, if it is of a live source with several shards.
    fn arrival(&mut self, scan: &TableScan) -> Result<Option<Arrival>> {
        let Some(source) = source_of(scan) else { return Ok(None) };
        let any: &dyn Any = source.as_ref();
        let Some(live) = any.downcast_ref::<LiveDataset>().filter(|live| live.info().shards > 1) else {
            return Ok(None);
        };
        let address = Arc::as_ptr(&source).cast::<()>() as usize;
        if let Some(arrival) = self.by_source.get(&address) {
            return Ok(Some(arrival.clone()));
        }
        let arrival = Arrival::of(live)?;
        self.by_source.insert(address, arrival.clone());
        Ok(Some(arrival))
    }
}

impl Arrival {
    /// The union of all shards.
    fn of(live: &LiveDataset) -> Result<Arrival> {
        let (schema, shards) = (live.info().schema, live.info().shards);
        let mut shard_column = "__shard".to_string();
        while schema.field_with_name(&shard_column).is_ok() {
            shard_column.push('_');
        }
        let shard = |index: usize| {
            let rows = Stream::scan("live", Arc::new(live.shard(index)))?;
            rows.with_columns(vec![lit(index as i64).alias(&shard_column)])
        };
        let rows = (1..shards).try_fold(shard(0)?, |rows, index| rows.union(&shard(index)?))?;
        Ok(Arrival { rows, shard_column, shards })
    }
}

/// The scan below a plan that only selects, renames and filters.
fn scan_below(plan: &LogicalPlan) -> Option<&TableScan> {
    match plan {
        LogicalPlan::TableScan(scan) => Some(scan),
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            scan_below(plan.inputs().first()?)
        }
        _ => None,
    }
}

/// The columns of a scan, under its names, from these rows.
fn with_columns_of(scan: &TableScan, rows: Stream) -> Result<LogicalPlan> {
    if !scan.filters.is_empty() {
        return internal_err!("filters are nodes of their own, not part of a scan");
    }
    let named = scan.projected_schema.iter().map(|(qualifier, field)| -> Expr {
        ident(field.name()).alias_qualified(qualifier.cloned(), field.name())
    });
    Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(rows.plan().clone()))?))
}
