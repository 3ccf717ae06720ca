//! Tables to streams: reads the times of rows, deals with disorder, and punctuates.
//!
//! Invariants: `high` is the latest time seen in the input, `frontier` the time before which nothing will be handed out
//! any more: the larger of `high - reorder_latency` and the last punctuation. Whether a row is late depends on the rows
//! before it and not on how they were cut into tables. Rows that are in order already pass through as they are: their
//! time column becomes the sync column (trill.txt §7.2.1).

use crate::batch::{Batch, Message, Other};
use crate::operators::rows_out::RowsOut;
use crate::rules::{Disorder, IngressOptions, OnCompleted, Punctuate};
use crate::synopsis::Synopsis;
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, exec_err, plan_err};
use std::collections::HashMap;
use std::sync::Arc;

/// Which columns say when a row is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeColumns {
    /// An instant: the row is a point, alive for one tick. The column stays in the payload.
    Point {
        /// The instant.
        start: usize,
    },
    /// Start and end; a null end is not known (a start edge). The columns stay in the payload.
    Interval {
        /// The start.
        start: usize,
        /// The end.
        end: usize,
    },
    /// Rows of any kind: `interval`, `start`, `end` or `punctuation` (with its time, or null for the end of the
    /// stream, in `start`). All three columns leave the payload, so that an end edge equals its start edge.
    Edges {
        /// The start of the lifetime.
        start: usize,
        /// Its end; null for start edges.
        end: usize,
        /// The kind.
        kind: usize,
    },
}

/// Where a table becomes a stream.
pub struct Ingress {
    time: TimeColumns,
    options: IngressOptions,
    /// The columns that are payload.
    payload: Vec<usize>,
    schema: SchemaRef,
    high: Time,
    frontier: Time,
    punctuated: Time,
    rows_since: usize,
    rows_read: u64,
    /// Rows held back to be sorted: their `end` is their sync time, their `note` the other time.
    waiting: Synopsis,
    rows: RowsOut,
    dropped: u64,
    late: Vec<RecordBatch>,
    /// The new starts of start edges that came late, by payload and old start; none if they were dropped.
    moved: HashMap<(OwnedRow, Time), Vec<Option<Time>>>,
}

/// The times of the rows of one table.
struct Times {
    sync: ScalarBuffer<i64>,
    other: Other,
}

