//! A column of states of a built-in aggregate: an [`Aggregator`] says what one state is, the column does what
//! is the same for all of them.

use super::accumulator::{Accumulator, Rows, same};
use crate::operator::{decode, encode};
use crate::time::Time;
use crate::values::Column;
use arrow::array::{Array, BooleanArray};
use arrow::buffer::BooleanBuffer;
use datafusion::common::Result;
use serde::{Serialize, de::DeserializeOwned};
use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

/// An aggregate, as functions of one state. It holds what it reads of the loaded batch.
pub(super) trait Aggregator: Send + Debug + 'static {
    /// What it remembers of a group; the default is a group without rows.
    type State: Clone + Default + Debug + Send + Serialize + DeserializeOwned;

    /// Reads the next batch, whose first row has this number among all rows ever loaded.
    fn load(&mut self, rows: &Rows, first: u64) -> Result<()>;

    /// Which rows of a batch it takes in; none: all.
    fn selection(rows: &Rows) -> Option<BooleanBuffer> {
        selection(rows)
    }

    /// Adds a row of the loaded batch.
    fn add(&self, state: &mut Self::State, row: usize);

    /// Adds those of the rows whose bit is set in `selection`, which begins at the first of them; none: all.
    fn add_run(&self, state: &mut Self::State, rows: Range<usize>, selection: Option<&BooleanBuffer>) {
        match selection {
            None => rows.for_each(|row| self.add(state, row)),
            Some(bits) => bits.set_indices().for_each(|place| self.add(state, rows.start + place)),
        }
    }

    /// Takes a row out that was added when its start edge came.
    fn remove(&self, state: &mut Self::State, row: usize);

    /// Adds what another state holds; all of it lives until `end`.
    fn combine(&self, state: &mut Self::State, other: &Self::State, end: Time);

    /// Takes out what was [combined](Aggregator::combine) with this `end`, or added row by row.
    fn difference(&self, state: &mut Self::State, other: &Self::State, end: Time);

    /// Makes a state that of no rows again.
    fn reset(state: &mut Self::State) {
        *state = Self::State::default();
    }

    /// Appends the results of states.
    fn results<'a>(&self, states: impl ExactSizeIterator<Item = &'a Self::State> + Clone, out: &mut Column);
}

/// The rows that pass the filter and whose argument is not null; none: all.
pub(super) fn selection(rows: &Rows) -> Option<BooleanBuffer> {
    both(filter(rows), valid(rows))
}

/// The rows that are selected by both; none: all.
pub(super) fn both(one: Option<BooleanBuffer>, other: Option<BooleanBuffer>) -> Option<BooleanBuffer> {
    match (one, other) {
        (Some(one), Some(other)) => Some(&one & &other),
        (one, None) | (None, one) => one,
    }
}

/// The rows that pass the filter.
pub(super) fn filter(rows: &Rows) -> Option<BooleanBuffer> {
    rows.filter.as_ref().map(|filter: &BooleanArray| match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    })
}

/// The rows whose argument is not null.
fn valid(rows: &Rows) -> Option<BooleanBuffer> {
    let nulls = rows.argument.as_ref().and_then(|argument| argument.logical_nulls());
    nulls.filter(|nulls| nulls.null_count() > 0).map(|nulls| nulls.inner().clone())
}

/// The states of one aggregate.
#[derive(Debug)]
pub(super) struct StateColumn<A: Aggregator> {
    aggregator: A,
    states: Vec<A::State>,
    selection: Option<BooleanBuffer>,
    /// How many rows were ever loaded, where an aggregate asks for their order.
    loaded: u64,
}

impl<A: Aggregator> StateColumn<A> {
    /// A column without states.
    pub fn boxed(aggregator: A) -> Box<dyn Accumulator> {
        Box::new(StateColumn { aggregator, states: Vec::new(), selection: None, loaded: 0 })
    }

    /// Changes the state of each of these rows that is taken in.
    #[inline(always)]
    fn each_row(&mut self, states: &[u32], first: usize, change: impl Fn(&A, &mut A::State, usize)) {
        let StateColumn { aggregator, states: all, selection, .. } = self;
        let rows = (first..).zip(states);
        match selection {
            None => rows.for_each(|(row, &state)| change(aggregator, &mut all[state as usize], row)),
            Some(bits) => rows
                .filter(|(row, _)| bits.value(*row))
                .for_each(|(row, &state)| change(aggregator, &mut all[state as usize], row)),
        }
    }

    /// Changes each of the states `to` by one of another column.
    #[inline(always)]
    fn each_pair(
        &mut self,
        to: &[u32],
        other: &dyn Accumulator,
        from: &[u32],
        change: impl Fn(&A, &mut A::State, &A::State),
    ) {
        let other = &same::<Self>(other).states;
        for (&to, &from) in to.iter().zip(from) {
            change(&self.aggregator, &mut self.states[to as usize], &other[from as usize]);
        }
    }
}

impl<A: Aggregator> Accumulator for StateColumn<A> {
    fn grow(&mut self, states: usize) {
        self.states.resize(states.max(self.states.len()), A::State::default());
    }
    fn reset(&mut self, states: &[u32]) {
        states.iter().for_each(|&state| A::reset(&mut self.states[state as usize]));
    }
    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.selection = A::selection(rows);
        self.aggregator.load(rows, self.loaded)?;
        self.loaded += rows.starts.len() as u64;
        Ok(())
    }
    fn accumulate(&mut self, states: &[u32], first: usize) {
        self.each_row(states, first, A::add);
    }
    fn accumulate_run(&mut self, state: u32, rows: Range<usize>, present: Option<&BooleanBuffer>) {
        let part = |bits: &BooleanBuffer| bits.slice(rows.start, rows.len());
        let selection = both(present.map(part), self.selection.as_ref().map(part));
        self.aggregator.add_run(&mut self.states[state as usize], rows, selection.as_ref());
    }
    fn deaccumulate(&mut self, states: &[u32], first: usize) {
        self.each_row(states, first, A::remove);
    }
    fn combine(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], end: Time) {
        self.each_pair(to, other, from, |aggregator, state, other| aggregator.combine(state, other, end));
    }
    fn difference(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], end: Time) {
        self.each_pair(to, other, from, |aggregator, state, other| aggregator.difference(state, other, end));
    }
    fn result(&self, states: &[u32], out: &mut Column) {
        self.aggregator.results(states.iter().map(|&state| &self.states[state as usize]), out);
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn save(&self) -> Result<Vec<u8>> {
        encode(&(&self.states, self.loaded))
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        (self.states, self.loaded) = decode(bytes)?;
        Ok(())
    }
}
