//! Tables to streams: reads the times of rows, deals with disorder, and punctuates.
//!
//! Invariants: `high` is the latest time seen in the input, `frontier` the time before which nothing will be
//! handed out any more: the larger of `high - reorder_latency` and the last punctuation. Whether a row is
//! late depends on the rows before it and not on how they were cut into tables. Rows that are in order
//! already pass through as they are: their time column becomes the sync column (trill.txt §7.2.1). No row at
//! an end of time, and no end edge without its start edge (`edges`), is handed out.

mod edges;
mod reorder;
mod saved;
mod sortedness;
mod times;

pub use sortedness::Sortedness;
pub use times::TimeColumns;

use crate::batch::{Batch, Message};
use crate::rules::{IngressOptions, OnCompleted, Punctuate};
use crate::time::{BEGINNING, INFINITY, Time, unit_of};
use crate::time_column::{check_instants, ticks};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::common::Result;
use edges::OpenEdges;
use reorder::Reorder;
use std::sync::Arc;
use times::Times;

/// Where a table becomes a stream.
pub struct Ingress {
    time: TimeColumns,
    options: IngressOptions,
    /// The unit of the time column, for messages.
    unit: Option<TimeUnit>,
    /// The columns that are payload.
    payload: Vec<usize>,
    /// The columns of the tables.
    input: SchemaRef,
    schema: SchemaRef,
    high: Time,
    frontier: Time,
    /// How far it has punctuated: no punctuation at or before this instant is handed out.
    punctuated: Time,
    rows_since: usize,
    /// How many rows of the input were read, punctuations included: by this number a message names a row.
    rows_read: u64,
    reorder: Reorder,
    /// The start edges that were handed out, where rows come as edges.
    edges: OpenEdges,
    dropped: u64,
    late: Vec<RecordBatch>,
    /// Whether the input is known to be in order.
    ordered: bool,
    /// Where to say that it is, if it turns out so; none: it is not, or nobody asks.
    order: Option<Sortedness>,
}

impl Ingress {
    /// An ingress for tables with this schema.
    ///
    /// # Errors
    /// `Plan` if a time column is neither an int64 nor a timestamp, or start and end differ in type.
    pub fn new(time: TimeColumns, options: IngressOptions, schema: SchemaRef) -> Result<Ingress> {
        time.check(&schema)?;
        let payload = time.payload(schema.fields().len());
        Ok(Ingress {
            unit: unit_of(schema.field(time.start()).data_type()),
            time,
            options,
            schema: Arc::new(schema.project(&payload)?),
            input: schema,
            payload,
            high: BEGINNING,
            frontier: BEGINNING,
            punctuated: BEGINNING,
            rows_since: 0,
            rows_read: 0,
            reorder: Reorder::default(),
            edges: OpenEdges::default(),
            dropped: 0,
            late: Vec::new(),
            ordered: false,
            order: None,
        })
    }

    /// The same, with what earlier readers have found of the order of the input's start times.
    pub fn with_order(self, order: Sortedness) -> Ingress {
        Ingress { ordered: order.is_sorted(), order: Some(order), ..self }
    }

