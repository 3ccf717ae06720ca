//! Runs statements one by one: each is planned and run, and its rows go to the target.

use crate::arguments::{JobSettings, Settings};
use crate::error::{Error, Result, print_message};
use crate::interrupt::Interrupts;
use crate::output::{FileOptions, OutputOptions, Target};
use crate::runner::Runner;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use whimbrel_plan::Stream;
use whimbrel_plan::source::local_path;
use whimbrel_session::{PlannedStatement, RunningQuery, Session, StandardInput};
use whimbrel_sharded::analyze;
use whimbrel_sharded::runtime::{PlanChoice, choices_text};
use whimbrel_sql::{Format, Planned, Store};

/// A session, and where its results go.
pub struct Client {
    /// Tables, views and settings.
    pub session: Session,
    /// Standard input, which is a table or a script.
    pub stdin: Arc<StandardInput>,
    /// Runs plans.
    pub runner: Runner,
    /// The form of results.
    pub output: OutputOptions,
    /// Where results go.
    pub target: Target,
    /// How a query is kept that is to survive crashes; none if it is run once.
    pub job: Option<JobSettings>,
    /// Whether the time of each statement is printed.
    pub timer: bool,
    /// Whether a person types the statements, who wants to read that a statement without rows was run.
    pub interactive: bool,
}

impl Client {
    /// A client with these settings. It receives Ctrl-C from now on.
    ///
    /// # Errors
    /// `Query` if the cluster that they name cannot be reached.
    pub fn new(settings: &Settings) -> Result<Client> {
        let stdin: Arc<StandardInput> = Arc::default();
        let mut session = Session::with_stdin(stdin.clone(), settings.options()?);
        session.sql.set_shards(settings.shards());
        let interrupts = Interrupts::install();
        let target = Target::new(settings.output.clone()).interrupted_by(&interrupts);
        let runner = Runner { progress: settings.progress(), interrupts };
        Ok(Client {
            session,
            stdin,
            runner,
            output: settings.output_options(),
            target,
            job: None,
            timer: settings.time,
            interactive: false,
        })
    }

    /// Plans a statement and runs it.
    ///
    /// # Errors
    /// `Query` if it fails, or standard input has a line that cannot be read; `Interrupted`;
    /// `OutputClosed`.
    pub fn statement(&mut self, sql: &str) -> Result {
        let started = Instant::now();
        let mut is_run = false;
        // A shell survives every Ctrl-C. Elsewhere one that comes before the query runs ends the program.
        let _watch = self.interactive.then(|| self.runner.interrupts.watch());
        // The shell survives a bug of ours too. The state that the panic left inconsistent is that of the
        // statement.
        let result = catch_unwind(AssertUnwindSafe(|| {
            let statement = self.plan(sql)?;
            let is_explained = matches!(statement.planned, Planned::Explain { analyze: false, .. });
            is_run = statement.planned.stream().is_some() && !is_explained;
            self.execute(statement, sql)
        }));
        result.unwrap_or_else(|payload| Err(Error::panic(&*payload)))?;
        if let Some(error) = self.stdin.take_failure() {
            return Err(Error::Query(format!("standard input: {}", whimbrel_sql::render(&error, ""))));
        }
        if self.timer {
            print_message(&format_duration(started.elapsed()));
            let remote = self.session.options.remote.as_ref().filter(|_| is_run);
            if let Some(cost) = remote.and_then(|remote| remote.last_cost()) {
                print_message(&cost);
            }
        }
        Ok(())
    }

    /// Runs a planned statement.
    ///
    /// # Errors
    /// As [`statement`](Client::statement).
    pub fn execute(&mut self, statement: PlannedStatement, sql: &str) -> Result {
        match statement.planned {
            Planned::Query(stream) if let Some(job) = &self.job => {
                self.runner.run_job(&self.session, &stream, sql, job)?;
            }
            Planned::Query(stream) => {
                let output = self.query_output();
                self.runner.run_to_target(&self.session, &stream, sql, &mut self.target, &output)?;
            }
            Planned::Explain { stream, analyze } => {
                self.explain(&stream, &statement.choices, analyze, sql)?
            }
            Planned::Copy { stream, to, format, options } => {
                self.copy(&stream, &to, format, &options, sql)?;
            }
            Planned::Store { stream, store } => self.store(&stream, &store, sql)?,
            Planned::Table(rows) => self.write_batch(&rows)?,
            Planned::Done(message) => self.notify(&message),
        }
        Ok(())
    }

    /// Rows from standard input go to standard output in the format in which they came, unless another is
    /// set.
    fn query_output(&self) -> OutputOptions {
        let input = self.stdin.format().filter(|_| self.target.is_stdout()).map(Into::into);
        OutputOptions { format: self.output.format.or(input), ..self.output.clone() }
    }

    /// Plans a statement. Ctrl-C stops the planner.
    ///
    /// # Errors
    /// `Query` if the statement is wrong; `Interrupted`.
    pub fn plan(&mut self, sql: &str) -> Result<PlannedStatement> {
        let interrupts = self.runner.interrupts.clone();
        let planned = self.session.plan(sql, None, move || interrupts.pressed());
        match self.runner.interrupts.pressed() {
            true => Err(Error::Interrupted),
            false => planned.map_err(|error| Error::in_statement(&error, sql)),
        }
    }

