//! Numbers at equal distances as a source: nothing is kept of them but the first, the step and how many there
//! are.

use crate::source::{SAMPLE_VALUES, Source, SourceInfo};
use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics, plan_err};
use std::ops::Range;
use std::sync::Arc;

/// Whole numbers from a first one on, in one column.
///
/// ```
/// use whimbrel_plan::Series;
///
/// # fn main() -> datafusion::common::Result<()> {
/// let series = Series::new("n", 0, 10, 5, true)?;
/// assert_eq!((series.count(), series.number(2)), (3, 10));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    schema: SchemaRef,
    first: i64,
    step: i64,
    count: u64,
    shards: usize,
}

impl Series {
    /// The numbers `first`, `first + step`, and so on, up to `last`; with `last` itself, if they meet it and
    /// it belongs to them.
    ///
    /// # Errors
    /// `Plan` if the step is 0.
    pub fn new(column: &str, first: i64, last: i64, step: i64, with_last: bool) -> Result<Series> {
        if step == 0 {
            return plan_err!("{column}: the step is 0; give another number");
        }
        let distance = match step > 0 {
            true => i128::from(last) - i128::from(first),
            false => i128::from(first) - i128::from(last),
        };
        let steps = distance.div_euclid(i128::from(step.unsigned_abs()));
        let meets = distance.rem_euclid(i128::from(step.unsigned_abs())) == 0;
        let count = if meets && !with_last { steps } else { steps + 1 };
        // There are fewer numbers than u64 has, and one more if they are all of i64.
        let count = u64::try_from(count.max(0)).unwrap_or(u64::MAX);
        let schema = Arc::new(Schema::new(vec![Field::new(column, DataType::Int64, false)]));
        Ok(Series { schema, first, step, count, shards: 1 })
    }

    /// So many numbers from a first one on, in a column.
    ///
    /// # Errors
    /// `Plan` if the last is no number of 64 bits, or the step is 0.
    pub fn counted(column: &str, first: i64, step: i64, count: u64) -> Result<Series> {
        let last = i128::from(first) + i128::from(step) * i128::from(count.saturating_sub(1));
        match i64::try_from(last) {
            Ok(last) if count > 0 => Series::new(column, first, last, step, true),
            Ok(_) => Series::new(column, first, first, step, false),
            Err(_) => plan_err!("{column}: the last of {count} numbers is {last}, which is beyond 64 bits"),
        }
    }

    /// The name of the column.
    pub fn column(&self) -> &str {
        self.schema.field(0).name()
    }

    /// The first number.
    pub fn first(&self) -> i64 {
        self.first
    }

    /// From one number to the next.
    pub fn step(&self) -> i64 {
        self.step
    }

    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The places of the numbers of a shard, counted from 0.
    pub fn places(&self, shard: usize) -> Range<u64> {
        let cut = |shard: usize| (u128::from(self.count) * shard as u128 / self.shards.max(1) as u128) as u64;
        cut(shard)..cut(shard + 1)
    }

    /// The number at a place.
    pub fn number(&self, place: u64) -> i64 {
        // Every number of the series is one of i64, however far it is from the first.
        (i128::from(self.first) + i128::from(self.step) * i128::from(place)) as i64
    }
}

impl Source for Series {
    fn info(&self) -> SourceInfo {
        SourceInfo { schema: self.schema.clone(), bounded: true, shards: self.shards, groups: 1 }
    }

    fn describe(&self) -> String {
        let rows = if self.count == 1 { "number" } else { "numbers" };
        format!("{} {rows} from {} on, in steps of {}", self.count, self.first, self.step)
    }

    fn statistics(&self) -> Arc<Statistics> {
        let ends = (self.count > 0).then(|| [self.number(0), self.number(self.count - 1)]);
        let end = |pick: fn(i64, i64) -> i64| match ends {
            Some([first, last]) => Precision::Exact(ScalarValue::from(pick(first, last))),
            None => Precision::Absent,
        };
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        let column = ColumnStatistics::new_unknown()
            .with_null_count(Precision::Exact(0))
            .with_min_value(end(i64::min))
            .with_max_value(end(i64::max))
            .with_distinct_count(Precision::Exact(count));
        let size = Precision::Exact(count.saturating_mul(8));
        let statistics = Statistics {
            num_rows: Precision::Exact(count),
            total_byte_size: size,
            column_statistics: vec![],
        };
        Arc::new(statistics.add_column_statistics(column))
    }

    /// Numbers at equal distances.
    fn sample(&self, _column: usize) -> Option<ArrayRef> {
        let numbers = self.count.min(SAMPLE_VALUES as u64);
        // Below the count, and so 64 bits.
        let place = |i: u64| (u128::from(i) * u128::from(self.count) / u128::from(numbers)) as u64;
        let values = (0..numbers).map(|i| self.number(place(i)));
        Some(Arc::new(Int64Array::from_iter_values(values)))
    }

    fn with_shards(&self, shards: usize) -> Option<Arc<dyn Source>> {
        (shards > 0).then(|| Arc::new(Series { shards, ..self.clone() }) as Arc<dyn Source>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    fn numbers(first: i64, last: i64, step: i64, with_last: bool) -> Vec<i64> {
        let series = Series { shards: 3, ..Series::new("n", first, last, step, with_last).unwrap() };
        (0..3).flat_map(|shard| series.places(shard)).map(|place| series.number(place)).collect()
    }

    #[test]
    fn a_sample_is_spread_over_all_numbers() {
        let series = Series::new("n", i64::MIN, i64::MAX, 1 << 40, true).unwrap();
        let sample = series.sample(0).unwrap();
        let values = sample.as_primitive::<Int64Type>().values();
        assert_eq!((values.len(), values[0], values[2048]), (4096, i64::MIN, 0));
        assert_eq!(Series::new("n", 0, 0, 1, false).unwrap().sample(0).unwrap().len(), 0);
    }

    #[test]
    fn numbers_are_those_between_the_ends() {
        assert_eq!(numbers(0, 5, 1, false), [0, 1, 2, 3, 4]);
        assert_eq!(numbers(0, 5, 1, true), [0, 1, 2, 3, 4, 5]);
        assert_eq!(numbers(0, 5, 2, false), [0, 2, 4]);
        assert_eq!(numbers(0, 4, 2, false), [0, 2]);
        assert_eq!(numbers(5, 0, -2, true), [5, 3, 1]);
        assert_eq!(numbers(5, 1, -2, false), [5, 3]);
        assert!(numbers(1, 0, 1, true).is_empty() && numbers(0, 0, 1, false).is_empty());
        let all = Series::new("n", i64::MIN, i64::MAX, 1, true).unwrap();
        assert_eq!(all.number(u64::MAX), i64::MAX);
        assert!(Series::new("n", 0, 1, 0, true).is_err());
    }
}
