//! Minimum and maximum where not all values have to be kept.
//!
//! Three ways to keep a minimum, by how rows leave (trill.txt §5.3): [`Best`] where none ever does, [`Queue`]
//! where they leave in the order in which they came (a monotone queue: what a newer row beats can never
//! matter again), and a [multiset](super::bag) where any row may leave at any time.

use super::accumulator::Rows;
use super::sort_keys::SortKeys;
use super::state_column::Aggregator;
use crate::time::{INFINITY, Time};
use crate::values::Column;
use arrow::buffer::BooleanBuffer;
use datafusion::common::Result;
use std::collections::VecDeque;
use std::ops::Range;

/// Which end of an order is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

impl Pick {
    /// Whether `new` makes `old` irrelevant once it is there at least as long.
    #[inline]
    fn beats<O: Ord>(self, new: &O, old: &O) -> bool {
        match self {
            Pick::Min => new <= old,
            Pick::Max => new >= old,
        }
    }
}

/// The best value so far; rows never leave.
/// Constant time and memory.
#[derive(Debug)]
pub(super) struct Best<K: SortKeys> {
    keys: K,
    pick: Pick,
}

impl<K: SortKeys> Best<K> {
    pub fn new(keys: K, pick: Pick) -> Self {
        Best { keys, pick }
    }

    /// The better one of two values.
    #[inline(always)]
    fn better(&self, old: K::Key, new: K::Key) -> K::Key {
        if self.pick.beats(&new, &old) { new } else { old }
    }

    fn offer(&self, state: &mut Option<K::Key>, value: K::Key) {
        match state {
            Some(old) if !self.pick.beats(&value, old) => {}
            _ => *state = Some(value),
        }
    }
}

impl<K: SortKeys> Aggregator for Best<K> {
    type State = Option<K::Key>;

    fn load(&mut self, rows: &Rows, _first: u64) -> Result<()> {
        self.keys.load(rows)
    }
    fn selection(rows: &Rows) -> Option<BooleanBuffer> {
        K::selection(rows)
    }
    fn add(&self, state: &mut Self::State, row: usize) {
        self.offer(state, self.keys.key(row));
    }
    fn add_run(&self, state: &mut Self::State, rows: Range<usize>, selection: Option<&BooleanBuffer>) {
        let first = rows.start;
        let better = |old, new| self.better(old, new);
        let best = match selection {
            None => rows.map(|row| self.keys.key(row)).reduce(better),
            Some(bits) => bits.set_indices().map(|place| self.keys.key(first + place)).reduce(better),
        };
        if let Some(best) = best {
            self.offer(state, best);
        }
    }
    fn remove(&self, _state: &mut Self::State, _row: usize) {
        debug_assert!(false, "rows never leave here");
    }
    fn combine(&self, state: &mut Self::State, other: &Self::State, _end: Time) {
        if let Some(value) = other.clone() {
            self.offer(state, value);
        }
    }
    fn difference(&self, _state: &mut Self::State, _other: &Self::State, _end: Time) {
        debug_assert!(false, "rows never leave here");
    }
    fn results<'a>(&self, states: impl ExactSizeIterator<Item = &'a Self::State> + Clone, out: &mut Column) {
        self.keys.append(states.map(Option::as_ref), out);
    }
}

/// The values that can still become the best one, oldest first, each with its end; rows leave in the order
/// they came.
/// A value enters and leaves once, so a change takes constant time on average, and there are at most as
/// many values as panes.
#[derive(Debug)]
pub(super) struct Queue<K: SortKeys> {
    keys: K,
    pick: Pick,
}

impl<K: SortKeys> Queue<K> {
    pub fn new(keys: K, pick: Pick) -> Self {
        Queue { keys, pick }
    }
}

impl<K: SortKeys> Aggregator for Queue<K> {
    type State = VecDeque<(Time, K::Key)>;

    fn load(&mut self, rows: &Rows, _first: u64) -> Result<()> {
        self.keys.load(rows)
    }
    fn selection(rows: &Rows) -> Option<BooleanBuffer> {
        K::selection(rows)
    }
    /// The rows of one pane end together: only the best one matters.
    fn add(&self, state: &mut Self::State, row: usize) {
        let value = self.keys.key(row);
        match state.front() {
            Some((_, old)) if !self.pick.beats(&value, old) => {}
            _ => {
                state.clear();
                state.push_back((INFINITY, value));
            }
        }
    }
    fn remove(&self, _state: &mut Self::State, _row: usize) {
        debug_assert!(false, "there are no end edges here");
    }
    fn combine(&self, state: &mut Self::State, other: &Self::State, end: Time) {
        let Some((_, value)) = other.front().cloned() else { return };
        while state.back().is_some_and(|(until, old)| *until <= end && self.pick.beats(&value, old)) {
            state.pop_back();
        }
        state.push_back((end, value));
    }
    fn difference(&self, state: &mut Self::State, _other: &Self::State, end: Time) {
        while state.front().is_some_and(|(until, _)| *until <= end) {
            state.pop_front();
        }
    }
    /// The memory stays: panes come and go.
    fn reset(state: &mut Self::State) {
        state.clear();
    }
    fn results<'a>(&self, states: impl ExactSizeIterator<Item = &'a Self::State> + Clone, out: &mut Column) {
        self.keys.append(states.map(|state| state.front().map(|(_, value)| value)), out);
    }
}
