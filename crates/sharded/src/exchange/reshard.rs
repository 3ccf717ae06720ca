//! `reshard`: rows evenly to all targets.
//!
//! The rows of every batch go out in slices, and what is left over goes on in turn: after any batch the
//! targets of a producer differ by at most one row. In a stream with end edges that would part an edge from
//! its end; there a row's values and its start decide, by their hash.

use super::Spread;
use datafusion::arrow::array::UInt32Array;
use datafusion::common::Result;
use whimbrel_temporal::{Batch, Key};

pub(super) struct ReShard {
    /// The target whose turn it is.
    next: usize,
}

impl ReShard {
    /// Producers begin at different targets.
    pub fn new(producer: usize) -> ReShard {
        ReShard { next: producer }
    }
}

impl Spread for ReShard {
    fn spread(&mut self, batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        let targets = parts.len();
        let (each, extra) = (batch.len() / targets, batch.len() % targets);
        let mut offset = 0;
        for turn in 0..targets {
            let length = each + usize::from(turn < extra);
            if length > 0 {
                parts[(self.next + turn) % targets] = Some(batch.slice(offset, length));
            }
            offset += length;
        }
        self.next = (self.next + extra) % targets;
        Ok(())
    }
}

/// For streams with end edges.
pub(super) struct ReShardEdges;

impl Spread for ReShardEdges {
    fn spread(&mut self, batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        let all: Vec<usize> = (0..batch.rows.num_columns()).collect();
        let key = Key::of(&batch.rows, &all)?;
        let mut rows = vec![Vec::new(); parts.len()];
        for (row, hash) in key.hashes().iter().enumerate() {
            let start = batch.start_at(row) as u64;
            let mixed = (start ^ *hash as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            rows[mixed as usize % parts.len()].push(row as u32);
        }
        for (rows, part) in rows.into_iter().zip(parts) {
            if !rows.is_empty() {
                *part = Some(batch.take(&UInt32Array::from(rows))?);
            }
        }
        Ok(())
    }
}
