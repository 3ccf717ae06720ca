//! Streams to tables and to single events, for those who read the result.

use crate::batch::{Batch, Message, Other};
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, exec_err};
use std::sync::Arc;

/// The schema of [`to_table`]: the lifetime, then the payload, as [`beside`] names it.
pub fn table_schema(payload: &Schema, time: &DataType) -> SchemaRef {
    let mut fields = vec![Field::new("start", time.clone(), true), Field::new("end", time.clone(), true)];
    fields.extend(beside(&["start", "end"], payload));
    Arc::new(Schema::new(fields))
}

/// The payload's columns beside columns of these names: one that is called like them gets a number,
/// `start_1`.
pub fn beside(taken: &[&str], payload: &Schema) -> Vec<Field> {
    let free = |name: &String| !taken.contains(&name.as_str()) && payload.field_with_name(name).is_err();
    let named = |field: &Field| match taken.contains(&field.name().as_str()) {
        true => (1..).map(|n| format!("{}_{n}", field.name())).find(free),
        false => None,
    };
    let fields = payload.fields().iter();
    fields.map(|f| named(f).map_or_else(|| Field::clone(f), |name| Field::clone(f).with_name(name))).collect()
}

/// A batch of intervals and start edges as a table: columns `start` and `end` of type `time` (null where a
/// lifetime has no end, or no beginning), then the payload.
///
/// # Errors
/// `Execution` if there are end edges: coalesce first.
pub fn to_table(batch: &Batch, time: &DataType) -> Result<RecordBatch> {
    let batch = batch.clone().compact()?;
    // Of lifetimes that differ all are looked at, which is several at a time.
    let is_end = |(&sync, &other)| Kind::of(sync, other) == Kind::End;
    let any_end = match &batch.other {
        Other::Open => false,
        Other::After(ticks) => *ticks <= 0 && !batch.is_empty(),
        Other::Column(other) => batch.sync.iter().zip(other).fold(false, |any, row| any | is_end(row)),
    };
    if any_end {
        return exec_err!("a table has whole lifetimes; coalesce the edges first");
    }
    let ends = batch.other_column();
    let mut columns = vec![instants(&batch.sync, time)?, instants(&ends, time)?];
    columns.extend_from_slice(batch.rows.columns());
    Ok(RecordBatch::try_new(table_schema(batch.rows.schema_ref(), time), columns)?)
}

/// Instants as a column; the beginning and the end of time are null.
fn instants(times: &arrow::buffer::ScalarBuffer<i64>, to: &DataType) -> Result<ArrayRef> {
    let is_instant = |t: Time| t != BEGINNING && t != INFINITY;
    let column = match times.iter().fold(true, |all, &t| all & is_instant(t)) {
        true => Int64Array::new(times.clone(), None),
        false => times.iter().map(|&t| is_instant(t).then_some(t)).collect(),
    };
    Ok(cast(&column, to)?)
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A row alive over `[start, end)`.
    Interval {
        /// Its start.
        start: Time,
        /// Its end.
        end: Time,
        /// Its payload: one row.
        row: RecordBatch,
    },
    /// A row alive from `start`.
    Start {
        /// Its start.
        start: Time,
        /// Its payload: one row.
        row: RecordBatch,
    },
    /// The row that began at `start` ends.
    End {
        /// When it began.
        start: Time,
        /// When it ends.
        end: Time,
        /// Its payload: one row.
        row: RecordBatch,
    },
    /// Nothing before this instant will follow.
    Punctuation(Time),
}

/// The events of messages, one by one.
///
/// # Errors
/// `ArrowError` if a batch is malformed.
pub fn to_events(messages: &[Message]) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for message in messages {
        match message {
            Message::Punctuation(time) => events.push(Event::Punctuation(*time)),
            Message::Batch(batch) => {
                let batch = batch.clone().compact()?;
                events.extend((0..batch.len()).map(|i| event(&batch, i)));
            }
        }
    }
    Ok(events)
}

fn event(batch: &Batch, i: usize) -> Event {
    let (sync, other, row) = (batch.sync[i], batch.other_at(i), batch.rows.slice(i, 1));
    match batch.kind_at(i) {
        Kind::Interval => Event::Interval { start: sync, end: other, row },
        Kind::Start => Event::Start { start: sync, row },
        Kind::End => Event::End { start: other, end: sync, row },
    }
}
