//! A database for the tests: a session, and the runtime that runs what it plans.
//!
//! Invariants: every connection has a session of its own; files are written below a folder that is gone after
//! the script; a query that does not end is stopped, and a panic is a failure of its record, not of the run.

use crate::dialect::ENGINE;
use crate::values::{self, Letters};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use sqllogictest::{DB, DBOutput, DefaultColumnType};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use whimbrel_cli::output::{FileOptions as OutputFileOptions, OutputOptions, Target};
use whimbrel_cluster::{Cluster, Worker, WorkerOptions};
use whimbrel_control::{ControlStore, MemoryStore};
use whimbrel_functions::{
    BucketAddress, FunctionAddress, FunctionService, Functions, FunctionsSettings, ServiceOptions,
};
use whimbrel_plan::{References, Source, Stream};
use whimbrel_session::{Datasets, PlanReferences};
use whimbrel_sharded::action::{Table, collect};
use whimbrel_sharded::dataset::MemoryDataset;
use whimbrel_sharded::replay::record;
use whimbrel_sharded::runtime::RemoteRuntime;
use whimbrel_sharded::{Options, RuntimeKind};
use whimbrel_sql::{FileOptions, Files, Format, Planned, Session};

const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Where a script runs.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub runtime: RuntimeKind,
    /// In how many shards tables are read.
    pub shards: usize,
    /// In which processes queries run.
    pub on: On,
}

/// In which processes queries run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    ThisProcess,
    Cluster,
    Functions,
}

impl Place {
    /// Every runtime there is, and what a number of shards may change. In library mode every plan goes
    /// through bytes.
    pub const ALL: [Place; 6] = [
        Place::LIBRARY,
        Place::local(1),
        Place::local(2),
        Place::local(3),
        Place { on: On::Cluster, ..Place::local(3) },
        Place { on: On::Functions, ..Place::local(3) },
    ];

    pub const LIBRARY: Place = Place { runtime: RuntimeKind::Library, shards: 1, on: On::ThisProcess };

    pub const fn local(shards: usize) -> Place {
        Place { runtime: RuntimeKind::Local, shards, on: On::ThisProcess }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.runtime, self.on) {
            (RuntimeKind::Library, _) => write!(f, "library"),
            (RuntimeKind::Local, On::ThisProcess) => write!(f, "local{}", self.shards),
            (RuntimeKind::Local, On::Cluster) => write!(f, "cluster{}", self.shards),
            (RuntimeKind::Local, On::Functions) => write!(f, "functions{}", self.shards),
        }
    }
}

/// An error as a user reads it.
#[derive(Debug)]
pub struct Failure {
    message: String,
    /// Whether it says that a feature is missing.
    pub is_missing: bool,
}

impl Failure {
    fn of(error: &DataFusionError, sql: &str) -> Failure {
        Failure { message: whimbrel_sql::render(error, sql), is_missing: whimbrel_sql::is_missing(error) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// What the connections of a script share.
pub struct Shared {
    place: Place,
    options: Options,
    /// Where files are written.
    folder: PathBuf,
    /// How the values of the next answer are written.
    letters: Mutex<Letters>,
}

impl Shared {
    pub fn new(place: Place) -> Arc<Shared> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("whimbrel-slt-{}-{number}", std::process::id()));
        let remote: Option<Arc<dyn RemoteRuntime>> = match place.on {
            On::ThisProcess => None,
            On::Cluster => Some(cluster()),
            On::Functions => Some(functions()),
        };
        let options = Options { runtime: place.runtime, remote, ..Options::default() };
        Arc::new(Shared { place, options, folder, letters: Mutex::default() })
    }

    /// The folder where files are written. It is made when the first file is.
    pub fn scratch(&self) -> String {
        self.folder.display().to_string()
    }

    /// Where a file is written: in the folder, wherever a script wants it.
    fn written(&self, to: &str) -> PathBuf {
        let path = Path::new(to);
        match path.strip_prefix(&self.folder) {
            Ok(_) => path.to_path_buf(),
            Err(_) => {
                let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
                self.folder.join(names.collect::<PathBuf>())
            }
        }
    }

    pub fn write_as(&self, letters: Letters) {
        *self.letters.lock().unwrap_or_else(PoisonError::into_inner) = letters;
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Most scripts write nothing.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// One connection.
pub struct Database {
    shared: Arc<Shared>,
    session: Session,
}

impl DB for Database {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        catch_unwind(AssertUnwindSafe(|| self.statements(sql))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            let message = format!("panicked: {}", text.unwrap_or_default());
            Err(Failure { message, is_missing: false })
        })
    }

    fn engine_name(&self) -> &str {
        ENGINE
    }
}

impl Database {
    pub fn new(shared: Arc<Shared>) -> Database {
        let shards = shared.place.shards;
        let mut session = Session::new(Arc::new(Local { shared: shared.clone() }));
        session.set_shards(Some(shards));
        // The tables of tests are small.
        session.set_shard_rows(0);
        Database { shared, session }
    }

