//! A query: its work is invoked, and what comes of it is acted on.

use super::keys::{output_key, spec_key};
use super::ledger::{Launch, Ledger};
use super::pending_clean_up::PendingCleanUp;
use super::result::{Shard, deliver};
use super::schedule::{Schedule, ScheduleSettings};
use super::stage_cache::StageCache;
use super::units::{Combining, Reading, Units};
use crate::bill::{AttemptOutcome, Finished, PoolKind};
use crate::bucket::Bucket;
use crate::carrier::{of_bucket, requests};
use crate::invoke::{InvokeError, Invoked};
use crate::object::Index;
use crate::plan::Plan;
use crate::pools::{Place, Pools};
use crate::protocol::{
    Inline, Input, Invocation, OutputPlace, Remedy, SpecAddress, Work, WorkError, WorkKind, WorkOutput,
};
use crate::task::write;
use crate::usage::Usage;
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use object_store::PutPayload;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::time::{interval, timeout};
use whimbrel_sharded::JobSpec;
use whimbrel_sharded::error::panicked;
use whimbrel_sharded::runtime::{Progress, ResultSinks, spawn};

/// How often the coordinator looks for units that take too long, and whether the query was cancelled.
const TICK: Duration = Duration::from_millis(50);

/// A specification of at most so many bytes is sent with every invocation.
const INLINE_SPEC: usize = 128 << 10;

/// How many bytes of outputs of its sources an invocation may have, and its answer.
const INLINE_TOTAL: u64 = 3 << 20;

/// How many bytes of the output of a unit the coordinator sends to its readers in all.
const INLINE_SENT: u64 = 16 << 20;

/// How long attempts are waited for that nobody needs any more, before what they have written is removed.
const LATE: Duration = Duration::from_secs(60);

/// How queries are run.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSettings {
    /// What is invoked when.
    pub schedule: ScheduleSettings,
    /// How many reads of a function run at the same time.
    pub parallel_reads: u32,
    /// Outputs of at most so many bytes are not written to objects.
    pub inline_bytes: u64,
    /// For how long outputs of stages are kept.
    pub keep: Option<Duration>,
}

/// How far the stages of a query are: for each, its tasks, those that run, and those that have ended.
pub type Board = Arc<Mutex<Vec<(usize, usize, usize)>>>;

/// What a query is run with.
pub struct Start {
    /// Its specification.
    pub spec: JobSpec,
    /// Its plan.
    pub plan: Arc<Plan>,
    /// The digests of its stages, if their outputs are kept.
    pub digests: Vec<Option<[u8; 32]>>,
    /// Which shuffles are combined.
    pub combining: Combining,
    /// How it is run.
    pub settings: JobSettings,
    /// Where functions run.
    pub pools: Pools,
    /// Where objects are.
    pub bucket: Arc<Bucket>,
    /// Where its progress is shown.
    pub board: Board,
}

/// Starts a query. What is sent tells how it ended.
///
/// # Errors
/// `ResourcesExhausted` if there are no threads.
pub fn start(
    start: Start,
    network: &Handle,
    sinks: ResultSinks,
    progress: &Progress,
) -> Result<Receiver<(Result<()>, Finished)>> {
    let (shards, ready) = unbounded();
    let (delivered, is_delivered) = tokio::sync::oneshot::channel();
    let delivery = {
        let (network, bucket, progress) = (network.clone(), Arc::clone(&start.bucket), progress.clone());
        move || {
            let deliver = || deliver(&ready, sinks, &network, &bucket, &progress);
            let result = catch_unwind(AssertUnwindSafe(deliver));
            // A query that was given up needs no result.
            let _ = delivered.send(result.unwrap_or_else(|panic| Err(panicked("the result", panic))));
        }
    };
    spawn(delivery).map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))?;
    let (end, ended) = crossbeam_channel::bounded(1);
    let progress = progress.clone();
    network.spawn(async move {
        let (mut job, spec) = Job::new(start, shards, progress).await;
        let mut running = Running::new();
        let mut ran = job.run(&spec, &mut running).await;
        job.shards.take();
        if let Ok(result) = is_delivered.await {
            ran = ran.and(result);
        }
        let _pending = PendingCleanUp::begin();
        let cleaned = job.clean_up().await;
        let finished = job.finish(&spec);
        let _ = end.send((ran.and(cleaned), finished));
        if !running.is_empty() {
            // They may write once more.
            let late = async { while running.next().await.is_some() {} };
            let _ = timeout(LATE, late).await;
            let _ = job.clean_up().await;
        }
    });
    Ok(ended)
}

