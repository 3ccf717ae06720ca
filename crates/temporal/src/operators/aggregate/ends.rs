//! First and last: the value of the row that started first, or last, among those alive; ties by arrival. Nulls are
//! values here, as in SQL's `first_value`.
//!
//! An end edge does not tell apart rows with one start and one value: any of them leaves.

use super::accumulator::{Accumulator, Rows, same};
use crate::operator::{decode, encode};
use crate::time::Time;
use crate::values::{Column, Value};
use arrow::array::{Array, BooleanArray};
use arrow::buffer::NullBuffer;
use datafusion::common::Result;
use std::any::Any;
use std::collections::BTreeMap;

/// Which end of the order is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The oldest row.
    First,
    /// The newest row.
    Last,
}

/// When a row started, and its number among all rows ever loaded.
type Place = (Time, u64);

/// The rows alive by place. Where rows never leave, only the one asked for is kept.
#[derive(Debug)]
pub(super) struct Ends<V: Value> {
    states: Vec<BTreeMap<Place, Option<V::Ordered>>>,
    column: V::Column,
    nulls: Option<NullBuffer>,
    filter: Option<BooleanArray>,
    starts: Vec<Time>,
    /// The number of the first row of the loaded batch, and of the first row of the next.
    numbers: (u64, u64),
    end: End,
    only_one: bool,
}

impl<V: Value> Ends<V> {
    pub fn new(end: End, only_one: bool) -> Self {
        Ends {
            states: Vec::new(),
            column: Default::default(),
            nulls: None,
            filter: None,
            starts: Vec::new(),
            numbers: (0, 0),
            end,
            only_one,
        }
    }

    fn value(&self, row: usize) -> Option<V::Ordered> {
        let valid = self.nulls.as_ref().is_none_or(|n| n.is_valid(row));
        valid.then(|| V::get(&self.column, row).exact())
    }

    fn counts(&self, row: usize) -> bool {
        self.filter.as_ref().is_none_or(|f| f.is_valid(row) && f.value(row))
    }

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

    fn trim(end: End, state: &mut BTreeMap<Place, Option<V::Ordered>>) {
        while state.len() > 1 {
            match end {
                End::First => state.pop_last(),
                End::Last => state.pop_first(),
            };
        }
    }
}

impl<V: Value> Accumulator for Ends<V> {
    fn grow(&mut self, states: usize) {
        self.states.resize(states.max(self.states.len()), BTreeMap::new());
    }
    fn reset(&mut self, states: &[u32]) {
        states.iter().for_each(|&s| self.states[s as usize].clear());
    }
    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.filter = rows.filter.clone();
        self.starts = rows.starts.clone();
        self.numbers = (self.numbers.1, self.numbers.1 + self.starts.len() as u64);
        if let Some(argument) = &rows.argument {
            self.nulls = argument.logical_nulls();
            self.column = V::column(argument)?;
        }
        Ok(())
    }
    fn accumulate(&mut self, states: &[u32], first: usize) {
        for (row, &state) in (first..).zip(states) {
            if self.counts(row) {
                let place = (self.starts[row], self.numbers.0 + row as u64);
                let value = self.value(row);
                let state = &mut self.states[state as usize];
                state.insert(place, value);
                if self.only_one {
                    Self::trim(self.end, state);
                }
            }
        }
    }
    fn deaccumulate(&mut self, states: &[u32], first: usize) {
        for (row, &state) in (first..).zip(states) {
            if self.counts(row) {
                let (start, value) = (self.starts[row], self.value(row));
                Self::remove_equal(&mut self.states[state as usize], start, &value);
            }
        }
    }
    fn combine(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        let other = same::<Self>(other);
        for (&t, &f) in to.iter().zip(from) {
            let added = other.states[f as usize].clone();
            let state = &mut self.states[t as usize];
            state.extend(added);
            if self.only_one {
                Self::trim(self.end, state);
            }
        }
    }
    fn difference(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        let other = same::<Self>(other);
        for (&t, &f) in to.iter().zip(from) {
            let state = &mut self.states[t as usize];
            for (place, value) in &other.states[f as usize] {
                // An end edge may have left its place to this row and taken this row's.
                if state.remove(place).is_none() {
                    Self::remove_equal(state, place.0, value);
                }
            }
        }
    }
    fn result(&self, states: &[u32], out: &mut Column) {
        let read = |&s: &u32| {
            let state = &self.states[s as usize];
            let entry = match self.end {
                End::First => state.first_key_value(),
                End::Last => state.last_key_value(),
            };
            entry.and_then(|(_, value)| value.as_ref()).map(V::from_ordered)
        };
        out.extend_optional(states.iter().map(read));
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn save(&self) -> Result<Vec<u8>> {
        encode(&(&self.states, self.numbers))
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        (self.states, self.numbers) = decode(bytes)?;
        Ok(())
    }
}
