//! Rows without a time: a relation that was always there.
//!
//! Everything that flows is a [`Message`]. Rows of a relation flow as start edges at the beginning of time,
//! which is what they mean when they meet a stream; where they meet only each other, the times are carried
//! and not looked at.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::buffer::ScalarBuffer;
use std::sync::LazyLock;
use whimbrel_temporal::{BATCH_ROWS, BEGINNING, Batch, Message, Other};

/// Shared by all batches that are not larger than usual.
static ALWAYS: LazyLock<ScalarBuffer<i64>> = LazyLock::new(|| vec![BEGINNING; BATCH_ROWS].into());

/// These rows, alive always.
pub fn always(rows: RecordBatch) -> Message {
    Message::Batch(always_batch(rows))
}

/// These rows, alive always, as a batch.
pub(crate) fn always_batch(rows: RecordBatch) -> Batch {
    let sync = match rows.num_rows() {
        n if n <= BATCH_ROWS => ALWAYS.slice(0, n),
        n => vec![BEGINNING; n].into(),
    };
    Batch::new(sync, Other::Open, rows)
}
