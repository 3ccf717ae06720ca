//! Rows on their way out of an operator that keeps a [`Synopsis`]: places are noted, and gathered once a
//! push.

use crate::batch::{Batch, Message, Other};
use crate::synopsis::{RowRef, Synopsis};
use crate::time::Time;
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
        if self.sync.is_empty() {
            return Ok(());
        }
        let rows = synopsis.gather(self.rows.iter().copied())?;
        self.rows.clear();
        let (sync, other) = (std::mem::take(&mut self.sync), std::mem::take(&mut self.other));
        out.push(Message::Batch(Batch::new(sync.into(), Other::Column(other.into()), rows)));
        Ok(())
    }
}
