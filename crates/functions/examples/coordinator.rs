//! What the coordinator takes for a query of thousands of functions, which are simulated: they sleep, and
//! answer.
//!
//!     cargo run --release --example coordinator -p whimbrel-functions -- 5000
//!
//! Each function takes a second; every new one starts cold; the service lets no more run than it may, and
//! lets that number grow by a thousand every ten seconds from a first burst on, as AWS Lambda does. The store
//! serves so many requests a second of each prefix that it has split its bucket into, as Amazon S3 does: one
//! if the bucket is new.

use datafusion::common::{Result, exec_datafusion_err};
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use whimbrel_functions::protocol::{Answer, Input, Invocation, OutputPlace, WorkOutput};
use whimbrel_functions::{
    BucketAddress, FunctionAddress, Functions, FunctionsSettings, Invoke, InvokeError, Invoked, Usage,
};
use whimbrel_plan::nodes::Scope;
use whimbrel_plan::{Series, Source, Stream, column};
use whimbrel_session::PlanReferences;
use whimbrel_sharded::Options;
use whimbrel_sharded::action::collect;
use whimbrel_sharded::runtime::RemoteRuntime;

const WORK: Duration = Duration::from_secs(1);
const COLD_START: Duration = Duration::from_millis(200);

/// How many requests a second Amazon S3 serves of each prefix: reads, and writes.
const SERVED: [f64; 2] = [5500.0, 3500.0];

/// An object store that serves requests one after the other.
struct Store {
    began: Instant,
    /// For each prefix, until when it is busy with reads and with writes, in seconds.
    prefixes: Vec<Mutex<[f64; 2]>>,
}

impl Store {
    fn new(prefixes: usize) -> Store {
        Store { began: Instant::now(), prefixes: (0..prefixes).map(|_| Mutex::default()).collect() }
    }

    /// When a request for an object is served that is made now: a read, or a write.
    fn serve(&self, key: &str, is_write: bool) -> Duration {
        let now = self.began.elapsed().as_secs_f64();
        let digits = key.split('/').nth(1).and_then(|prefix| usize::from_str_radix(prefix, 16).ok());
        let prefix = &self.prefixes[digits.unwrap_or_default() % self.prefixes.len()];
        let mut busy = prefix.lock().expect("no other holder panics");
        let place = usize::from(is_write);
        busy[place] = busy[place].max(now) + 1.0 / SERVED[place];
        Duration::from_secs_f64(busy[place] - now)
    }

    /// When all requests of an invocation are served.
    fn serve_all(&self, invocation: &Invocation) -> Duration {
        let reads = invocation.work.iter().flat_map(|work| &work.inputs).filter_map(|input| match input {
            Input::Object { key, .. } | Input::Expected { key, .. } => Some(self.serve(key, false)),
            Input::Inline { .. } => None,
        });
        let writers = invocation.work.iter().filter(|work| work.partitions > 1);
        let reads = reads.max().unwrap_or_default();
        reads.max(writers.map(|work| self.serve(&work.output, true)).max().unwrap_or_default())
    }
}

/// A service of simulated functions.
struct Simulation {
    store: Store,
    began: Instant,
    /// How many may run from the beginning.
    burst: usize,
    running: AtomicUsize,
    warm: AtomicUsize,
    throttled: AtomicUsize,
    /// When each invocation was taken.
    taken: Mutex<Vec<Duration>>,
}

impl Simulation {
    fn may_run(&self) -> usize {
        self.burst + 1000 * (self.began.elapsed().as_secs() / 10) as usize
    }
}

impl Invoke for Simulation {
    fn invoke(
        self: Arc<Simulation>,
        invocation: Invocation,
    ) -> BoxFuture<'static, std::result::Result<Invoked, InvokeError>> {
        // What a real client sends.
        let payload = serde_json::to_vec(&invocation).map(|payload| payload.len());
        Box::pin(async move {
            payload.map_err(|error| InvokeError::Lost(error.to_string()))?;
            if self.running.fetch_add(1, Ordering::Relaxed) >= self.may_run() {
                self.running.fetch_sub(1, Ordering::Relaxed);
                self.throttled.fetch_add(1, Ordering::Relaxed);
                return Err(InvokeError::Throttled);
            }
            self.taken.lock().expect("no other holder panics").push(self.began.elapsed());
            let is_warm =
                self.warm.try_update(Ordering::Relaxed, Ordering::Relaxed, |warm| warm.checked_sub(1));
            if is_warm.is_err() {
                tokio::time::sleep(COLD_START).await;
            }
            let served = self.store.serve_all(&invocation);
            tokio::time::sleep(WORK.max(served)).await;
            self.running.fetch_sub(1, Ordering::Relaxed);
            self.warm.fetch_add(1, Ordering::Relaxed);
            Ok(Invoked { answer: answer(&invocation), billed: Some((1000, 3008)) })
        })
    }
}

