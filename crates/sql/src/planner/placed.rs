//! A plan, where its rows are, and what it is expected to cost.

use datafusion::common::Column;
use datafusion::logical_expr::LogicalPlan;
use whimbrel_plan::estimate::Estimate;

/// Where the rows of a plan are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All in one shard.
    One,
    /// In as many shards as the planner has. Rows that agree in all columns of one of these keys are in one shard, by
    /// the hash of its columns in this order.
    Many(Vec<Vec<Column>>),
}

impl Spread {
    /// Anywhere.
    pub fn anyhow() -> Spread {
        Spread::Many(vec![])
    }

    /// By the hash of a key.
    pub fn by(key: Vec<Column>) -> Spread {
        Spread::Many(vec![key])
    }

    /// The same, where nothing is known of keys any more.
    pub fn without_key(&self) -> Spread {
        match self {
            Spread::One => Spread::One,
            Spread::Many(_) => Spread::anyhow(),
        }
    }

    /// The keys under the new names of their columns, as far as they all have one.
    pub fn renamed(&self, name: impl Fn(&Column) -> Option<Column>) -> Spread {
        match self {
            Spread::One => Spread::One,
            Spread::Many(keys) => {
                Spread::Many(keys.iter().filter_map(|key| key.iter().map(&name).collect()).collect())
            }
        }
    }

    /// Whether rows that agree in these columns are in one shard.
    pub fn is_together(&self, columns: &[Column]) -> bool {
        match self {
            Spread::One => true,
            Spread::Many(keys) => keys.iter().any(|key| key.iter().all(|column| columns.contains(column))),
        }
    }

    /// The keys.
    pub fn keys(&self) -> &[Vec<Column>] {
        match self {
            Spread::One => &[],
            Spread::Many(keys) => keys,
        }
    }
}

/// A plan in shards.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub plan: LogicalPlan,
    pub spread: Spread,
    /// Of all shards together.
    pub estimate: Estimate,
    /// How many bytes move between shards, so far.
    pub bytes: f64,
    /// What it costs so far: nanoseconds of the busiest shard, roughly.
    pub cost: f64,
}

impl Placed {
    /// A plan in one shard, where nothing has moved.
    pub fn one(plan: LogicalPlan, estimate: Estimate) -> Placed {
        Placed { plan, spread: Spread::One, estimate, bytes: 0.0, cost: 0.0 }
    }
}
