//! What is to be done about a statement.

use crate::files::Format;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DFSchemaRef;
use datafusion::logical_expr::Expr;
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
        store: Box<Store>,
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
    /// What happens to rows whose key the table has already.
    pub(crate) conflict: Conflict,
    /// What is handed out of the rows that were written.
    pub(crate) returning: Option<Returning>,
}

impl Store {
    /// Rows whose keys are not there yet, and of which nothing is handed out.
    pub(crate) fn new(table: String, mode: StoreMode) -> Store {
        Store { table, mode, conflict: Conflict::Fail, returning: None }
    }
}

/// What happens to the rows that a table has when it gets others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreMode {
    /// There is no such table yet, or it is replaced, columns and all.
    Create,
    /// They stay.
    Append,
    /// They go.
    Replace,
    /// They come again, some of them changed; a last column says which.
    Update,
    /// They come again; a last column says which of them go.
    Delete,
    /// They come again, and others with them; a last column says what becomes of each.
    Merge,
}

/// What a `merge` does with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// It stays as it is.
    Keep = 0,
    /// It has been changed.
    Update = 1,
    /// It goes.
    Delete = 2,
    /// It is new.
    Insert = 3,
}

/// What was done when a table got rows.
#[derive(Debug, Clone)]
pub struct Stored {
    /// How many rows were written, or taken away.
    pub rows: usize,
    /// What `returning` asked for.
    pub returned: Option<RecordBatch>,
}

impl Stored {
    /// How many rows were written, in words.
    pub fn summary(&self) -> String {
        format!("{} row{}", self.rows, if self.rows == 1 { "" } else { "s" })
    }
}

/// What happens to a row whose key the table has already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// It is an error.
    Fail,
    /// The row is left out, if it conflicts in these columns, or in any key.
    Skip(Option<Vec<usize>>),
    /// The rows that are there go.
    Replace,
    /// The row that is there is changed.
    Update(Merge),
}

/// `do update set … where …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merge {
    /// The columns of the key.
    pub key: Vec<usize>,
    /// Which columns get which values.
    pub assigned: Vec<(usize, Expr)>,
    /// Which rows are changed.
    pub only: Option<Expr>,
    /// The columns of the row that is there, and after them those of the one that comes.
    pub columns: DFSchemaRef,
}

/// `returning`: expressions over the rows that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Returning {
    pub values: Vec<Expr>,
    pub columns: DFSchemaRef,
    pub schema: SchemaRef,
}
