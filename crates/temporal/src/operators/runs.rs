//! Stretches of rows with the same sync time: state changes once per instant, not once per row.

use crate::time::Time;
use std::ops::Range;

/// The ranges of equal times, one after another. Long stretches are found by galloping, not row by row.
pub(crate) fn runs(times: &[Time]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = 0;
    std::iter::from_fn(move || {
        let time = *times.get(start)?;
        let end = start + run_length(&times[start..], time);
        let run = start..end;
        start = end;
        Some(run)
    })
}

fn run_length(times: &[Time], time: Time) -> usize {
    let mut step = 1;
    while step < times.len() && times[step] == time {
        step *= 2;
    }
    let (low, high) = (step / 2, step.min(times.len()));
    low + times[low..high].partition_point(|&t| t == time)
}
