//! A worker: it registers, runs the channels that are given to it, and gives those of lost workers to others.
//!
//! All workers are alike, and none is a master: what each does follows from the control store (quill.txt
//! §5.1). One thread looks into the store, several times a second and whenever there is news; each channel
//! runs on a thread of its own.
//!
//! Layers, lowest first: `plan`, `registration`; `channel`; `job`; `recovery`.
//!
//! Invariant: a worker whose lease has lapsed has been declared dead. It stops all that it runs, and begins
//! again under another name.

mod channel;
mod job;
mod plan;
mod recovery;
mod registration;

use crate::backup::Backup;
use crate::error::of_store;
use crate::flight::{Connections, serve};
use crate::network::Network;
use crate::pull::Puller;
use crate::records::{JobRecord, NEWS, Tables};
use crate::workers::{addresses, live_workers};
use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use datafusion::common::{DataFusionError, Result};
use job::JobRun;
use plan::Finished;
use recovery::recover;
use registration::Registration;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use whimbrel_control::{ControlStore, Subscription, Versioned};
use whimbrel_plan::References;

/// How often a worker looks into the store if there is no news.
const POLL: Duration = Duration::from_millis(250);

/// How often a worker says that it is alive, and looks whether others are.
const HEARTBEAT: Duration = Duration::from_millis(750);

/// What a worker offers.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Where it listens for consumers of its frames; port 0 is any.
    pub listen: SocketAddr,
    /// Under which host others find it; by default the address that it listens on.
    pub host: Option<String>,
    /// How many channels it runs without one waiting for another.
    pub threads: u32,
    /// Where frames are kept that do not fit into the memory.
    pub folder: PathBuf,
    /// How many bytes of frames are kept in memory.
    pub backup_memory: usize,
}

/// A worker that runs.
#[must_use = "a worker stops when it is dropped"]
pub struct Worker {
    address: String,
    running: Option<Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a worker.
    ///
    /// # Errors
    /// `Execution` if the store is away, or the address cannot be listened on; `ResourcesExhausted` if there
    /// are no threads.
    pub fn start(
        store: Arc<dyn ControlStore>,
        references: Arc<dyn References>,
        options: &WorkerOptions,
    ) -> Result<Worker> {
        let network = Network::start()?;
        let backup = Arc::new(Backup::new(&options.folder, options.backup_memory));
        let bound = serve(network.handle(), Arc::clone(&backup), options.listen)?;
        let host = options.host.clone().unwrap_or_else(|| bound.ip().to_string());
        let address = format!("{host}:{}", bound.port());
        let (running, stopped) = bounded(0);
        let news = store.subscribe(&[NEWS]).map_err(of_store)?;
        let tables = Tables { store };
        let registration = Registration::new(&tables, &address, options.threads)?;
        let (finished, reports) = unbounded();
        let state = State {
            tables,
            references,
            network,
            backup,
            connections: Arc::default(),
            registration,
            addresses: BTreeMap::new(),
            jobs: BTreeMap::new(),
            finished,
            reports: vec![],
        };
        let run = move || state.run(&stopped, &news, &reports);
        let thread = Builder::new().name("worker".into()).spawn(run);
        let thread = thread.map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))?;
        Ok(Worker { address, running: Some(running), thread: Some(thread) })
    }

    /// Where its frames can be had.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether it has stopped, which is a bug.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.running.take();
        // A panic has been reported where it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What a worker knows and runs.
struct State {
    tables: Tables,
    references: Arc<dyn References>,
    network: Network,
    backup: Arc<Backup>,
    connections: Arc<Connections>,
    registration: Registration,
    /// Where workers can be reached.
    addresses: BTreeMap<String, String>,
    jobs: BTreeMap<String, JobRun>,
    finished: Sender<Finished>,
    /// What has not been written down yet.
    reports: Vec<Finished>,
}

impl State {
    /// Works until it is stopped. While the store is away, the channels go on.
    fn run(mut self, stopped: &Receiver<Infallible>, news: &Subscription, reports: &Receiver<Finished>) {
        let mut beat = Instant::now();
        loop {
            // Whatever failed is tried again with the next look.
            let _ = self.work(&mut beat);
            select! {
                recv(stopped) -> _ => break,
                recv(news.messages()) -> _ => news.messages().try_iter().for_each(drop),
                recv(reports) -> finished => self.reports.extend(finished.into_iter().chain(reports.try_iter())),
                default(POLL) => {}
            }
        }
        self.jobs.clear();
        // If it cannot leave, its lease lapses.
        let _ = self.registration.leave(&self.tables);
    }

    /// Does what there is to do.
    fn work(&mut self, beat: &mut Instant) -> Result<()> {
        if beat.elapsed() >= HEARTBEAT {
            self.beat()?;
            *beat = Instant::now();
        }
        self.report()?;
        self.look()
    }

    /// Says that the worker is alive, and finds out who is not.
    fn beat(&mut self) -> Result<()> {
        if !self.registration.renew()? {
            // It was declared dead; what it had runs elsewhere.
            self.jobs.keys().for_each(|job| self.backup.remove(job));
            self.jobs.clear();
            self.registration.register_again(&self.tables)?;
        }
        let live = live_workers(&self.tables)?;
        self.addresses = addresses(&live);
        self.jobs.values().try_for_each(|job| recover(&self.tables, &self.registration, job, &live))
    }

    /// Looks which jobs there are, and begins and stops channels accordingly.
    fn look(&mut self) -> Result<()> {
        let jobs = self.tables.jobs().rows().map_err(of_store)?;
        let running = jobs.into_iter().filter(|(_, job)| job.value.failure.is_none());
        let running: BTreeMap<String, Versioned<JobRecord>> = running.collect();
        let over: Vec<String> = self.jobs.keys().filter(|job| !running.contains_key(*job)).cloned().collect();
        for job in over {
            self.jobs.remove(&job);
            self.backup.remove(&job);
        }
        let own = self.registration.name();
        let puller = Puller {
            network: self.network.handle().clone(),
            connections: Arc::clone(&self.connections),
            own: Some((own.to_string(), Arc::clone(&self.backup))),
        };
        for (name, record) in running {
            if !self.jobs.contains_key(&name) {
                let Some(job) = JobRun::open(&self.tables, &name, record.clone(), &self.references)? else {
                    continue;
                };
                // Workers may have come since the last heartbeat.
                self.addresses = addresses(&live_workers(&self.tables)?);
                self.jobs.insert(name.clone(), job);
            }
            let Some(job) = self.jobs.get_mut(&name) else { continue };
            job.record = record;
            job.update(&self.tables, &self.addresses, own, &puller, &self.finished)?;
        }
        Ok(())
    }

    /// Writes down which channels have ended, and which jobs have failed.
    fn report(&mut self) -> Result<()> {
        let mut transactions = Vec::new();
        for finished in &self.reports {
            if let Some(job) = self.jobs.get(&finished.job) {
                transactions.extend(job.report(&self.tables, self.registration.name(), finished)?);
            }
        }
        // A conflict means that the channel was given to another worker, or the job is over.
        let _ = self.tables.store.commit_all(&transactions).map_err(of_store)?;
        self.reports.clear();
        Ok(())
    }
}