    /// Prints a plan with its estimates, and what there was to choose from. With `analyze`, runs it and
    /// prints its statistics too.
    ///
    /// # Errors
    /// As [`statement`](Client::statement).
    pub fn explain(&mut self, stream: &Stream, choices: &[PlanChoice], analyze: bool, sql: &str) -> Result {
        let failed = |error: DataFusionError| Error::in_statement(&error, sql);
        let options = &self.session.options;
        let forecast = |is_over| match &options.remote {
            Some(remote) => remote.forecast(stream, options, is_over).map_err(failed),
            None => Ok(None),
        };
        // There are no estimates for rows that come as time goes by.
        let estimates = || match stream.properties().time {
            Some(_) => stream.explain().map_err(failed),
            None => Ok(analyze::explain(stream, options).map_err(failed)?.text(false)),
        };
        let text = match (forecast(false)?, analyze) {
            (Some(expected), false) => estimates()? + &expected + &choices_text(choices),
            (Some(_), true) => {
                self.runner.for_each_batch(&self.session, stream, sql, self.runner.progress, |_| Ok(()))?;
                estimates()? + &forecast(true)?.unwrap_or_default() + &choices_text(choices)
            }
            (None, false) => estimates()?,
            (None, true) => self.explain_analyze(stream, sql)?,
        };
        self.target.write_text(&text)
    }

    /// Runs a plan for its statistics; its text with them.
    fn explain_analyze(&self, stream: &Stream, sql: &str) -> Result<String> {
        let failed = |error: DataFusionError| Error::in_statement(&error, sql);
        let analysis = analyze::analyze(stream, &self.session.options).map_err(failed)?;
        let query = RunningQuery::of_job(analysis.job().clone()).map_err(failed)?;
        self.runner.wait(&query, sql, self.runner.progress)?;
        let (read, out) = (query.job().rows_read(), query.job().rows_out());
        let explained = analysis.wait().map_err(failed)?;
        let colors = self.target.is_terminal();
        Ok(format!("{}{read} rows read, {out} rows out\n", explained.text(colors)))
    }

    /// Prints the ways to run a query in shards.
    ///
    /// # Errors
    /// `Query` if the statement is no query, or wrong.
    pub fn candidates(&mut self, sql: &str) -> Result {
        let candidates = self.session.candidates(sql, None, || false);
        let candidates = candidates.map_err(|error| Error::in_statement(&error, sql))?;
        let lines: String = candidates.iter().map(|candidate| format!("{candidate}\n")).collect();
        self.target.write_text(&lines)
    }

    /// Writes rows that are in memory to the target.
    ///
    /// # Errors
    /// `Query` if the target cannot be written; `OutputClosed`.
    pub fn write_batch(&mut self, rows: &RecordBatch) -> Result {
        let mut writer = self.target.open(&rows.schema(), &self.output, &FileOptions::default())?;
        match writer.write(rows) {
            Ok(()) => writer.finish(),
            Err(_) if writer.is_closed() => Err(Error::OutputClosed),
            Err(error) => Err(Error::in_statement(&error, "")),
        }
    }

    /// Runs a query into a file.
    fn copy(
        &mut self,
        stream: &Stream,
        to: &str,
        format: Format,
        options: &BTreeMap<String, String>,
        sql: &str,
    ) -> Result {
        let (path, options) = local_path(to)
            .and_then(|path| Ok((path.to_path_buf(), FileOptions::parse(options)?)))
            .map_err(|error| Error::in_statement(&error, sql))?;
        let output = OutputOptions { format: Some(format.into()), ..self.output.clone() };
        let mut target = Target::new(Some(path)).interrupted_by(&self.runner.interrupts);
        let _watch = self.runner.interrupts.watch();
        let writer = target.open(&self.session.schema(stream), &output, &options)?;
        let counts = self.runner.run_to_writer(&self.session, stream, sql, self.runner.progress, writer)?;
        self.notify(&format!("{} rows written to {to}", counts.out));
        Ok(())
    }

    /// Runs a query and puts its rows into a table in memory.
    fn store(&mut self, stream: &Stream, store: &Store, sql: &str) -> Result {
        let batches: Arc<Mutex<Vec<RecordBatch>>> = Arc::default();
        let sink = batches.clone();
        self.runner.for_each_batch(&self.session, stream, sql, self.runner.progress, move |batch| {
            sink.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
            Ok(())
        })?;
        let batches = std::mem::take(&mut *batches.lock().unwrap_or_else(PoisonError::into_inner));
        let schema = self.session.schema(stream);
        let stored = self.session.sql.store(store, schema, batches);
        let stored = stored.map_err(|error| Error::in_statement(&error, sql))?;
        match &stored.returned {
            Some(rows) => self.write_batch(rows),
            None => {
                self.notify(&stored.summary());
                Ok(())
            }
        }
    }

    /// Prints a message for a person, if there is one.
    pub fn notify(&self, message: &str) {
        if self.interactive {
            print_message(message);
        }
    }
}

/// The text of a duration.
fn format_duration(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 0.1 => format!("{:.1} ms", seconds * 1e3),
        seconds if seconds < 100.0 => format!("{seconds:.3} s"),
        seconds => format!("{} min {:.0} s", (seconds / 60.0) as u64, seconds % 60.0),
    }
}
