//! What is to be done about a statement.

use crate::files::Format;
use datafusion::arrow::record_batch::RecordBatch;
use std::collections::BTreeMap;
use whimbrel_plan::Stream;

/// What is to be done about a statement.
#[derive(Debug, Clone)]
pub enum Planned {
    /// Rows come out: a stream to run.
    Query(Stream),
    /// `explain` and `explain analyze` of it.
    Explain {
        /// The query.
        stream: Stream,
        /// Whether to run it and show what was counted.
        analyze: bool,
    },
    /// `copy (…) to 'path'`: run it, and write the rows into a file.
    Copy {
        /// The rows.
        stream: Stream,
        /// Where to.
        to: String,
        /// As what.
        format: Format,
        /// What else was said of it: `compression`, `header`, `delimiter`.
        options: BTreeMap<String, String>,
    },
    /// `create table … as`, `insert`, `delete`, `update`: run the stream, and hand its rows to
    /// [`Session::store`](crate::Session::store).
    Store {
        /// The rows.
        stream: Stream,
        /// Where they belong.
        store: Store,
    },
    /// An answer that is known already: `show tables`, `describe`, `show`.
    Table(RecordBatch),
    /// Done, nothing to show: `create view`, `create external table`, `drop`, `set`. The text says what was
    /// done.
    Done(String),
}

/// A table in memory that gets rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The table.
    pub table: String,
    /// What happens to the rows it has.
    pub mode: StoreMode,
}

/// What happens to the rows that a table has when it gets others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreMode {
    /// There is no such table yet, or it is replaced, columns and all.
    Create,
    /// They stay.
    Append,
    /// They go: some were deleted or changed.
    Replace,
}
