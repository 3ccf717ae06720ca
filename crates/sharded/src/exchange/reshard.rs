//! `reshard`: rows evenly to all consumers.
//!
//! Every batch is cut into slices of equal length; the rows that are left over are dealt out round-robin. So
//! the consumers of a producer differ by one row at most. In a stream with end edges this would send an end
//! elsewhere than its start: there the hash of a row's values and its start time decides.

use super::Partitioner;
use datafusion::arrow::array::UInt32Array;
use datafusion::common::Result;
use whimbrel_temporal::{Batch, Key};

/// Cuts batches into slices.
pub(super) struct ReShard {
    /// The consumer that gets the next row that is left over.
    next: usize,
}

impl ReShard {
    /// A partitioner; producers begin with different consumers.
    pub fn new(producer: usize) -> ReShard {
        ReShard { next: producer }
    }
}

impl Partitioner for ReShard {
    fn partition(&mut self, batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        let targets = parts.len();
        let (each, extra) = (batch.len() / targets, batch.len() % targets);
        let mut offset = 0;
        for i in 0..targets {
            let length = each + usize::from(i < extra);
            if length > 0 {
                parts[(self.next + i) % targets] = Some(batch.slice(offset, length));
            }
            offset += length;
        }
        self.next = (self.next + extra) % targets;
        Ok(())
    }
}

/// Partitions the rows of streams with end edges by their hash.
pub(super) struct ReShardEdges;

impl Partitioner for ReShardEdges {
    fn partition(&mut self, batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
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
