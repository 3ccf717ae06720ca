//! Results that are lists: all values, or the first ones with their ranks. Null of no values.

use super::bag::Readout;
use super::extremes::Pick;
use super::multiset::Multiset;
use super::sort_keys::SortKeys;
use crate::values::Column;
use arrow::datatypes::{DataType, Field, Fields};
use std::iter::repeat_n;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// The type of a list of such values.
pub(super) fn list_of(values: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(values, true)))
}

/// The type of a list of such values with their ranks.
pub(super) fn list_of_ranked(values: DataType) -> DataType {
    let fields = [("rank", DataType::Int64), ("value", values)];
    list_of(DataType::Struct(Fields::from_iter(fields.map(|(name, of)| Field::new(name, of, true)))))
}

/// All values in the order of their keys.
#[derive(Debug)]
pub(super) struct All;

impl<K: SortKeys> Readout<K> for All {
    fn results<'a>(
        &self,
        keys: &K,
        states: impl ExactSizeIterator<Item = &'a Multiset<K::Key>> + Clone,
        out: &mut Column,
    ) {
        let lengths = states.clone().map(|state| (state.count() > 0).then(|| state.count() as usize));
        let elements = out.lists(lengths);
        let repeated = states.flat_map(|state| state.iter());
        keys.append(repeated.flat_map(|(key, count)| repeat_n(Some(key), count.max(0) as usize)), elements);
    }
}

/// The first values from one end of the order, each with its rank: one more than there are values before it,
/// so equal ones have one rank, as in SQL.
#[derive(Debug)]
pub(super) struct First {
    pub end: Pick,
    pub count: NonZeroUsize,
    /// Whether those equal to the last are there too.
    pub ties: bool,
}

impl First {
    /// The keys that are asked for, each with its rank and how often it is there.
    fn ranked<'a, K: Ord>(&self, state: &'a Multiset<K>) -> Vec<(i64, &'a K, usize)> {
        let mut ranked = Vec::new();
        let most = self.count.get();
        let mut before = 0;
        let mut take = |(key, count): (&'a K, i64)| {
            let count = count.max(0) as usize;
            if before < most {
                let taken = if self.ties { count } else { count.min(most - before) };
                ranked.push((before as i64 + 1, key, taken));
            }
            before += count;
            before < most
        };
        // Until one of them is the last.
        match self.end {
            Pick::Min => state.iter().find(|&entry| !take(entry)),
            Pick::Max => state.iter().rev().find(|&entry| !take(entry)),
        };
        ranked
    }
}

impl<K: SortKeys> Readout<K> for First {
    fn results<'a>(
        &self,
        keys: &K,
        states: impl ExactSizeIterator<Item = &'a Multiset<K::Key>> + Clone,
        out: &mut Column,
    ) {
        let (mut lengths, mut ranked) = (Vec::new(), Vec::new());
        for state in states {
            let first = self.ranked(state);
            let length = first.iter().map(|(_, _, count)| count).sum::<usize>();
            lengths.push((length > 0).then_some(length));
            ranked.extend(first);
        }
        let structs = out.lists(lengths.iter().copied());
        let all = lengths.iter().flatten().sum();
        let [ranks, values] = structs.structs(all) else { return };
        let ranks_of = ranked.iter().flat_map(|&(rank, _, count)| repeat_n(Some(rank), count));
        ranks.extend_optional(ranks_of);
        keys.append(ranked.iter().flat_map(|&(_, key, count)| repeat_n(Some(key), count)), values);
    }
}
