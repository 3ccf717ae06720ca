//! Sends the rows of a batch to their consumers, given the number of the consumer of each.

use datafusion::arrow::array::UInt32Array;
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::common::Result;
use whimbrel_temporal::Batch;

/// For at most so many consumers, one pass over the rows for each.
const MAX_PASSES: usize = 4;

/// Puts each row of a compact batch into the part of its target. A batch whose rows all have one target is
/// not copied.
///
/// # Errors
/// `ArrowError` if rows cannot be copied.
pub(super) fn send(batch: &Batch, targets: &[u32], parts: &mut [Option<Batch>]) -> Result<()> {
    let (rows, ends) = match parts.len() <= MAX_PASSES {
        true => in_passes(targets, parts.len()),
        false => by_counts(targets, parts.len()),
    };
    let rows = ScalarBuffer::from(rows);
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
