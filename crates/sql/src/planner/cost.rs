//! What movements and operators cost: nanoseconds of the busiest core, as measured on one machine, roughly. Only
//! their relations matter.

use super::placed::Spread;
use whimbrel_plan::Movement;
use whimbrel_plan::estimate::Estimate;

/// To find the shard of a row and to copy it there.
const ROW_SORTED: f64 = 20.0;
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
const GROUP_PLACED: f64 = 10.0;
/// To have a place for a number, whether it comes or not.
const PLACE: f64 = 18.0;
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

/// Costs on so many shards, of which so many work at the same time.
pub(super) struct Costs {
    shards: f64,
    at_once: f64,
}

impl Costs {
    pub fn of(shards: usize, cores: usize) -> Costs {
        Costs { shards: shards as f64, at_once: shards.min(cores) as f64 }
    }

    /// Of work that takes so long in a shard: each has its part of it, or one has all rows.
    pub fn work(&self, spread: &Spread, of_a_shard: f64) -> f64 {
        match spread {
            Spread::One => of_a_shard,
            Spread::Many(_) => of_a_shard * self.shards / self.at_once,
        }
    }

    /// Rows that come from all shards, to so many.
    pub fn moved(&self, rows: &Estimate, movement: &Movement, targets: usize) -> Moved {
        let bytes = rows.bytes();
        let elsewhere = (self.shards - 1.0) / self.shards;
        match movement {
            Movement::Broadcast => Moved {
                bytes: bytes * (targets as f64 - 1.0),
                // Every shard gets all of them.
                cost: STAGE + rows.rows * ROW_HANDED * self.shards / self.at_once,
            },
            Movement::ReShard => Moved { bytes: bytes * elsewhere, cost: STAGE + rows.rows * ROW_HANDED },
            Movement::ReDistribute { .. } | Movement::Multicast { .. } => Moved {
                bytes: bytes * elsewhere,
                cost: STAGE + (rows.rows * ROW_SORTED + bytes * BYTE_SORTED) / self.at_once,
            },
        }
    }

    /// A hash join of so many rows in a shard.
    pub fn join(&self, built: f64, probed: f64) -> f64 {
        built * ROW_BUILT + probed * ROW_PROBED
    }

    /// An aggregate of so many rows to so many groups in a shard. `numbers`: between which whole numbers the key is, if it
    /// is one.
    pub fn aggregate(&self, rows: f64, groups: f64, numbers: Option<(f64, f64)>) -> f64 {
        let places = numbers.map(|(least, largest)| largest - least);
        match places.filter(|places| *places < (groups * NEAR_FOR_EACH_GROUP).max(NEAR)) {
            Some(places) => rows * ROW_PLACED + groups * GROUP_PLACED + places * PLACE,
            None => rows * ROW_GROUPED + groups * GROUP_MADE,
        }
    }
}
