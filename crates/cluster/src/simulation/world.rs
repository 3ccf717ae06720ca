//! A cluster whose time goes on step by step, with faults by chance; decided by its seed alone.
//!
//! Whenever a process waits for the store, the others may go on, also for longer than its lease: so rounds of
//! several workers are interleaved at each access to the store, without threads.

use super::client::Client;
use super::environment::{Environment, Host};
use super::process::{Process, reset_names};
use super::store::{Ledger, Mutation, ProcessStore};
use crate::records::{Lifetime, Tables};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use whimbrel_control::{ControlStore, MemoryStore};
use whimbrel_sharded::JobSpec;

/// How many workers there are if none has crashed.
const WORKERS: usize = 3;

/// How long there are faults.
const FAULTY: Duration = Duration::from_secs(15);

/// How long after the last fault a job may take: some leases, one after the other.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long what silent clients have left may be there: their leases, and some rounds.
const REMAINS: Duration = Duration::from_secs(15);

/// How many processes may wait for the store within each other.
const DEPTH: usize = 2;

/// A simulated cluster.
pub struct World {
    environment: Arc<Environment>,
    store: MemoryStore,
    ledger: Arc<Ledger>,
    mutation: Mutation,
    processes: Mutex<Vec<Arc<Process>>>,
    clients: Vec<Mutex<Client>>,
    /// When workers come that are not there yet.
    arrivals: Mutex<Vec<Duration>>,
    hosts: AtomicUsize,
    /// Once in how many steps something happens to a worker.
    calm: u64,
    depth: AtomicUsize,
}

/// Runs a cluster; what is broken if something is, after the last events. Gives how many jobs were complete.
pub fn simulate(seed: u64, mutation: Mutation, spec: &Arc<JobSpec>) -> Result<(usize, String), String> {
    let world = World::new(seed, mutation, spec);
    let found = world.run();
    let trace = world.environment.trace();
    match found {
        Ok(completed) => Ok((completed, trace)),
        Err(violation) => Err(format!("{trace}{violation}")),
    }
}