impl Ingress {
    /// An ingress for tables with this schema.
    ///
    /// # Errors
    /// `Plan` if a time column is neither an int64 nor a timestamp, or start and end differ in type.
    pub fn new(time: TimeColumns, options: IngressOptions, schema: SchemaRef) -> Result<Ingress> {
        let (start, end, kind) = match &time {
            TimeColumns::Point { start } => (*start, None, None),
            TimeColumns::Interval { start, end } => (*start, Some(*end), None),
            TimeColumns::Edges { start, end, kind } => (*start, Some(*end), Some(*kind)),
        };
        for column in std::iter::once(start).chain(end) {
            check_time_type(&schema, column)?;
        }
        if let Some(end) = end
            && schema.field(start).data_type() != schema.field(end).data_type()
        {
            return plan_err!(
                "the start `{}` is {} but the end `{}` is {}; cast one of them",
                schema.field(start).name(),
                schema.field(start).data_type(),
                schema.field(end).name(),
                schema.field(end).data_type()
            );
        }
        let payload: Vec<usize> = match kind {
            Some(kind) => {
                (0..schema.fields().len()).filter(|c| *c != start && Some(*c) != end && *c != kind).collect()
            }
            None => (0..schema.fields().len()).collect(),
        };
        Ok(Ingress {
            time,
            options,
            schema: Arc::new(schema.project(&payload)?),
            payload,
            high: BEGINNING,
            frontier: BEGINNING,
            punctuated: BEGINNING,
            rows_since: 0,
            rows_read: 0,
            waiting: Synopsis::default(),
            rows: RowsOut::default(),
            dropped: 0,
            late: Vec::new(),
            moved: HashMap::new(),
        })
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
    /// `Execution` if a time is null, a lifetime is empty, or a row is late and the policy is to raise; the message names
    /// the row by its number in the whole input.
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

    fn segment(&mut self, table: &RecordBatch, out: &mut Vec<Message>) -> Result<()> {
        if table.num_rows() == 0 {
            return Ok(());
        }
        let times = self.times(table)?;
        let rows = table.project(&self.payload)?;
        let in_order = self.options.reorder_latency == 0
            && self.moved.is_empty()
            && self.waiting.next_end().is_none()
            && times.sync[0] >= self.frontier
            && times.sync.is_sorted();
        match in_order {
            true => self.pass(times, rows, out)?,
            false => self.sort(times, rows, out)?,
        }
        self.rows_read += table.num_rows() as u64;
        Ok(())
    }

    /// Rows in order: no copy.
    fn pass(&mut self, times: Times, rows: RecordBatch, out: &mut Vec<Message>) -> Result<()> {
        let last = times.sync[times.sync.len() - 1];
        self.high = last;
        self.frontier = last;
        self.hand_out(Batch::new(times.sync, times.other, rows), out);
        Ok(())
    }

    /// Hands rows out, cut where a punctuation belongs between them or a batch is full.
    fn hand_out(&mut self, batch: Batch, out: &mut Vec<Message>) {
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

    /// Rows that are out of order, or held back until they are not.
    fn sort(&mut self, times: Times, rows: RecordBatch, out: &mut Vec<Message>) -> Result<()> {
        let batch = Unsorted { sync: &times.sync, other: &times.other };
        let payloads = if self.has_edges(&batch) { Some(payload_rows(&rows)?) } else { None };
        let kept = self.waiting.keep(rows.clone());
        let mut late = Vec::new();
        for row in 0..batch.sync.len() {
            let (sync, other) = (batch.sync[row], batch.other_at(row));
            let payload = payloads.as_ref().map(|p| p[row].clone());
            match self.settle(sync, other, payload, row)? {
                Some((sync, other)) => {
                    self.waiting.insert(0, (kept, row as u32), sync, sync, other);
                }
                None => late.push(row as u32),
            }
            if sync > self.high {
                self.high = sync;
                self.frontier = self.frontier.max(sync.saturating_sub(self.options.reorder_latency));
                self.release(self.frontier.saturating_add(1));
            }
        }
        if !late.is_empty() {
            self.dropped += late.len() as u64;
            self.late.push(take_record_batch(&rows, &UInt32Array::from(late))?);
        }
        self.release(self.frontier.saturating_add(1));
        self.flush_rows(out)
    }

    fn has_edges(&self, batch: &Unsorted<'_>) -> bool {
        matches!(self.time, TimeColumns::Edges { .. })
            && (0..batch.sync.len()).any(|i| Kind::of(batch.sync[i], batch.other_at(i)) != Kind::Interval)
    }

    /// The times at which a row is let in; none: it is dropped.
    fn settle(
        &mut self,
        sync: Time,
        other: Time,
        payload: Option<OwnedRow>,
        row: usize,
    ) -> Result<Option<(Time, Time)>> {
        let kind = Kind::of(sync, other);
        let other = match (kind, &payload) {
            (Kind::End, Some(payload)) => match self.moved_start(payload, other) {
                Some(Some(start)) => start,
                Some(None) => return Ok(None),
                None => other,
            },
            _ => other,
        };
        // A row that was told late has been told all the same: it lives one tick, even if it was over by then.
        let at = |time: Time| if kind == Kind::End { time.max(other.saturating_add(1)) } else { time };
        if sync >= self.frontier {
            return Ok(Some((at(sync), other)));
        }
        let adjusted = match self.options.disorder {
            Disorder::Raise => return self.raise(sync, row),
            Disorder::Drop => None,
            Disorder::Adjust if kind == Kind::Interval && other <= self.frontier => None,
            Disorder::Adjust => Some((at(self.frontier), other)),
        };
        if kind == Kind::Start
            && let Some(payload) = payload
        {
            self.moved.entry((payload, sync)).or_default().push(adjusted.map(|(start, _)| start));
        }
        Ok(adjusted)
    }

    /// What became of a start edge that came late.
    fn moved_start(&mut self, payload: &OwnedRow, start: Time) -> Option<Option<Time>> {
        let key = (payload.clone(), start);
        let starts = self.moved.get_mut(&key)?;
        let first = starts.remove(0);
        if starts.is_empty() {
            self.moved.remove(&key);
        }
        Some(first)
    }

    fn raise<T>(&self, sync: Time, row: usize) -> Result<T> {
        let held = match self.options.reorder_latency {
            0 => String::new(),
            ticks => format!(" less the reorder latency of {ticks} ticks"),
        };
        exec_err!(
            "row {} is out of order: its time is {}, after the time {}{held} has been reached; sort the input, raise \
             reorder_latency, or choose disorder \"drop\" or \"adjust\"",
            self.rows_read + row as u64,
            sync,
            self.high
        )
    }

    /// Lets go of the rows before `time`.
    fn release(&mut self, time: Time) {
        while let Some(sync) = self.waiting.next_end()
            && sync < time
            && let Some(id) = self.waiting.ending_at(sync)
        {
            let entry = self.waiting.get(id);
            self.rows.push(sync, entry.note, entry.row);
            self.waiting.remove(id);
        }
    }

    fn flush_rows(&mut self, out: &mut Vec<Message>) -> Result<()> {
        let mut released = Vec::new();
        self.rows.flush(&self.waiting, &mut released)?;
        self.waiting.tidy()?;
        for message in released {
            if let Message::Batch(batch) = message {
                self.hand_out(batch, out);
            }
        }
        Ok(())
    }

    /// Says that nothing before `time` will come, and punctuates; if time has come further already, there.
    ///
    /// # Errors
    /// `Internal` if rows held back cannot be put together.
    pub fn advance(&mut self, time: Time, out: &mut Vec<Message>) -> Result<()> {
        let time = time.max(self.frontier);
        self.release(time);
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

    /// Lets go of what is known to be complete, and punctuates there: for a source that has nothing more to say for now.
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
        match self.options.on_completed {
            OnCompleted::EndOfStream => self.advance(INFINITY, out),
            OnCompleted::Flush => {
                self.release(self.high.saturating_add(1));
                self.flush_rows(out)?;
                self.advance(self.high, out)
            }
            OnCompleted::Nothing => Ok(()),
        }
    }

    fn times(&self, table: &RecordBatch) -> Result<Times> {
        let column = |c: usize| -> Result<ScalarBuffer<i64>> {
            match table.column(c).logical_nulls().filter(|n| n.null_count() > 0) {
                Some(nulls) => exec_err!(
                    "row {} has no time: column `{}` is null there; filter such rows out before the time is read",
                    self.rows_read + nulls.iter().position(|valid| !valid).unwrap_or(0) as u64,
                    table.schema().field(c).name()
                ),
                None => ticks(table.column(c)),
            }
        };
        match self.time {
            TimeColumns::Point { start } => Ok(Times { sync: column(start)?, other: Other::After(1) }),
            TimeColumns::Interval { start, end } => {
                let (starts, ends) = (column(start)?, ends(table.column(end))?);
                self.check_lifetimes(&starts, &ends)?;
                Ok(Times { sync: starts, other: Other::Column(ends) })
            }
            TimeColumns::Edges { start, end, kind } => {
                let (starts, ends) = (column(start)?, ends(table.column(end))?);
                self.edge_times(&starts, &ends, table.column(kind))
            }
        }
    }

    fn check_lifetimes(&self, starts: &[Time], ends: &[Time]) -> Result<()> {
        match starts.iter().zip(ends).position(|(s, e)| e <= s) {
            Some(row) => self.empty_lifetime(row, starts[row], ends[row]),
            None => Ok(()),
        }
    }

    fn empty_lifetime<T>(&self, row: usize, start: Time, end: Time) -> Result<T> {
        exec_err!(
            "row {} ends at {end}, not after its start {start}; a lifetime [start, end) has at least one tick",
            self.rows_read + row as u64
        )
    }

    fn edge_times(&self, starts: &[Time], ends: &[Time], kinds: &ArrayRef) -> Result<Times> {
        let kinds = cast(kinds, &DataType::Utf8)?;
        let kinds = kinds.as_string::<i32>();
        let (mut sync, mut other) = (Vec::with_capacity(starts.len()), Vec::with_capacity(starts.len()));
        for row in 0..starts.len() {
            let kind = if kinds.is_valid(row) { kinds.value(row) } else { "null" };
            let (s, o) = match kind {
                "start" => (starts[row], INFINITY),
                "interval" | "end" if ends[row] <= starts[row] => {
                    return self.empty_lifetime(row, starts[row], ends[row]);
                }
                "interval" => (starts[row], ends[row]),
                "end" if ends[row] == INFINITY => {
                    return exec_err!("row {}: an end edge needs an end", self.rows_read + row as u64);
                }
                "end" => (ends[row], starts[row]),
                other => {
                    return exec_err!(
                        "row {}: \"{other}\" is no kind of row; the kinds are interval, start, end, punctuation",
                        self.rows_read + row as u64
                    );
                }
            };
            sync.push(s);
            other.push(o);
        }
        Ok(Times { sync: sync.into(), other: Other::Column(other.into()) })
    }
}

/// The times of rows that need not be in order.
struct Unsorted<'a> {
    sync: &'a [Time],
    other: &'a Other,
}

impl Unsorted<'_> {
    fn other_at(&self, row: usize) -> Time {
        match self.other {
            Other::Open => INFINITY,
            Other::After(ticks) => self.sync[row].saturating_add(*ticks),
            Other::Column(other) => other[row],
        }
    }
}

