//! The groups of integer keys, numbered in the order in which the keys come.
//!
//! Invariants: entry `i` of a direct index belongs to the key `first + i`, and holds 1 + the number of its
//! group, or 0. A direct index has a few entries for each group at most: while keys are sparser, they are in
//! a hash table. Keys in random order are sparse at first and dense once many have come: then they move back
//! to a direct index.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, max, min};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use std::sync::Arc;

/// How many entries of four bytes there may be for each group.
const ENTRIES_PER_GROUP: usize = 16;

/// So many entries there may be for any number of groups.
const MIN_ENTRIES: usize = 1 << 18;

/// Whether keys of this type can be a direct index.
pub(super) fn supports(key: &DataType) -> bool {
    use DataType::*;
    matches!(key, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | Date32)
}

/// The groups of integer keys; see the module.
pub(super) struct GroupIndex {
    kind: DataType,
    /// The minimum and the maximum of the keys so far.
    range: Option<(i64, i64)>,
    lookup: Lookup,
}

/// How groups are looked up.
enum Lookup {
    Direct(DirectIndex),
    Hash(Box<dyn GroupValues>),
}

impl GroupIndex {
    /// No groups yet, for keys of a supported type.
    pub fn new(kind: DataType) -> GroupIndex {
        GroupIndex { kind, range: None, lookup: Lookup::Direct(DirectIndex::default()) }
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        match &self.lookup {
            Lookup::Direct(index) => index.keys.len(),
            Lookup::Hash(table) => table.len(),
        }
    }

    /// The group of each key; new keys get new groups.
    ///
    /// # Errors
    /// If the keys are of another type.
    pub fn groups(&mut self, keys: &ArrayRef, groups: &mut Vec<usize>) -> Result<()> {
        let integers = cast(keys, &DataType::Int64)?;
        let integers = integers.as_primitive();
        self.range = extend_range(self.range, integers);
        let max_groups = self.len() + integers.len();
        // To move back, twice the entries must be allowed, so that it does not soon move away again.
        let (is_dense, is_very_dense) = (fits(self.range, 1, max_groups), fits(self.range, 2, max_groups));
        match &mut self.lookup {
            Lookup::Direct(index) if !is_dense => {
                let mut table = hash_table(&self.kind)?;
                table.intern(&[std::mem::take(index).finish(&self.kind)?], groups)?;
                self.lookup = Lookup::Hash(table);
            }
            Lookup::Hash(table) if is_very_dense => {
                let keys = cast(&all_keys(table.as_mut())?, &DataType::Int64)?;
                self.lookup = Lookup::Direct(DirectIndex::of(keys.as_primitive(), self.range));
            }
            _ => {}
        }
        match &mut self.lookup {
            Lookup::Hash(table) => table.intern(&[Arc::clone(keys)], groups),
            Lookup::Direct(index) => {
                index.cover(self.range);
                index.groups(integers, groups);
                Ok(())
            }
        }
    }

    /// The keys of all groups.
    ///
    /// # Errors
    /// If they cannot be cast to their type.
    pub fn finish(self) -> Result<ArrayRef> {
        match self.lookup {
            Lookup::Direct(index) => index.finish(&self.kind),
            Lookup::Hash(mut table) => all_keys(table.as_mut()),
        }
    }
}

/// The range of these integers and of those so far.
fn extend_range(range: Option<(i64, i64)>, integers: &Int64Array) -> Option<(i64, i64)> {
    let Some(added) = min(integers).zip(max(integers)) else { return range };
    let (low, high) = range.unwrap_or(added);
    Some((low.min(added.0), high.max(added.1)))
}

/// Whether a direct index of `times` as many entries as the range has integers is allowed for so many groups.
fn fits(range: Option<(i64, i64)>, times: usize, groups: usize) -> bool {
    let (low, high) = range.unwrap_or_default();
    let entries = (high.abs_diff(low) as usize).saturating_mul(times);
    entries < (groups * ENTRIES_PER_GROUP).max(MIN_ENTRIES).min(u32::MAX as usize - 1)
}