    /// Runs one or more statements; the answer is that of the last.
    fn statements(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let failed = |error: DataFusionError| Failure::of(&error, sql);
        let mut last = DBOutput::StatementComplete(0);
        for statement in Session::split(sql).map_err(failed)? {
            let failed = |error: DataFusionError| Failure::of(&error, statement.text);
            last = self.statement(statement.text).map_err(failed)?;
        }
        Ok(last)
    }

    fn statement(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
        match self.session.plan(sql)? {
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
                let stored = self.session.store(&store, table.schema, table.batches)?;
                match &stored.returned {
                    Some(rows) => self.rows(&rows.schema(), std::slice::from_ref(rows)),
                    None => Ok(DBOutput::StatementComplete(stored.rows as u64)),
                }
            }
            Planned::Copy { stream, to, format, options } => {
                let table = self.collect(&stream)?;
                let rows = table.batches.iter().map(RecordBatch::num_rows).sum::<usize>();
                self.copy(&table, &to, format, &options)?;
                Ok(DBOutput::StatementComplete(rows as u64))
            }
            Planned::Done(_) => Ok(DBOutput::StatementComplete(0)),
        }
    }

    fn collect(&self, stream: &Stream) -> Result<Table> {
        let options = &self.shared.options;
        let action = match self.shared.place.runtime {
            RuntimeKind::Library => collect(&through_bytes(stream)?, options)?,
            RuntimeKind::Local => match collect(stream, options) {
                Err(error) if options.remote.is_some() && stays_here(&error) => {
                    collect(stream, &Options { remote: None, ..options.clone() })?
                }
                started => started?,
            },
        };
        if self.shared.place.shards == 2 {
            check_replay(stream, &self.shared.options)?;
        }
        if !action.job().wait_timeout(TIME_LIMIT)? {
            action.job().cancel();
            return datafusion::common::exec_err!("stopped after {} seconds", TIME_LIMIT.as_secs());
        }
        action.wait()
    }

    fn copy(
        &self,
        table: &Table,
        to: &str,
        format: Format,
        options: &BTreeMap<String, String>,
    ) -> Result<()> {
        let path = self.shared.written(to);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let failed = |error: whimbrel_cli::error::Error| exec_datafusion_err!("copy to `{to}`: {error:?}");
        let output = OutputOptions { format: Some(format.into()), max_rows: 0, max_width: None };
        let mut target = Target::new(Some(path));
        let mut file =
            target.open(&table.schema, &output, &OutputFileOptions::parse(options)?).map_err(failed)?;
        table.batches.iter().try_for_each(|rows| file.write(rows))?;
        file.finish().map_err(failed)
    }

    fn rows(&self, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<DBOutput<DefaultColumnType>> {
        let letters = self.shared.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let types = vec![DefaultColumnType::Any; schema.fields().len()];
        let mut rows = Vec::new();
        for batch in batches {
            rows.extend(values::rows(batch, &letters)?);
        }
        Ok(DBOutput::Rows { types, rows })
    }
}

/// A cluster of three workers in this process.
fn cluster() -> Arc<Cluster> {
    static CLUSTER: OnceLock<(Arc<Cluster>, Vec<Worker>)> = OnceLock::new();
    let start = || {
        let store: Arc<dyn ControlStore> = Arc::new(MemoryStore::default());
        let references = || Arc::new(PlanReferences);
        let options = WorkerOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            host: None,
            threads: 1,
            folder: std::env::temp_dir(),
            backup_memory: 1 << 20,
            backup_disk: None,
            metrics: None,
        };
        let worker = |_| Worker::start(Arc::clone(&store), references(), &options).expect("a worker starts");
        let workers = (0..3).map(worker).collect();
        (Arc::new(Cluster::connect(Arc::clone(&store), references()).expect("a client connects")), workers)
    };
    Arc::clone(&CLUSTER.get_or_init(start).0)
}

