//! A worker: a process that runs channels of the jobs of a cluster.
//!
//! It looks into the control store for what it has to do: which jobs there are, which of their channels are
//! its own. It begins and stops channels accordingly, and writes down which have ended. What runs where is
//! decided by clients, for new jobs, and in `recovery`.
//!
//! Layers, lowest first: `launch`, how channels are started; `registration`; `metrics`; `job`; `recovery`;
//! `state`, all that a worker decides; `channel`, channels that run; and here, the threads.
//!
//! Invariant: a worker whose lease has lapsed has been declared dead. It stops all that it runs, and begins
//! again under another name.

mod channel;
mod job;
pub mod launch;
mod metrics;
mod metrics_server;
mod recovery;
pub mod registration;
pub mod state;

use crate::backup::{Backup, QueueName};
use crate::connection::Connection;
use crate::error::{no_thread, of_store};
use crate::flight::serve;
use crate::lineage::LineageLog;
use crate::live::{Host, Station};
use crate::pull::{OnUnreachable, Puller, Unreachable};
use crate::records::NEWS;
use crate::references::with_datasets;
use channel::ChannelRun;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select, tick, unbounded};
use datafusion::common::Result;
use launch::{Begin, Finished, Launcher, Run};
use metrics::Metrics;
use metrics_server::serve_metrics;
use registration::{Registration, random_name, record_of};
use state::State;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use whimbrel_control::{ControlStore, Subscription};
use whimbrel_plan::References;

/// How often a worker says that it is alive, and looks into the store if there is no news.
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
    pub backup_memory: u64,
    /// How many bytes of frames are kept on the disk at most; none: as many as it takes.
    pub backup_disk: Option<u64>,
    /// Where its metrics can be had, as `http://address/metrics` in the text format of Prometheus.
    pub metrics: Option<SocketAddr>,
}

/// A worker that runs.
#[must_use = "a worker stops when it is dropped"]
pub struct Worker {
    address: String,
    metrics_address: Option<SocketAddr>,
    running: Option<Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
    host_thread: Option<JoinHandle<()>>,
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
        let news = store.subscribe(&[NEWS]).map_err(of_store)?;
        let connection = Arc::new(Connection::open(store)?);
        let tables = connection.tables.clone();
        let backup = Arc::new(Backup::new(&options.folder, options.backup_memory, options.backup_disk));
        let served = (Arc::clone(&backup), Arc::clone(&connection.activities));
        let bound = serve(connection.network(), served, options.listen, &connection.identity)?;
        let host = options.host.clone().unwrap_or_else(|| bound.ip().to_string());
        let address = format!("{host}:{}", bound.port());
        connection.set_own_queues(&address, &backup);
        let (running, stopped) = bounded(0);
        let registration = Registration::new(&tables, record_of(&address, options.threads), random_name)?;
        let registration = Arc::new(registration);
        let metrics = Arc::new(Metrics::default());
        let text = {
            let (metrics, registration, backup) = (metrics.clone(), registration.clone(), backup.clone());
            move || metrics.text(&registration, &backup)
        };
        let serve = |address| serve_metrics(connection.network(), address, text);
        let metrics_address = options.metrics.map(serve).transpose()?;
        let beat = {
            let (registration, stopped) = (Arc::clone(&registration), stopped.clone());
            move || beat(&registration, &stopped)
        };
        Builder::new().name("heartbeat".into()).spawn(beat).map_err(no_thread)?;
        let (finished, reports) = unbounded();
        let hosts = {
            // Datasets of the cluster can go away, so live jobs do not read them.
            let station = Station { connection: Arc::clone(&connection), backup: Arc::clone(&backup) };
            let host = Host::new(station, Arc::clone(&references));
            let (registration, stopped) = (Arc::clone(&registration), stopped.clone());
            let metrics = Arc::clone(&metrics);
            move || run_host(host, &registration, &stopped, &metrics)
        };
        let host_thread = Builder::new().name("host".into()).spawn(hosts).map_err(no_thread)?;
        let lineage = LineageLog::start(&tables)?;
        let references = with_datasets(&connection, &references);
        let (unreachable, complaints) = unbounded();
        let launcher = Threads { connection, backup, lineage, finished, unreachable, metrics };
        let state = State::new(tables, references, registration, Box::new(launcher));
        let run = move || run(state, &stopped, &news, &reports, &complaints);
        let thread = Builder::new().name("worker".into()).spawn(run).map_err(no_thread)?;
        let (thread, host_thread) = (Some(thread), Some(host_thread));
        Ok(Worker { address, metrics_address, running: Some(running), thread, host_thread })
    }

    /// Where its frames can be had.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where its metrics are served, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Whether it has stopped, which is a bug.
    pub fn has_ended(&self) -> bool {
        [&self.thread, &self.host_thread]
            .into_iter()
            .any(|thread| thread.as_ref().is_none_or(JoinHandle::is_finished))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.running.take();
        // A panic has been reported where it happened.
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = self.host_thread.take().map(JoinHandle::join);
    }
}

