//! Aggregates over all values alive with how often each is there: any row may leave.
//!
//! A change takes time logarithmic in the different values, and they are all kept, except where rows never
//! leave and only the first ones are asked for.

use super::accumulator::Rows;
use super::extremes::Pick;
use super::multiset::Multiset;
use super::sort_keys::SortKeys;
use super::state_column::Aggregator;
use crate::time::Time;
use crate::values::Column;
use arrow::buffer::BooleanBuffer;
use datafusion::common::Result;
use std::fmt::Debug;

/// What is read off a multiset of keys.
pub(super) trait Readout<K: SortKeys>: Send + Debug + 'static {
    /// Appends the results of these multisets.
    fn results<'a>(
        &self,
        keys: &K,
        states: impl ExactSizeIterator<Item = &'a Multiset<K::Key>> + Clone,
        out: &mut Column,
    );
}

/// Which keys can still be asked for, where rows never leave.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kept {
    All,
    /// This many, those equal to the last of them included, from one end of the order.
    First(Pick, i64),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Bag<K: SortKeys, R: Readout<K>> {
    keys: K,
    readout: R,
    kept: Kept,
}

impl<K: SortKeys, R: Readout<K>> Bag<K, R> {
    pub fn new(keys: K, readout: R) -> Self {
        Bag::keeping(Kept::All, keys, readout)
    }

    /// One that forgets what cannot be asked for any more, as rows never leave it.
    pub fn keeping(kept: Kept, keys: K, readout: R) -> Self {
        Bag { keys, readout, kept }
    }

    fn trim(&self, state: &mut Multiset<K::Key>) {
        let Kept::First(pick, most) = self.kept else { return };
        let worst = |state: &Multiset<K::Key>| {
            let worst = if pick == Pick::Min { state.last() } else { state.first() };
            let (key, count) = worst?;
            (state.count() - count >= most).then(|| (key.clone(), count))
        };
        while let Some((key, count)) = worst(state) {
            state.change(key, -count);
        }
    }
}

impl<K: SortKeys, R: Readout<K>> Aggregator for Bag<K, R> {
    type State = Multiset<K::Key>;

    fn load(&mut self, rows: &Rows, _first: u64) -> Result<()> {
        self.keys.load(rows)
    }
    fn selection(rows: &Rows) -> Option<BooleanBuffer> {
        K::selection(rows)
    }
    fn add(&self, state: &mut Self::State, row: usize) {
        state.change(self.keys.key(row), 1);
        self.trim(state);
    }
    fn remove(&self, state: &mut Self::State, row: usize) {
        state.change(self.keys.key(row), -1);
    }
    fn combine(&self, state: &mut Self::State, other: &Self::State, _end: Time) {
        other.iter().for_each(|(key, count)| state.change(key.clone(), count));
        self.trim(state);
    }
    fn difference(&self, state: &mut Self::State, other: &Self::State, _end: Time) {
        other.iter().for_each(|(key, count)| state.change(key.clone(), -count));
    }
    fn results<'a>(&self, states: impl ExactSizeIterator<Item = &'a Self::State> + Clone, out: &mut Column) {
        self.readout.results(&self.keys, states, out);
    }
}

/// The smallest or the largest value.
impl<K: SortKeys> Readout<K> for Pick {
    fn results<'a>(
        &self,
        keys: &K,
        states: impl ExactSizeIterator<Item = &'a Multiset<K::Key>> + Clone,
        out: &mut Column,
    ) {
        let end = |state: &'a Multiset<K::Key>| match self {
            Pick::Min => state.first(),
            Pick::Max => state.last(),
        };
        keys.append(states.map(|state| end(state).map(|(key, _)| key)), out);
    }
}

/// How many different values there are.
#[derive(Debug)]
pub(super) struct Distinct;

impl<K: SortKeys> Readout<K> for Distinct {
    fn results<'a>(
        &self,
        _keys: &K,
        states: impl ExactSizeIterator<Item = &'a Multiset<K::Key>> + Clone,
        out: &mut Column,
    ) {
        out.extend(states.map(|state| state.distinct() as i64));
    }
}
