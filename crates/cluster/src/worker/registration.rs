//! Registration: a worker is in the table of workers, and has a lease as long as it is alive.

use crate::error::of_store;
use crate::records::{ENGINE, Tables, WORKER_LEASE, WorkerRecord, worker_lease};
use datafusion::common::{Result, exec_err};
use std::sync::{Mutex, MutexGuard, PoisonError};
use whimbrel_control::{Effect, Lease, Outcome, Token, Transaction, TransactionId};

/// A worker in the table of workers. One thread renews its lease, and another registers it again.
pub struct Registration {
    record: WorkerRecord,
    new_name: NewName,
    state: Mutex<State>,
}

/// Gives a name that no other worker ever had.
pub type NewName = fn() -> String;

/// A name by chance.
pub fn random_name() -> String {
    format!("{:016x}", TransactionId::random().0 as u64)
}

struct State {
    name: String,
    lease: Lease,
    /// Whether the lease has lapsed.
    is_lost: bool,
}

/// What a worker registers as, whatever its name.
pub fn record_of(address: &str, threads: u32) -> WorkerRecord {
    let (address, process) = (address.to_string(), std::process::id());
    WorkerRecord { address, process, threads, engine: ENGINE.to_string() }
}

impl Registration {
    /// Registers a worker under a name that no other ever had.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(tables: &Tables, record: WorkerRecord, new_name: NewName) -> Result<Registration> {
        let state = Mutex::new(register(tables, &record, new_name())?);
        Ok(Registration { record, new_name, state })
    }

    /// What it registers as.
    pub fn record(&self) -> &WorkerRecord {
        &self.record
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.lock().name.clone()
    }

    /// Says that the worker is alive.
    ///
    /// # Errors
    /// Those of the store.
    pub fn renew(&self) -> Result<()> {
        let lease = self.lock().lease.clone();
        let is_alive = lease.renew(WORKER_LEASE).map_err(of_store)?;
        let mut state = self.lock();
        if state.lease.token() == lease.token() {
            state.is_lost = !is_alive;
        }
        Ok(())
    }

    /// Whether the worker was declared dead.
    pub fn is_lost(&self) -> bool {
        self.lock().is_lost
    }

    /// Registers under another name.
    ///
    /// # Errors
    /// Those of the store.
    pub fn register_again(&self, tables: &Tables) -> Result<()> {
        let state = register(tables, &self.record, (self.new_name)())?;
        *self.lock() = state;
        Ok(())
    }

    /// Leaves the table of workers.
    ///
    /// # Errors
    /// Those of the store.
    pub fn leave(&self, tables: &Tables) -> Result<()> {
        let removal = removal(tables, &self.name());
        tables.store.commit(&removal).map(|_| ()).map_err(of_store)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change replaces a whole value.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What removes a worker from the tables.
pub fn removal(tables: &Tables, worker: &str) -> Transaction {
    Transaction::new()
        .then(tables.workers().delete(worker))
        .then(tables.members().delete(worker))
        .then(Effect::Release { lease: worker_lease(worker) })
}

fn register(tables: &Tables, record: &WorkerRecord, name: String) -> Result<State> {
    let lease = worker_lease(&name);
    let transaction = Transaction::new()
        .then(Effect::Grant { lease: lease.clone(), holder: name.clone(), ttl: WORKER_LEASE })
        .then(tables.workers().put(&name, record).map_err(of_store)?);
    match tables.store.commit(&transaction).map_err(of_store)? {
        Outcome::Committed { version, .. } => {
            let lease = Lease::of(&tables.store, &lease, Token(version));
            Ok(State { name, lease, is_lost: false })
        }
        Outcome::Conflict { .. } => exec_err!("{} refused to register a worker", tables.store.describe()),
    }
}
