//! Minimum, maximum and distinct count.
//!
//! Three ways to keep a minimum, by how rows leave (trill.txt §5.3): [`Best`] where none ever does, [`Queue`]
//! where they leave in the order in which they came (a monotone queue: what a newer row beats can never
//! matter again), and [`Bag`], a multiset, where any row may leave at any time.

use super::accumulator::Rows;
use super::state_column::Aggregator;
use crate::time::{INFINITY, Time};
use crate::values::{Column, Value};
use datafusion::common::Result;
use std::collections::{BTreeMap, VecDeque};

/// What is read off a multiset of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// How many different ones.
    Distinct,
}

impl Pick {
    /// Whether `new` makes `old` irrelevant once it is there at least as long.
    #[inline]
    fn beats<O: Ord>(self, new: &O, old: &O) -> bool {
        match self {
            Pick::Min => new <= old,
            _ => new >= old,
        }
    }
}

/// The argument of the loaded batch.
#[derive(Debug)]
struct Argument<V: Value>(V::Column);

impl<V: Value> Default for Argument<V> {
    fn default() -> Self {
        Argument(V::Column::default())
    }
}

impl<V: Value> Argument<V> {
    fn load(&mut self, rows: &Rows) -> Result<()> {
        if let Some(argument) = &rows.argument {
            self.0 = V::column(argument)?;
        }
        Ok(())
    }

    #[inline]
    fn get(&self, row: usize) -> V::Ordered {
        V::get(&self.0, row).ordered()
    }
}

/// The best value so far; rows never leave.
/// Constant time and memory.
#[derive(Debug)]
pub(super) struct Best<V: Value> {
    argument: Argument<V>,
    pick: Pick,
}

impl<V: Value> Best<V> {
    pub fn new(pick: Pick) -> Self {
        Best { argument: Argument::default(), pick }
    }

    fn offer(&self, state: &mut Option<V::Ordered>, value: V::Ordered) {
        match state {
            Some(old) if !self.pick.beats(&value, old) => {}
            _ => *state = Some(value),
        }
    }
}

impl<V: Value> Aggregator for Best<V> {
    type State = Option<V::Ordered>;

    fn load(&mut self, rows: &Rows, _first: u64) -> Result<()> {
        self.argument.load(rows)
    }
    fn add(&self, state: &mut Self::State, row: usize) {
        self.offer(state, self.argument.get(row));
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
        out.extend_optional(states.map(|state| state.as_ref().map(V::from_ordered)));
    }
}

/// The values that can still become the best one, oldest first, each with its end; rows leave in the order
/// they came.
/// A value enters and leaves once, so a change takes constant time on average, and there are at most as
/// many values as panes.
#[derive(Debug)]
pub(super) struct Queue<V: Value> {
    argument: Argument<V>,
    pick: Pick,
}

impl<V: Value> Queue<V> {
    pub fn new(pick: Pick) -> Self {
        Queue { argument: Argument::default(), pick }
    }
}

impl<V: Value> Aggregator for Queue<V> {
    type State = VecDeque<(Time, V::Ordered)>;

    fn load(&mut self, rows: &Rows, _first: u64) -> Result<()> {
        self.argument.load(rows)
    }
    /// The rows of one pane end together: only the best one matters.
    fn add(&self, state: &mut Self::State, row: usize) {
        let value = self.argument.get(row);
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
        out.extend_optional(states.map(|state| state.front().map(|(_, value)| V::from_ordered(value))));
    }
}

/// All values with how often each is there; any row may leave.
/// A change takes time logarithmic in the different values, and they are all kept.
#[derive(Debug)]
pub(super) struct Bag<V: Value> {
    argument: Argument<V>,
    pick: Pick,
}

impl<V: Value> Bag<V> {
    pub fn new(pick: Pick) -> Self {
        Bag { argument: Argument::default(), pick }
    }

    fn change(state: &mut BTreeMap<V::Ordered, i64>, value: V::Ordered, by: i64) {
        let count = state.entry(value.clone()).or_insert(0);
        *count += by;
        if *count == 0 {
            state.remove(&value);
        }
    }
}

impl<V: Value> Aggregator for Bag<V> {
    type State = BTreeMap<V::Ordered, i64>;

    fn load(&mut self, rows: &Rows, _first: u64) -> Result<()> {
        self.argument.load(rows)
    }
    fn add(&self, state: &mut Self::State, row: usize) {
        Self::change(state, self.argument.get(row), 1);
    }
    fn remove(&self, state: &mut Self::State, row: usize) {
        Self::change(state, self.argument.get(row), -1);
    }
    fn combine(&self, state: &mut Self::State, other: &Self::State, _end: Time) {
        other.iter().for_each(|(value, count)| Self::change(state, value.clone(), *count));
    }
    fn difference(&self, state: &mut Self::State, other: &Self::State, _end: Time) {
        other.iter().for_each(|(value, count)| Self::change(state, value.clone(), -count));
    }
    fn results<'a>(&self, states: impl ExactSizeIterator<Item = &'a Self::State> + Clone, out: &mut Column) {
        let value = |entry: Option<(&V::Ordered, &i64)>| entry.map(|(value, _)| V::from_ordered(value));
        match self.pick {
            Pick::Distinct => out.extend(states.map(|state| state.len() as i64)),
            Pick::Min => out.extend_optional(states.map(|state| value(state.first_key_value()))),
            Pick::Max => out.extend_optional(states.map(|state| value(state.last_key_value()))),
        }
    }
}
