//! A plan, where its rows are, and what it is expected to cost.

use datafusion::common::Column;
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;
use whimbrel_plan::estimate::Estimate;

/// Where the rows of a plan are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All in one shard.
    One,
    /// In as many shards as the planner has. Rows that agree in all columns of one of these keys are in one shard.
    Many(Vec<Key>),
}

/// Columns that say in which shard a row is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// The order matters.
    pub columns: Vec<Column>,
    pub cut: Cut,
}

/// How values say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// By their hash.
    Hash,
    /// By the range in which the value of the only column is; each shard but the first begins at one of these.
    Ranges(Arc<[i64]>),
}

impl Key {
    /// The same key under other names.
    pub fn of(&self, columns: Vec<Column>) -> Key {
        Key { columns, cut: self.cut.clone() }
    }
}

impl Spread {
    /// Anywhere.
    pub fn anyhow() -> Spread {
        Spread::Many(vec![])
    }

    /// By the hash of a key.
    pub fn by(columns: Vec<Column>) -> Spread {
        Spread::Many(vec![Key { columns, cut: Cut::Hash }])
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
        let renamed = |key: &Key| Some(key.of(key.columns.iter().map(&name).collect::<Option<_>>()?));
        match self {
            Spread::One => Spread::One,
            Spread::Many(keys) => Spread::Many(keys.iter().filter_map(renamed).collect()),
        }
    }

    /// Whether rows that agree in these columns are in one shard.
    pub fn is_together(&self, columns: &[Column]) -> bool {
        match self {
            Spread::One => true,
            Spread::Many(keys) => {
                keys.iter().any(|key| key.columns.iter().all(|column| columns.contains(column)))
            }
        }
    }

    /// The keys.
    pub fn keys(&self) -> &[Key] {
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
    /// What it costs so far: nanoseconds of the busiest core, roughly.
    pub cost: f64,
}

impl Placed {
    /// A plan in one shard, where nothing has moved.
    pub fn one(plan: LogicalPlan, estimate: Estimate) -> Placed {
        Placed { plan, spread: Spread::One, estimate, bytes: 0.0, cost: 0.0 }
    }
}
