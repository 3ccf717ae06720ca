//! Rows on their way out of an operator that keeps a [`Synopsis`]: places are noted, and gathered once a
//! push, in pieces.

use crate::batch::{Batch, Message, Other};
use crate::pieces::in_pieces;
use crate::synopsis::{RowRef, Synopsis};
use crate::time::Time;
use arrow::buffer::ScalarBuffer;
use datafusion::common::Result;

/// Rows of a synopsis with new times.
#[derive(Debug, Default)]
pub(crate) struct RowsOut {
    sync: Vec<Time>,
    other: Vec<Time>,
    rows: Vec<RowRef>,
}

impl RowsOut {
    /// Notes a row. Its place has to mean the same until the next flush.
    pub fn push(&mut self, sync: Time, other: Time, row: RowRef) {
        self.sync.push(sync);
        self.other.push(other);
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.sync.is_empty()
    }

    /// Hands out what was noted. After this the synopsis may be tidied.
    pub fn flush(&mut self, synopsis: &Synopsis, out: &mut Vec<Message>) -> Result<()> {
        let RowsOut { sync, other, rows } = std::mem::take(self);
        let (sync, other) = (ScalarBuffer::from(sync), ScalarBuffer::from(other));
        in_pieces(rows.len(), |piece| {
            let (first, len) = (piece.start, piece.len());
            let rows = synopsis.gather(rows[piece].iter().copied())?;
            let other = Other::Column(other.slice(first, len));
            out.push(Message::Batch(Batch::new(sync.slice(first, len), other, rows)));
            Ok(())
        })
    }
}
