//! A store and a sink that crash at a chosen step, and what a job is tested with.

use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use whimbrel_jobs::sink::{Run, Sink};
use whimbrel_jobs::store::StateStore;
use whimbrel_jobs::{DurableJob, Pace, start_with};
use whimbrel_plan::nodes::{Scope, TimeSpec};
use whimbrel_plan::{Agg, References, Source, Stream, column};
use whimbrel_sharded::dataset::{LiveDataset, LiveSender, MemoryDataset};
use whimbrel_sharded::{Options, RuntimeKind};
use whimbrel_temporal::{Closed, IngressOptions};

/// A process that crashes at a step: from then on, nothing that it does has an effect.
#[derive(Default)]
pub struct Process {
    steps: AtomicUsize,
    crash_at: usize,
    crashed: AtomicBool,
}

impl Process {
    /// A process that crashes at this step; the number of its half says whether the step has its effect.
    pub fn that_crashes_at(crash_at: usize) -> Arc<Process> {
        Arc::new(Process { crash_at, ..Process::default() })
    }

    /// Whether it has crashed.
    pub fn has_crashed(&self) -> bool {
        self.crashed.load(Ordering::SeqCst)
    }

    /// Does a step, if the process lives; reports it as failed if the process crashes in it.
    fn step<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.has_crashed() {
            return exec_err!("crashed");
        }
        let step = self.steps.fetch_add(1, Ordering::SeqCst);
        if step == self.crash_at / 2 {
            self.crashed.store(true, Ordering::SeqCst);
            if self.crash_at % 2 == 1 {
                act()?;
            }
            return exec_err!("crashed");
        }
        act()
    }
}

/// What is on the disk.
pub type Disk = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A store whose process may crash.
pub struct CrashingStore {
    pub disk: Disk,
    pub process: Arc<Process>,
}

impl StateStore for CrashingStore {
    fn put(&self, objects: Vec<(String, Vec<u8>)>) -> Result<()> {
        // A crash may come between any two objects.
        objects.into_iter().try_for_each(|(name, bytes)| {
            self.process.step(|| {
                self.disk.lock().unwrap().insert(name, bytes);
                Ok(())
            })
        })
    }

    fn create(&self, name: &str, bytes: Vec<u8>) -> Result<bool> {
        self.process.step(|| {
            let mut disk = self.disk.lock().unwrap();
            let is_new = !disk.contains_key(name);
            if is_new {
                disk.insert(name.to_string(), bytes);
            }
            Ok(is_new)
        })
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.disk.lock().unwrap().get(name).cloned())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let disk = self.disk.lock().unwrap();
        let prefix = format!("{folder}/");
        Ok(disk.keys().filter_map(|name| name.strip_prefix(&prefix).map(str::to_string)).collect())
    }

    fn remove(&self, names: &[String]) -> Result<()> {
        names.iter().try_for_each(|name| {
            self.process.step(|| {
                self.disk.lock().unwrap().remove(name);
                Ok(())
            })
        })
    }

    fn describe(&self) -> String {
        "a disk".to_string()
    }
}

/// What a database has: the last epoch, and rows.
pub type Database = Arc<Mutex<(Option<u64>, Vec<RecordBatch>)>>;

/// A sink whose process may crash.
pub struct CrashingSink {
    pub database: Database,
    pub process: Arc<Process>,
    pub rows: Vec<RecordBatch>,
}

impl Sink for CrashingSink {
    fn open(&mut self, _: &Run) -> Result<Option<u64>> {
        Ok(self.database.lock().unwrap().0)
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.rows.push(rows.clone());
        Ok(())
    }

    fn commit(&mut self, epoch: u64) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.process.step(|| {
            let mut database = self.database.lock().unwrap();
            assert!(database.0 < Some(epoch), "epoch {epoch} is committed twice");
            database.0 = Some(epoch);
            database.1.extend(rows);
            Ok(())
        })
    }

    fn is_due(&self) -> bool {
        !self.rows.is_empty()
    }
}