/// A number that nobody else has.
pub fn random() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    let half = |salt: u8| u128::from(RandomState::new().hash_one((salt, std::process::id(), Instant::now())));
    half(0) << 64 | half(1)
}

struct Job {
    name: String,
    units: Arc<Units>,
    settings: JobSettings,
    schedule: Schedule,
    cache: Option<StageCache>,
    outputs: Vec<Option<WorkOutput>>,
    /// How many attempts at each unit there were.
    attempts: BTreeMap<usize, u64>,
    /// Units whose output somebody waits for in an object.
    awaited: BTreeSet<usize>,
    /// How many more reads early beginnings took.
    index_reads: u64,
    ledger: Ledger,
    /// How many rows were read, and how many came too late.
    rows: (u64, u64),
    /// Where ready shards of the result go.
    shards: Option<Sender<Shard>>,
    pools: Pools,
    bucket: Arc<Bucket>,
    progress: Progress,
    board: Board,
}

/// An invocation that has ended.
struct Ended {
    launch: Launch,
    invoked: Result<Invoked, InvokeError>,
}

type Running = FuturesUnordered<BoxFuture<'static, Ended>>;

impl Job {
    /// A query that has not begun, and its specification.
    async fn new(start: Start, shards: Sender<Shard>, progress: Progress) -> (Job, JobSpec) {
        let Start { spec, plan, digests, combining, settings, pools, bucket, board } = start;
        let units = Arc::new(Units::of(plan, &combining));
        let mut cache =
            settings.keep.map(|age| StageCache::new(Arc::clone(&units), Arc::clone(&bucket), age, digests));
        let outputs = match &mut cache {
            Some(cache) => cache.find().await,
            None => vec![None; units.count()],
        };
        let schedule = Schedule::new(&units, settings.schedule, &unneeded(&units, &outputs));
        let mut job = Job {
            name: format!("{:032x}", random()),
            schedule,
            cache,
            attempts: BTreeMap::new(),
            awaited: BTreeSet::new(),
            index_reads: 0,
            ledger: Ledger::new(Arc::clone(&units)),
            rows: (0, 0),
            shards: Some(shards),
            outputs: vec![None; units.count()],
            units,
            settings,
            pools,
            bucket,
            progress,
            board,
        };
        for (unit, output) in outputs.into_iter().enumerate() {
            if let Some(output) = output {
                job.ledger.add_kept(unit);
                let bytes = job.bytes_of_readers(unit, &output);
                job.schedule.add_kept(&bytes);
                job.take_output(unit, output);
            }
        }
        (job, spec)
    }

    /// Runs all work.
    async fn run(&mut self, spec: &JobSpec, running: &mut Running) -> Result<()> {
        if self.schedule.is_done() {
            return Ok(());
        }
        let spec = self.publish_spec(spec).await?;
        let mut ticks = interval(TICK);
        while !self.schedule.is_done() {
            loop {
                let now = Instant::now();
                let Some(place) = self.pools.place(now, self.schedule.has_ready()) else { break };
                let Some(units) = self.schedule.next(now) else { break };
                running.push(self.invoke(units, now, place, &spec));
            }
            tokio::select! {
                Some(ended) = running.next(), if !running.is_empty() => self.end(ended).await?,
                _ = ticks.tick() => {
                    self.show();
                    if self.progress.cancelled() {
                        return Ok(());
                    }
                }
            }
        }
        self.show();
        Ok(())
    }

    fn show(&self) {
        *self.board.lock().unwrap_or_else(PoisonError::into_inner) = self.schedule.progress();
    }

