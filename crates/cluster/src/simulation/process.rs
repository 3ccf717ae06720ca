//! A worker's process: the threads of [`Worker`](crate::Worker) as steps, in an order by chance.

use super::channel::{Channels, SimulatedLauncher};
use super::environment::{Environment, Host};
use crate::lineage::{LineageLog, LineageWriter};
use crate::records::{NEWS, Tables};
use crate::worker::launch::Finished;
use crate::worker::registration::{Registration, record_of};
use crate::worker::state::State;
use crossbeam_channel::{Receiver, unbounded};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use whimbrel_control::{ControlStore, Subscription};
use whimbrel_session::PlanReferences;

/// How often a worker says that it is alive, and looks into the store.
const HEARTBEAT: Duration = Duration::from_millis(750);

thread_local! {
    /// How many workers have registered in this run.
    static NAMES: Cell<u64> = const { Cell::new(0) };
}

/// Begins to count names anew.
pub fn reset_names() {
    NAMES.set(0);
}

/// The next name: workers of later registrations are not always last in their order.
fn next_name() -> String {
    NAMES.set(NAMES.get() + 1);
    format!("{:02x}-{}", NAMES.get().wrapping_mul(151) % 256, NAMES.get())
}

/// A worker that runs.
pub struct Process {
    pub host: Arc<Host>,
    environment: Arc<Environment>,
    registration: Arc<Registration>,
    /// Locked while its thread is at work, or waits for the store.
    state: Mutex<Option<State>>,
    lineage: Mutex<LineageWriter>,
    channels: Channels,
    reports: Receiver<Finished>,
    news: Subscription,
    /// When it says next that it is alive, and when it looks next.
    due: Mutex<(Duration, Duration)>,
}

impl Process {
    /// Starts a worker; none if the store is away.
    pub fn start(
        environment: &Arc<Environment>,
        store: Arc<dyn ControlStore>,
        host: Arc<Host>,
    ) -> Option<Process> {
        let tables = Tables { store };
        let news = tables.store.subscribe(&[NEWS]).ok()?;
        let registration = Registration::new(&tables, record_of(&host.address, 1), next_name).ok()?;
        environment.add_host(&host);
        environment.note(format!("{} is there, as {}", host.address, registration.name()));
        let registration = Arc::new(registration);
        let (log, lineage) = LineageLog::new(&tables);
        let (finished, reports) = unbounded();
        let channels = Channels::default();
        let (host_of, channels_of, next) = (Arc::clone(&host), Arc::clone(&channels), AtomicU64::new(0));
        let launcher = SimulatedLauncher { host: host_of, log, channels: channels_of, finished, next };
        let state =
            State::new(tables, Arc::new(PlanReferences), Arc::clone(&registration), Box::new(launcher));
        Some(Process {
            host,
            environment: Arc::clone(environment),
            registration,
            state: Mutex::new(Some(state)),
            lineage: Mutex::new(lineage),
            channels,
            reports,
            news,
            due: Mutex::default(),
        })
    }

    /// Does once what its threads would do now; which of them is first is left to chance.
    pub fn step(&self) {
        let first = self.environment.number(0..5);
        for thread in (first..5).chain(0..first) {
            // It may crash or hang meanwhile.
            let now = self.environment.now();
            if !self.host.is_working(now) {
                return;
            }
            match thread {
                0 => self.beat(now),
                1 => self.work(now),
                2 => self.report(),
                // Whoever holds it waits for the store.
                3 => _ = self.lineage.try_lock().map(|mut lineage| lineage.step()),
                _ => self.run_channels(),
            }
        }
    }

    /// Leaves the cluster, if its thread is not at work.
    pub fn leave(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            let _ = state.take().map(State::leave);
        }
    }

    fn beat(&self, now: Duration) {
        let is_due = self.due.lock().unwrap().0 <= now;
        if is_due {
            self.due.lock().unwrap().0 = now + HEARTBEAT;
            let _ = self.registration.renew();
        }
    }

    fn work(&self, now: Duration) {
        let Ok(mut state) = self.state.try_lock() else { return };
        let is_due = self.due.lock().unwrap().1 <= now;
        let has_news = self.news.messages().try_iter().count() > 0 && !self.environment.fails(3);
        if is_due {
            self.due.lock().unwrap().1 = now + HEARTBEAT;
        }
        if is_due || has_news {
            let _ = state.as_mut().map(|state| state.work(is_due));
        }
    }

    fn report(&self) {
        let Ok(mut state) = self.state.try_lock() else { return };
        let reports: Vec<Finished> = self.reports.try_iter().collect();
        if !reports.is_empty() {
            let _ = state.as_mut().map(|state| state.add_reports(reports));
        }
    }

    fn run_channels(&self) {
        let channels: Vec<_> = self.channels.lock().unwrap().values().cloned().collect();
        for channel in channels {
            if self.environment.happens(2) {
                channel.lock().unwrap().step(&self.environment);
            }
        }
    }
}
