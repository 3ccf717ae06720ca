//! Whole numbers and the groups that they are the keys of, counted in the order in which they come.
//!
//! Invariants: `places` has the numbers from `first` on, in turn; a place has 1 + the number of its group, or 0. There are a
//! few places at most for each group: while the numbers lie further apart, they are found by their hashes. Numbers that come in
//! any order lie far apart at first and near each other once many of them are there: then they go back to places.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, max, min};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use std::sync::Arc;

/// How many places of four bytes there may be for each group.
const FOR_EACH_GROUP: usize = 16;

/// So many places there may always be.
const ALWAYS: usize = 1 << 18;

/// Whether keys of this type are found by their places.
pub(super) fn serve(key: &DataType) -> bool {
    use DataType::*;
    matches!(key, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | Date32)
}

/// See the module.
pub(super) struct Numbers {
    kind: DataType,
    /// The least number that came, and the largest.
    range: Option<(i64, i64)>,
    found: Found,
}

enum Found {
    ByPlace(Places),
    ByHash(Box<dyn GroupValues>),
}

impl Numbers {
    /// None yet; of a type that is served.
    pub fn new(kind: DataType) -> Numbers {
        Numbers { kind, range: None, found: Found::ByPlace(Places::default()) }
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        match &self.found {
            Found::ByPlace(places) => places.keys.len(),
            Found::ByHash(hashes) => hashes.len(),
        }
    }

    /// The group of each key.
    pub fn groups(&mut self, keys: &ArrayRef, groups: &mut Vec<usize>) -> Result<()> {
        let numbers = cast(keys, &DataType::Int64)?;
        let numbers = numbers.as_primitive();
        self.range = range(self.range, numbers);
        let groups_at_most = self.len() + numbers.len();
        // Who comes back finds twice the room, so as not to leave again soon.
        let (fit, fit_well) = (fits(self.range, 1, groups_at_most), fits(self.range, 2, groups_at_most));
        match &mut self.found {
            Found::ByPlace(places) if !fit => {
                let mut hashes = by_hash(&self.kind)?;
                hashes.intern(&[std::mem::take(places).finish(&self.kind)?], groups)?;
                self.found = Found::ByHash(hashes);
            }
            Found::ByHash(hashes) if fit_well => {
                let keys = cast(&all_keys(hashes.as_mut())?, &DataType::Int64)?;
                self.found = Found::ByPlace(Places::of(keys.as_primitive(), self.range));
            }
            _ => {}
        }
        match &mut self.found {
            Found::ByHash(hashes) => hashes.intern(&[Arc::clone(keys)], groups),
            Found::ByPlace(places) => {
                places.cover(self.range);
                places.groups(numbers, groups);
                Ok(())
            }
        }
    }

    /// The keys of all groups.
    pub fn finish(self) -> Result<ArrayRef> {
        match self.found {
            Found::ByPlace(places) => places.finish(&self.kind),
            Found::ByHash(mut hashes) => all_keys(hashes.as_mut()),
        }
    }
}

/// The range that has these numbers too.
fn range(known: Option<(i64, i64)>, numbers: &Int64Array) -> Option<(i64, i64)> {
    let Some(added) = min(numbers).zip(max(numbers)) else { return known };
    let (low, high) = known.unwrap_or(added);
    Some((low.min(added.0), high.max(added.1)))
}

/// Whether there may be a place for each number of a range, and so many `times` as many, where there are so many groups.
fn fits(range: Option<(i64, i64)>, times: usize, groups: usize) -> bool {
    let (low, high) = range.unwrap_or_default();
    let places = (high.abs_diff(low) as usize).saturating_mul(times);
    places < (groups * FOR_EACH_GROUP).max(ALWAYS).min(u32::MAX as usize - 1)
}

fn all_keys(hashes: &mut dyn GroupValues) -> Result<ArrayRef> {
    match hashes.emit(EmitTo::All)?.pop() {
        Some(keys) => Ok(keys),
        None => internal_err!("groups by a key have lost it"),
    }
}

fn by_hash(kind: &DataType) -> Result<Box<dyn GroupValues>> {
    let key = Schema::new(vec![Field::new("key", kind.clone(), true)]);
    new_group_values(Arc::new(key), &GroupOrdering::None)
}

#[derive(Default)]
struct Places {
    first: i64,
    places: Vec<u32>,
    /// The key of each group; anything for the group of null.
    keys: Vec<i64>,
    null: Option<usize>,
}

