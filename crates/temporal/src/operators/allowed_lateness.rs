//! Allowed lateness over the clock of arrival: rows that come too late are dropped, and rows that nothing can
//! change any more are forgotten.
//!
//! Rows start when they arrive. How far their own time has come is a column: the *watermark* is the latest
//! value of it, less the lateness. A row before the watermark of the rows before it is late, as at the
//! [`Ingress`](crate::Ingress) of a stream. A row whose time is `retention` before the watermark has no
//! window that is open: it is forgotten, and ends one tick after the arrival of the row that moved the
//! watermark.
//!
//! Invariants: whether a row is late, or when it is forgotten, depends on the rows before it and not on how
//! they were cut into batches that arrive at one instant. What is kept of one arrival is in order of time.

use crate::batch::{Batch, Message, Other};
use crate::checkpoint::{restore_rows, save_rows};
use crate::held::{Held, memory_of};
use crate::operator::{Operator, decode, encode};
use crate::runs::runs;
use crate::time::{BEGINNING, INFINITY, Time};
use crate::time_column::{check_instants, starts};
use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use datafusion::common::Result;
use std::collections::BTreeMap;

/// Drops late rows, and forgets those that are over; see the module.
///
/// ```
/// use arrow::array::{Int64Array, RecordBatch};
/// use std::sync::Arc;
/// use whimbrel_temporal::operators::AllowedLateness;
/// use whimbrel_temporal::{Batch, Message, Operator, Other};
///
/// # fn main() -> datafusion::common::Result<()> {
/// let mut operator = AllowedLateness::new(0, 10, 5);
/// let mut arrive = |instant: i64, times: Vec<i64>| -> datafusion::common::Result<usize> {
///     let sync = vec![instant; times.len()].into();
///     let rows = RecordBatch::try_from_iter([("t", Arc::new(Int64Array::from(times)) as _)])?;
///     let mut out = Vec::new();
///     operator.push(0, Message::Batch(Batch::new(sync, Other::Open, rows)), &mut out)?;
///     Ok(out.len())
/// };
/// assert_eq!(arrive(0, vec![3])?, 1);
/// assert_eq!(arrive(2, vec![20])?, 2); // The watermark is at 10: the row at 3 ends.
/// assert_eq!(arrive(4, vec![9])?, 0); // It is late.
/// assert_eq!(operator.rows_late(), 1);
/// # Ok(())
/// # }
/// ```
pub struct AllowedLateness {
    /// The column of the rows' times.
    time: usize,
    lateness: i64,
    retention: i64,
    /// The latest time of all rows.
    latest: Time,
    /// The rows that have not been forgotten, by the first of their times and the number of their arrival.
    kept: BTreeMap<(Time, u64), Arrival>,
    arrivals: u64,
    rows_kept: usize,
    rows_read: u64,
    dropped: u64,
    late: Vec<RecordBatch>,
}

/// Rows that arrived together, in order of their times.
struct Arrival {
    instant: Time,
    times: ScalarBuffer<i64>,
    rows: RecordBatch,
}

impl AllowedLateness {
    /// Over rows with their times in this column. Both durations are in its ticks, not negative.
    pub fn new(time: usize, lateness: i64, retention: i64) -> AllowedLateness {
        AllowedLateness {
            time,
            lateness,
            retention,
            latest: BEGINNING,
            kept: BTreeMap::new(),
            arrivals: 0,
            rows_kept: 0,
            rows_read: 0,
            dropped: 0,
            late: Vec::new(),
        }
    }

    /// The time before which rows are late.
    fn watermark(&self) -> Time {
        self.latest.saturating_sub(self.lateness)
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let batch = batch.compact()?;
        for run in runs(&batch.sync) {
            let rows = batch.rows.slice(run.start, run.len());
            self.arrive(batch.sync[run.start], rows, out)?;
        }
        Ok(())
    }

    /// Rows arrive together.
    fn arrive(&mut self, instant: Time, rows: RecordBatch, out: &mut Vec<Message>) -> Result<()> {
        let times = starts(&rows, self.time, self.rows_read)?;
        check_instants(&times, false, INFINITY - 2, self.rows_read, rows.schema().field(self.time).name())?;
        self.rows_read += rows.num_rows() as u64;
        let (rows, times) = self.without_late(rows, times)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let sync = vec![instant; rows.num_rows()].into();
        out.push(Message::Batch(Batch::new(sync, Other::Open, rows.clone())));
        self.keep(instant, rows, times)?;
        self.forget(instant.saturating_add(1), out)
    }

