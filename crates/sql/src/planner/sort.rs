//! Sorts in shards: of all rows in one, or of a range of rows in each.
//!
//! Ranges are those of the first column of the order, if it comes from a table whose source has a sample.
//! Rows of equal values are in one range, so each shard sorts its own, and the shards follow each other.

use super::Planner;
use super::placement::{Partitioning, Placed, Scheme};
use super::range_partitions::scan_of_column;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::compute::{SortOptions, filter, partition, sort as sort_values};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{LogicalPlan, Sort, SortExpr};
use std::fmt;
use whimbrel_plan::estimate::{ColumnEstimate, number};
use whimbrel_plan::nodes::{Movement, Scope};
use whimbrel_plan::{canonical_values, source_of};

/// How rows are sorted that are in several shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// All rows move to one shard, which sorts them.
    OneShard,
    /// Rows move to the shards of their ranges, are sorted there, and are read shard after shard.
    Ranges,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 2] = [Strategy::OneShard, Strategy::Ranges];
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strategy::OneShard => "bring to one shard, sort",
            Strategy::Ranges => "move to ranges, sort, read in order",
        })
    }
}

/// Ranges of a value.
struct ValueRanges {
    /// Where each range but the first begins.
    bounds: Vec<ScalarValue>,
    /// Which part of the rows the largest range has.
    largest: f64,
}

impl Planner<'_> {
    /// A sort, by the cheapest strategy; with a limit, each shard first finds its own first rows.
    ///
    /// # Errors
    /// Those of placing the input.
    pub(super) fn sort(&self, plan: &LogicalPlan, sort: &Sort) -> Result<Placed> {
        let mut input = self.place(&sort.input)?;
        let is_in_shards = input.partitioning != Partitioning::Single;
        if sort.fetch.is_some() && is_in_shards {
            let partitioning = input.partitioning.clone();
            input = self.over(plan, vec![input], partitioning)?;
        }
        let one_shard = self.sorted_in_one_shard(plan, input.clone())?;
        let required = self.policy.sorts;
        if sort.fetch.is_some() || !is_in_shards || required == Some(Strategy::OneShard) {
            return Ok(one_shard);
        }
        let is_better = |ranges: &Placed| required.is_some() || ranges.cost < one_shard.cost;
        Ok(self.sorted_in_ranges(plan, sort, input)?.filter(is_better).unwrap_or(one_shard))
    }

    /// All rows move to one shard.
    fn sorted_in_one_shard(&self, plan: &LogicalPlan, input: Placed) -> Result<Placed> {
        let mut placed = self.over(plan, vec![self.gathered_and_asserted(input)?], Partitioning::Single)?;
        placed.cost += self.costs.sort(&placed.estimate, 1.0);
        Ok(placed)
    }

    /// Each shard sorts a range of the rows, if ranges are known.
    fn sorted_in_ranges(&self, plan: &LogicalPlan, sort: &Sort, input: Placed) -> Result<Option<Placed>> {
        let Some(by) = sort.expr.first() else { return Ok(None) };
        let (input, largest) = match is_in_ranges_of(&input.partitioning, by) {
            true => (input, 1.0 / self.shards as f64),
            false => {
                let Some(ValueRanges { bounds, largest }) = self.ranges_of(by, sort, &input) else {
                    return Ok(None);
                };
                let movement = Movement::Ranges { by: by.clone(), bounds };
                let unknown = Partitioning::unknown();
                (self.moved(input, movement, Scope::Global, self.shards, unknown)?, largest)
            }
        };
        let mut placed = self.over(plan, vec![input], Partitioning::unknown())?;
        placed.cost += self.costs.sort(&placed.estimate, largest);
        self.moved(placed, Movement::InOrder, Scope::Global, 1, Partitioning::Single).map(Some)
    }

    /// Ranges of a value in which about as many rows are each. None if the value has no sample, or is of a
    /// type whose values cannot be compared one by one.
    fn ranges_of(&self, by: &SortExpr, sort: &Sort, input: &Placed) -> Option<ValueRanges> {
        let column = by.expr.try_as_col()?;
        let (scan, name) = scan_of_column(&sort.input, column)?;
        let schema = scan.source.schema();
        let (place, field) = schema.column_with_name(name)?;
        let kind = field.data_type();
        if kind.is_nested() || !RowConverter::supports_fields(&[SortField::new(kind.clone())]) {
            return None;
        }
        let known = sort.input.schema().maybe_index_of_column(column);
        let known = known.and_then(|at| input.estimate.columns.get(at));
        let sample = within(source_of(scan)?.sample(place)?, known).ok()?;
        let options = SortOptions { descending: !by.asc, nulls_first: by.nulls_first };
        let sample = sort_values(&canonical_values(&sample), Some(options)).ok()?;
        even_ranges(&sample, self.shards).ok()?
    }
}

