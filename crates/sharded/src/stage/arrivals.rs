//! The shards of a live source without time are read in one place: one clock says when rows have come, to all shards.
//!
//! A scan in several shards becomes the union of its shards, each row with the number of its own, by which it moves on
//! to that shard. Where rows move at once to others, they do so from that one place. A source with a time keeps its
//! shards: its rows say themselves when they are.

use crate::dataset::LiveDataset;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, TableScan, ident, lit};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use whimbrel_plan::nodes::extension;
use whimbrel_plan::{Exchange, Node, Scope, Source, Stream, node, source_of};

/// The plan with the same result in which every live source without time comes in one shard.
pub(crate) fn in_one_place(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut arrivals = Arrivals::default();
    plan.transform_down(|plan| arrivals.rewritten(plan)).data()
}

/// The live sources in several shards that were met, by their address: what is read twice is read once.
#[derive(Default)]
struct Arrivals {
    together: HashMap<usize, Arrival>,
}

/// All rows of a source in one shard, each with the number of the shard it was sent to.
#[derive(Clone)]
struct Arrival {
    rows: Stream,
    number: String,
    shards: usize,
}

impl Arrivals {
    fn rewritten(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::TableScan(scan) = &plan
            && let Some(arrival) = self.arrival(scan)?
        {
            let apart =
                arrival.rows.multicast(ident(&arrival.number), Some(arrival.shards), Scope::Global)?;
            let columns = columns_of(scan, apart)?;
            return Ok(Transformed::new(columns, true, TreeNodeRecursion::Jump));
        }
        match node(&plan) {
            Some(Node::Ingress(_)) => Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump)),
            Some(Node::Exchange(exchange)) => Ok(match self.moved(exchange)? {
                Some(moved) => Transformed::new(moved, true, TreeNodeRecursion::Jump),
                None => Transformed::no(plan),
            }),
            _ => Ok(Transformed::no(plan)),
        }
    }

    /// What moves rows right behind where they come, from one place to all shards.
    fn moved(&mut self, exchange: &Exchange) -> Result<Option<LogicalPlan>> {
        let Some(scan) = rows_of(&exchange.input) else { return Ok(None) };
        let Some(arrival) = self.arrival(scan)? else { return Ok(None) };
        let shards = Some(exchange.shards.unwrap_or(arrival.shards));
        let whole = columns_of(scan, arrival.rows)?;
        let input = exchange.input.clone().into_inner().transform_down(|plan| match plan {
            LogicalPlan::TableScan(_) => Ok(Transformed::new(whole.clone(), true, TreeNodeRecursion::Jump)),
            plan => Ok(Transformed::no(plan)),
        });
        let moved =
            Exchange::try_new(input.data()?, exchange.movement.clone().into_inner(), shards, exchange.scope)?;
        Ok(Some(extension(moved)))
    }

    /// The rows of this scan in one place, if it is of a live source in several shards.
    fn arrival(&mut self, scan: &TableScan) -> Result<Option<Arrival>> {
        let Some(source) = source_of(scan) else { return Ok(None) };
        let any: &dyn Any = source.as_ref();
        let Some(live) = any.downcast_ref::<LiveDataset>().filter(|live| live.info().shards > 1) else {
            return Ok(None);
        };
        let address = Arc::as_ptr(&source).cast::<()>() as usize;
        if let Some(known) = self.together.get(&address) {
            return Ok(Some(known.clone()));
        }
        let arrival = Arrival::of(live)?;
        self.together.insert(address, arrival.clone());
        Ok(Some(arrival))
    }
}

impl Arrival {
    fn of(live: &LiveDataset) -> Result<Arrival> {
        let (schema, shards) = (live.info().schema, live.info().shards);
        let mut number = "__shard".to_string();
        while schema.field_with_name(&number).is_ok() {
            number.push('_');
        }
        let shard = |place: usize| {
            let rows = Stream::scan("live", Arc::new(live.shard(place)))?;
            rows.with_columns(vec![lit(place as i64).alias(&number)])
        };
        let rows = (1..shards).try_fold(shard(0)?, |rows, place| rows.union(&shard(place)?))?;
        Ok(Arrival { rows, number, shards })
    }
}

/// The scan that this plan reads, where it does nothing but to pick, name and filter its rows.
fn rows_of(plan: &LogicalPlan) -> Option<&TableScan> {
    match plan {
        LogicalPlan::TableScan(scan) => Some(scan),
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            rows_of(plan.inputs().first()?)
        }
        _ => None,
    }
}

/// The columns of a scan, under its names.
fn columns_of(scan: &TableScan, rows: Stream) -> Result<LogicalPlan> {
    if !scan.filters.is_empty() {
        return internal_err!("filters are nodes of their own, not part of a scan");
    }
    let named = scan.projected_schema.iter().map(|(qualifier, field)| -> Expr {
        ident(field.name()).alias_qualified(qualifier.cloned(), field.name())
    });
    Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(rows.plan().clone()))?))
}
