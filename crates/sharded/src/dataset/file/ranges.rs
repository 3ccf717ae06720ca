//! Parquet files whose row groups lie in order of a column, cut into shards by ranges of its values.
//!
//! Invariant: every row is in one shard, that of its value. A row group that reaches into the ranges of several shards
//! is read by each of them, which keeps its own rows only.

use super::statistics::range;
use super::{Part, Unit};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use std::sync::Arc;
use whimbrel_plan::Ranges;
use whimbrel_plan::names::unknown_column;

/// The largest shard may have so many times the rows of an even one.
const UNEVEN: f64 = 1.25;

/// So many times the rows may be read because row groups reach into several ranges.
const READ_TWICE: f64 = 1.25;

/// Row groups, and the least and the largest value of a column in each.
#[derive(Debug, Clone)]
pub(super) struct Cut {
    pub ranges: Ranges,
    column: Column,
    data_type: DataType,
    groups: Arc<[(i64, i64)]>,
}

impl Cut {
    /// Fails if the files do not say between which values their rows are.
    pub fn try_new(units: &[Unit], schema: &SchemaRef, ranges: &Ranges) -> Result<Cut> {
        let name = ranges.column();
        let Some((at, field)) = schema.column_with_name(name) else {
            let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            return Err(unknown_column(name, &known));
        };
        let data_type = field.data_type().clone();
        if !matches!(data_type, DataType::Int32 | DataType::Int64) {
            return plan_err!("ranges are of a column of type int32 or int64; {name:?} is {data_type}");
        }
        let Some(groups) = units.iter().map(|unit| of_unit(unit, at)).collect() else {
            return plan_err!(
                "ranges of {name:?} need local Parquet files whose footers say between which values the column is, \
                 without nulls; read them without ranges"
            );
        };
        Ok(Cut { ranges: ranges.clone(), column: Column::new(name, at), data_type, groups })
    }

    /// Whether hardly any rows are read more than once.
    pub fn is_cheap(&self, rows: &[usize]) -> bool {
        let read =
            (0..self.ranges.shards()).flat_map(|shard| self.touched(shard)).map(|(unit, _)| rows[unit]);
        read.sum::<usize>() as f64 <= READ_TWICE * rows.iter().sum::<usize>() as f64
    }

    /// What a shard reads.
    pub fn parts(&self, shard: usize, units: &[Unit], rows: &[usize]) -> Vec<Part> {
        let part = |(unit, whole): (usize, bool)| Part {
            unit: units[unit].clone(),
            offset: 0,
            length: rows[unit],
            required: if whole { vec![] } else { self.terms(shard) },
        };
        self.touched(shard).map(part).collect()
    }

    /// The row groups that reach into the range of a shard, and whether they are within it.
    fn touched(&self, shard: usize) -> impl Iterator<Item = (usize, bool)> {
        let (from, to) = self.ranges.range(shard);
        let above = move |value: i64| from.is_none_or(|from| value >= from);
        let below = move |value: i64| to.is_none_or(|to| value < to);
        let groups = self.groups.iter().enumerate();
        groups.filter(move |(_, (min, max))| above(*max) && below(*min)).map(move |(unit, (min, max))| {
            let whole = above(*min) && below(*max);
            (unit, whole)
        })
    }

    /// What is true of the rows of a shard.
    fn terms(&self, shard: usize) -> Vec<Arc<dyn PhysicalExpr>> {
        let (from, to) = self.ranges.range(shard);
        let term = |operator, bound: i64| {
            let bound = match self.data_type {
                // A bound beyond its type is one that every value is on the same side of: so is the nearest value.
                DataType::Int32 => ScalarValue::from(bound.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
                _ => ScalarValue::from(bound),
            };
            let column = Arc::new(self.column.clone());
            Arc::new(BinaryExpr::new(column, operator, Arc::new(Literal::new(bound))))
                as Arc<dyn PhysicalExpr>
        };
        let from = from.map(|bound| term(Operator::GtEq, bound));
        from.into_iter().chain(to.map(|bound| term(Operator::Lt, bound))).collect()
    }
}

/// Bounds that cut rows evenly between row groups, if each of these begins where the one before ended, or after.
pub(super) fn bounds(units: &[Unit], rows: &[usize], column: usize, shards: usize) -> Option<Vec<i64>> {
    let groups: Vec<(i64, i64)> = units.iter().map(|unit| of_unit(unit, column)).collect::<Option<_>>()?;
    if !groups.is_sorted_by(|(_, end), (begin, _)| end <= begin) {
        return None;
    }
    let total: usize = rows.iter().sum();
    let (mut bounds, mut before, mut begun, mut largest) = (Vec::new(), rows.first().copied()?, 0, 0);
    for (pair, rows) in groups.windows(2).zip(&rows[1..]) {
        // Where the middle of a row group is beyond the end of a shard, the next one begins with it: with its first value,
        // unless all values of the row group before are the same.
        let end = total * (bounds.len() + 1) / shards;
        let (least_before, least) = (pair[0].0, pair[1].0);
        if bounds.len() + 1 < shards && before + rows / 2 >= end && least_before < least {
            bounds.push(least);
            largest = largest.max(before - begun);
            begun = before;
        }
        before += rows;
    }
    largest = largest.max(total - begun);
    let even = largest as f64 <= UNEVEN * total as f64 / shards as f64;
    (bounds.len() + 1 == shards && even).then_some(bounds)
}

/// Between which values a column of integers is in a row group of a local file.
fn of_unit(unit: &Unit, column: usize) -> Option<(i64, i64)> {
    let Unit::Parquet { file, row_group } = unit else { return None };
    let schema = file.metadata.parquet_schema();
    let leaf = (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == column)?;
    let chunk = file.metadata.metadata().row_group(*row_group).column(leaf);
    let whole = file.is_local() && chunk.statistics()?.null_count_opt() == Some(0);
    whole.then(|| range(chunk)).flatten()
}
