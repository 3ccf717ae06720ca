//! A session, and statements one by one: each is planned, run, and its rows go where results go.

use crate::arguments::Settings;
use crate::failure::{Failure, Outcome, say};
use crate::files::Datasets;
use crate::interrupt::Interrupts;
use crate::live::StandardInput;
use crate::output::{Look, Target, Writing};
use crate::query::Runner;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result, plan_err};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use whimbrel_plan::{Stream, interruptible};
use whimbrel_sharded::analyze;
use whimbrel_sql::{Format, Planned, Session, Store};

/// A session that runs what it is told.
pub struct Client {
    /// Names, views and settings.
    pub session: Session,
    /// What a table may be made of, where no statements are read from it.
    pub stdin: Arc<StandardInput>,
    /// Runs plans.
    pub runner: Runner,
    /// How results look.
    pub look: Look,
    /// Where results go.
    pub target: Target,
    /// Whether to say how long each statement took.
    pub time: bool,
    /// Whether somebody is there who wants to hear that something was done.
    pub chatty: bool,
}

impl Client {
    /// A session with these settings. It listens for Ctrl-C.
    pub fn new(settings: &Settings) -> Client {
        let stdin: Arc<StandardInput> = Arc::default();
        let mut session = Session::new(Arc::new(Datasets { stdin: Some(stdin.clone()) }));
        session.set_shards(settings.shards());
        let options = settings.options();
        session.set_cores(options.runtime.cores());
        let interrupts = Interrupts::listen();
        let runner = Runner { options, progress: settings.progress(), interrupts };
        Client {
            session,
            stdin,
            runner,
            look: settings.look(),
            target: Target::new(settings.output.clone()),
            time: settings.time,
            chatty: false,
        }
    }

