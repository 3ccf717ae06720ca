//! Relations as messages: rows without a time are always alive.
//!
//! Channels exchange [`Message`]s only. Rows of a relation become start edges at the beginning of time, which
//! is what they mean where they meet a stream. Between relational operators nobody looks at these times.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::buffer::ScalarBuffer;
use std::sync::LazyLock;
use whimbrel_temporal::{BATCH_ROWS, BEGINNING, Batch, Message, Other};

/// The times of a batch, shared by all batches of usual size.
static ALWAYS: LazyLock<ScalarBuffer<i64>> = LazyLock::new(|| vec![BEGINNING; BATCH_ROWS].into());

/// These rows as a message: they are always alive.
pub fn always(rows: RecordBatch) -> Message {
    Message::Batch(always_batch(rows))
}

/// Whether all rows of a batch are those of a relation. Times never decrease, so the last tells.
pub fn is_always(batch: &Batch) -> bool {
    matches!(batch.other, Other::Open)
        && batch.present().is_none()
        && batch.sync.last().is_none_or(|last| *last == BEGINNING)
}

/// These rows as a batch: they are always alive.
pub(crate) fn always_batch(rows: RecordBatch) -> Batch {
    let sync = match rows.num_rows() {
        n if n <= BATCH_ROWS => ALWAYS.slice(0, n),
        n => vec![BEGINNING; n].into(),
    };
    Batch::new(sync, Other::Open, rows)
}
