//! A table as if it had more rows than it has, to see what a query would take: planners see it so, and
//! nothing can read it.
//!
//! A table that grows keeps its columns' types and widths. What its values do is guessed by what they are:
//!
//! - A column of integers with many values is a key, and has as many times more of them, over a longer range.
//! - A column in which nearly every row has a value of its own stays so.
//! - All others (names, dates, codes, amounts) have the values that they have.

use super::{Dataset, Shard, dataset};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{
    ColumnStatistics, DataFusionError, Result, ScalarValue, Statistics, plan_datafusion_err, plan_err,
};
use std::sync::Arc;
use whimbrel_plan::estimate::number;
use whimbrel_plan::{Source, SourceInfo};

/// A column of integers with more values than this is taken for a key.
const MAX_CODES: f64 = 1000.0;

/// A dataset as if it had so many times its rows.
///
/// ```
/// use std::sync::Arc;
/// use whimbrel_plan::{Series, Source, Stream};
/// use whimbrel_sharded::dataset::ScaledDataset;
/// use whimbrel_sharded::{Options, action};
///
/// let series: Arc<dyn Source> = Arc::new(Series::new("n", 0, 4999, 1, true)?);
/// let scaled = ScaledDataset::try_new(series, 1000.0)?;
/// assert_eq!(scaled.statistics().num_rows.get_value(), Some(&5_000_000));
/// let query = Stream::scan("numbers", Arc::new(scaled))?;
/// assert!(action::collect(&query, &Options::default()).is_err(), "nothing can read it");
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ScaledDataset {
    source: Arc<dyn Source>,
    factor: f64,
}

impl ScaledDataset {
    /// The dataset with so many times its rows.
    ///
    /// # Errors
    /// `Plan` if the factor is no number above zero, or the source is no dataset that ends.
    pub fn try_new(source: Arc<dyn Source>, factor: f64) -> Result<ScaledDataset> {
        if !(factor.is_finite() && factor > 0.0) {
            return plan_err!("scale is a number above zero, not {factor}");
        }
        dataset(source.as_ref())?;
        match source.info().bounded {
            true => Ok(ScaledDataset { source, factor }),
            false => plan_err!("{} does not end, so it has no size to be scaled", source.describe()),
        }
    }

    /// The error of whoever wants to read it.
    pub(super) fn unreadable(&self) -> DataFusionError {
        let table = self.source.describe();
        let factor = self.factor;
        plan_datafusion_err!(
            "{table} is planned as if it had {factor} times its rows, for explain; leave out scale= to run the query"
        )
    }

    fn scaled(&self, count: usize) -> usize {
        // A float beyond the largest number becomes the largest number.
        (count as f64 * self.factor).round() as usize
    }

    fn scaled_count(&self, count: &Precision<usize>) -> Precision<usize> {
        count.get_value().map_or(Precision::Absent, |count| Precision::Inexact(self.scaled(*count)))
    }

    /// What is expected of a column of a table that had so many rows.
    fn column(
        &self,
        column: &ColumnStatistics,
        data_type: &DataType,
        rows: Option<usize>,
    ) -> ColumnStatistics {
        let range = known_number(&column.min_value).zip(known_number(&column.max_value));
        let values = range.filter(|_| data_type.is_integer()).map(|(min, max)| max - min + 1.0);
        let distinct = column.distinct_count.get_value().copied();
        let counted = distinct.map_or(values, |distinct| Some(distinct as f64));
        let is_key = data_type.is_integer() && counted.is_some_and(|count| count > MAX_CODES);
        let is_unique = distinct.zip(rows).is_some_and(|(distinct, rows)| distinct * 2 > rows);
        let (mut distinct_count, mut max_value) = (column.distinct_count, column.max_value.clone());
        if is_key || is_unique {
            distinct_count = self.scaled_count(&distinct_count);
        }
        if let Some(((min, _), values)) = range.zip(values).filter(|_| is_key) {
            max_value = integer(min + values * self.factor - 1.0, data_type);
        }
        ColumnStatistics {
            null_count: self.scaled_count(&column.null_count),
            byte_size: self.scaled_count(&column.byte_size),
            distinct_count,
            max_value,
            min_value: column.min_value.clone(),
            ..ColumnStatistics::new_unknown()
        }
    }

    fn dataset(&self) -> Result<&dyn Dataset> {
        dataset(self.source.as_ref())
    }
}

/// A bound as a number, if it is known and is one.
fn known_number(bound: &Precision<ScalarValue>) -> Option<f64> {
    bound.get_value().and_then(number)
}

/// An integer of this type; none if it is too large for it.
fn integer(value: f64, data_type: &DataType) -> Precision<ScalarValue> {
    let value = ScalarValue::from(value as i64).cast_to(data_type);
    value.map_or(Precision::Absent, Precision::Inexact)
}

