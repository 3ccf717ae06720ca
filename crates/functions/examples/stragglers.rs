//! What it helps to send late requests twice, over a simulated store that is as late as Amazon S3 was when
//! starling.txt was written: reads as in §5.1 (256 KB, 14 ms in the median, 3 of 1000 above half a second)
//! and writes as in §5.2 (100 MB, some slow to send, some slow to be answered).
//!
//!     cargo run --release --example stragglers -p whimbrel-functions

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::{Result as PlanResult, exec_datafusion_err};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::time::sleep;
use whimbrel_functions::{BodySent, HedgedStore, Meter, Stragglers};

const READS: usize = 20_000;
const READ_BYTES: u64 = 256 << 10;
const WRITES: usize = 400;
const WRITE_BYTES: usize = 100 << 20;
const PARALLEL: usize = 16;

/// A store that waits, and keeps nothing.
#[derive(Debug, Default)]
struct LateStore {
    drawn: AtomicU64,
    seed: RandomState,
}

impl LateStore {
    /// The next number between 0 and 1.
    fn draw(&self) -> f64 {
        let number = self.seed.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed));
        (number >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// 10 to 20 ms; 3 of 1000 take half a second to two and a half.
    fn read_time(&self) -> Duration {
        let usual = 0.010 + 0.008 * self.draw() + 0.002 * self.draw();
        let late = if self.draw() < 0.003 { 0.5 + 2.0 * self.draw() } else { 0.0 };
        Duration::from_secs_f64(usual + late)
    }

    /// About 0.7 s to send, a twentieth three to ten times as long; 50 ms to answer, a twentieth some
    /// seconds.
    fn write_times(&self) -> (Duration, Duration) {
        let send = 0.65 + 0.2 * self.draw();
        let send = if self.draw() < 0.05 { send * (3.0 + 7.0 * self.draw()) } else { send };
        let answer = if self.draw() < 0.05 { 1.0 + 6.0 * self.draw() } else { 0.03 + 0.04 * self.draw() };
        (Duration::from_secs_f64(send), Duration::from_secs_f64(answer))
    }
}

fn nothing<T>() -> Result<T> {
    Err(Error::NotSupported { source: "a simulation".into() })
}

#[async_trait]
impl ObjectStore for LateStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        sleep(self.read_time()).await;
        let range = match options.range {
            Some(GetRange::Bounded(range)) => range,
            _ => return nothing(),
        };
        let bytes = Bytes::from_static(&[0; READ_BYTES as usize]);
        let meta = ObjectMeta {
            location: location.clone(),
            last_modified: Default::default(),
            size: READ_BYTES,
            e_tag: None,
            version: None,
        };
        let payload = GetResultPayload::Stream(futures::stream::once(async { Ok(bytes) }).boxed());
        Ok(GetResult { payload, meta, range, attributes: Default::default() })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (send, answer) = self.write_times();
        sleep(send).await;
        if let Some(sent) = options.extensions.get::<BodySent>() {
            sent.0.notify_one();
        }
        sleep(answer).await;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        nothing()
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        futures::stream::empty().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        nothing()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        nothing()
    }
}

impl fmt::Display for LateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store that is late")
    }
}

/// Makes so many requests, some at the same time; prints how long they took.
async fn measure<F: Future<Output = Result<()>>>(
    name: &str,
    count: usize,
    meter: &Meter,
    request: impl Fn(usize) -> F,
) -> PlanResult<()> {
    let timed = |number: usize| {
        let answered = request(number);
        async move {
            let began = Instant::now();
            answered.await.map(|()| began.elapsed())
        }
    };
    let results: Vec<Result<Duration>> =
        futures::stream::iter(0..count).map(timed).buffer_unordered(PARALLEL).collect().await;
    let mut times = results.into_iter().collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    let at = |part: f64| times[((count - 1) as f64 * part) as usize].as_secs_f64() * 1000.0;
    println!(
        "{name:>28}: median {:7.1} ms, 99 % {:7.1}, 99.9 % {:7.1}, all {:7.1}; {:.2} % sent twice",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        meter.usage().hedged as f64 / count as f64 * 100.0
    );
    Ok(())
}

fn store(stragglers: Stragglers) -> (Arc<Meter>, HedgedStore) {
    let meter = Arc::new(Meter::default());
    let late: Arc<dyn ObjectStore> = Arc::new(LateStore::default());
    (Arc::clone(&meter), HedgedStore::local(late, stragglers, meter))
}

async fn run() -> PlanResult<()> {
    for (name, stragglers) in
        [("reads", Stragglers::ignored()), ("reads, late ones twice", Stragglers::default())]
    {
        let (meter, store) = store(stragglers);
        let read = |number: usize| {
            let (store, key) = (&store, Path::from(format!("{number}")));
            async move {
                let range = Some(GetRange::Bounded(0..READ_BYTES));
                store.get_opts(&key, GetOptions { range, ..GetOptions::default() }).await?.bytes().await?;
                Ok(())
            }
        };
        measure(name, READS, &meter, read).await?;
    }
    let both = Stragglers::default();
    let one = Stragglers { answers: both.writes, ..both };
    for (name, stragglers) in
        [("writes", Stragglers::ignored()), ("writes, one timer", one), ("writes, both timers", both)]
    {
        // Each function writes one object at a time.
        let meter = Arc::new(Meter::default());
        let late: Arc<dyn ObjectStore> = Arc::new(LateStore::default());
        let store = |_| HedgedStore::local(Arc::clone(&late), stragglers, Arc::clone(&meter));
        let functions: Vec<HedgedStore> = (0..PARALLEL).map(store).collect();
        let payload = PutPayload::from(vec![0; WRITE_BYTES]);
        let write = |number: usize| {
            let (store, key) = (&functions[number % PARALLEL], Path::from(format!("{number}")));
            let payload = payload.clone();
            async move { store.put_opts(&key, payload, PutOptions::default()).await.map(|_| ()) }
        };
        measure(name, WRITES, &meter, write).await?;
    }
    Ok(())
}

fn main() -> PlanResult<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| exec_datafusion_err!("{error}"))?.block_on(run())
}