    /// Where functions find the specification.
    async fn publish_spec(&self, spec: &JobSpec) -> Result<SpecAddress> {
        let bytes = Bytes::from(spec.to_bytes()?);
        if bytes.len() <= INLINE_SPEC {
            return Ok(SpecAddress::Inline(Inline(bytes)));
        }
        let (key, length) = (spec_key(&self.name), bytes.len() as u64);
        self.bucket.put_new(&key, &PutPayload::from(bytes)).await.map_err(of_bucket)?;
        Ok(SpecAddress::Object(key, length))
    }

    /// Begins attempts at these units. An attempt is known by when it began.
    fn invoke(
        &mut self,
        units: Vec<usize>,
        began: Instant,
        place: Place,
        spec: &SpecAddress,
    ) -> BoxFuture<'static, Ended> {
        let inline = units.iter().map(|unit| self.inline_bytes(*unit)).min().unwrap_or_default();
        let work = units.iter().map(|unit| self.work(*unit, inline / units.len() as u64)).collect();
        let invocation = Invocation {
            job: self.name.clone(),
            spec: spec.clone(),
            work,
            parallel_reads: self.settings.parallel_reads,
            bucket: self.bucket.address().clone(),
            stragglers: self.bucket.stragglers(),
        };
        let pool = self.pools.pool(place.pool);
        let launch = Launch { units, began, pool: place.pool, memory: pool.memory };
        let invoked = Arc::clone(&pool.invoker).invoke(invocation);
        self.ledger.begin(launch.clone());
        Box::pin(async move {
            let ended = Ended { launch, invoked: invoked.await };
            drop(place);
            ended
        })
    }

    /// An attempt at a unit.
    fn work(&mut self, unit: usize, inline_bytes: u64) -> Work {
        *self.attempts.entry(unit).or_default() += 1;
        let units = Arc::clone(&self.units);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let kind = match units.combine(unit) {
            Some(_) => WorkKind::Combine,
            None => WorkKind::Task(number(unit)),
        };
        Work {
            kind,
            attempt: Inline(Bytes::copy_from_slice(&random().to_be_bytes())),
            inputs: units.readings(unit).iter().filter_map(|reading| self.input(reading)).collect(),
            partitions: number(units.partitions(unit)),
            output: self.key(unit),
            inline_bytes,
        }
    }

    /// The key of the output of a unit.
    fn key(&self, unit: usize) -> String {
        let cached = self.cache.as_ref().and_then(|cache| cache.key(unit));
        cached.unwrap_or_else(|| output_key(&self.name, unit))
    }

    /// What is read from a unit, which has ended, or runs.
    fn input(&mut self, reading: &Reading) -> Option<Input> {
        match &self.outputs[reading.from] {
            Some(output) => output.input(reading.first, &reading.lanes),
            None => {
                self.awaited.insert(reading.from);
                self.index_reads += 1;
                Some(Input::Expected {
                    key: self.key(reading.from),
                    partitions: u32::try_from(self.units.partitions(reading.from)).unwrap_or(u32::MAX),
                    first: u32::try_from(reading.first).unwrap_or(u32::MAX),
                    lanes: reading.lanes.clone(),
                })
            }
        }
    }

    /// How large an output may be that is not written to an object: all of them have to fit into the
    /// invocations of readers.
    fn inline_bytes(&self, unit: usize) -> u64 {
        if self.cache.as_ref().is_some_and(|cache| cache.key(unit).is_some()) || self.awaited.contains(&unit)
        {
            return 0;
        }
        let readers = self.units.readers(unit);
        let count = readers.len() as u64;
        let sources = readers.map(|reader| self.units.sources(reader).len() as u64).max();
        let fits = INLINE_TOTAL / sources.unwrap_or(1).max(1);
        fits.min(INLINE_SENT / count.max(1)).min(self.settings.inline_bytes)
    }

    /// Acts on what an invocation says.
    async fn end(&mut self, Ended { launch, invoked }: Ended) -> Result<()> {
        self.schedule.leave();
        self.ledger.end(&launch);
        match invoked {
            Ok(Invoked { answer, billed }) => {
                self.ledger.add_answer(&launch, &answer, billed);
                if launch.units.iter().any(|unit| !self.schedule.has_outcome(*unit)) {
                    self.rows = (self.rows.0 + answer.rows_read, self.rows.1 + answer.rows_late);
                    self.progress.set_rows(self.rows.0, self.rows.1);
                }
                let mut outcomes = answer.outcomes.into_iter();
                for unit in launch.units.iter().copied() {
                    match outcomes.next() {
                        Some(Ok(output)) => self.succeed(unit, &launch, output).await?,
                        Some(Err(error)) => self.fail(unit, &launch, error)?,
                        // It was not begun.
                        None => self.schedule.put_back(unit, launch.began),
                    }
                }
                Ok(())
            }
            Err(InvokeError::Throttled) => {
                self.pools.refuse(launch.pool, Instant::now());
                // Others use the base pool, too; what it does not take goes elsewhere.
                if launch.pool == PoolKind::Elastic {
                    self.schedule.throttle();
                }
                for unit in launch.units.iter().copied() {
                    self.ledger.add_outcome(unit, &launch, AttemptOutcome::Throttled);
                    self.schedule.put_back(unit, launch.began);
                }
                Ok(())
            }
            Err(InvokeError::Lost(message)) => {
                self.ledger.add_lost(&launch);
                // What killed it there may kill it again: the next attempt goes elsewhere, if it may.
                if launch.pool == PoolKind::Base {
                    self.pools.refuse(launch.pool, Instant::now());
                }
                launch.units.iter().try_for_each(|unit| self.lose(*unit, &launch, &message))
            }
            Err(InvokeError::Unreachable(message)) => {
                self.pools.lose(launch.pool, Instant::now());
                let mut units = launch.units.iter();
                units
                    .try_for_each(|unit| self.lose(*unit, &launch, &message))
                    .map_err(|_| exec_datafusion_err!("{message}"))
            }
            Err(InvokeError::Refused(error)) => Err(error),
        }
    }

    /// Takes the output of an attempt, if it is the first one.
    async fn succeed(&mut self, unit: usize, launch: &Launch, output: WorkOutput) -> Result<()> {
        let output = self.published(unit, output).await?;
        let bytes = self.bytes_of_readers(unit, &output);
        if !self.schedule.succeed(unit, launch.began, Instant::now(), &bytes) {
            self.ledger.add_outcome(unit, launch, AttemptOutcome::Late);
            return Ok(());
        }
        self.ledger.add_outcome(unit, launch, AttemptOutcome::Ended);
        self.take_output(unit, output);
        if let Some(cache) = &mut self.cache {
            cache.list(self.units.stage(unit), &self.outputs).await?;
        }
        Ok(())
    }

    /// The output of a unit, in an object if somebody waits for one: this output, or that of an attempt which
    /// has written the object already. All readers read the same attempt.
    async fn published(&self, unit: usize, output: WorkOutput) -> Result<WorkOutput> {
        match &output.place {
            OutputPlace::Inline(bytes)
                if self.awaited.contains(&unit) && !self.schedule.has_outcome(unit) =>
            {
                let index = Index::read(bytes.0.clone())?;
                write(&self.bucket, self.key(unit), &PutPayload::from(bytes.0.clone()), index).await
            }
            _ => Ok(output),
        }
    }

    /// How many bytes of an output each reader of its unit reads.
    fn bytes_of_readers(&self, unit: usize, output: &WorkOutput) -> Vec<(usize, u64)> {
        let bytes = |reading: &Reading| output.input(reading.first, &reading.lanes)?.bytes();
        let readings = self.units.readings_of(unit);
        readings.map(|(reader, own)| (reader, own.filter_map(bytes).sum())).collect()
    }

    /// Acts on an attempt that failed.
    fn fail(&mut self, unit: usize, launch: &Launch, error: WorkError) -> Result<()> {
        match error.remedy {
            Remedy::Later => {
                self.ledger.add_outcome(unit, launch, AttemptOutcome::Early);
                self.schedule.begin_nothing_early();
                self.schedule.put_back(unit, launch.began);
                Ok(())
            }
            Remedy::None if !self.schedule.has_outcome(unit) => Err(error.failure.error()),
            _ => self.lose(unit, launch, &error.failure.message),
        }
    }

    /// Goes on after an attempt that was lost, unless there were too many.
    fn lose(&mut self, unit: usize, launch: &Launch, message: &str) -> Result<()> {
        self.ledger.add_failure();
        self.ledger.add_outcome(unit, launch, AttemptOutcome::Lost);
        match self.schedule.fail(unit, launch.began) {
            true => Ok(()),
            false => Err(DataFusionError::ResourcesExhausted(format!(
                "work {unit} of stage {} was lost {} times, last with: {message}. If functions run out of memory \
                 or time, give them more, or use more of them",
                self.units.stage(unit),
                self.settings.schedule.attempts
            ))),
        }
    }

    fn take_output(&mut self, unit: usize, output: WorkOutput) {
        let result = self.units.plan.result();
        if result.contains(&unit)
            && let Some(partition) = self.units.plan.layout(unit).result
            && let Some(shards) = &self.shards
        {
            // Whoever delivers the result may have failed, and says so.
            let _ = shards.send((unit - result.start, output.input(partition, &[0])));
        }
        self.outputs[unit] = Some(output);
    }

    /// Removes what the query has written and is not kept.
    async fn clean_up(&self) -> Result<()> {
        let may_exist = |unit: &usize| match &self.outputs[*unit] {
            Some(output) => {
                self.attempts[unit] > 1
                    || self.awaited.contains(unit)
                    || matches!(output.place, OutputPlace::Object { .. })
            }
            None => true,
        };
        let is_kept = |unit: usize| self.cache.as_ref().is_some_and(|cache| cache.key(unit).is_some());
        let units = self.attempts.keys().filter(|unit| may_exist(unit) && !is_kept(**unit));
        let mut keys: Vec<String> = units.map(|unit| output_key(&self.name, *unit)).collect();
        keys.push(spec_key(&self.name));
        self.bucket.delete(keys).await.map_err(of_bucket)
    }

    /// What the query has used.
    fn finish(&mut self, spec: &JobSpec) -> Finished {
        let (coordinator, formula) = (self.bucket.usage(), self.formula(spec));
        self.ledger.finish(coordinator, formula, self.schedule.duplicates())
    }

    /// The requests of the exchanges (starling.txt §4.2): one read for what a unit reads from another, if it
    /// is not empty and did not come with the invocation (two for the piece after it, and so on); one more
    /// for the index if the object was not there yet; one write for each object.
    fn formula(&self, spec: &JobSpec) -> Usage {
        let mut formula = Usage { gets: self.index_reads, ..Usage::default() };
        let is_written = |unit: &&usize| match &self.outputs[**unit] {
            Some(output) => matches!(output.place, OutputPlace::Object { .. }) || self.awaited.contains(unit),
            None => false,
        };
        formula.puts = self.attempts.keys().filter(is_written).count() as u64;
        let plan = &self.units.plan;
        let read =
            |from: usize, first: usize, lanes: &[u32]| self.outputs[from].as_ref()?.input(first, lanes);
        let own = self.attempts.keys().flat_map(|unit| self.units.readings(*unit));
        let own = own.filter_map(|reading| read(reading.from, reading.first, &reading.lanes));
        let result = plan.result().filter_map(|task| read(task, plan.layout(task).result?, &[0]));
        for input in own.chain(result) {
            if let Input::Object { .. } = &input {
                formula.gets += requests(input.bytes().unwrap_or_default());
            }
        }
        if spec.to_bytes().is_ok_and(|bytes| bytes.len() > INLINE_SPEC) {
            formula.puts += 1;
        }
        if let Some(cache) = &self.cache {
            formula.gets += cache.requests.0;
            formula.puts += cache.requests.1;
        }
        formula
    }
}

/// The units that are not needed, since what they make is there, or nobody reads it.
fn unneeded(units: &Units, outputs: &[Option<WorkOutput>]) -> Vec<bool> {
    let mut is_needed = vec![false; units.count()];
    let mut next: Vec<usize> = units.plan.result().collect();
    // A stage without readers that is not the result's is a part of the plan all the same.
    next.extend((0..units.count()).filter(|unit| units.readers(*unit).len() == 0));
    while let Some(unit) = next.pop() {
        if outputs[unit].is_none() && !std::mem::replace(&mut is_needed[unit], true) {
            next.extend(units.sources(unit));
        }
    }
    is_needed.into_iter().map(|is_needed| !is_needed).collect()
}