    /// The columns of the stream's payload.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows came too late and were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The rows that were dropped since the last call.
    pub fn take_late(&mut self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.late)
    }

    /// Takes in the next rows.
    ///
    /// # Errors
    /// `Execution` if a time is null, a lifetime is empty, or a row is late and the policy is to raise; the
    /// message names the row by its number in the whole input.
    pub fn push(&mut self, table: RecordBatch, out: &mut Vec<Message>) -> Result<()> {
        let TimeColumns::Edges { start, kind, .. } = self.time else {
            return self.segment(&table, out);
        };
        let kinds = cast(table.column(kind), &DataType::Utf8)?;
        let kinds = kinds.as_string::<i32>();
        let mut first = 0;
        for row in 0..table.num_rows() {
            if kinds.is_valid(row) && kinds.value(row) == "punctuation" {
                self.segment(&table.slice(first, row - first), out)?;
                let times = ticks(table.column(start))?;
                self.advance(if table.column(start).is_null(row) { INFINITY } else { times[row] }, out)?;
                first = row + 1;
                self.rows_read += 1;
            }
        }
        self.segment(&table.slice(first, table.num_rows() - first), out)
    }

    /// Takes in rows between two punctuations of the source.
    fn segment(&mut self, table: &RecordBatch, out: &mut Vec<Message>) -> Result<()> {
        if table.num_rows() == 0 {
            return Ok(());
        }
        let times = self.time.read(table, self.rows_read)?;
        let rows = table.project(&self.payload)?;
        let sorted = self.ordered || times.sync.is_sorted();
        // A point ends a tick later.
        let last = INFINITY - if matches!(self.time, TimeColumns::Point { .. }) { 2 } else { 1 };
        let column = self.input.field(self.time.start()).name();
        check_instants(&times.sync, sorted, last, self.rows_read, column)?;
        let in_order = self.options.reorder_latency == 0
            && self.reorder.is_idle()
            && times.sync[0] >= self.frontier
            && sorted;
        if in_order {
            self.pass(times, rows, out)?;
        } else {
            self.order = None;
            self.sort(times, rows, out)?;
        }
        self.rows_read += table.num_rows() as u64;
        Ok(())
    }

    /// Rows in order: no copy.
    fn pass(&mut self, times: Times, rows: RecordBatch, out: &mut Vec<Message>) -> Result<()> {
        let last = times.sync[times.sync.len() - 1];
        self.high = last;
        self.frontier = last;
        self.hand_out(Batch::new(times.sync, times.other, rows), out)
    }

    /// Hands rows out, cut where a punctuation belongs between them or a batch is full.
    fn hand_out(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        if matches!(self.time, TimeColumns::Edges { .. }) {
            self.edges.pass(&batch, self.unit)?;
        }
        let mut at = 0;
        while at < batch.len() {
            if let Some(time) = self.punctuation_before(batch.sync[at]) {
                self.punctuated = time;
                out.push(Message::Punctuation(time));
            }
            let count = self.stretch(&batch.sync[at..]);
            out.push(Message::Batch(batch.slice(at, count)));
            at += count;
            self.rows_since += count;
            if let Punctuate::Rows(rows) = self.options.punctuate
                && self.rows_since >= rows
            {
                self.rows_since = 0;
                if batch.sync[at - 1] > self.punctuated {
                    self.punctuated = batch.sync[at - 1];
                    out.push(Message::Punctuation(self.punctuated));
                }
            }
        }
        Ok(())
    }

    /// How many of these rows fit into one batch without a punctuation among them.
    fn stretch(&self, sync: &[Time]) -> usize {
        let full = sync.len().min(self.options.batch_rows.max(1));
        match self.options.punctuate {
            Punctuate::Never => full,
            Punctuate::Rows(rows) => full.min(rows.saturating_sub(self.rows_since).max(1)),
            Punctuate::Every(period) => {
                let next = beat(sync[0], period).saturating_add(period);
                sync[..full].partition_point(|&t| t < next)
            }
        }
    }

    /// The punctuation that belongs before a row at `time`.
    fn punctuation_before(&mut self, time: Time) -> Option<Time> {
        let Punctuate::Every(period) = self.options.punctuate else { return None };
        let beat = beat(time, period);
        if self.punctuated == BEGINNING {
            self.punctuated = beat;
        }
        (beat > self.punctuated).then_some(beat)
    }

    fn flush_rows(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.reorder.take()?.into_iter().try_for_each(|message| match message {
            Message::Batch(batch) => self.hand_out(batch, out),
            Message::Punctuation(_) => Ok(()),
        })
    }

    /// Says that nothing before `time` will come, and punctuates; if time has come further already, there.
    ///
    /// # Errors
    /// `Internal` if rows held back cannot be put together.
    pub fn advance(&mut self, time: Time, out: &mut Vec<Message>) -> Result<()> {
        let time = time.max(self.frontier);
        self.reorder.release(time);
        self.flush_rows(out)?;
        if time > self.punctuated {
            self.frontier = time;
            self.high = self.high.max(time);
            self.punctuated = time;
            self.rows_since = 0;
            out.push(Message::Punctuation(time));
        }
        Ok(())
    }

    /// Lets go of what is known to be complete, and punctuates there: for a source that has nothing more to
    /// say for now.
    ///
    /// # Errors
    /// As [`advance`](Ingress::advance).
    pub fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        if self.frontier > self.punctuated { self.advance(self.frontier, out) } else { Ok(()) }
    }

    /// Says that the input has ended.
    ///
    /// # Errors
    /// As [`advance`](Ingress::advance).
    pub fn complete(&mut self, out: &mut Vec<Message>) -> Result<()> {
        if let Some(order) = &self.order {
            order.set_sorted();
        }
        match self.options.on_completed {
            OnCompleted::EndOfStream => self.advance(INFINITY, out),
            OnCompleted::Flush => {
                self.reorder.release(self.high.saturating_add(1));
                self.flush_rows(out)?;
                self.advance(self.high, out)
            }
            OnCompleted::Nothing => Ok(()),
        }
    }
}

/// The last multiple of `period` not after `time`.
fn beat(time: Time, period: i64) -> Time {
    time.saturating_sub(time.rem_euclid(period))
}