    /// Plans a statement and does what it says.
    pub fn statement(&mut self, sql: &str) -> Outcome {
        let since = Instant::now();
        // A shell outlives every Ctrl-C; elsewhere one that comes while nothing runs yet ends the program.
        let _watch = self.chatty.then(|| self.runner.interrupts.watch());
        // A shell goes on after a bug of ours; what the statement left half done is its own.
        let done =
            catch_unwind(AssertUnwindSafe(|| self.plan(sql).and_then(|planned| self.act(planned, sql))));
        done.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)))?;
        self.stdin.check()?;
        if self.time {
            say(&took(since.elapsed()));
        }
        Ok(())
    }

    /// Does what a planned statement says.
    pub fn act(&mut self, planned: Planned, sql: &str) -> Outcome {
        match planned {
            Planned::Query(stream) => {
                let look = self.look_of_rows();
                self.runner.show(&stream, sql, &mut self.target, &look)?;
            }
            Planned::Explain { stream, analyze } => self.explain(&stream, analyze, sql)?,
            Planned::Copy { stream, to, format, options } => {
                self.copy(&stream, &to, format, &options, sql)?;
            }
            Planned::Store { stream, store } => self.store(&stream, &store, sql)?,
            Planned::Table(rows) => self.table(&rows)?,
            Planned::Done(done) => self.done(&done),
        }
        Ok(())
    }

    /// Rows that come from standard input go out in the form in which they came, if no other was asked for.
    fn look_of_rows(&self) -> Look {
        let came = self.stdin.format().filter(|_| self.target.is_stdout());
        Look { format: self.look.format.or(came), ..self.look.clone() }
    }

    /// Plans a statement. Ctrl-C ends that, too.
    pub fn plan(&mut self, sql: &str) -> Outcome<Planned> {
        let interrupts = self.runner.interrupts.clone();
        let planned = interruptible(move || interrupts.pressed(), || self.session.plan(sql));
        match self.runner.interrupts.pressed() {
            true => Err(Failure::Interrupted),
            false => planned.map_err(|error| Failure::of(&error, sql)),
        }
    }

    /// Shows a plan, with what is expected of it; to analyze it, it is run first, and what was counted is shown with
    /// that.
    pub fn explain(&mut self, stream: &Stream, analyze: bool, sql: &str) -> Outcome {
        let failed = |error: DataFusionError| Failure::of(&error, sql);
        let text = match analyze {
            true => {
                let analysis = analyze::analyze(stream, &self.runner.options).map_err(failed)?;
                self.runner.wait(analysis.job(), sql, self.runner.progress)?;
                let (read, out) = (analysis.job().rows_read(), analysis.job().rows_out());
                let explained = analysis.wait().map_err(failed)?;
                let colors = self.target.is_terminal();
                format!("{}{read} rows read, {out} rows out\n", explained.text(colors))
            }
            // What is expected of rows that come as time goes by is not known.
            false if stream.properties().time.is_some() => stream.explain().map_err(failed)?,
            false => analyze::explain(stream, &self.runner.options).map_err(failed)?.text(false),
        };
        self.target.text(&text)
    }

    /// Lists the ways to run a query in shards.
    pub fn candidates(&mut self, sql: &str) -> Outcome {
        let ways = self.session.candidates(sql).map_err(|error| Failure::of(&error, sql))?;
        let lines: String = ways.iter().map(|way| format!("{way}\n")).collect();
        self.target.text(&lines)
    }

    /// Shows rows that are known already.
    pub fn table(&mut self, rows: &RecordBatch) -> Outcome {
        let mut shown = self.target.open(&rows.schema(), &self.look, &Writing::default())?;
        match shown.write(rows) {
            Ok(()) => shown.finish(),
            Err(_) if shown.closed() => Err(Failure::Closed),
            Err(error) => Err(Failure::of(&error, "")),
        }
    }

    fn copy(
        &mut self,
        stream: &Stream,
        to: &str,
        format: Format,
        options: &BTreeMap<String, String>,
        sql: &str,
    ) -> Outcome {
        let (path, writing) = local(to)
            .and_then(|path| Ok((path, Writing::of(options)?)))
            .map_err(|error| Failure::of(&error, sql))?;
        let look = Look { format: Some(format.into()), ..self.look.clone() };
        let mut target = Target::new(Some(path));
        let _watch = self.runner.interrupts.watch();
        let shown = target.open(&self.runner.schema(stream), &look, &writing)?;
        let counts = self.runner.write(stream, sql, self.runner.progress, shown)?;
        self.done(&format!("{} rows written to {to}", counts.out));
        Ok(())
    }

    fn store(&mut self, stream: &Stream, store: &Store, sql: &str) -> Outcome {
        let kept: Arc<Mutex<Vec<RecordBatch>>> = Arc::default();
        let keep = kept.clone();
        self.runner.each(stream, sql, self.runner.progress, move |rows| {
            keep.lock().unwrap_or_else(PoisonError::into_inner).push(rows);
            Ok(())
        })?;
        let rows = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        let schema = self.runner.schema(stream);
        let stored = self.session.store(store, schema, rows).map_err(|error| Failure::of(&error, sql))?;
        match &stored.returned {
            Some(rows) => self.table(rows),
            None => {
                self.done(&stored.done());
                Ok(())
            }
        }
    }

    fn done(&self, what: &str) {
        if self.chatty {
            say(what);
        }
    }
}

/// The path of a file of this machine.
fn local(location: &str) -> Result<PathBuf> {
    match location.split_once("://") {
        None => Ok(PathBuf::from(location)),
        Some(("file", path)) => Ok(PathBuf::from(path)),
        Some((scheme, _)) => {
            plan_err!("copy writes files of this machine, not {scheme}://; write a local file and upload it")
        }
    }
}

/// A duration as people read it.
pub fn took(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 0.1 => format!("{:.1} ms", seconds * 1e3),
        seconds if seconds < 100.0 => format!("{seconds:.3} s"),
        seconds => format!("{} min {:.0} s", (seconds / 60.0) as u64, seconds % 60.0),
    }
}
