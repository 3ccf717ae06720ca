//! What movements and operators cost: nanoseconds of the busiest shard, as measured on one machine, roughly. Only
//! their relations matter.

use whimbrel_plan::Movement;
use whimbrel_plan::estimate::Estimate;

/// To find the shard of a row and to copy it there.
const ROW_SORTED: f64 = 15.0;
const BYTE_SORTED: f64 = 0.4;
/// To hand a row on as it is: batches are shared, not copied.
const ROW_HANDED: f64 = 1.0;
/// To put a row into the hash table of a join, and to look one up.
const ROW_BUILT: f64 = 50.0;
const ROW_PROBED: f64 = 15.0;
/// To find the group of a row, and to make a new one: by the hash of its key, or by its place among whole numbers that lie
/// near each other.
const ROW_GROUPED: f64 = 20.0;
const GROUP_MADE: f64 = 60.0;
const ROW_PLACED: f64 = 5.0;
const GROUP_PLACED: f64 = 15.0;
/// Whole numbers lie near each other if there are so many between the least and the largest for each group, or so many at all.
const NEAR_FOR_EACH_GROUP: f64 = 16.0;
const NEAR: f64 = 262_144.0;
/// To start another stage.
const STAGE: f64 = 50_000.0;

/// What a movement takes.
pub(super) struct Moved {
    pub bytes: f64,
    pub cost: f64,
}

/// Costs on so many shards.
pub(super) struct Costs {
    shards: f64,
}

impl Costs {
    pub fn of(shards: usize) -> Costs {
        Costs { shards: shards as f64 }
    }

    /// Rows that come from all shards, to so many.
    pub fn moved(&self, rows: &Estimate, movement: &Movement, targets: usize) -> Moved {
        let bytes = rows.bytes();
        let elsewhere = (self.shards - 1.0) / self.shards;
        match movement {
            Movement::Broadcast => Moved {
                bytes: bytes * (targets as f64 - 1.0),
                // Every shard gets all of them.
                cost: STAGE + rows.rows * ROW_HANDED,
            },
            Movement::ReShard => Moved { bytes: bytes * elsewhere, cost: STAGE + rows.rows * ROW_HANDED },
            Movement::ReDistribute { .. } | Movement::Multicast { .. } => Moved {
                bytes: bytes * elsewhere,
                cost: STAGE + (rows.rows * ROW_SORTED + bytes * BYTE_SORTED) / self.shards,
            },
        }
    }

    /// A hash join of so many rows a shard.
    pub fn join(&self, built: f64, probed: f64) -> f64 {
        built * ROW_BUILT + probed * ROW_PROBED
    }

    /// An aggregate of so many rows to so many groups a shard. `numbers`: between which whole numbers the key is, if it is one.
    pub fn aggregate(&self, rows: f64, groups: f64, numbers: Option<(f64, f64)>) -> f64 {
        let near = |(least, largest): (f64, f64)| largest - least < (groups * NEAR_FOR_EACH_GROUP).max(NEAR);
        match numbers.is_some_and(near) {
            true => rows * ROW_PLACED + groups * GROUP_PLACED,
            false => rows * ROW_GROUPED + groups * GROUP_MADE,
        }
    }
}