impl Source for ScaledDataset {
    fn info(&self) -> SourceInfo {
        self.source.info()
    }

    fn describe(&self) -> String {
        format!("{} as if {} times as large", self.source.describe(), self.factor)
    }

    fn statistics(&self) -> Arc<Statistics> {
        let (known, schema) = (self.source.statistics(), self.source.info().schema);
        let rows = known.num_rows.get_value().copied();
        let columns = known.column_statistics.iter().zip(schema.fields());
        Arc::new(Statistics {
            num_rows: self.scaled_count(&known.num_rows),
            total_byte_size: self.scaled_count(&known.total_byte_size),
            column_statistics: columns.map(|(c, field)| self.column(c, field.data_type(), rows)).collect(),
        })
    }

    fn with_shards(&self, shards: usize) -> Option<Arc<dyn Source>> {
        let source = self.source.with_shards(shards)?;
        Some(Arc::new(ScaledDataset { source, factor: self.factor }))
    }
}

impl Dataset for ScaledDataset {
    fn rows(&self) -> Option<u64> {
        let rows = self.dataset().ok()?.rows()?;
        Some((rows as f64 * self.factor).round() as u64)
    }

    fn open(&self, _: usize, _: Option<&[usize]>, _: usize) -> Result<Shard> {
        Err(self.unreadable())
    }

    fn objects(&self) -> usize {
        self.dataset().map_or(0, |dataset| self.scaled(dataset.objects()))
    }

    fn requests(&self, columns: Option<&[usize]>) -> usize {
        self.dataset().map_or(0, |dataset| self.scaled(dataset.requests(columns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whimbrel_plan::Series;

    /// The numbers from 0 to 3999.
    fn numbers() -> Result<Arc<dyn Source>> {
        Ok(Arc::new(Series::new("n", 0, 3999, 1, true)?))
    }

    /// Values from `min` to `max`, of which so many are different if that is known.
    fn column(min: ScalarValue, max: ScalarValue, distinct: Option<usize>) -> ColumnStatistics {
        ColumnStatistics {
            min_value: Precision::Exact(min),
            max_value: Precision::Exact(max),
            distinct_count: distinct.map_or(Precision::Absent, Precision::Inexact),
            null_count: Precision::Exact(10),
            ..ColumnStatistics::new_unknown()
        }
    }

    #[test]
    fn keys_grow_and_codes_stay() {
        let scaled = ScaledDataset::try_new(numbers().unwrap(), 1000.0).unwrap();
        assert_eq!(scaled.statistics().num_rows.get_value(), Some(&4_000_000));
        let grown = |column, data_type| {
            let column = scaled.column(&column, &data_type, Some(4000));
            assert_eq!(column.null_count.get_value(), Some(&10_000));
            (column.max_value.get_value().cloned(), column.distinct_count.get_value().copied())
        };
        let number = |value: i64| ScalarValue::from(value);
        // A key with each value twice, one with gaps, a code, days, and texts that are all different.
        let of = |most, distinct| grown(column(number(1), number(most), distinct), DataType::Int64);
        assert_eq!(of(2000, None), (Some(number(2_000_000)), None));
        assert_eq!(of(16_000, Some(2000)), (Some(number(16_000_000)), Some(2_000_000)));
        assert_eq!(of(7, Some(7)), (Some(number(7)), Some(7)));
        let day = |days| ScalarValue::Date32(Some(days));
        assert_eq!(grown(column(day(0), day(2500), None), DataType::Date32), (Some(day(2500)), None));
        let text = |text: &str| ScalarValue::from(text);
        let texts = grown(column(text("a"), text("z"), Some(3990)), DataType::Utf8);
        assert_eq!(texts, (Some(text("z")), Some(3_990_000)));
    }

    #[test]
    fn it_is_cut_as_what_is_scaled() {
        let scaled = ScaledDataset::try_new(numbers().unwrap(), 1000.0).unwrap();
        let cut = scaled.with_shards(8).unwrap();
        assert_eq!((cut.info().shards, cut.statistics()), (8, scaled.statistics()));
    }

    #[test]
    fn nothing_reads_it_and_what_has_no_size_is_refused() {
        let scaled = ScaledDataset::try_new(numbers().unwrap(), 10.0).unwrap();
        for error in [scaled.open(0, None, 10).err(), super::super::freeze(&scaled).err()] {
            assert!(error.unwrap().to_string().contains("leave out scale= to run the query"));
        }
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(ScaledDataset::try_new(numbers().unwrap(), wrong).is_err());
        }
    }

    #[test]
    fn integers_end_where_their_type_ends() {
        let scaled = ScaledDataset::try_new(numbers().unwrap(), 1e9).unwrap();
        let most = column(ScalarValue::from(0_i32), ScalarValue::from(2000_i32), None);
        assert_eq!(scaled.column(&most, &DataType::Int32, Some(4000)).max_value, Precision::Absent);
    }
}