/// Whether shards have ranges of a value already, in its order.
fn is_in_ranges_of(partitioning: &Partitioning, by: &SortExpr) -> bool {
    let Some(column) = by.expr.try_as_col().filter(|_| by.asc) else { return false };
    partitioning.keys().iter().any(|key| {
        matches!(key.scheme, Scheme::Ranges(_)) && key.columns.as_slice() == std::slice::from_ref(column)
    })
}

/// The values of a sample that are in the range of a column: those that no filter leaves out.
fn within(sample: ArrayRef, column: Option<&ColumnEstimate>) -> Result<ArrayRef> {
    let Some((least, largest)) = column.and_then(|column| column.range) else { return Ok(sample) };
    let is_within = |row| {
        let value = number(&ScalarValue::try_from_array(&sample, row)?);
        Ok(value.is_none_or(|value| least <= value && value <= largest))
    };
    let kept: Vec<bool> = (0..sample.len()).map(is_within).collect::<Result<_>>()?;
    Ok(filter(&sample, &BooleanArray::from(kept))?)
}

/// So many ranges of about as many of these values, which are in order; fewer, if there are few different
/// ones. None if all would be in one.
fn even_ranges(values: &ArrayRef, shards: usize) -> Result<Option<ValueRanges>> {
    let rows = values.len() as f64;
    let (mut bounds, mut begin, mut largest) = (Vec::new(), 0, 0);
    for equal in partition(std::slice::from_ref(values))?.ranges() {
        // A range may begin at the value whose rows are nearest to its place.
        let place = rows * (bounds.len() + 1) as f64 / shards as f64;
        let is_nearest = place - equal.start as f64 <= equal.end as f64 - place;
        if equal.start > 0 && bounds.len() + 1 < shards && is_nearest && !values.is_null(equal.start) {
            bounds.push(ScalarValue::try_from_array(values, equal.start)?);
            largest = largest.max(equal.start - begin);
            begin = equal.start;
        }
    }
    let largest = largest.max(values.len() - begin) as f64 / rows;
    Ok((!bounds.is_empty()).then_some(ValueRanges { bounds, largest }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, StringArray};
    use std::sync::Arc;

    /// The bounds and the largest share of ranges.
    fn ranges(values: ArrayRef, shards: usize) -> Option<(Vec<String>, f64)> {
        let ranges = even_ranges(&values, shards).unwrap()?;
        Some((ranges.bounds.iter().map(ScalarValue::to_string).collect(), ranges.largest))
    }

    #[test]
    fn ranges_have_about_as_many_values() {
        let numbers = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let bounds = |bounds: &[&str]| bounds.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(ranges(numbers((0..100).collect()), 4), Some((bounds(&["25", "50", "75"]), 0.25)));
        assert_eq!(ranges(numbers((0..4).rev().collect()), 2), Some((bounds(&["1"]), 0.5)));
        assert_eq!(ranges(numbers(vec![7; 100]), 4), None);
        assert_eq!(ranges(numbers(vec![]), 4), None);
        assert_eq!(ranges(numbers((0..3).collect()), 8).unwrap().0, bounds(&["1", "2"]));

        let flags = ["A"; 25].into_iter().chain(["N"; 50]).chain(["R"; 25]);
        let flags: ArrayRef = Arc::new(StringArray::from_iter_values(flags));
        assert_eq!(ranges(Arc::clone(&flags), 3), Some((bounds(&["N", "R"]), 0.5)));
        assert_eq!(ranges(flags, 2).unwrap().1, 0.75);
    }

    #[test]
    fn nulls_begin_no_range() {
        let last: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), None]));
        assert_eq!(ranges(last, 2), Some((vec!["3".to_string()], 0.5)));
        let all: ArrayRef = Arc::new(Int64Array::from(vec![None; 4]));
        assert_eq!(ranges(all, 2), None);
    }

    #[test]
    fn values_that_a_filter_leaves_out_make_no_ranges() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(5), None, Some(9)]));
        let known =
            |range| ColumnEstimate { distinct: 4.0, width: 8.0, range, nulls: 0.0, is_partition_key: false };
        assert_eq!(within(Arc::clone(&values), Some(&known(Some((5.0, 9.0))))).unwrap().len(), 3);
        assert_eq!(within(Arc::clone(&values), Some(&known(None))).unwrap().len(), 4);
        assert_eq!(within(values, None).unwrap().len(), 4);
    }
}
