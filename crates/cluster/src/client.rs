//! A client: it gives jobs to a cluster, and fetches their results.
//!
//! The result of a job is read like any queue, so a worker that is lost while it is read changes nothing.
//! What a client submits by [`Cluster::start`](whimbrel_sharded::runtime::RemoteRuntime::start) ends with it.

use crate::backup::QueueName;
use crate::error::of_store;
use crate::flight::Connections;
use crate::frame::Frame;
use crate::network::Network;
use crate::placement::place;
use crate::pull::{Places, Puller};
use crate::records::{
    CLIENT_LEASE, ChannelRecord, ENGINE, JobRecord, NEWS, Tables, channel_key, client_lease,
};
use crate::workers::{LiveWorker, addresses, live_workers, placement};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use whimbrel_control::{ControlStore, Effect, Lease, Outcome, Token, Transaction, TransactionId};
use whimbrel_plan::{References, Stream};
use whimbrel_sharded::error::panicked;
use whimbrel_sharded::program::Programs;
use whimbrel_sharded::runtime::{Execution, Item, Progress, RemoteRuntime, Sink, Topology, spawn};
use whimbrel_sharded::{JobSpec, Memory, Options};
use whimbrel_temporal::Message;

/// How often a client looks how its job is doing.
const POLL: Duration = Duration::from_millis(100);

/// How often a client says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How long a client does without the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster, as a client sees it.
pub struct Cluster {
    tables: Tables,
    references: Arc<dyn References>,
    network: Network,
    connections: Arc<Connections>,
}

impl Cluster {
    /// The cluster that meets in a store.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there are no threads.
    pub fn connect(store: Arc<dyn ControlStore>, references: Arc<dyn References>) -> Result<Cluster> {
        let network = Network::start()?;
        Ok(Cluster { tables: Tables { store }, references, network, connections: Arc::default() })
    }

    /// The workers that are alive.
    ///
    /// # Errors
    /// Those of the store.
    pub fn workers(&self) -> Result<Vec<LiveWorker>> {
        live_workers(&self.tables)
    }

    /// The names of the jobs that are there.
    ///
    /// # Errors
    /// Those of the store.
    pub fn jobs(&self) -> Result<Vec<String>> {
        let rows = self.tables.jobs().rows().map_err(of_store)?;
        Ok(rows.into_iter().map(|(name, _)| name).collect())
    }

    /// Writes down a job, which begins then.
    fn submit(&self, stream: &Stream, options: &Options) -> Result<Submitted> {
        if !stream.properties().bounded {
            return plan_err!(
                "a cluster runs queries that end, and this one reads a source that does not; run it in this process"
            );
        }
        // What a channel hands out must not depend on others, so that it can run again.
        let memory = match options.memory {
            Memory::Query(bytes) => Memory::Channel(bytes),
            memory => memory,
        };
        let spec = JobSpec::of(stream, &Options { memory, ..options.clone() }, &self.references)?;
        let programs = spec.programs(&self.references)?;
        (0..programs.stages().stages.len()).try_for_each(|stage| programs.check_replayable(stage))?;
        let topology = Topology::of(&programs);
        let live = self.workers()?;
        if live.is_empty() {
            return exec_err!(
                "{} has no workers; start one with `whimbrel worker`",
                self.tables.store.describe()
            );
        }
        if let Some(other) = live.iter().find(|worker| worker.record.engine != ENGINE) {
            return exec_err!(
                "the worker at {} runs release {}, and this is {ENGINE}; use one release in a cluster",
                other.record.address,
                other.record.engine
            );
        }
        let channels = place(&topology, &placement(&live));
        let job = format!("{:016x}", TransactionId::random().0 as u64);
        let lease = self.write(&job, &spec.to_bytes()?, &channels)?;
        let places = Places { channels, addresses: addresses(&live) };
        Ok(Submitted { job, lease, programs, topology, places })
    }

    /// Puts a job into the tables, and tells the workers.
    fn write(&self, job: &str, spec: &Vec<u8>, channels: &[ChannelRecord]) -> Result<Lease> {
        let tables = &self.tables;
        let lease = client_lease(job);
        let grant = Effect::Grant { lease: lease.clone(), holder: job.to_string(), ttl: CLIENT_LEASE };
        let record = JobRecord { failure: None };
        let mut transaction = Transaction::new()
            .then(grant)
            .then(tables.specs().put(job, spec).map_err(of_store)?)
            .then(tables.jobs().put(job, &record).map_err(of_store)?);
        for (channel, record) in channels.iter().enumerate() {
            let put = tables.channels(job).put(&channel_key(channel), record);
            transaction = transaction.then(put.map_err(of_store)?);
        }
        let publish = Effect::Publish { topic: NEWS.to_string(), payload: job.into() };
        match tables.store.commit(&transaction.then(publish)).map_err(of_store)? {
            Outcome::Committed { version, .. } => Ok(Lease::of(&tables.store, &lease, Token(version))),
            Outcome::Conflict { .. } => exec_err!("{} refused a job", tables.store.describe()),
        }
    }
}

/// A job that was written down.
struct Submitted {
    job: String,
    lease: Lease,
    programs: Programs,
    topology: Topology,
    places: Places,
}

impl RemoteRuntime for Cluster {
    fn cores(&self) -> usize {
        let threads =
            self.workers().map(|live| live.iter().map(|worker| worker.record.threads as usize).sum());
        threads.unwrap_or(1).max(1)
    }

