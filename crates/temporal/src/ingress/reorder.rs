//! Rows that are out of order: held back until they can go out in order, or late, and settled as the policy
//! says.

use super::times::Times;
use super::{Ingress, TimeColumns};
use crate::batch::Message;
use crate::operators::rows_out::RowsOut;
use crate::rules::Disorder;
use crate::synopsis::Synopsis;
use crate::time::{Instant, Kind, Time};
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, exec_err};
use std::collections::HashMap;

/// A payload in its row encoding.
pub(super) type Payload = Box<[u8]>;

/// A start edge: its payload and its start.
pub(super) type StartEdge = (Payload, Time);

/// The new starts of equal start edges that came late, first come first; none if they were dropped.
pub(super) type NewStarts = Vec<Option<Time>>;

/// What became of start edges that came late.
pub(super) type Moved = HashMap<StartEdge, NewStarts>;

/// What waits to be put in order.
#[derive(Default)]
pub(super) struct Reorder {
    /// Rows held back: their `end` is their sync time, their `note` the other time.
    pub waiting: Synopsis,
    /// Rows let go; empty between two calls of an ingress that has not failed.
    pub rows: RowsOut,
    pub moved: Moved,
}

impl Reorder {
    /// Whether a row in order has nothing to wait for.
    pub fn is_idle(&mut self) -> bool {
        self.moved.is_empty() && self.waiting.next_end().is_none()
    }

    /// Lets go of the rows before `time`.
    pub fn release(&mut self, time: Time) {
        while let Some(sync) = self.waiting.next_end()
            && sync < time
            && let Some(id) = self.waiting.ending_at(sync)
        {
            let entry = self.waiting.get(id);
            self.rows.push(sync, entry.note, entry.row);
            self.waiting.remove(id);
        }
    }

    /// The rows that were let go, in order.
    pub fn take(&mut self) -> Result<Vec<Message>> {
        let mut released = Vec::new();
        self.rows.flush(&self.waiting, &mut released)?;
        self.waiting.tidy()?;
        Ok(released)
    }

    /// What became of a start edge that came late.
    fn moved_start(&mut self, payload: &Payload, start: Time) -> Option<Option<Time>> {
        let key = (payload.clone(), start);
        let starts = self.moved.get_mut(&key)?;
        let first = starts.remove(0);
        if starts.is_empty() {
            self.moved.remove(&key);
        }
        Some(first)
    }
}

impl Ingress {
    /// Rows that are out of order, or held back until they are not.
    pub(super) fn sort(&mut self, times: Times, rows: RecordBatch, out: &mut Vec<Message>) -> Result<()> {
        let payloads = if self.has_edges(&times) { Some(payload_rows(&rows)?) } else { None };
        let kept = self.reorder.waiting.keep(rows.clone());
        let mut late = Vec::new();
        for row in 0..times.sync.len() {
            let (sync, other) = (times.sync[row], times.other_at(row));
            let payload = payloads.as_ref().map(|p| p[row].clone());
            match self.settle(sync, other, payload, row)? {
                Some((sync, other)) => {
                    self.reorder.waiting.insert(0, (kept, row as u32), sync, sync, other);
                }
                None => late.push(row as u32),
            }
            if sync > self.high {
                self.high = sync;
                self.frontier = self.frontier.max(sync.saturating_sub(self.options.reorder_latency));
                self.reorder.release(self.frontier.saturating_add(1));
            }
        }
        if !late.is_empty() {
            self.dropped += late.len() as u64;
            self.late.push(take_record_batch(&rows, &UInt32Array::from(late))?);
        }
        self.reorder.release(self.frontier.saturating_add(1));
        self.flush_rows(out)
    }

    /// Whether there are rows that an end edge may speak of, or end edges.
    fn has_edges(&self, times: &Times) -> bool {
        matches!(self.time, TimeColumns::Edges { .. })
            && (0..times.sync.len()).any(|i| Kind::of(times.sync[i], times.other_at(i)) != Kind::Interval)
    }

    /// The times at which a row is let in; none: it is dropped.
    fn settle(
        &mut self,
        sync: Time,
        other: Time,
        payload: Option<Payload>,
        row: usize,
    ) -> Result<Option<(Time, Time)>> {
        let kind = Kind::of(sync, other);
        let other = match (kind, &payload) {
            (Kind::End, Some(payload)) => match self.reorder.moved_start(payload, other) {
                Some(Some(start)) => start,
                Some(None) => return Ok(None),
                None => other,
            },
            _ => other,
        };
        // A late start edge was handed out all the same: its row lives a tick, even if it was over by then.
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
            let starts = self.reorder.moved.entry((payload, sync)).or_default();
            starts.push(adjusted.map(|(start, _)| start));
        }
        Ok(adjusted)
    }

    fn raise<T>(&self, sync: Time, row: usize) -> Result<T> {
        let instant = |time| Instant { time, unit: self.unit };
        let number = self.rows_read + row as u64;
        let latency = self.options.reorder_latency;
        if self.frontier > self.high.saturating_sub(latency) {
            return exec_err!(
                "row {number} is out of order: its time is {}, and a punctuation has said that none before {} follows; \
                 punctuate later, or choose disorder \"drop\" or \"adjust\"",
                instant(sync),
                instant(self.frontier)
            );
        }
        let held = match latency {
            0 => String::new(),
            ticks => format!(" less the reorder latency of {ticks} ticks"),
        };
        exec_err!(
            "row {number} is out of order: its time is {}, after the time {}{held} has been reached; sort the input, raise \
             reorder_latency, or choose disorder \"drop\" or \"adjust\"",
            instant(sync),
            instant(self.high)
        )
    }
}

/// The payloads, encoded to the bit: an end edge finds its start edge by them.
fn payload_rows(rows: &RecordBatch) -> Result<Vec<Payload>> {
    let fields = rows.columns().iter().map(|c| SortField::new(c.data_type().clone())).collect();
    let converted = RowConverter::new(fields)?.convert_columns(rows.columns())?;
    Ok(converted.iter().map(|row| row.as_ref().into()).collect())
}
