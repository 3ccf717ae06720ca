//! Stretches of rows with the same sync time: state changes once per instant, not once per row.

use crate::time::Time;
use std::ops::Range;

/// The ranges of equal times, one after another. They are found by [`leading`], not row by row.
pub(crate) fn runs(times: &[Time]) -> impl Iterator<Item = Range<usize>> + '_ {
    let (mut start, mut length) = (0, 1);
    std::iter::from_fn(move || {
        let time = *times.get(start)?;
        length = leading(&times[start..], length, |&t| t == time);
        let run = start..start + length;
        start = run.end;
        Some(run)
    })
}

/// How many times there are before the first that is not `within`, as all after it are not. The search begins
/// where `near` times are and goes on in steps that double: an instant tends to have about as many rows as
/// the one before it, and memory near that end is all that is waited for.
///
/// ```
/// assert_eq!(whimbrel_temporal::leading(&[1, 1, 2, 5], 1, |&time| time < 5), 3);
/// ```
pub fn leading(times: &[Time], near: usize, within: impl Fn(&Time) -> bool) -> usize {
    let near = near.min(times.len());
    let (mut low, mut high, mut step) = (near, near, 1);
    while low > 0 && !within(&times[low - 1]) {
        high = low - 1;
        low = low.saturating_sub(step);
        step *= 2;
    }
    while high < times.len() && within(&times[high]) {
        low = high + 1;
        high = (high + step).min(times.len());
        step *= 2;
    }
    low + times[low..high].partition_point(within)
}

#[cfg(test)]
mod tests {
    use super::{leading, runs};

    #[test]
    fn the_end_is_found_from_wherever_the_search_begins() {
        let times: Vec<i64> = (0..40).map(|i| i / 3).collect();
        for first in 0..times.len() {
            for limit in -1..15 {
                let expected = times[first..].iter().take_while(|&&t| t < limit).count();
                for near in 0..50 {
                    assert_eq!(leading(&times[first..], near, |&t| t < limit), expected);
                }
            }
        }
        assert_eq!(leading(&[], 3, |_| true), 0);
    }

    #[test]
    fn runs_of_all_lengths_follow_one_another() {
        let lengths = [1, 1, 7, 2, 40, 1, 3, 100, 100, 5];
        let times: Vec<i64> = lengths.iter().zip(0..).flat_map(|(&n, t)| std::iter::repeat_n(t, n)).collect();
        assert_eq!(runs(&times).map(|run| run.len()).collect::<Vec<_>>(), lengths);
        assert_eq!(runs(&times).last().map(|run| run.end), Some(times.len()));
    }
}