    fn start(
        &self,
        stream: &Stream,
        options: &Options,
        sinks: Vec<Sink>,
        progress: &Progress,
    ) -> Result<Box<dyn Execution>> {
        let Submitted { job, lease, programs, topology, places } = self.submit(stream, options)?;
        let puller = Puller {
            network: self.network.handle().clone(),
            connections: Arc::clone(&self.connections),
            own: None,
        };
        let (running, ended) = bounded(0);
        let outcome = FirstError::default();
        let mut pulls = JoinSet::new();
        let places = watch::Sender::new(places);
        let shards = topology.channels_of(programs.stages().result.0);
        for (channel, sink) in shards.zip(sinks) {
            let name = QueueName::of_result(&job, &topology, channel);
            let frames = puller.pull(&mut pulls, name, channel, places.subscribe());
            let (outcome, running, progress) = (outcome.clone(), running.clone(), progress.clone());
            let delivery = move || {
                let delivered = catch_unwind(AssertUnwindSafe(|| deliver(frames, sink, &progress)));
                let delivered = delivered.unwrap_or_else(|panic| Err(panicked("the result", panic)));
                if let Err(error) = delivered {
                    outcome.fail(error);
                    progress.cancel();
                }
                drop::<Sender<Infallible>>(running);
            };
            spawn(delivery).map_err(exhausted)?;
        }
        drop(running);
        let (over, is_over) = bounded(0);
        let (tables, progress) = (self.tables.clone(), progress.clone());
        let watcher = Watcher { tables, job, lease, places, _pulls: pulls, progress };
        let watched = outcome.clone();
        let watch = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| watcher.watch(&ended)));
            if let Err(error) = outcome.unwrap_or_else(|panic| Err(panicked("the job", panic))) {
                watched.fail(error);
            }
            drop::<Sender<Infallible>>(over);
        };
        spawn(watch).map_err(exhausted)?;
        Ok(Box::new(RemoteQuery { is_over, outcome }))
    }
}

/// A query that runs on a cluster.
struct RemoteQuery {
    /// Disconnected once the job is over.
    is_over: Receiver<Infallible>,
    outcome: FirstError,
}

impl Execution for RemoteQuery {
    fn wait(&mut self, until: Option<Instant>) -> Result<bool> {
        let ended = match until {
            Some(until) => self.is_over.recv_deadline(until).err() == Some(RecvTimeoutError::Disconnected),
            None => self.is_over.recv().is_err(),
        };
        match self.outcome.take().filter(|_| ended) {
            Some(error) => Err(error),
            None => Ok(ended),
        }
    }
}

/// The first error of a query.
#[derive(Clone, Default)]
struct FirstError(Arc<Mutex<Option<DataFusionError>>>);

impl FirstError {
    fn fail(&self, error: DataFusionError) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn take(&self) -> Option<DataFusionError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Hands the frames of a shard of the result to its sink. They end early if the job does.
fn deliver(mut frames: mpsc::Receiver<Frame>, mut sink: Sink, progress: &Progress) -> Result<()> {
    while let Some(frame) = frames.blocking_recv() {
        let Item::Message(message) = frame.item()? else { return Ok(()) };
        if progress.cancelled() {
            return Ok(());
        }
        if let Message::Batch(batch) = &message {
            progress.add_rows_out(batch.len() as u64);
        }
        sink(message)?;
    }
    Ok(())
}

/// Watches a job while its result is fetched.
struct Watcher {
    tables: Tables,
    job: String,
    lease: Lease,
    /// Where its channels are, for those who fetch its result.
    places: watch::Sender<Places>,
    /// What reads the result; it ends with the watcher.
    _pulls: JoinSet<()>,
    progress: Progress,
}

impl Watcher {
    /// Watches the job until its result has been fetched, or it has failed or was cancelled.
    fn watch(self, ended: &Receiver<Infallible>) -> Result<()> {
        let mut beat = Instant::now();
        let mut heard = Instant::now();
        while ended.recv_timeout(POLL) != Err(RecvTimeoutError::Disconnected) && !self.progress.cancelled() {
            let seen = self.look().and_then(|failure| {
                if failure.is_none() && beat.elapsed() >= HEARTBEAT {
                    beat = Instant::now();
                    // If it has lapsed, the next look finds the job gone.
                    self.lease.renew(CLIENT_LEASE).map_err(of_store)?;
                }
                Ok(failure)
            });
            match seen {
                Ok(None) => heard = Instant::now(),
                Ok(Some(failure)) => return self.tables.remove_job(&self.job).and(Err(failure)),
                Err(error) if heard.elapsed() > STORE_TIMEOUT => return Err(error),
                // The workers go on without the store for a while.
                Err(_) => {}
            }
        }
        self.tables.remove_job(&self.job)
    }

    /// Looks where the channels are; the failure of the job, if it has failed.
    fn look(&self) -> Result<Option<DataFusionError>> {
        let Some(record) = self.tables.jobs().get(&self.job).map_err(of_store)? else {
            return Ok(Some(DataFusionError::Execution(
                "the cluster has given up the query: its client was not heard of for too long".to_string(),
            )));
        };
        if let Some(failure) = record.value.failure {
            return Ok(Some(failure.error()));
        }
        let rows = self.tables.channels(&self.job).rows().map_err(of_store)?;
        let channels: Vec<ChannelRecord> = rows.into_iter().map(|(_, row)| row.value).collect();
        self.places.send_if_modified(|places| {
            let is_new = places.channels != channels;
            places.channels = channels;
            is_new
        });
        let unknown = |places: &Places| {
            places.channels.iter().any(|record| !places.addresses.contains_key(&record.worker))
        };
        if unknown(&self.places.borrow()) {
            let known = addresses(&live_workers(&self.tables)?);
            self.places.send_modify(|places| places.addresses.extend(known));
        }
        Ok(None)
    }
}

/// The error of a thread that could not be started.
fn exhausted(error: std::io::Error) -> DataFusionError {
    DataFusionError::ResourcesExhausted(error.to_string())
}
