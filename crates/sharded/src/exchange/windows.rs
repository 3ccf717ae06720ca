//! `windows`: the rows of one window of time to the same consumer; windows take turns.
//!
//! Rows come in the order of time, so a window is a slice of a batch: no row is copied, unless one consumer
//! gets several windows of a batch.

use super::Partitioner;
use datafusion::arrow::array::UInt32Array;
use datafusion::common::Result;
use std::ops::Range;
use whimbrel_temporal::{Batch, Time};

/// Sends rows to consumers by the window in which they start.
pub(super) struct Windows {
    /// Ticks of a window.
    pub size: i64,
    /// The start of one of the windows.
    pub offset: i64,
}

impl Windows {
    /// The number of the window of an instant. 128 bits hold it for all instants.
    fn window(&self, time: Time) -> i128 {
        (i128::from(time) - i128::from(self.offset)).div_euclid(i128::from(self.size))
    }

    /// The slices of a batch for each consumer, by the starts of its rows.
    fn slices(&self, starts: &[Time], consumers: usize) -> Vec<Vec<Range<usize>>> {
        let mut slices = vec![Vec::new(); consumers];
        let mut first = 0;
        while let Some(start) = starts.get(first) {
            let window = self.window(*start);
            let end = first + starts[first..].partition_point(|time| self.window(*time) == window);
            slices[window.rem_euclid(consumers as i128) as usize].push(first..end);
            first = end;
        }
        slices
    }
}

impl Partitioner for Windows {
    fn partition(&mut self, batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        for (slices, part) in self.slices(&batch.sync, parts.len()).into_iter().zip(parts) {
            *part = match slices.as_slice() {
                [] => None,
                [slice] => Some(batch.slice(slice.start, slice.len())),
                several => {
                    let rows = several.iter().cloned().flatten().map(|row| row as u32);
                    Some(batch.take(&UInt32Array::from_iter_values(rows))?)
                }
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Windows;

    /// The first row of each slice and the one after its last, for each of so many consumers.
    fn slices(windows: &Windows, starts: &[i64], consumers: usize) -> Vec<Vec<(usize, usize)>> {
        let slices = windows.slices(starts, consumers).into_iter();
        slices.map(|slices| slices.iter().map(|slice| (slice.start, slice.end)).collect()).collect()
    }

    #[test]
    fn windows_take_turns_over_all_of_time() {
        let windows = Windows { size: 10, offset: 3 };
        let found = slices(&windows, &[-8, -7, 2, 3, 3, 12, 13, 22, 23], 2);
        assert_eq!(found, [vec![(0, 1), (3, 6), (8, 9)], vec![(1, 3), (6, 8)]]);
        assert!(slices(&windows, &[], 2).concat().is_empty());

        let ends = Windows { size: 1, offset: i64::MAX };
        assert_eq!(slices(&ends, &[i64::MIN, i64::MAX], 2), [vec![(1, 2)], vec![(0, 1)]]);
        let whole = Windows { size: i64::MAX, offset: i64::MIN };
        let found = slices(&whole, &[i64::MIN, -2, -1, i64::MAX], 3);
        assert_eq!(found, [vec![(0, 2)], vec![(2, 3)], vec![(3, 4)]]);
    }
}