/// Outputs in objects; one that has one reader is empty, and so is the result.
fn answer(invocation: &Invocation) -> Answer {
    let output = |work: &whimbrel_functions::protocol::Work| {
        let bytes = if work.partitions == 1 { 0 } else { 1 << 20 };
        let ends = (1..=u64::from(work.partitions)).map(|place| place * bytes).collect();
        let place = OutputPlace::Object { key: work.output.clone(), tag: Some("tag".to_string()) };
        Ok(WorkOutput { place, ends, start: 0 })
    };
    Answer {
        outcomes: invocation.work.iter().map(output).collect(),
        usage: Usage::default(),
        spec_gets: 0,
        rows_read: 0,
        rows_late: 0,
        milliseconds: 1000,
    }
}

/// The processor time of this process so far.
fn processor_time() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // User and system time are the 14th and the 15th field, in hundredths of a second.
    let ticks = stat.rsplit(')').next().map(|rest| rest.split_whitespace().skip(11).take(2));
    let ticks: u64 = ticks.into_iter().flatten().filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}

fn main() -> Result<()> {
    let functions: usize = std::env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(5000);
    for prefixes in [1, 16] {
        for burst in [functions, functions.div_ceil(2)] {
            run(functions, burst, prefixes)?;
        }
    }
    Ok(())
}

/// Runs a query with so many tasks that read, a shuffle, and one that collects.
fn run(functions: usize, burst: usize, prefixes: usize) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("whimbrel-coordinator-{}", std::process::id()));
    let function = FunctionAddress { name: "simulated".to_string(), endpoints: vec![] };
    let url = folder.to_str().ok_or_else(|| exec_datafusion_err!("the folder has no name"))?.to_string();
    let mut settings = FunctionsSettings::new(function, BucketAddress { url, endpoint: None })?;
    (settings.small, settings.combine) = (0, Some(false));
    settings.job.schedule.concurrency = functions;
    let simulation = Arc::new(Simulation {
        store: Store::new(prefixes),
        began: Instant::now(),
        burst,
        running: AtomicUsize::new(0),
        warm: AtomicUsize::new(0),
        throttled: AtomicUsize::new(0),
        taken: Mutex::default(),
    });
    let remote = Functions::with_invoker(settings, Arc::new(PlanReferences), Arc::clone(&simulation) as _)?;
    let numbers = Series::new("n", 0, functions as i64 * 10, 1, true)?;
    let numbers = numbers.with_shards(functions).ok_or_else(|| exec_datafusion_err!("too many shards"))?;
    let stream = Stream::scan("numbers", numbers)?.rekey(vec![column("n")])?;
    let stream = stream.redistribute(Some(64), Scope::Global)?.distinct()?.reshard(Some(1), Scope::Global)?;
    let (before, began) = (processor_time()?, Instant::now());
    let options = Options { remote: Some(Arc::new(remote) as Arc<dyn RemoteRuntime>), ..Options::default() };
    collect(&stream, &options)?.wait()?;
    let (elapsed, processor) = (began.elapsed(), processor_time()? - before);
    let taken = simulation.taken.lock().expect("no other holder panics");
    let all_invoked = taken.get(functions - 1).copied().unwrap_or_default();
    println!(
        "{functions} functions, {burst} at first, a bucket of {prefixes} prefixes: all invoked after {:.2} s, query {:.2} s, {:.2} s of processor \
         ({:.0} % of a core), {} times throttled",
        all_invoked.as_secs_f64(),
        elapsed.as_secs_f64(),
        processor.as_secs_f64(),
        processor.as_secs_f64() / elapsed.as_secs_f64() * 100.0,
        simulation.throttled.load(Ordering::Relaxed)
    );
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}
