//! A planned statement, and what its caller has to do.

use crate::files::Format;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DFSchemaRef;
use datafusion::logical_expr::Expr;
use std::collections::BTreeMap;
use whimbrel_plan::Stream;

/// A planned statement: what its caller has to do.
#[derive(Debug, Clone)]
pub enum Planned {
    /// Run the stream, and show its rows.
    Query(Stream),
    /// Show the plan of the stream: `explain`, `explain analyze`.
    Explain {
        /// The query.
        stream: Stream,
        /// Whether to run it and show counters.
        analyze: bool,
    },
    /// Run the stream, and write its rows into a file: `copy (…) to 'path'`.
    Copy {
        /// The rows.
        stream: Stream,
        /// The path of the file.
        to: String,
        /// The format of the file.
        format: Format,
        /// Options: `compression`, `header`, `delimiter`.
        options: BTreeMap<String, String>,
    },
    /// Run the stream, and give its rows to [`Session::store`](crate::Session::store): `create table … as`,
    /// `insert`, `delete`, `update`, `merge`.
    Store {
        /// The rows.
        stream: Stream,
        /// The table, and how it gets the rows.
        store: Box<Store>,
    },
    /// Show these rows: `show tables`, `describe`, `show`.
    Table(RecordBatch),
    /// Nothing; the text says what was done: `create view`, `create external table`, `drop`, `set`.
    Done(String),
}

impl Planned {
    /// The stream to run, if there is one.
    pub fn stream(&self) -> Option<&Stream> {
        match self {
            Planned::Query(stream)
            | Planned::Explain { stream, .. }
            | Planned::Copy { stream, .. }
            | Planned::Store { stream, .. } => Some(stream),
            Planned::Table(_) | Planned::Done(_) => None,
        }
    }

    /// The same statement with another plan of its query.
    #[must_use]
    pub fn with_stream(mut self, other: Stream) -> Planned {
        match &mut self {
            Planned::Query(stream)
            | Planned::Explain { stream, .. }
            | Planned::Copy { stream, .. }
            | Planned::Store { stream, .. } => *stream = other,
            Planned::Table(_) | Planned::Done(_) => {}
        }
        self
    }
}

/// How a table in memory gets rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The table.
    pub table: String,
    /// What happens to its rows.
    pub mode: StoreMode,
    /// What happens to an inserted row whose key exists.
    pub(crate) conflict: Conflict,
    /// The `returning` clause.
    pub(crate) returning: Option<Returning>,
}

impl Store {
    /// Rows with new keys, without `returning`.
    pub(crate) fn new(table: String, mode: StoreMode) -> Store {
        Store { table, mode, conflict: Conflict::Fail, returning: None }
    }
}

/// What happens to the rows of a table when it gets others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreMode {
    /// The table is created, or replaced with its columns.
    Create,
    /// They stay.
    Append,
    /// They go.
    Replace,
    /// They are written again, some of them changed; a last column marks these.
    Update,
    /// They are written again; a last column marks those that go.
    Delete,
    /// They are written again, and others with them; a last column has the action on each.
    Merge,
}

/// The action of a `merge` on a row.
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

/// The result of writing rows.
#[derive(Debug, Clone)]
pub struct Stored {
    /// How many rows were inserted, updated or deleted.
    pub rows: usize,
    /// The rows of `returning`.
    pub returned: Option<RecordBatch>,
}

impl Stored {
    /// How many rows were written, in words.
    pub fn summary(&self) -> String {
        format!("{} row{}", self.rows, if self.rows == 1 { "" } else { "s" })
    }
}

/// What happens to an inserted row whose key exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// It is an error.
    Fail,
    /// The row is skipped, if it conflicts in these columns, or in any key.
    Skip(Option<Vec<usize>>),
    /// The existing rows are deleted.
    Replace,
    /// The existing row is updated.
    Update(Merge),
}

/// `do update set … where …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merge {
    /// The key columns.
    pub key: Vec<usize>,
    /// The assigned columns and their values.
    pub assigned: Vec<(usize, Expr)>,
    /// The condition on updated rows.
    pub condition: Option<Expr>,
    /// The columns of the existing row, and then those of the inserted one.
    pub columns: DFSchemaRef,
}

/// `returning`: expressions over written rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Returning {
    /// The expressions.
    pub values: Vec<Expr>,
    /// The columns of the table.
    pub columns: DFSchemaRef,
    /// The columns of the answer.
    pub schema: SchemaRef,
}