/// Says that a worker is alive until it is stopped, also while it is busy with a large plan.
fn beat(registration: &Registration, stopped: &Receiver<Infallible>) {
    while stopped.recv_timeout(HEARTBEAT) != Err(RecvTimeoutError::Disconnected) {
        // While the store is away, nobody finds the lease lapsed.
        let _ = registration.renew();
    }
}

/// Hosts live jobs until it is stopped. While the store is away, they go on.
fn run_host(mut host: Host, registration: &Registration, stopped: &Receiver<Infallible>, metrics: &Metrics) {
    loop {
        // Whatever failed is tried again with the next look.
        let _ = host.work((!registration.is_lost()).then(|| registration.name()).as_deref());
        metrics.set_live_jobs(host.job_count());
        if stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Disconnected) {
            let _ = host.leave(&registration.name());
            return;
        }
    }
}

/// Works until it is stopped. While the store is away, the channels go on.
fn run(
    mut state: State,
    stopped: &Receiver<Infallible>,
    news: &Subscription,
    reports: &Receiver<Finished>,
    complaints: &Receiver<Unreachable>,
) {
    let ticks = tick(HEARTBEAT);
    let mut looks_around = false;
    loop {
        // Whatever failed is tried again with the next look.
        let _ = state.work(looks_around);
        looks_around = loop {
            select! {
                recv(stopped) -> _ => {
                    let _ = state.leave();
                    return;
                }
                recv(news.messages()) -> _ => {
                    news.messages().try_iter().for_each(drop);
                    break false;
                }
                recv(reports) -> finished => {
                    let _ = state.add_reports(finished.into_iter().chain(reports.try_iter()));
                }
                recv(complaints) -> unreachable => {
                    // It is found again if it stays so.
                    let _ = unreachable.map(|unreachable| state.exclude(&unreachable));
                }
                recv(ticks) -> _ => break true,
            }
        };
    }
}

/// Runs channels on threads of this process.
struct Threads {
    connection: Arc<Connection>,
    backup: Arc<Backup>,
    lineage: LineageLog,
    finished: Sender<Finished>,
    unreachable: Sender<Unreachable>,
    metrics: Arc<Metrics>,
}

impl Launcher for Threads {
    fn start(&self, _: &str, begin: Begin<'_>) -> Result<Box<dyn Run>> {
        let unreachable = OnUnreachable::Tell(self.unreachable.clone());
        let puller = Puller { unreachable, ..self.connection.puller() };
        let to = (&self.finished, &self.metrics, &self.connection.activities);
        Ok(Box::new(ChannelRun::start(begin, &puller, &self.backup, &self.lineage, to)?))
    }

    fn remove_queue(&self, job: &str, queue: usize) {
        self.backup.remove_queue(&QueueName { job: job.to_string(), queue });
    }

    fn remove_job(&self, job: &str) {
        self.backup.remove(job);
    }
}
