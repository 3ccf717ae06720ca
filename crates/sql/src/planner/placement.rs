//! A plan with the partitioning of its rows and its expected cost.

use datafusion::common::Column;
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;
use whimbrel_plan::estimate::Estimate;

/// In which shards the rows of a plan are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Partitioning {
    /// All in one shard.
    Single,
    /// In as many shards as the planner has. Rows that agree in all columns of one of these keys are in one
    /// shard.
    Multiple(Vec<Key>),
}

/// Columns that decide in which shard a row is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// The order matters.
    pub columns: Vec<Column>,
    /// How their values decide it.
    pub scheme: Scheme,
}

/// How values decide it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// By their hash.
    Hash,
    /// By ranges of the only column; each shard but the first begins at one of these values.
    Ranges(Arc<[i64]>),
}

impl Key {
    /// The same key with other names of columns.
    pub fn renamed(&self, columns: Vec<Column>) -> Key {
        Key { columns, scheme: self.scheme.clone() }
    }
}

impl Partitioning {
    /// In any shards.
    pub fn unknown() -> Partitioning {
        Partitioning::Multiple(vec![])
    }

    /// By the hash of a key.
    pub fn hash(columns: Vec<Column>) -> Partitioning {
        Partitioning::Multiple(vec![Key { columns, scheme: Scheme::Hash }])
    }

    /// The same shards, by no known key.
    pub fn without_key(&self) -> Partitioning {
        match self {
            Partitioning::Single => Partitioning::Single,
            Partitioning::Multiple(_) => Partitioning::unknown(),
        }
    }

    /// The keys whose columns all have a new name, with these names.
    pub fn renamed(&self, name: impl Fn(&Column) -> Option<Column>) -> Partitioning {
        let renamed = |key: &Key| Some(key.renamed(key.columns.iter().map(&name).collect::<Option<_>>()?));
        match self {
            Partitioning::Single => Partitioning::Single,
            Partitioning::Multiple(keys) => Partitioning::Multiple(keys.iter().filter_map(renamed).collect()),
        }
    }

    /// Whether rows that agree in these columns are in one shard.
    pub fn is_colocated_by(&self, columns: &[Column]) -> bool {
        match self {
            Partitioning::Single => true,
            Partitioning::Multiple(keys) => {
                keys.iter().any(|key| key.columns.iter().all(|column| columns.contains(column)))
            }
        }
    }

    /// The keys.
    pub fn keys(&self) -> &[Key] {
        match self {
            Partitioning::Single => &[],
            Partitioning::Multiple(keys) => keys,
        }
    }
}

/// A plan in shards.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    /// The plan.
    pub plan: LogicalPlan,
    /// In which shards its rows are.
    pub partitioning: Partitioning,
    /// The estimate for all shards together.
    pub estimate: Estimate,
    /// How many bytes have moved between shards.
    pub bytes: f64,
    /// The cost so far: nanoseconds of the busiest core, roughly.
    pub cost: f64,
}

impl Placed {
    /// A plan in one shard, before any movement.
    pub fn single(plan: LogicalPlan, estimate: Estimate) -> Placed {
        Placed { plan, partitioning: Partitioning::Single, estimate, bytes: 0.0, cost: 0.0 }
    }
}
