//! What rows of empty cells are made of.
//!
//! Invariant: a row of a cell is the previous row of its key, with other values in the columns that are not
//! carried forward; where there is nothing to draw a line to, a column on a line is null.

use crate::batch::{Batch, Other};
use crate::key::encode_rows;
use crate::synopsis::{EntryId, RowRef, Synopsis};
use crate::time::{BEGINNING, Time};
use crate::values::{Form, Value};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use std::sync::Arc;

/// What a column has in the row of an empty cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Fill {
    /// This value, brought to the column's type: a zero where nothing was counted, or a null.
    Constant(ScalarValue),
    /// The value of the key's previous row: the last observation carried forward.
    Previous,
    /// The value at the cell's begin on the line from the previous row to the next one, each at its start; a
    /// whole number is rounded, halves away from zero. Null if one of the two is null, if the previous row
    /// was always there, or if the key is forgotten before a next row comes. For numbers only.
    Linear,
}

/// A cell of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilledCell {
    cell: Time,
    previous: RowRef,
    line: Option<(RowRef, f64)>,
}

impl FilledCell {
    /// The cell that begins at `cell`, after this row.
    pub fn new(cell: Time, previous: RowRef) -> FilledCell {
        FilledCell { cell, previous, line: None }
    }

    /// The same, on the line between rows that start at `from` and at `to`, of which the second is `next`.
    pub fn on_line(self, from: Time, to: Time, next: RowRef) -> FilledCell {
        let distance = |time: Time| (i128::from(time) - i128::from(from)) as f64;
        let line = (from > BEGINNING).then(|| (next, distance(self.cell) / distance(to)));
        FilledCell { line, ..self }
    }
}

/// Whether the first of two rows started later, or, if they started together, is the last in the order of all
/// columns.
pub(super) fn greater(rows: &Synopsis, one: EntryId, other: EntryId) -> Result<bool> {
    let (one, other) = (rows.get(one), rows.get(other));
    if one.start != other.start {
        return Ok(one.start > other.start);
    }
    let rows = rows.gather([one.row, other.row].into_iter())?;
    if rows.num_columns() == 0 {
        return Ok(false);
    }
    let bytes = encode_rows(rows.columns())?;
    Ok(bytes.value(0) > bytes.value(1))
}

/// What each column has.
#[derive(Debug)]
enum Rule {
    Previous,
    /// One value.
    Constant(ArrayRef),
    Linear,
}

/// Makes rows of empty cells.
#[derive(Debug)]
pub(super) struct Filling {
    schema: SchemaRef,
    /// One for each column; those of the key are carried forward.
    rules: Vec<Rule>,
}

impl Filling {
    /// `fills` are for the columns that are not in the key, in their order.
    ///
    /// # Errors
    /// `Plan` if there is not one for each, or if one does not fit its column.
    pub fn new(schema: SchemaRef, key: &[usize], fills: Vec<Fill>) -> Result<Filling> {
        let columns = schema.fields().len();
        let others = (0..columns).filter(|column| !key.contains(column)).count();
        if others != fills.len() {
            return plan_err!("fill_gaps: {} fills for {others} columns beside the key", fills.len());
        }
        let mut fills = fills.into_iter();
        let rule = |(column, field): (usize, &Arc<Field>)| {
            let fill = if key.contains(&column) { None } else { fills.next() };
            Rule::new(field, fill.unwrap_or(Fill::Previous))
        };
        let rules = schema.fields().iter().enumerate().map(rule).collect::<Result<_>>()?;
        Ok(Filling { schema, rules })
    }

    /// Whether a row can be made only when the next row of its key is known.
    pub fn is_linear(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule::Linear))
    }

    /// The rows of these cells, each `period` ticks long, in order of time; none: there are no cells.
    pub fn rows(&self, mut cells: Vec<FilledCell>, period: i64, rows: &Synopsis) -> Result<Option<Batch>> {
        if cells.is_empty() {
            return Ok(None);
        }
        cells.sort_by_key(|filled| filled.cell);
        let previous = rows.gather(cells.iter().map(|filled| filled.previous))?;
        let next = |filled: &FilledCell| filled.line.map_or(filled.previous, |(next, _)| next);
        let next = match self.is_linear() {
            true => rows.gather(cells.iter().map(next))?,
            false => previous.clone(),
        };
        let at: Vec<Option<f64>> = cells.iter().map(|filled| filled.line.map(|(_, at)| at)).collect();
        let column = |(column, rule): (usize, &Rule)| match rule {
            Rule::Previous => Ok(previous.column(column).clone()),
            Rule::Constant(value) => repeated(value, cells.len()),
            Rule::Linear => on_line(previous.column(column), next.column(column), &at),
        };
        let columns = self.rules.iter().enumerate().map(column).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(cells.len()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let sync: Vec<Time> = cells.iter().map(|filled| filled.cell).collect();
        Ok(Some(Batch::new(sync.into(), Other::After(period), rows)))
    }
}