impl World {
    fn new(seed: u64, mutation: Mutation, spec: &Arc<JobSpec>) -> Arc<World> {
        reset_names();
        let (environment, ledger) = (Environment::new(seed), Arc::new(Ledger::default()));
        let store = MemoryStore::new(environment.clock.clone());
        let client = |number| {
            let store = ProcessStore {
                environment: Arc::clone(&environment),
                host: None,
                inner: store.clone(),
                ledger: Arc::clone(&ledger),
                mutation,
            };
            Mutex::new(Client {
                number,
                environment: Arc::clone(&environment),
                tables: Tables { store: Arc::new(store) },
                spec: Arc::clone(spec),
                submitted: 0,
                completed: 0,
                job: None,
            })
        };
        let clients = (0..2).map(client).collect();
        let arrivals = Mutex::new(vec![Duration::ZERO; WORKERS]);
        let calm = [100, 300, 1000][environment.number(0..3) as usize];
        let (processes, hosts, depth) = (Mutex::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let world =
            World { environment, store, ledger, mutation, processes, clients, arrivals, hosts, calm, depth };
        let world = Arc::new(world);
        let paused = Arc::downgrade(&world);
        let pause = move || paused.upgrade().iter().for_each(|world| world.pause());
        let _ = world.environment.pause.set(Box::new(pause));
        world
    }

    /// Runs until all jobs are complete and nothing is left of them; how many were.
    fn run(&self) -> Result<usize, String> {
        self.run_until(FAULTY, || false)?;
        self.environment.end_faults();
        let idle = || self.clients.iter().all(|client| client.lock().unwrap().is_idle());
        self.run_until(self.environment.now() + PATIENCE, idle)?;
        if !idle() {
            return Err("a job hangs".to_string());
        }
        let tables = Tables { store: Arc::new(self.store.clone()) };
        let left = || {
            let jobs = tables.jobs().rows().unwrap().into_iter();
            jobs.filter(|(_, job)| job.value.lifetime == Lifetime::Client).count()
        };
        self.run_until(self.environment.now() + REMAINS, || left() == 0)?;
        match left() {
            0 => Ok(self.clients.iter().map(|client| client.lock().unwrap().completed).sum()),
            left => Err(format!("{left} jobs of silent clients are left")),
        }
    }

    /// Goes on until a time, or for as long as something is not so.
    fn run_until(&self, end: Duration, is_over: impl Fn() -> bool) -> Result<(), String> {
        while self.environment.now() < end && !is_over() {
            self.step();
            if let Some(violation) = self.environment.violation() {
                return Err(violation);
            }
        }
        Ok(())
    }

    /// Goes on for a while: mostly a short one, sometimes longer than the lease of the process that waits.
    fn pause(&self) {
        if self.depth.load(Ordering::Relaxed) >= DEPTH {
            return;
        }
        self.depth.fetch_add(1, Ordering::Relaxed);
        let longest = if self.environment.happens(4) { 8000 } else { 300 };
        let end = self.environment.now() + Duration::from_millis(self.environment.number(0..longest));
        while self.environment.now() < end {
            self.step();
        }
        self.depth.fetch_sub(1, Ordering::Relaxed);
    }

    fn step(&self) {
        let environment = &self.environment;
        environment.clock.advance(Duration::from_millis(environment.number(0..20)));
        self.arrive();
        if environment.fails(self.calm) {
            self.fault();
            // Two at once.
            if environment.happens(4) {
                self.fault();
            }
        }
        let processes = self.processes.lock().unwrap().clone();
        let actor = environment.number(0..(processes.len() + self.clients.len()) as u64) as usize;
        match processes.get(actor) {
            Some(process) => process.step(),
            // A client that waits for the store goes on with nothing else.
            None => _ = self.clients[actor - processes.len()].try_lock().map(|mut client| client.step()),
        }
    }

    /// Starts the workers whose time has come.
    fn arrive(&self) {
        let now = self.environment.now();
        let due = self.arrivals.lock().unwrap().pop_if(|at| *at <= now).is_some();
        if !due {
            return;
        }
        let host = Host::new(format!("host-{}", self.hosts.fetch_add(1, Ordering::Relaxed)));
        let store: Arc<dyn ControlStore> = Arc::new(ProcessStore {
            environment: Arc::clone(&self.environment),
            host: Some(Arc::clone(&host)),
            inner: self.store.clone(),
            ledger: Arc::clone(&self.ledger),
            mutation: self.mutation,
        });
        match Process::start(&self.environment, store, host) {
            Some(process) => self.processes.lock().unwrap().push(Arc::new(process)),
            None => self.arrivals.lock().unwrap().push(now),
        }
    }

    /// Something happens to a worker.
    fn fault(&self) {
        let environment = &self.environment;
        let count = self.processes.lock().unwrap().len() as u64;
        if count == 0 {
            return;
        }
        let place = environment.number(0..count) as usize;
        let process = Arc::clone(&self.processes.lock().unwrap()[place]);
        let until = environment.now() + Duration::from_millis(environment.number(0..8000));
        let name = &process.host.address;
        match environment.number(0..5) {
            0 | 1 => {
                environment.note(format!("{name} crashes"));
                self.remove(&process, until);
            }
            2 => {
                environment.note(format!("{name} hangs until {until:?}"));
                *process.host.hangs_until.lock().unwrap() = until;
            }
            3 => {
                environment.note(format!("{name} is cut off from the store until {until:?}"));
                *process.host.cut_off_until.lock().unwrap() = until;
            }
            _ => {
                environment.note(format!("{name} leaves"));
                process.leave();
                self.remove(&process, until);
            }
        }
    }

    /// A process is gone with all that it had; another one comes later.
    fn remove(&self, process: &Arc<Process>, next: Duration) {
        process.host.crash();
        self.processes.lock().unwrap().retain(|other| !Arc::ptr_eq(other, process));
        let mut arrivals = self.arrivals.lock().unwrap();
        arrivals.push(next);
        // The first to come is last.
        arrivals.sort_by(|left, right| right.cmp(left));
    }
}
