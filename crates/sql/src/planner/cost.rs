//! The cost of movements and operators: nanoseconds of the busiest core, roughly, as measured on one machine.
//! Only their ratios matter.

use super::Shards;
use super::placement::Partitioning;
use whimbrel_plan::Movement;
use whimbrel_plan::estimate::Estimate;

/// Finding the shard of a row and copying it there.
const ROW_PARTITIONED: f64 = 20.0;
/// The same for each further column that decides about the shard.
const COLUMN_HASHED: f64 = 4.0;
/// The same for each of its bytes.
const BYTE_PARTITIONED: f64 = 0.4;
/// Passing a row on: batches are shared, not copied.
const ROW_PASSED: f64 = 1.0;
/// Inserting a row into the hash table of a join, and probing with one.
const ROW_BUILT: f64 = 50.0;
/// Probing with a row.
const ROW_PROBED: f64 = 15.0;
/// Finding the group of a row, and making a new one: by the hash of its key, or by its position in a dense
/// range of integers.
const ROW_GROUPED: f64 = 20.0;
/// Making a group by its hash.
const GROUP_MADE: f64 = 60.0;
/// The same for each further column of the key: comparing its value, and keeping it.
const COLUMN_COMPARED: f64 = 2.0;
const COLUMN_KEPT: f64 = 6.0;
/// Finding a group by its position.
const ROW_INDEXED: f64 = 5.0;
/// Making a group at its position.
const GROUP_INDEXED: f64 = 10.0;
/// A position of the range, whether its integer occurs or not.
const POSITION: f64 = 18.0;
/// A range of integers is dense if it has at most so many for each group, or so many at all.
const DENSE_PER_GROUP: f64 = 16.0;
/// A range of at most so many integers is dense.
const DENSE: f64 = 262_144.0;
/// Comparing a row with another in a sort.
const ROW_COMPARED: f64 = 15.0;
/// Copying a byte of a row to its place in the order.
const BYTE_COPIED: f64 = 2.0;
/// Starting another stage.
const STAGE: f64 = 50_000.0;

/// The bytes and the cost of a movement.
pub(super) struct Moved {
    /// The bytes that go to other shards.
    pub bytes: f64,
    /// The cost.
    pub cost: f64,
}

/// Costs on so many shards, of which so many run at the same time.
pub(super) struct Costs {
    /// How many shards there are.
    shards: f64,
    /// How many of them run at the same time.
    at_once: f64,
    /// On how many machines shards run at the same time. The cores of one share its memory.
    machines: f64,
    /// Bringing rows to other shards, beside copying them.
    movement: f64,
    /// Bringing a byte to another shard.
    byte_sent: f64,
}

impl Costs {
    /// The costs for these shards.
    pub fn of(shards: &Shards) -> Costs {
        let at_once = shards.count.min(shards.cores) as f64;
        let is_one_machine = shards.transfer_costs.1 == 0.0;
        Costs {
            shards: shards.count as f64,
            at_once,
            machines: if is_one_machine { 1.0 } else { at_once },
            movement: STAGE + shards.transfer_costs.0,
            byte_sent: shards.transfer_costs.1,
        }
    }

    /// The cost of work that takes so long in each shard, or in the only one.
    pub fn work(&self, partitioning: &Partitioning, of_a_shard: f64) -> f64 {
        match partitioning {
            Partitioning::Single => of_a_shard,
            Partitioning::Multiple(_) => of_a_shard * self.shards / self.at_once,
        }
    }

    /// The cost of moving rows from all shards to so many.
    pub fn moved(&self, rows: &Estimate, movement: &Movement, targets: usize) -> Moved {
        let elsewhere = rows.bytes() * (self.shards - 1.0) / self.shards;
        let (bytes, work, receivers) = match movement {
            // Every shard gets all of them.
            Movement::Broadcast => {
                let bytes = rows.bytes() * (targets as f64 - 1.0);
                (bytes, rows.rows * ROW_PASSED * self.shards / self.at_once, self.at_once)
            }
            Movement::ReShard | Movement::Runs { .. } | Movement::Windows { .. } | Movement::InOrder => {
                (elsewhere, rows.rows * ROW_PASSED, self.at_once.min(targets as f64))
            }
            Movement::ReDistribute { key } => (elsewhere, self.partitioned(rows, key.len()), self.at_once),
            Movement::Multicast { .. } => (elsewhere, self.partitioned(rows, 1), self.at_once),
            Movement::Ranges { .. } => {
                (elsewhere, rows.rows * ROW_PARTITIONED / self.at_once + self.copied(rows), self.at_once)
            }
        };
        Moved { bytes, cost: self.movement + work + bytes * self.byte_sent / receivers }
    }

    /// The cost of finding the shard of each row by so many columns, and copying it there.
    fn partitioned(&self, rows: &Estimate, columns: usize) -> f64 {
        let row = ROW_PARTITIONED + columns.saturating_sub(1) as f64 * COLUMN_HASHED;
        (rows.rows * row + rows.bytes() * BYTE_PARTITIONED) / self.at_once
    }

    /// The cost of a sort, if the largest shard has this part of the rows.
    pub fn sort(&self, rows: &Estimate, largest: f64) -> f64 {
        let compared = rows.rows * rows.rows.max(2.0).log2() * ROW_COMPARED;
        compared * largest.max(1.0 / self.at_once) + self.copied(rows)
    }

    /// The cost of copying all rows one by one, which the memory of a machine bounds.
    fn copied(&self, rows: &Estimate) -> f64 {
        rows.bytes() * BYTE_COPIED / self.machines
    }

    /// The cost of a hash join of so many rows in a shard.
    pub fn join(&self, built: f64, probed: f64) -> f64 {
        built * ROW_BUILT + probed * ROW_PROBED
    }

    /// The cost of an aggregate of so many rows to so many groups in a shard, by so many columns. `range` is
    /// that of the key, if it is one integer.
    pub fn aggregate(&self, rows: f64, groups: f64, columns: usize, range: Option<(f64, f64)>) -> f64 {
        let positions = range.map(|(least, largest)| largest - least);
        match positions.filter(|positions| *positions < (groups * DENSE_PER_GROUP).max(DENSE)) {
            Some(positions) => rows * ROW_INDEXED + groups * GROUP_INDEXED + positions * POSITION,
            None => {
                let further = columns.saturating_sub(1) as f64;
                rows * (ROW_GROUPED + further * COLUMN_COMPARED)
                    + groups * (GROUP_MADE + further * COLUMN_KEPT)
            }
        }
    }
}
