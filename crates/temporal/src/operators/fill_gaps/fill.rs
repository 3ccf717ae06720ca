//! What rows of empty cells are made of.
//!
//! Invariant: a row of a cell is the previous row of its key, with other values in the columns that are not
//! carried forward; where there is nothing to draw a line to, a column on a line is null.

use crate::batch::{Batch, Other};
use crate::interpolate::interpolate;
use crate::key::encode_rows;
use crate::synopsis::{EntryId, RowRef, Synopsis};
use crate::time::{BEGINNING, Time};
use crate::values::Form;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::{Result, ScalarValue, plan_err};
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
            Rule::Linear => interpolate(previous.column(column), next.column(column), &at),
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
