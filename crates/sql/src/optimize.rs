//! From DataFusion's plan of a query to a stream: names, analyzer, optimizer.

use crate::planner::{self, Candidate, Policy, Shards};
use crate::{beside, decorrelate, floats, interval, limits, membership, moments, on, single, windows};
use datafusion::common::{Column, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use std::collections::HashSet;
use std::sync::Arc;
use whimbrel_plan::{Stream, flat_conditions, without_rules};

/// The stream that a planned query is, in these shards.
pub(crate) fn stream(state: &SessionState, plan: LogicalPlan, shards: Shards) -> Result<Stream> {
    let plan = planner::simplified(state, optimized(state, plan)?)?;
    Stream::from_plan(planner::sharded(plan, shards, Policy::default())?.plan)
}

/// All ways to run a planned query in these shards.
pub(crate) fn candidates(state: &SessionState, plan: LogicalPlan, shards: Shards) -> Result<Vec<Candidate>> {
    planner::candidates(state, optimized(state, plan)?, shards)
}

fn optimized(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = limits::by_number(state, plan)?;
    let plan = single::checked(on::computed(beside::unnested(floats::compared(plan)?)?)?)?;
    let plan = plain(decorrelate::joined(membership::plain(plan)?)?)?;
    let plan = flat_conditions(state.optimize(&plan).map_err(without_rules)?)?;
    interval::stretched(windows::told_once(moments::checked(plan)?)?)
}

/// Columns with plain and unique names: `a`, and the next `a` is `a_1`.
pub(crate) fn plain(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut taken = HashSet::new();
    let mut names = Vec::new();
    for field in plan.schema().fields() {
        let mut name = field.name().clone();
        let mut number = 0;
        while !taken.insert(name.clone()) {
            number += 1;
            name = format!("{}_{number}", field.name());
        }
        names.push(name);
    }
    let as_is = plan.schema().iter().zip(&names).all(|((q, f), name)| q.is_none() && f.name() == name);
    if as_is {
        return Ok(plan);
    }
    let columns = plan.schema().columns();
    let exprs = columns.into_iter().zip(names).map(|(column, name)| named(column, name)).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
}

fn named(column: Column, name: String) -> Expr {
    match column.relation.is_none() && column.name == name {
        true => Expr::Column(column),
        false => Expr::Column(column).alias(name),
    }
}
