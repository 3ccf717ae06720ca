//! `redistribute`: rows with equal keys to the same consumer, by the hash of the key.

use super::Partitioner;
use datafusion::arrow::array::UInt32Array;
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::Expr;
use whimbrel_temporal::Batch;

/// For at most so many consumers, one pass over the rows for each.
const MAX_PASSES: usize = 4;

/// Sends rows to consumers by the hash of their key.
pub(super) struct ReDistribute {
    /// The columns of the key.
    key: Vec<usize>,
    /// The consumer of each row of the current batch. The buffer is kept.
    targets: Vec<u32>,
}

impl ReDistribute {
    /// A partitioner by these columns.
    ///
    /// # Errors
    /// `Internal` if the key has anything else than columns.
    pub fn new(key: &[Expr], schema: &DFSchema) -> Result<ReDistribute> {
        let index = |expr: &Expr| match expr {
            Expr::Column(column) => schema.index_of_column(column),
            other => internal_err!("rows are redistributed by columns, not by {other}"),
        };
        Ok(ReDistribute { key: key.iter().map(index).collect::<Result<_>>()?, targets: Vec::new() })
    }

    /// The rows sorted by consumer, and the end of the rows of each consumer.
    fn sort(&mut self, hashes: &[u32], targets: usize) -> (ScalarBuffer<u32>, Vec<usize>) {
        // The lower bits: the hash tables of operators use the upper ones, which stay even within a target.
        // Too many consumers for half of the bits get all of them.
        let target = |hash: u32| match targets < 1 << 12 {
            true => ((hash & 0xffff) * targets as u32) >> 16,
            false => hash % targets as u32,
        };
        self.targets.clear();
        self.targets.extend(hashes.iter().map(|hash| target(*hash)));
        let (rows, ends) = match targets <= MAX_PASSES {
            true => in_passes(&self.targets, targets),
            false => by_counts(&self.targets, targets),
        };
        (rows.into(), ends)
    }
}

/// Sorts rows by consumer with one pass for each: no store depends on a load.
fn in_passes(targets: &[u32], count: usize) -> (Vec<u32>, Vec<usize>) {
    // Every row is written, and the position advances if it belongs: one more row may be written.
    let mut rows = vec![0; targets.len() + 1];
    let mut next = 0;
    let pass = |wanted: usize| {
        for (row, target) in targets.iter().enumerate() {
            rows[next] = row as u32;
            next += (*target as usize == wanted) as usize;
        }
        next
    };
    let ends = (0..count).map(pass).collect();
    rows.truncate(targets.len());
    (rows, ends)
}

/// Sorts rows by consumer with a counting sort.
fn by_counts(targets: &[u32], count: usize) -> (Vec<u32>, Vec<usize>) {
    let mut ends = vec![0; count];
    targets.iter().for_each(|target| ends[*target as usize] += 1);
    let mut start = 0;
    for end in &mut ends {
        start += std::mem::replace(end, start);
    }
    let mut rows = vec![0; targets.len()];
    for (row, target) in targets.iter().enumerate() {
        let index = &mut ends[*target as usize];
        rows[*index] = row as u32;
        *index += 1;
    }
    (rows, ends)
}

impl Partitioner for ReDistribute {
    fn partition(&mut self, mut batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        if let [only] = parts {
            *only = Some(batch);
            return Ok(());
        }
        let key = batch.key(&self.key)?;
        let (rows, ends) = self.sort(key.hashes(), parts.len());
        let mut start = 0;
        for (end, part) in ends.into_iter().zip(parts) {
            if end - start == batch.len() {
                *part = Some(batch.clone());
            } else if end > start {
                *part = Some(batch.take(&UInt32Array::new(rows.slice(start, end - start), None))?);
            }
            start = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{by_counts, in_passes};

    #[test]
    fn both_ways_sort_rows_by_their_targets() {
        for (rows, count) in [(0, 1), (1, 1), (7, 2), (100, 3), (100, 4), (5, 9)] {
            let targets: Vec<u32> = (0..rows).map(|row: u32| row.wrapping_mul(7919) % count).collect();
            let (sorted, ends) = in_passes(&targets, count as usize);
            assert_eq!((sorted.clone(), ends.clone()), by_counts(&targets, count as usize));
            let mut start = 0;
            for (target, end) in ends.into_iter().enumerate() {
                let expected: Vec<u32> =
                    (0..rows).filter(|row| targets[*row as usize] as usize == target).collect();
                assert_eq!(sorted[start..end], expected);
                start = end;
            }
        }
    }
}
