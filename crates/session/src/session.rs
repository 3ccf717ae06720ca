//! A session: named tables, settings, and the options of the runtime that its queries run on.

use crate::datasets::Datasets;
use crate::query::RunningQuery;
use crate::stdin::StandardInput;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, internal_err, plan_err};
use std::sync::Arc;
use whimbrel_plan::{Stream, interruptible};
use whimbrel_sharded::runtime::{ChosenPlan, PlanChoice, RemoteRuntime, TransferCosts};
use whimbrel_sharded::{Options, action};
use whimbrel_sql::{Candidate, Parameters, Planned};

/// A planned statement.
pub struct PlannedStatement {
    /// What its caller has to do.
    pub planned: Planned,
    /// The plans that were compared where its query runs; empty if none were.
    pub choices: Vec<PlanChoice>,
}

impl From<Planned> for PlannedStatement {
    /// A statement that nothing was compared for.
    fn from(planned: Planned) -> PlannedStatement {
        PlannedStatement { planned, choices: vec![] }
    }
}

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
    /// to give up. If no number of shards was set, the runtime of the session chooses a plan.
    ///
    /// # Errors
    /// As [`whimbrel_sql::Session::plan_with`]; `Execution` if `stop` is true; `Plan` if the runtime does not
    /// run such a query.
    pub fn plan(
        &mut self,
        sql: &str,
        parameters: Option<&mut Parameters>,
        stop: impl Fn() -> bool + 'static,
    ) -> Result<PlannedStatement> {
        let remote = self.options.remote.clone().filter(|_| self.sql.shards().is_none());
        interruptible(stop, || match remote {
            Some(remote) => self.choose_plan(&*remote, sql, parameters),
            None => self.plan_once(sql, parameters).map(Into::into),
        })
    }

    fn plan_once(&mut self, sql: &str, parameters: Option<&mut Parameters>) -> Result<Planned> {
        match parameters {
            Some(parameters) => self.sql.plan_with(sql, parameters),
            None => self.sql.plan(sql),
        }
    }

    /// Plans a statement in the numbers of shards that a runtime asks for. One without a query has effects,
    /// and is planned once.
    fn choose_plan(
        &mut self,
        remote: &dyn RemoteRuntime,
        sql: &str,
        mut parameters: Option<&mut Parameters>,
    ) -> Result<PlannedStatement> {
        let (options, unread) = (self.options.clone(), parameters.as_deref().cloned());
        let mut last = None;
        let chosen = remote.choose_plan(&options, &mut |shards| {
            if let (Some(parameters), Some(unread)) = (parameters.as_deref_mut(), &unread) {
                parameters.clone_from(unread);
            }
            self.sql.set_shards(Some(shards));
            let planned = self.plan_once(sql, parameters.as_deref_mut());
            self.sql.set_shards(None);
            match last.insert(planned?).stream() {
                Some(stream) => Ok(stream.clone()),
                None => plan_err!("this statement has no query"),
            }
        });
        match (last, chosen) {
            (Some(planned), _) if planned.stream().is_none() => Ok(planned.into()),
            (Some(planned), Ok(ChosenPlan { stream, choices })) => {
                Ok(PlannedStatement { planned: planned.with_stream(stream), choices })
            }
            (_, Err(error)) => Err(error),
            (None, Ok(_)) => internal_err!("a runtime chose a plan and has seen none"),
        }
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
        let shards = self.sql.shards();
        self.sql.set_shards(shards.or(self.options.remote.as_ref().map(|remote| remote.cores())));
        let candidates = interruptible(stop, || match parameters {
            Some(parameters) => self.sql.candidates_with(sql, parameters),
            None => self.sql.candidates(sql),
        });
        self.sql.set_shards(shards);
        candidates
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
