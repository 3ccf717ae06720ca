//! The tables of a session, by name.

use super::constraints::Constraints;
use crate::single_shard::single_shard;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{HashMap, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::collections::BTreeMap;
use whimbrel_plan::Stream;

/// What a name stands for.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// The rows, for `describe` and for callers of the session.
    pub stream: Stream,
    /// The plan that a query gets in place of the name.
    pub plan: LogicalPlan,
    /// How it was created.
    pub kind: TableKind,
}

/// How a table was created.
#[derive(Debug, Clone)]
pub(crate) enum TableKind {
    /// Registered by the caller of the session.
    Registered,
    /// `create external table`.
    External,
    /// `create view`.
    View {
        /// Its plan over tables of the rows of its streams, if it is over time and has one.
        over_tables: Option<LogicalPlan>,
        /// The tables and views that it names, with the columns that they had.
        reads: BTreeMap<String, SchemaRef>,
    },
    /// `create table`: the rows are in the session, and can change.
    Memory(Memory),
}

/// A table in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// The rows, in order.
    pub rows: Vec<RecordBatch>,
    /// The values of columns that an insert leaves out.
    pub defaults: HashMap<String, Expr>,
    /// The constraints, which hold for the rows.
    pub constraints: Constraints,
}

impl Table {
    /// A table that is a stream; all of its shards are read.
    ///
    /// # Errors
    /// `Plan` if the stream cannot be brought to one shard.
    pub fn of(stream: Stream, kind: TableKind) -> Result<Table> {
        let plan = single_shard(&stream)?.plan().clone();
        Ok(Table { stream, plan, kind })
    }
}

/// The tables of a session, by name.
pub(crate) type Tables = BTreeMap<String, Table>;

/// The table of this name; a name in capitals finds one in small letters and the other way round, if there is
/// only one.
pub(crate) fn find<'a>(tables: &'a Tables, name: &str) -> Option<(&'a String, &'a Table)> {
    tables.get_key_value(name).or_else(|| {
        let mut alike = tables.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        alike.next().filter(|_| alike.next().is_none())
    })
}
