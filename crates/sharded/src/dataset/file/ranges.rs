//! Shards of Parquet files by ranges of a column that the row groups are sorted by.
//!
//! Invariant: every row is in one shard, that of its value. A row group that overlaps
//! the ranges of several shards is read by each of them, which keeps its own rows only.

use super::Unit;
use super::shard_reader::FilePart;
use super::statistics::range;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use std::sync::Arc;
use whimbrel_plan::Ranges;
use whimbrel_plan::names::unknown_column;

/// The largest shard may have this many times the rows of an even one.
const MAX_SKEW: f64 = 1.25;

/// This many times the rows may be read because row groups overlap several ranges.
const MAX_OVERLAP: f64 = 1.25;

/// Ranges of a column, and the minimum and maximum of the column in each row group.
#[derive(Debug, Clone)]
pub(super) struct RangeShards {
    pub ranges: Ranges,
    column: Column,
    data_type: DataType,
    bounds: Arc<[(i64, i64)]>,
}

impl RangeShards {
    /// Shards by these ranges.
    ///
    /// # Errors
    /// `Plan` if there is no such column of integers, or the footers have no minimum and maximum of it.
    pub fn try_new(units: &[Unit], schema: &SchemaRef, ranges: &Ranges) -> Result<RangeShards> {
        let name = ranges.column();
        let Some((at, field)) = schema.column_with_name(name) else {
            let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            return Err(unknown_column(name, &columns));
        };
        let data_type = field.data_type().clone();
        if !matches!(data_type, DataType::Int32 | DataType::Int64) {
            return plan_err!("ranges are of a column of type int32 or int64; {name:?} is {data_type}");
        }
        let Some(bounds) = units.iter().map(|unit| of_unit(unit, at)).collect() else {
            return plan_err!(
                "ranges of {name:?} need local Parquet files whose footers say between which values the \
                 column is, without nulls; read them without ranges"
            );
        };
        Ok(RangeShards { ranges: ranges.clone(), column: Column::new(name, at), data_type, bounds })
    }

    /// Whether few rows are read more than once.
    pub fn is_cheap(&self, rows: &[usize]) -> bool {
        let read =
            (0..self.ranges.shards()).flat_map(|shard| self.overlapping(shard)).map(|(unit, _)| rows[unit]);
        read.sum::<usize>() as f64 <= MAX_OVERLAP * rows.iter().sum::<usize>() as f64
    }

    /// The row groups that a shard reads.
    pub fn parts(&self, shard: usize, units: &[Unit], rows: &[usize]) -> Vec<FilePart> {
        let part = |(unit, is_within): (usize, bool)| FilePart {
            unit: units[unit].clone(),
            offset: 0,
            length: rows[unit],
            required: if is_within { vec![] } else { self.conditions(shard) },
        };
        self.overlapping(shard).map(part).collect()
    }

    /// The row groups that overlap the range of a shard, and whether they are within it.
    fn overlapping(&self, shard: usize) -> impl Iterator<Item = (usize, bool)> {
        let (from, to) = self.ranges.range(shard);
        let above = move |value: i64| from.is_none_or(|from| value >= from);
        let below = move |value: i64| to.is_none_or(|to| value < to);
        let row_groups = self.bounds.iter().enumerate();
        row_groups.filter(move |(_, (min, max))| above(*max) && below(*min)).map(move |(unit, (min, max))| {
            let is_within = above(*min) && below(*max);
            (unit, is_within)
        })
    }

    /// The conditions on the column that hold for the rows of a shard.
    fn conditions(&self, shard: usize) -> Vec<Arc<dyn PhysicalExpr>> {
        let (from, to) = self.ranges.range(shard);
        let condition = |operator, bound: i64| {
            let bound = match self.data_type {
                // A bound beyond its type has all values on one side, and so has the nearest value.
                DataType::Int32 => ScalarValue::from(bound.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
                _ => ScalarValue::from(bound),
            };
            let column = Arc::new(self.column.clone());
            Arc::new(BinaryExpr::new(column, operator, Arc::new(Literal::new(bound))))
                as Arc<dyn PhysicalExpr>
        };
        let from = from.map(|bound| condition(Operator::GtEq, bound));
        from.into_iter().chain(to.map(|bound| condition(Operator::Lt, bound))).collect()
    }
}

/// Bounds that cut the rows evenly between row groups, if no row group begins before the one before it ends.
pub(super) fn bounds(units: &[Unit], rows: &[usize], column: usize, shards: usize) -> Option<Vec<i64>> {
    let groups: Vec<(i64, i64)> = units.iter().map(|unit| of_unit(unit, column)).collect::<Option<_>>()?;
    if !groups.is_sorted_by(|(_, end), (begin, _)| end <= begin) {
        return None;
    }
    let total: usize = rows.iter().sum();
    let (mut bounds, mut before, mut shard_start, mut largest) = (Vec::new(), rows.first().copied()?, 0, 0);
    for (pair, rows) in groups.windows(2).zip(&rows[1..]) {
        // A shard begins with the first row group whose middle is beyond the even end of the shard before;
        // unless all values of the row group before it are the same as its first.
        let end = total * (bounds.len() + 1) / shards;
        let (least_before, least) = (pair[0].0, pair[1].0);
        if bounds.len() + 1 < shards && before + rows / 2 >= end && least_before < least {
            bounds.push(least);
            largest = largest.max(before - shard_start);
            shard_start = before;
        }
        before += rows;
    }
    largest = largest.max(total - shard_start);
    let even = largest as f64 <= MAX_SKEW * total as f64 / shards as f64;
    (bounds.len() + 1 == shards && even).then_some(bounds)
}

/// The minimum and maximum of a column of integers in a row group of a local file; none if it has nulls.
fn of_unit(unit: &Unit, column: usize) -> Option<(i64, i64)> {
    let Unit::Parquet { file, row_group } = unit else { return None };
    let schema = file.metadata.parquet_schema();
    let leaf = (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == column)?;
    let chunk = file.metadata.metadata().row_group(*row_group).column(leaf);
    let is_exact = file.is_local() && chunk.statistics()?.null_count_opt() == Some(0);
    is_exact.then(|| range(chunk)).flatten()
}