impl Rule {
    fn new(field: &Field, fill: Fill) -> Result<Rule> {
        let (name, data_type) = (field.name(), field.data_type());
        let nulls = match &fill {
            Fill::Previous => return Ok(Rule::Previous),
            Fill::Constant(value) => value.is_null(),
            Fill::Linear => true,
        };
        if nulls && !field.is_nullable() {
            return plan_err!("fill_gaps: {name} has no nulls, but {fill:?} may give some");
        }
        match fill {
            Fill::Constant(value) => match value.cast_to(data_type) {
                Ok(value) => Ok(Rule::Constant(value.to_array()?)),
                Err(_) => plan_err!("fill_gaps: {value} is no value of {name}, which is {data_type}"),
            },
            _ if data_type.is_numeric() && Form::of(data_type) != Form::Bytes => Ok(Rule::Linear),
            _ => plan_err!("fill_gaps: a line goes through numbers; {name} is {data_type}"),
        }
    }
}

/// A column of one value.
fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    Ok(arrow::compute::take(value, &UInt32Array::from(vec![0; rows]), None)?)
}

/// The values so far on the way from those of one column to those of another.
fn on_line(from: &ArrayRef, to: &ArrayRef, at: &[Option<f64>]) -> Result<ArrayRef> {
    let data_type = from.data_type();
    let on_line: NullBuffer = at.iter().map(Option::is_some).collect::<Vec<bool>>().into();
    let nulls = NullBuffer::union(NullBuffer::union(from.nulls(), to.nulls()).as_ref(), Some(&on_line));
    let at: Vec<f64> = at.iter().map(|at| at.unwrap_or(0.0)).collect();
    match Form::of(data_type) {
        Form::Float => f64::array(between(from, to, &at, float_between)?, nulls, data_type),
        Form::Int => {
            let whole = |from: i64, to, at| whole_between(from.into(), i64::into(to), at) as i64;
            i64::array(between(from, to, &at, whole)?, nulls, data_type)
        }
        Form::Uint => {
            let whole = |from: u64, to, at| whole_between(from.into(), u64::into(to), at) as u64;
            u64::array(between(from, to, &at, whole)?, nulls, data_type)
        }
        Form::Decimal => i128::array(between(from, to, &at, whole_between)?, nulls, data_type),
        Form::Bytes => internal_err!("a line goes through numbers, not through {data_type}"),
    }
}

/// The values of two columns, brought together one by one.
fn between<V: Value>(
    from: &ArrayRef,
    to: &ArrayRef,
    at: &[f64],
    value: impl Fn(V, V, f64) -> V,
) -> Result<Vec<V>> {
    let (from, to) = (V::column(from)?, V::column(to)?);
    Ok(at.iter().enumerate().map(|(row, &at)| value(V::get(&from, row), V::get(&to, row), at)).collect())
}

fn float_between(from: f64, to: f64, at: f64) -> f64 {
    match to - from {
        difference if difference.is_finite() => from + difference * at,
        _ => from * (1.0 - at) + to * at,
    }
}

/// The nearest whole number, which is never beyond one of the two.
fn whole_between(from: i128, to: i128, at: f64) -> i128 {
    let way = (to.saturating_sub(from) as f64 * at).round() as i128;
    from.saturating_add(way).clamp(from.min(to), from.max(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Int64Array, UInt8Array};
    use arrow::datatypes::DataType;

    /// Values on the way from the first to the second.
    fn way<T: Array + 'static>(from: T, to: T, at: f64) -> ArrayRef {
        on_line(&(Arc::new(from) as ArrayRef), &(Arc::new(to) as ArrayRef), &[Some(at)]).unwrap()
    }

    #[test]
    fn whole_numbers_stay_between_the_two() {
        let ends = |from: i64, to: i64, at| {
            let found = way(Int64Array::from(vec![from]), Int64Array::from(vec![to]), at);
            i64::column(&found).unwrap()[0]
        };
        assert_eq!([ends(0, 3, 0.5), ends(0, -3, 0.5), ends(7, 7, 0.3)], [2, -2, 7]);
        assert_eq!(ends(i64::MIN, i64::MAX, 0.5), 0);
        assert_eq!(ends(i64::MAX - 1, i64::MAX, 0.9), i64::MAX);
        let found = way(UInt8Array::from(vec![255]), UInt8Array::from(vec![0]), 0.5);
        assert_eq!(u64::column(&found).unwrap()[0], 127);
        let found = way(Decimal128Array::from(vec![100]), Decimal128Array::from(vec![200]), 0.25);
        assert_eq!(
            (i128::column(&found).unwrap()[0], found.data_type().clone()),
            (125, DataType::Decimal128(38, 10))
        );
    }

    #[test]
    fn floats_do_not_overflow_on_the_way() {
        assert_eq!(float_between(f64::MAX, -f64::MAX, 0.5), 0.0);
        assert_eq!(float_between(0.1, 0.1, 0.7), 0.1);
    }
}
