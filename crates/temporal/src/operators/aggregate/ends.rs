//! First and last: the value of the row that started first, or last, among those alive; ties by arrival. And
//! the value of the only row. Nulls are values here, as in SQL's `first_value`.
//!
//! An end edge does not tell apart rows with one start and one value: any of them leaves.

use super::accumulator::Rows;
use super::sort_keys::Nullable;
use super::state_column::{Aggregator, filter};
use crate::time::Time;
use crate::values::{Column, Value};
use arrow::buffer::BooleanBuffer;
use datafusion::common::Result;
use std::collections::BTreeMap;

/// Which end of the order is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The oldest row.
    First,
    /// The newest row.
    Last,
    /// The row that is both.
    Only,
}

/// When a row started, and its number among all rows ever loaded.
type Place = (Time, u64);

/// The rows alive by place. Where rows never leave, only those are kept that decide.
#[derive(Debug)]
pub(super) struct Ends<V: Value> {
    value: Nullable<V>,
    starts: Vec<Time>,
    /// The number of the first row of the loaded batch.
    first: u64,
    end: End,
    /// Rows never leave, so what does not decide now never will.
    final_rows: bool,
}

impl<V: Value> Ends<V> {
    pub fn new(end: End, final_rows: bool) -> Self {
        Ends { value: Nullable::new(), starts: Vec::new(), first: 0, end, final_rows }
    }

    /// Takes out a row with this start and value; all rows with this start may be looked at.
    fn remove_equal(
        state: &mut BTreeMap<Place, Option<V::Ordered>>,
        start: Time,
        value: &Option<V::Ordered>,
    ) {
        let place = state.range((start, 0)..=(start, u64::MAX)).find(|(_, v)| *v == value).map(|(p, _)| *p);
        if let Some(place) = place {
            state.remove(&place);
        }
    }

    /// Forgets the rows that do not decide. Two show that none is the only one.
    fn trim(&self, state: &mut BTreeMap<Place, Option<V::Ordered>>) {
        let most = if self.end == End::Only { 2 } else { 1 };
        while self.final_rows && state.len() > most {
            match self.end {
                End::First | End::Only => state.pop_last(),
                End::Last => state.pop_first(),
            };
        }
    }
}

impl<V: Value> Aggregator for Ends<V> {
    type State = BTreeMap<Place, Option<V::Ordered>>;

    fn load(&mut self, rows: &Rows, first: u64) -> Result<()> {
        self.starts = rows.starts.clone();
        self.first = first;
        rows.argument.as_ref().map_or(Ok(()), |argument| self.value.load(argument))
    }
    fn selection(rows: &Rows) -> Option<BooleanBuffer> {
        filter(rows)
    }
    fn add(&self, state: &mut Self::State, row: usize) {
        state.insert((self.starts[row], self.first + row as u64), self.value.get(row));
        self.trim(state);
    }
    fn remove(&self, state: &mut Self::State, row: usize) {
        Self::remove_equal(state, self.starts[row], &self.value.get(row));
    }
    fn combine(&self, state: &mut Self::State, other: &Self::State, _end: Time) {
        state.extend(other.iter().map(|(place, value)| (*place, value.clone())));
        self.trim(state);
    }
    fn difference(&self, state: &mut Self::State, other: &Self::State, _end: Time) {
        for (place, value) in other {
            // An end edge may have left its place to this row and taken this row's.
            if state.remove(place).is_none() {
                Self::remove_equal(state, place.0, value);
            }
        }
    }
    fn results<'a>(&self, states: impl ExactSizeIterator<Item = &'a Self::State> + Clone, out: &mut Column) {
        let value = |state: &Self::State| {
            let entry = match self.end {
                End::Only if state.len() > 1 => None,
                End::First | End::Only => state.first_key_value(),
                End::Last => state.last_key_value(),
            };
            entry.and_then(|(_, value)| value.as_ref()).map(V::from_ordered)
        };
        out.extend_optional(states.map(value));
    }
}
