//! What a call returns.

use crate::cursor::Cursor;
use crate::store::Operations;
use datafusion::arrow::array::RecordBatch;

/// What a call returns.
#[derive(Debug, Clone)]
pub struct Page {
    /// The rows.
    pub batch: RecordBatch,
    /// Where the next page begins, if the query has pages and this one was full.
    pub cursor: Option<Cursor>,
    /// The operations of the store for it.
    pub spent: Operations,
}