/// Plans of the tests have no bytes: a source that pushes rows is in this process only.
#[derive(Debug)]
struct NoReferences;

impl References for NoReferences {
    fn write_source(&self, source: &dyn Source) -> Result<Vec<u8>> {
        exec_err!("{} has no bytes", source.describe())
    }

    fn read_source(&self, _: &[u8]) -> Result<Arc<dyn Source>> {
        exec_err!("there are no sources")
    }

    fn scalar_functions(&self, _: &str) -> Vec<Arc<ScalarUDF>> {
        vec![]
    }

    fn aggregate_functions(&self, _: &str) -> Vec<Arc<AggregateUDF>> {
        vec![]
    }

    fn window_functions(&self, _: &str) -> Vec<Arc<WindowUDF>> {
        vec![]
    }

    fn higher_order_functions(&self, _: &str) -> Vec<Arc<HigherOrderUDF>> {
        vec![]
    }

    fn write_parameters(&self, _: &ScalarUDF) -> Option<Vec<u8>> {
        None
    }

    fn make_function(&self, name: &str, _: &[u8]) -> Result<ScalarUDF> {
        exec_err!("there is no function {name}")
    }
}

/// What plans of the tests refer to.
pub fn references() -> Arc<dyn References> {
    Arc::new(NoReferences)
}

/// The columns of the clicks.
pub fn click_schema() -> SchemaRef {
    clicks(0..0).schema()
}

/// So many clicks: two a tick, on three items.
pub fn clicks(numbers: std::ops::Range<i64>) -> RecordBatch {
    let time: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone().map(|n| n / 2)));
    let item: ArrayRef =
        Arc::new(StringArray::from_iter_values(numbers.map(|n| ["a", "b", "c"][n as usize % 3])));
    RecordBatch::try_from_iter([("time", time), ("item", item)]).unwrap()
}

/// A source of clicks with a log in a folder.
pub fn source(folder: &std::path::Path) -> (Arc<LiveDataset>, LiveSender) {
    let (source, mut senders) = LiveDataset::with_journal(click_schema(), 1, folder).unwrap();
    (source, senders.remove(0))
}

/// A table of so many clicks.
pub fn table(rows: i64) -> Arc<MemoryDataset> {
    Arc::new(MemoryDataset::new(click_schema(), vec![vec![clicks(0..rows)]]).unwrap())
}

/// Clicks per item in windows of five ticks, in two shards.
pub fn query(source: Arc<dyn Source>) -> Stream {
    let time = TimeSpec::point("time");
    let clicks = Stream::scan("clicks", source).unwrap().ingress(time, IngressOptions::default()).unwrap();
    let keyed = clicks.rekey(vec![column("item")]).unwrap();
    let sharded = keyed.redistribute(Some(2), Scope::Global).unwrap();
    let windows = sharded.tumbling(5, 0, Closed::Left).unwrap();
    windows.aggregate(vec![("n".to_string(), Agg::count())]).unwrap()
}

/// A job whose every epoch ends with a checkpoint.
pub fn run(
    stream: &Stream,
    runtime: RuntimeKind,
    disk: &Disk,
    database: &Database,
    process: &Arc<Process>,
) -> Result<DurableJob> {
    let options = Options { runtime, batch_rows: 4, ..Options::default() };
    let pace = Pace { every: Duration::ZERO, stop_when_idle: Some(Duration::from_millis(30)) };
    let store = Arc::new(CrashingStore { disk: disk.clone(), process: process.clone() });
    let sink = CrashingSink { database: database.clone(), process: process.clone(), rows: vec![] };
    start_with(stream, (&options, None), pace, &references(), store, Box::new(sink))
}

/// The rows of a database, in an order of their own.
pub fn sorted(database: &Database) -> Vec<String> {
    let table = pretty_format_batches(&database.lock().unwrap().1).unwrap().to_string();
    let mut lines: Vec<String> = table.lines().filter(|l| l.starts_with('|')).map(str::to_string).collect();
    lines.sort();
    lines
}
