//! A session: named tables, settings, and the options of the runtime that its queries run on.

use crate::datasets::Datasets;
use crate::query::RunningQuery;
use crate::stdin::StandardInput;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::sync::Arc;
use whimbrel_plan::{Stream, interruptible};
use whimbrel_sharded::runtime::TransferCosts;
use whimbrel_sharded::{Options, action};
use whimbrel_sql::{Candidate, Parameters, Planned};

/// Plans statements over named tables and files, and runs queries.
pub struct Session {
    /// Tables, views and settings of SQL.
    pub sql: whimbrel_sql::Session,
    /// How queries are run.
    pub options: Options,
}

impl Session {
    /// A session without tables. Statements may name files of this machine and of object stores.
    pub fn new(options: Options) -> Session {
        Session::over(Datasets::default(), options)
    }

    /// A session in which the location `-` is standard input.
    pub fn with_stdin(stdin: Arc<StandardInput>, options: Options) -> Session {
        Session::over(Datasets { stdin: Some(stdin) }, options)
    }

    /// A session over these files.
    fn over(datasets: Datasets, options: Options) -> Session {
        let mut sql = whimbrel_sql::Session::new(Arc::new(datasets));
        sql.set_cores(options.cores());
        let TransferCosts { movement, byte } = options.transfer_costs();
        sql.set_transfer_costs(movement, byte);
        Session { sql, options }
    }

    /// Plans one statement. `parameters` are the values for its places; `stop` is asked now and then whether
    /// to give up.
    ///
    /// # Errors
    /// As [`whimbrel_sql::Session::plan_with`]; `Execution` if `stop` is true.
    pub fn plan(
        &mut self,
        sql: &str,
        parameters: Option<&mut Parameters>,
        stop: impl Fn() -> bool + 'static,
    ) -> Result<Planned> {
        interruptible(stop, || match parameters {
            Some(parameters) => self.sql.plan_with(sql, parameters),
            None => self.sql.plan(sql),
        })
    }

    /// All ways to run a query in shards; the first is the one that [`plan`](Session::plan) chooses.
    ///
    /// # Errors
    /// As [`plan`](Session::plan); `Plan` if the statement is no query.
    pub fn candidates(
        &mut self,
        sql: &str,
        parameters: Option<&mut Parameters>,
        stop: impl Fn() -> bool + 'static,
    ) -> Result<Vec<Candidate>> {
        interruptible(stop, || match parameters {
            Some(parameters) => self.sql.candidates_with(sql, parameters),
            None => self.sql.candidates(sql),
        })
    }

    /// The columns of a query's result.
    pub fn schema(&self, stream: &Stream) -> SchemaRef {
        action::schema(stream, &self.options)
    }

    /// Starts a query with the options of the session.
    ///
    /// # Errors
    /// As [`RunningQuery::start`].
    pub fn start(
        &self,
        stream: &Stream,
        rows: impl FnMut(RecordBatch) -> Result<()> + Send + 'static,
    ) -> Result<RunningQuery> {
        RunningQuery::start(stream, &self.options, rows)
    }
}
