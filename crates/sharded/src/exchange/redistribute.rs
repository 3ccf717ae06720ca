//! `redistribute`: rows with equal keys to the same target, by the key's hash.

use super::Spread;
use datafusion::arrow::array::UInt32Array;
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::Expr;
use whimbrel_temporal::Batch;

/// So many targets have a pass each.
const FEW: usize = 4;

pub(super) struct ReDistribute {
    key: Vec<usize>,
    /// The target of each row, kept for its memory.
    targets: Vec<u32>,
}

impl ReDistribute {
    pub fn new(key: &[Expr], schema: &DFSchema) -> Result<ReDistribute> {
        let place = |expr: &Expr| match expr {
            Expr::Column(column) => schema.index_of_column(column),
            other => internal_err!("rows are redistributed by columns, not by {other}"),
        };
        Ok(ReDistribute { key: key.iter().map(place).collect::<Result<_>>()?, targets: Vec::new() })
    }

    /// The rows of all targets one after the other, and where each target's end.
    fn sort(&mut self, hashes: &[u32], targets: usize) -> (ScalarBuffer<u32>, Vec<usize>) {
        // The lower bits: the hash tables of operators use the upper ones, which stay even within a target.
        // Where there are too many targets for half of the bits, all are used.
        let target = |hash: u32| match targets < 1 << 12 {
            true => ((hash & 0xffff) * targets as u32) >> 16,
            false => hash % targets as u32,
        };
        self.targets.clear();
        self.targets.extend(hashes.iter().map(|hash| target(*hash)));
        let (rows, ends) = match targets <= FEW {
            true => in_passes(&self.targets, targets),
            false => by_counts(&self.targets, targets),
        };
        (rows.into(), ends)
    }
}

/// Goes over all rows once for each target: where its next row belongs never waits for memory.
fn in_passes(targets: &[u32], count: usize) -> (Vec<u32>, Vec<usize>) {
    // One place more: every row is written, and then it counts or not.
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

/// Counts the rows of all targets, and then puts each row to its place.
fn by_counts(targets: &[u32], count: usize) -> (Vec<u32>, Vec<usize>) {
    let mut ends = vec![0; count];
    targets.iter().for_each(|target| ends[*target as usize] += 1);
    let mut start = 0;
    for end in &mut ends {
        start += std::mem::replace(end, start);
    }
    let mut rows = vec![0; targets.len()];
    for (row, target) in targets.iter().enumerate() {
        let place = &mut ends[*target as usize];
        rows[*place] = row as u32;
        *place += 1;
    }
    (rows, ends)
}

impl Spread for ReDistribute {
    fn spread(&mut self, mut batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
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
