//! Requires that rows come in the order of some columns, as the author of a query asserts (Trill's
//! `SetProperty().IsSnapshotSorted`; trill.txt §6.2).
//!
//! Invariant: no row that starts is less in these columns than one that started before it, whether at the
//! same instant or earlier; null is greater than all values.

use crate::batch::{Batch, Message};
use crate::checkpoint::{restore_rows, save_rows};
use crate::key::{ASCENDING, KeyOrder, OrderedKeys, with_equal_floats};
use crate::operator::{Operator, decode, encode};
use crate::time::{Instant, Kind};
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, make_comparator};
use arrow::datatypes::{SchemaRef, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err};

/// Passes rows on, and refuses one that is less than the row before it.
pub struct RequireSorted {
    schema: SchemaRef,
    columns: Vec<usize>,
    unit: Option<TimeUnit>,
    /// These columns of the last row that started.
    last: Option<RecordBatch>,
}

impl RequireSorted {
    /// Rows of this schema come in the ascending order of these columns, of the first, then of the second;
    /// `unit` is that of the time, for messages.
    pub fn new(schema: SchemaRef, columns: Vec<usize>, unit: Option<TimeUnit>) -> RequireSorted {
        RequireSorted { schema, columns, unit, last: None }
    }

    /// Looks at the rows of a batch that start.
    fn check(&mut self, batch: &Batch) -> Result<()> {
        let starts = starting(batch)?;
        let batch = starts.as_ref().unwrap_or(batch);
        let Some(last) = batch.len().checked_sub(1) else { return Ok(()) };
        let rows = batch.rows.project(&self.columns)?;
        if let Some(before) = &self.last
            && is_greater(before, 0, &rows, 0)?
        {
            return self.refuse((before, 0), (&rows, 0), batch);
        }
        if let Some(row) = first_descent(rows.columns())? {
            return self.refuse((&rows, row - 1), (&rows, row), batch);
        }
        self.last = Some(copy_of(&rows, last)?);
        Ok(())
    }

    /// The error for a row that is less than the one before it.
    fn refuse(
        &self,
        before: (&RecordBatch, usize),
        (rows, row): (&RecordBatch, usize),
        batch: &Batch,
    ) -> Result<()> {
        let names: Vec<&str> = self.columns.iter().map(|c| self.schema.field(*c).name().as_str()).collect();
        let names = names.join(", ");
        exec_err!(
            "require_sorted: a row at {} has {names} = {} after one with {}; rows were said to come in the order of \
             {names}. Leave require_sorted out, or sort the rows where they come from",
            Instant { time: batch.sync[row], unit: self.unit },
            shown(rows, row)?,
            shown(before.0, before.1)?
        )
    }
}

/// The rows of a batch that start, if there are end edges among its rows.
fn starting(batch: &Batch) -> Result<Option<Batch>> {
    let is_start = |row: &usize| batch.kind_at(*row) != Kind::End;
    if (0..batch.len()).all(|row| is_start(&row)) {
        return Ok(None);
    }
    let rows: Vec<u32> = (0..batch.len()).filter(is_start).map(|row| row as u32).collect();
    batch.take(&UInt32Array::from(rows)).map(Some)
}

/// The first row that is less than the row before it.
fn first_descent(columns: &[ArrayRef]) -> Result<Option<usize>> {
    let types: Vec<_> = columns.iter().map(|column| column.data_type().clone()).collect();
    let nulls = columns.iter().any(|column| column.logical_null_count() > 0);
    let order = KeyOrder::of(&types, nulls);
    Ok(match order.keys(columns)? {
        OrderedKeys::Words(words) => words.windows(2).position(|pair| pair[0] > pair[1]),
        OrderedKeys::Bytes(bytes) => (1..bytes.len()).position(|row| bytes.value(row - 1) > bytes.value(row)),
    }
    .map(|place| place + 1))
}

/// Whether a row is greater than another, column by column.
fn is_greater(left: &RecordBatch, l: usize, right: &RecordBatch, r: usize) -> Result<bool> {
    for (left, right) in left.columns().iter().zip(right.columns()) {
        let (left, right) = (with_equal_floats(&left.slice(l, 1))?, with_equal_floats(&right.slice(r, 1))?);
        match make_comparator(&left, &right, ASCENDING)?(0, 0) {
            std::cmp::Ordering::Equal => {}
            unequal => return Ok(unequal.is_gt()),
        }
    }
    Ok(false)
}

/// A row in memory of its own.
fn copy_of(rows: &RecordBatch, row: usize) -> Result<RecordBatch> {
    let copy = |column: &ArrayRef| ScalarValue::try_from_array(column, row)?.to_array();
    let columns = rows.columns().iter().map(copy).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(rows.schema(), columns)?)
}

/// A row as messages show it.
fn shown(rows: &RecordBatch, row: usize) -> Result<String> {
    let options = FormatOptions::default().with_null("null");
    let value = |column: &ArrayRef| Ok(ArrayFormatter::try_new(column, &options)?.value(row).to_string());
    Ok(rows.columns().iter().map(value).collect::<Result<Vec<_>>>()?.join(", "))
}

impl Operator for RequireSorted {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        out.push(match message {
            Message::Batch(batch) => {
                let batch = batch.compact()?;
                self.check(&batch)?;
                Message::Batch(batch)
            }
            punctuation => punctuation,
        });
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&self.last.as_ref().map(save_rows).transpose()?)
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let last: Option<Vec<u8>> = decode(state)?;
        self.last = last.map(|rows| restore_rows(&rows)).transpose()?;
        let fields = self.schema.project(&self.columns)?;
        match &self.last {
            Some(last) if last.schema().fields() != fields.fields() || last.num_rows() != 1 => {
                Err(exec_datafusion_err!("the checkpoint has other columns than the query; take a new one"))
            }
            _ => Ok(()),
        }
    }
}