/// The last multiple of `period` not after `time`.
fn beat(time: Time, period: i64) -> Time {
    time.saturating_sub(time.rem_euclid(period))
}

fn payload_rows(rows: &RecordBatch) -> Result<Vec<OwnedRow>> {
    let fields = rows.columns().iter().map(|c| SortField::new(c.data_type().clone())).collect();
    let converted = RowConverter::new(fields)?.convert_columns(rows.columns())?;
    Ok(converted.iter().map(|row| row.owned()).collect())
}

fn check_time_type(schema: &Schema, column: usize) -> Result<()> {
    let field = schema.field(column);
    match field.data_type() {
        DataType::Int64 | DataType::Timestamp(_, _) => Ok(()),
        other => plan_err!(
            "column `{}` cannot be the time: it is {other}; a time is a timestamp or an int64 (cast it)",
            field.name()
        ),
    }
}

/// A time column as ticks.
fn ticks(column: &ArrayRef) -> Result<ScalarBuffer<i64>> {
    let data = column.to_data();
    Ok(ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()))
}

/// An end column as ticks; a null end is not known.
fn ends(column: &ArrayRef) -> Result<ScalarBuffer<i64>> {
    let values = ticks(column)?;
    Ok(match column.logical_nulls() {
        None => values,
        Some(nulls) => {
            let end = |(i, &t): (usize, &i64)| if nulls.is_valid(i) { t } else { INFINITY };
            values.iter().enumerate().map(end).collect::<Vec<_>>().into()
        }
    })
}