    /// The rows that are not late, with their times.
    fn without_late(
        &mut self,
        rows: RecordBatch,
        times: ScalarBuffer<i64>,
    ) -> Result<(RecordBatch, ScalarBuffer<i64>)> {
        let mut is_late = |time: &Time| {
            let late = *time < self.watermark();
            self.latest = self.latest.max(*time);
            late
        };
        let late: Vec<bool> = times.iter().map(&mut is_late).collect();
        let dropped = late.iter().filter(|late| **late).count();
        if dropped == 0 {
            return Ok((rows, times));
        }
        self.dropped += dropped as u64;
        let in_time: Vec<bool> = late.iter().map(|late| !late).collect();
        let times = times.iter().zip(&in_time).filter(|(_, keep)| **keep).map(|(time, _)| *time).collect();
        self.late.push(filter_record_batch(&rows, &BooleanArray::from(late))?);
        Ok((filter_record_batch(&rows, &BooleanArray::from(in_time))?, times))
    }

    /// Keeps rows, so that they can end.
    fn keep(&mut self, instant: Time, rows: RecordBatch, times: ScalarBuffer<i64>) -> Result<()> {
        let (rows, times) = match times.is_sorted() {
            true => (rows, times),
            false => {
                let mut order: Vec<u32> = (0..times.len() as u32).collect();
                order.sort_by_key(|row| times[*row as usize]);
                let times = order.iter().map(|row| times[*row as usize]).collect();
                (take_record_batch(&rows, &UInt32Array::from(order))?, times)
            }
        };
        self.rows_kept += rows.num_rows();
        self.insert(Arrival { instant, times, rows });
        Ok(())
    }

    fn insert(&mut self, arrival: Arrival) {
        self.kept.insert((arrival.times[0], self.arrivals), arrival);
        self.arrivals += 1;
    }

    /// Ends the rows that no open window has, at this instant.
    fn forget(&mut self, instant: Time, out: &mut Vec<Message>) -> Result<()> {
        let last = self.watermark().saturating_sub(self.retention);
        let (mut pieces, mut since) = (Vec::new(), Vec::new());
        while let Some(first) = self.kept.first_entry().filter(|first| first.key().0 <= last) {
            let Arrival { instant, times, rows } = first.remove();
            let over = times.partition_point(|time| *time <= last);
            pieces.push(rows.slice(0, over));
            since.resize(since.len() + over, instant);
            if over < times.len() {
                let left = times.len() - over;
                self.insert(Arrival {
                    instant,
                    times: times.slice(over, left),
                    rows: rows.slice(over, left),
                });
            }
        }
        let Some(first) = pieces.first() else { return Ok(()) };
        let rows = concat_batches(&first.schema(), &pieces)?;
        self.rows_kept -= rows.num_rows();
        let sync = vec![instant; rows.num_rows()].into();
        out.push(Message::Batch(Batch::new(sync, Other::Column(since.into()), rows)));
        Ok(())
    }
}

/// Rows that are kept, in a checkpoint: their instant, their times, and their columns.
type SavedArrival = (Time, Vec<Time>, Vec<u8>);

impl Operator for AllowedLateness {
    fn held(&self) -> Held {
        Held {
            rows: self.rows_kept,
            bytes: memory_of(self.kept.values().map(|arrival| &arrival.rows)),
            oldest: self.kept.first_key_value().map(|((time, _), _)| *time),
        }
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out),
            Message::Punctuation(time) => {
                out.push(Message::Punctuation(time));
                Ok(())
            }
        }
    }

    fn rows_late(&self) -> u64 {
        self.dropped
    }

    fn take_late(&mut self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.late)
    }

    fn save(&self) -> Result<Vec<u8>> {
        let saved = |kept: &Arrival| Ok((kept.instant, kept.times.to_vec(), save_rows(&kept.rows)?));
        let kept: Vec<SavedArrival> = self.kept.values().map(saved).collect::<Result<_>>()?;
        encode(&(self.latest, kept, self.rows_read, self.dropped))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let kept: Vec<SavedArrival>;
        (self.latest, kept, self.rows_read, self.dropped) = decode(state)?;
        for (instant, times, rows) in kept {
            self.keep(instant, restore_rows(&rows)?, times.into())?;
        }
        Ok(())
    }
}