/// The keys of all groups of a hash table.
fn all_keys(table: &mut dyn GroupValues) -> Result<ArrayRef> {
    match table.emit(EmitTo::All)?.pop() {
        Some(keys) => Ok(keys),
        None => internal_err!("groups by a key have lost it"),
    }
}

/// An empty hash table.
fn hash_table(kind: &DataType) -> Result<Box<dyn GroupValues>> {
    let key = Schema::new(vec![Field::new("key", kind.clone(), true)]);
    new_group_values(Arc::new(key), &GroupOrdering::None)
}

/// An array that the keys index.
#[derive(Default)]
struct DirectIndex {
    /// The key of the first entry.
    first: i64,
    entries: Vec<u32>,
    /// The key of each group; any value for the group of null.
    keys: Vec<i64>,
    /// The group of null.
    null: Option<usize>,
}

impl DirectIndex {
    /// The index of these keys, all of which are different.
    fn of(keys: &Int64Array, range: Option<(i64, i64)>) -> DirectIndex {
        let mut index = DirectIndex::default();
        index.cover(range);
        index.groups(keys, &mut vec![]);
        index
    }

    /// Makes entries for all integers of a range.
    fn cover(&mut self, range: Option<(i64, i64)>) {
        let Some((low, high)) = range else { return };
        if self.entries.is_empty() {
            self.first = low;
        } else if low < self.first {
            self.grow_below(low, high.abs_diff(low) as usize);
        }
        let length = self.entries.len().max(high.abs_diff(self.first) as usize + 1);
        self.entries.resize(length, 0);
    }

    /// Makes entries down to an integer, and `more` below it: otherwise keys in descending order would move
    /// all entries each time.
    fn grow_below(&mut self, low: i64, more: usize) {
        let first = low.saturating_sub(more as i64);
        let mut entries = vec![0; self.first.abs_diff(first) as usize];
        entries.append(&mut self.entries);
        (self.first, self.entries) = (first, entries);
    }

    /// The group of each integer.
    fn groups(&mut self, integers: &Int64Array, groups: &mut Vec<usize>) {
        groups.clear();
        groups.reserve(integers.len());
        match integers.null_count() {
            0 => groups.extend(integers.values().iter().map(|key| self.group(*key))),
            _ => groups.extend(integers.iter().map(|key| match key {
                Some(key) => self.group(key),
                None => self.null_group(),
            })),
        }
    }

    /// The group of a key that the index covers.
    #[inline]
    fn group(&mut self, key: i64) -> usize {
        let entry = &mut self.entries[key.wrapping_sub(self.first) as usize];
        if *entry == 0 {
            self.keys.push(key);
            *entry = self.keys.len() as u32;
        }
        *entry as usize - 1
    }

    /// The group of null.
    fn null_group(&mut self) -> usize {
        *self.null.get_or_insert_with(|| {
            self.keys.push(0);
            self.keys.len() - 1
        })
    }

