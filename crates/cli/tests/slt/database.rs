//! A database for the tests: a session, and the runtime that runs what it plans.
//!
//! Invariants: all connections of a script share one session; a query that does not end is stopped, and a panic
//! is a failure of its record, not of the run.

use crate::values::{self, Letters};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use sqllogictest::{DB, DBOutput, DefaultColumnType};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use whimbrel_plan::{Source, Stream};
use whimbrel_sharded::action::{Table, collect};
use whimbrel_sharded::dataset::{FileDataset, MemoryDataset};
use whimbrel_sharded::{Options, RuntimeKind};
use whimbrel_sql::{FileOptions, Files, Planned, Session};

const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Where a script runs.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub runtime: RuntimeKind,
    /// In how many shards tables are read.
    pub shards: usize,
}

impl Place {
    /// Every runtime there is, and what a number of shards may change.
    pub const ALL: [Place; 4] = [
        Place { runtime: RuntimeKind::Library, shards: 1 },
        Place { runtime: RuntimeKind::Local, shards: 1 },
        Place { runtime: RuntimeKind::Local, shards: 2 },
        Place { runtime: RuntimeKind::Local, shards: 3 },
    ];
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.runtime {
            RuntimeKind::Library => write!(f, "library"),
            RuntimeKind::Local => write!(f, "local{}", self.shards),
        }
    }
}

/// An error as a user reads it.
#[derive(Debug)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// What the connections of a script share.
pub struct Shared {
    session: Mutex<Session>,
    options: Options,
    /// How the values of the next answer are written.
    letters: Mutex<Letters>,
}

impl Shared {
    pub fn new(place: Place) -> Arc<Shared> {
        let mut session = Session::new(Arc::new(Local { shards: place.shards }));
        session.set_shards(Some(place.shards));
        // The tables of tests are small.
        session.set_shard_rows(0);
        let options = Options { runtime: place.runtime, ..Options::default() };
        Arc::new(Shared { session: Mutex::new(session), options, letters: Mutex::default() })
    }

    pub fn write_as(&self, letters: Letters) {
        *self.letters.lock().unwrap_or_else(PoisonError::into_inner) = letters;
    }
}

/// One connection.
pub struct Database(pub Arc<Shared>);

impl DB for Database {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        catch_unwind(AssertUnwindSafe(|| self.statements(sql))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            Err(Failure(format!("panicked: {}", text.unwrap_or_default())))
        })
    }

    fn engine_name(&self) -> &str {
        "whimbrel"
    }
}

impl Database {
    /// Runs one or more statements; the answer is that of the last.
    fn statements(&self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let failed = |error: DataFusionError| Failure(whimbrel_sql::render(&error, sql));
        let mut last = DBOutput::StatementComplete(0);
        for statement in Session::split(sql).map_err(failed)? {
            let failed = |error: DataFusionError| Failure(whimbrel_sql::render(&error, statement.text));
            last = self.statement(statement.text).map_err(failed)?;
        }
        Ok(last)
    }

    fn statement(&self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
        let mut session = self.0.session.lock().unwrap_or_else(PoisonError::into_inner);
        match session.plan(sql)? {
            Planned::Query(stream) => {
                let table = self.collect(&stream)?;
                self.rows(&table.schema, &table.batches)
            }
            Planned::Table(batch) => self.rows(&batch.schema(), &[batch]),
            Planned::Explain { stream, .. } => {
                let lines = stream.explain()?;
                Ok(DBOutput::Rows {
                    types: vec![DefaultColumnType::Text],
                    rows: lines.lines().map(|line| vec![line.to_string()]).collect(),
                })
            }
            Planned::Store { stream, store } => {
                let table = self.collect(&stream)?;
                let stored = session.store(&store, table.schema, table.batches)?;
                match &stored.returned {
                    Some(rows) => self.rows(&rows.schema(), std::slice::from_ref(rows)),
                    None => Ok(DBOutput::StatementComplete(stored.rows as u64)),
                }
            }
            Planned::Copy { to, .. } => {
                datafusion::common::exec_err!("copy to `{to}`: these tests write no files")
            }
            Planned::Done(_) => Ok(DBOutput::StatementComplete(0)),
        }
    }

    fn collect(&self, stream: &Stream) -> Result<Table> {
        let action = collect(stream, &self.0.options)?;
        if !action.job().wait_timeout(TIME_LIMIT)? {
            action.job().cancel();
            return datafusion::common::exec_err!("stopped after {} seconds", TIME_LIMIT.as_secs());
        }
        action.wait()
    }

    fn rows(&self, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<DBOutput<DefaultColumnType>> {
        let letters = self.0.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let types = vec![DefaultColumnType::Any; schema.fields().len()];
        let mut rows = Vec::new();
        for batch in batches {
            rows.extend(values::rows(batch, &letters)?);
        }
        Ok(DBOutput::Rows { types, rows })
    }
}

/// Files of this machine, and tables in memory, in so many shards.
struct Local {
    shards: usize,
}

impl Files for Local {
    fn open(&self, location: &str, options: &FileOptions) -> Result<Arc<dyn Source>> {
        let locations: Vec<String> = location.lines().map(str::to_string).collect();
        Ok(Arc::new(FileDataset::open(&locations, options.shards)?))
    }

    fn table(&self, schema: SchemaRef, rows: Vec<RecordBatch>) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(MemoryDataset::new(schema, vec![rows])?.with_shards(self.shards)?))
    }
}
