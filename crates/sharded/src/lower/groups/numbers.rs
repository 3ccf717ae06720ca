//! Whole numbers and the groups that they are the keys of, counted in the order in which they come.
//!
//! Invariants: `places` has the numbers from `first` on, in turn; a place has 1 + the number of its group, or 0. There are a
//! few places at most for each row that came: once the numbers lie too far apart, they are found by their hashes.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, max, min};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use std::sync::Arc;

/// How many places there may be for each row that came: as much memory as a table of hashes takes for each group.
const FOR_EACH_ROW: usize = 4;

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
    found: Found,
}

enum Found {
    ByPlace(Places),
    ByHash(Box<dyn GroupValues>),
}

impl Numbers {
    /// None yet; of a type that is served.
    pub fn new(kind: DataType) -> Numbers {
        Numbers { kind, found: Found::ByPlace(Places::default()) }
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
        if let Found::ByPlace(places) = &mut self.found {
            let numbers = cast(keys, &DataType::Int64)?;
            let numbers = numbers.as_primitive();
            if places.cover(numbers) {
                places.groups(numbers, groups);
                return Ok(());
            }
            let mut hashes = by_hash(&self.kind)?;
            hashes.intern(&[std::mem::take(places).finish(&self.kind)?], groups)?;
            self.found = Found::ByHash(hashes);
        }
        match &mut self.found {
            Found::ByHash(hashes) => hashes.intern(&[Arc::clone(keys)], groups),
            Found::ByPlace(_) => internal_err!("keys without a place are found by their hashes"),
        }
    }

    /// The keys of all groups.
    pub fn finish(self) -> Result<ArrayRef> {
        match self.found {
            Found::ByPlace(places) => places.finish(&self.kind),
            Found::ByHash(mut hashes) => match hashes.emit(EmitTo::All)?.pop() {
                Some(keys) => Ok(keys),
                None => internal_err!("groups by a key have lost it"),
            },
        }
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
    /// The least and the largest number that came.
    range: Option<(i64, i64)>,
    /// The key of each group; anything for the group of null.
    keys: Vec<i64>,
    null: Option<usize>,
    /// How many rows came.
    rows: usize,
}

impl Places {
    /// Makes places for all of these numbers; false if they would be too many.
    fn cover(&mut self, numbers: &Int64Array) -> bool {
        self.rows += numbers.len();
        let (Some(least), Some(largest)) = (min(numbers), max(numbers)) else { return true };
        let (low, high) = self.range.unwrap_or((least, largest));
        let (low, high) = (low.min(least), high.max(largest));
        let count = high.abs_diff(low) as usize;
        let most = (self.rows * FOR_EACH_ROW).max(ALWAYS);
        if count >= most || self.keys.len() + numbers.len() >= u32::MAX as usize {
            return false;
        }
        match self.range.replace((low, high)) {
            None => self.first = low,
            Some(_) if low < self.first => self.lengthen_below(low, count),
            Some(_) => {}
        }
        let places = self.places.len().max(high.abs_diff(self.first) as usize + 1);
        self.places.resize(places, 0);
        true
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
    fn numbers_that_lie_far_apart_are_found_by_hash() {
        let far = [vec![Some(1), None, Some(4)], some([i64::MAX, 4]), vec![None, Some(i64::MIN), Some(1)]];
        check(DataType::Int64, &far, false);
        check(DataType::UInt32, &[some([u32::MAX.into(), 9]), some([9])], false);
        let more_places_with_more_rows: Vec<_> =
            (0..9).map(|at| some((0..70_000).map(|i| at * 70_000 + i))).collect();
        check(DataType::Int32, &more_places_with_more_rows, true);
    }
}