    /// The keys of all groups, in their type.
    fn finish(self, kind: &DataType) -> Result<ArrayRef> {
        let all = 0..self.keys.len();
        let nulls = self.null.map(|null| NullBuffer::from_iter(all.map(|group| group != null)));
        Ok(cast(&Int64Array::new(self.keys.into(), nulls), kind)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::Int64Type;
    use std::collections::HashMap;

    /// The groups of some batches of keys and the keys of these groups, as a map finds them.
    fn expected(batches: &[Vec<Option<i64>>]) -> (Vec<Vec<usize>>, Vec<Option<i64>>) {
        let (mut found, mut keys) = (HashMap::new(), vec![]);
        let mut group = |key: &Option<i64>| {
            *found.entry(*key).or_insert_with(|| {
                keys.push(*key);
                keys.len() - 1
            })
        };
        let groups = batches.iter().map(|batch| batch.iter().map(&mut group).collect()).collect();
        (groups, keys)
    }

    fn check(kind: DataType, batches: &[Vec<Option<i64>>], is_direct: bool) {
        let mut index = GroupIndex::new(kind.clone());
        let (groups, keys) = expected(batches);
        let mut found = vec![7; 3];
        for (batch, groups) in batches.iter().zip(groups) {
            let batch = cast(&Int64Array::from(batch.clone()), &kind).unwrap();
            index.groups(&batch, &mut found).unwrap();
            assert_eq!(found, groups);
        }
        assert_eq!(index.len(), keys.len());
        assert_eq!(matches!(index.lookup, Lookup::Direct(_)), is_direct);
        let finished = cast(&index.finish().unwrap(), &DataType::Int64).unwrap();
        assert_eq!(finished.as_primitive::<Int64Type>(), &Int64Array::from(keys));
    }

    fn some(numbers: impl IntoIterator<Item = i64>) -> Vec<Option<i64>> {
        numbers.into_iter().map(Some).collect()
    }

    #[test]
    fn dense_keys_have_a_direct_index() {
        let batches = [some([5, 5, 7]), vec![], vec![None, Some(5), None], some([-3, 100, 7]), vec![None]];
        for kind in [DataType::Int8, DataType::Int16, DataType::Int64, DataType::Date32] {
            check(kind, &batches, true);
        }
        check(DataType::UInt32, &[some([9, 10]), some([9])], true);
        check(DataType::Int32, &[vec![None, None]], true);
        check(DataType::Int64, &[], true);
    }

    #[test]
    fn entries_are_added_on_both_sides() {
        let falling: Vec<_> = (0..200).rev().map(|at| some(at * 1000..at * 1000 + 300)).collect();
        check(DataType::Int64, &falling, true);
        let rising: Vec<_> = falling.into_iter().rev().collect();
        check(DataType::Int64, &rising, true);
        let at_the_end = i64::MIN + 2;
        check(DataType::Int64, &[some([at_the_end + 1000]), some([at_the_end])], true);
        check(DataType::Int64, &[some([i64::MAX]), some([i64::MAX - 3, i64::MAX])], true);
    }

    #[test]
    fn a_range_is_covered_in_any_order() {
        let ends = [some([40, 149_950]), some([1]), some([150_000]), some([75_000, 1, 150_000])];
        check(DataType::Int64, &ends, true);
        let to_the_limit = [some([100]), some([99]), some([99 + MIN_ENTRIES as i64 - 1])];
        check(DataType::Int64, &to_the_limit, true);
        check(DataType::Int64, &[to_the_limit.concat(), some([98])], false);
    }

    #[test]
    fn keys_in_random_order_have_a_direct_index_once_they_are_dense() {
        let scattered = |at: i64| some((0..8_192).map(move |i| (at * 8_192 + i) * 7_919 % 1_000_003));
        let batches: Vec<_> = (0..30).map(scattered).collect();
        check(DataType::Int64, &batches[..10], false);
        check(DataType::Int64, &batches, true);
        let with_nulls: Vec<_> =
            batches.iter().map(|batch| [&[None], batch.as_slice(), &[None]].concat()).collect();
        check(DataType::Int32, &with_nulls, true);
        let far: Vec<_> = [&batches[..20], &[some([1 << 40])], &batches[20..]].concat();
        check(DataType::Int64, &far, false);
    }

    #[test]
    fn sparse_keys_have_a_hash_table() {
        let far = [vec![Some(1), None, Some(4)], some([i64::MAX, 4]), vec![None, Some(i64::MIN), Some(1)]];
        check(DataType::Int64, &far, false);
        check(DataType::UInt32, &[some([u32::MAX.into(), 9]), some([9])], false);
        let more_entries_with_more_rows: Vec<_> =
            (0..9).map(|at| some((0..70_000).map(|i| at * 70_000 + i))).collect();
        check(DataType::Int32, &more_entries_with_more_rows, true);
    }
}