impl Places {
    /// The places of groups with these keys, all of which are different.
    fn of(keys: &Int64Array, range: Option<(i64, i64)>) -> Places {
        let mut places = Places::default();
        places.cover(range);
        places.groups(keys, &mut vec![]);
        places
    }

    /// Makes places for all numbers of a range.
    fn cover(&mut self, range: Option<(i64, i64)>) {
        let Some((low, high)) = range else { return };
        if self.places.is_empty() {
            self.first = low;
        } else if low < self.first {
            self.lengthen_below(low, high.abs_diff(low) as usize);
        }
        let places = self.places.len().max(high.abs_diff(self.first) as usize + 1);
        self.places.resize(places, 0);
    }

    /// Makes places down to a number and, where there is room, `more` of them: numbers that come in falling order would
    /// else have all places moved again and again.
    fn lengthen_below(&mut self, low: i64, more: usize) {
        let first = low.saturating_sub(more as i64);
        let mut places = vec![0; self.first.abs_diff(first) as usize];
        places.append(&mut self.places);
        (self.first, self.places) = (first, places);
    }

    fn groups(&mut self, numbers: &Int64Array, groups: &mut Vec<usize>) {
        groups.clear();
        groups.reserve(numbers.len());
        match numbers.null_count() {
            0 => groups.extend(numbers.values().iter().map(|number| self.group(*number))),
            _ => groups.extend(numbers.iter().map(|number| match number {
                Some(number) => self.group(number),
                None => self.null_group(),
            })),
        }
    }

    #[inline]
    fn group(&mut self, number: i64) -> usize {
        let place = &mut self.places[number.wrapping_sub(self.first) as usize];
        if *place == 0 {
            self.keys.push(number);
            *place = self.keys.len() as u32;
        }
        *place as usize - 1
    }

    fn null_group(&mut self) -> usize {
        *self.null.get_or_insert_with(|| {
            self.keys.push(0);
            self.keys.len() - 1
        })
    }

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

    /// The groups of some batches of keys and the keys of these groups, as a plain map finds them.
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

    fn check(kind: DataType, batches: &[Vec<Option<i64>>], by_place: bool) {
        let mut numbers = Numbers::new(kind.clone());
        let (groups, keys) = expected(batches);
        let mut found = vec![7; 3];
        for (batch, groups) in batches.iter().zip(groups) {
            let batch = cast(&Int64Array::from(batch.clone()), &kind).unwrap();
            numbers.groups(&batch, &mut found).unwrap();
            assert_eq!(found, groups);
        }
        assert_eq!(numbers.len(), keys.len());
        assert_eq!(matches!(numbers.found, Found::ByPlace(_)), by_place);
        let finished = cast(&numbers.finish().unwrap(), &DataType::Int64).unwrap();
        assert_eq!(finished.as_primitive::<Int64Type>(), &Int64Array::from(keys));
    }

    fn some(numbers: impl IntoIterator<Item = i64>) -> Vec<Option<i64>> {
        numbers.into_iter().map(Some).collect()
    }

    #[test]
    fn numbers_that_lie_near_each_other_are_found_by_place() {
        let batches = [some([5, 5, 7]), vec![], vec![None, Some(5), None], some([-3, 100, 7]), vec![None]];
        for kind in [DataType::Int8, DataType::Int16, DataType::Int64, DataType::Date32] {
            check(kind, &batches, true);
        }
        check(DataType::UInt32, &[some([9, 10]), some([9])], true);
        check(DataType::Int32, &[vec![None, None]], true);
        check(DataType::Int64, &[], true);
    }

    #[test]
    fn places_come_on_both_sides() {
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
        let to_the_limit = [some([100]), some([99]), some([99 + ALWAYS as i64 - 1])];
        check(DataType::Int64, &to_the_limit, true);
        check(DataType::Int64, &[to_the_limit.concat(), some([98])], false);
    }

    #[test]
    fn numbers_in_any_order_are_found_by_place_once_they_lie_near_each_other() {
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
    fn numbers_that_lie_far_apart_are_found_by_hash() {
        let far = [vec![Some(1), None, Some(4)], some([i64::MAX, 4]), vec![None, Some(i64::MIN), Some(1)]];
        check(DataType::Int64, &far, false);
        check(DataType::UInt32, &[some([u32::MAX.into(), 9]), some([9])], false);
        let more_places_with_more_rows: Vec<_> =
            (0..9).map(|at| some((0..70_000).map(|i| at * 70_000 + i))).collect();
        check(DataType::Int32, &more_places_with_more_rows, true);
    }
}
