//! End edges that come out later than they came in.
//!
//! Invariant: `waiting` has the rows whose end edge has not been handed out; they leave in the order of their
//! new ends, and one that would end at the end of time never does.

use crate::batch::Message;
use crate::held::Held;
use crate::operators::rows_out::RowsOut;
use crate::synopsis::{RowRef, SavedSynopsis, Synopsis};
use crate::time::{INFINITY, Time};
use arrow::array::RecordBatch;
use datafusion::common::Result;

/// Rows on their way out, and end edges that wait for their time.
#[derive(Debug, Default)]
pub(crate) struct HeldEnds {
    waiting: Synopsis,
    rows: RowsOut,
}

impl HeldEnds {
    /// Keeps a batch whose rows may be pushed or held next.
    pub fn keep(&mut self, rows: &RecordBatch) -> u32 {
        self.waiting.keep(rows.clone())
    }

    /// A row goes out.
    pub fn push(&mut self, sync: Time, other: Time, row: RowRef) {
        self.rows.push(sync, other, row);
    }

    /// The row whose start edge went out at `start` ends at `end`, to which time has not come.
    pub fn hold(&mut self, start: Time, end: Time, row: RowRef) {
        if end < INFINITY {
            self.waiting.insert(0, row, start, end, 0);
        }
    }

    /// Whether no end edge is due at `time` or before.
    pub fn none_until(&mut self, time: Time) -> bool {
        self.waiting.next_end().is_none_or(|end| end > time)
    }

    /// The end edges up to `time` go out.
    pub fn release(&mut self, time: Time) {
        while let Some(end) = self.waiting.next_end()
            && end <= time
            && let Some(id) = self.waiting.ending_at(end)
        {
            let entry = self.waiting.get(id);
            self.rows.push(end, entry.start, entry.row);
            self.waiting.remove(id);
        }
    }

    /// Hands out what goes out.
    pub fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.rows.flush(&self.waiting, out)?;
        self.waiting.tidy()
    }

    /// The rows whose end edges wait.
    pub fn held(&self) -> Held {
        self.waiting.held()
    }

    /// The end edges that wait, for a checkpoint.
    pub fn save(&self) -> Result<SavedSynopsis> {
        self.waiting.save()
    }

    /// Takes over the end edges of a checkpoint.
    pub fn restore(&mut self, waiting: SavedSynopsis) -> Result<()> {
        self.waiting = Synopsis::restore(waiting)?;
        Ok(())
    }
}