/// Four functions on this machine, which run the command. No query is too small for them, and every shuffle
/// is combined.
fn functions() -> Arc<Functions> {
    static FUNCTIONS: OnceLock<(Arc<Functions>, FunctionService)> = OnceLock::new();
    let start = || {
        let command = vec![env!("CARGO_BIN_EXE_whimbrel").to_string(), "function".to_string()];
        let (name, memory) = ("whimbrel".to_string(), 3008);
        let service = FunctionService::start(ServiceOptions {
            command,
            name: name.clone(),
            concurrency: 4,
            memory,
            timeout: TIME_LIMIT,
            listen: ([127, 0, 0, 1], 0).into(),
        });
        let service = service.expect("a service starts");
        let folder = std::env::temp_dir().join(format!("whimbrel-slt-functions-{}", std::process::id()));
        let url = folder.to_str().expect("the name of the folder is text").to_string();
        let function = FunctionAddress { name, endpoints: vec![format!("http://{}", service.address())] };
        let settings = FunctionsSettings::new(function, BucketAddress { url, endpoint: None });
        let mut settings = settings.expect("a price sheet comes along");
        (settings.small, settings.combine) = (0, Some(true));
        // Some outputs go along with answers, and some into objects.
        settings.job.inline_bytes = 2000;
        let functions = Functions::connect(settings, Arc::new(PlanReferences));
        (Arc::new(functions.expect("functions are there")), service)
    };
    Arc::clone(&FUNCTIONS.get_or_init(start).0)
}

/// Whether a cluster refuses a query: it calls functions that have another value each time, or count in their
/// session.
fn stays_here(error: &DataFusionError) -> bool {
    let text = error.to_string();
    text.contains("another value each time") || OF_A_SESSION.iter().any(|name| text.contains(name))
}

/// Functions that belong to a session: they count in it.
const OF_A_SESSION: [&str; 2] = ["the function \"nextval\" belongs", "the function \"currval\" belongs"];

/// The plan as another process would read it. What belongs to a session, such as the numbers of a sequence,
/// stays in it.
fn through_bytes(stream: &Stream) -> Result<Stream> {
    let references: Arc<dyn References> = Arc::new(PlanReferences);
    match stream.to_bytes(&references) {
        Ok(bytes) => {
            let again = Stream::from_bytes(&bytes, &references)?;
            match again.to_bytes(&references)? == bytes {
                true => Ok(again),
                false => datafusion::common::exec_err!("a plan that was read has other bytes than before"),
            }
        }
        Err(error) if OF_A_SESSION.iter().any(|name| error.to_string().contains(name)) => Ok(stream.clone()),
        Err(error) => Err(error),
    }
}

/// Runs every channel of the query again from its tape, unless it calls functions that have another value
/// each time.
fn check_replay(stream: &Stream, options: &Options) -> Result<()> {
    match record(stream, options) {
        Ok(recording) => recording.check(),
        Err(error) if error.to_string().contains("another value each time") => Ok(()),
        Err(error) => Err(error),
    }
}

/// Files of this machine, those that the script has written first; and tables in memory, in so many shards.
struct Local {
    shared: Arc<Shared>,
}

impl Local {
    fn location(&self, location: &str) -> String {
        let written = self.shared.written(location);
        if written.exists() { written.display().to_string() } else { location.to_string() }
    }
}

impl Files for Local {
    fn open(&self, location: &str, options: &FileOptions) -> Result<Arc<dyn Source>> {
        let locations: Vec<String> = location.lines().map(|location| self.location(location)).collect();
        Datasets::default().open(&locations.join("\n"), options)
    }

    fn table(&self, schema: SchemaRef, rows: Vec<RecordBatch>) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(MemoryDataset::new(schema, vec![rows])?.with_shards(self.shared.place.shards)?))
    }
}
