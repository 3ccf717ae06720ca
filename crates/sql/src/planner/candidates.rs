//! All ways to run a query in shards, each with its expected cost.

use super::{Policy, Shards, aggregate, join, optimize, shard, sort};
use crate::tree::is_same_plan;
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use std::fmt;
use whimbrel_plan::Stream;

/// A way to run a query. All of them have the same answer.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// `by cost`, or the strategies that are followed wherever they can be.
    pub strategy: String,
    /// The plan, to be run.
    pub stream: Stream,
    /// How many rows are expected.
    pub rows: f64,
    /// How many bytes are expected to move between shards.
    pub bytes_moved: f64,
    /// The expected cost: nanoseconds of the busiest core, roughly.
    pub cost: f64,
    /// Whether it is the one that runs.
    pub chosen: bool,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.chosen { '*' } else { ' ' };
        write!(
            f,
            "{mark} cost {:>12.0}, moves {:>14.0} bytes, gives {:>10.0} rows: {}",
            self.cost, self.bytes_moved, self.rows, self.strategy
        )
    }
}

/// All ways to run an optimized plan, the chosen one first; equal plans are listed once.
///
/// # Errors
/// Those of [`optimize`] and [`shard`].
pub(crate) fn candidates(state: &SessionState, plan: LogicalPlan, shards: Shards) -> Result<Vec<Candidate>> {
    let plan = optimize(state, plan)?;
    let mut known: Vec<LogicalPlan> = Vec::new();
    let mut found = Vec::new();
    for (strategy, policy) in policies() {
        let placed = shard(plan.clone(), shards, policy)?;
        if known.iter().any(|plan| is_same_plan(plan, &placed.plan)) {
            continue;
        }
        known.push(placed.plan.clone());
        found.push(Candidate {
            strategy,
            rows: placed.estimate.rows,
            bytes_moved: placed.bytes,
            cost: placed.cost,
            chosen: found.is_empty(),
            stream: Stream::from_plan(placed.plan)?,
        });
    }
    Ok(found)
}

/// By cost; each strategy for aggregates; for joins; each of both; each strategy for sorts.
fn policies() -> Vec<(String, Policy)> {
    let aggregates = || aggregate::Strategy::ALL.into_iter().map(Some);
    let joins = || join::Strategy::ALL.into_iter().map(Some);
    let mut policies = vec![("by cost".to_string(), Policy::default())];
    for aggregates in std::iter::once(None).chain(aggregates()) {
        for joins in std::iter::once(None).chain(joins()) {
            let of_aggregates = aggregates.map(|strategy| format!("aggregates: {strategy}"));
            let of_joins = joins.map(|strategy| format!("joins: {strategy}"));
            let name: Vec<String> = of_aggregates.into_iter().chain(of_joins).collect();
            if !name.is_empty() {
                policies.push((name.join("; "), Policy { aggregates, joins, sorts: None }));
            }
        }
    }
    policies.extend(sort::Strategy::ALL.map(|strategy| {
        (format!("sorts: {strategy}"), Policy { sorts: Some(strategy), ..Policy::default() })
    }));
    policies
}
