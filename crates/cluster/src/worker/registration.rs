//! Registration: a worker is in the table of workers, and has a lease as long as it is alive.

use crate::error::of_store;
use crate::records::{ENGINE, Tables, WORKER_LEASE, WorkerRecord, worker_lease};
use datafusion::common::{Result, exec_err};
use whimbrel_control::{Effect, Lease, Outcome, Token, Transaction, TransactionId};

/// A worker in the table of workers.
pub struct Registration {
    name: String,
    record: WorkerRecord,
    lease: Lease,
}

impl Registration {
    /// Registers a worker under a name that no other ever had.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(tables: &Tables, address: &str, threads: u32) -> Result<Registration> {
        let record = WorkerRecord {
            address: address.to_string(),
            process: std::process::id(),
            threads,
            engine: ENGINE.to_string(),
        };
        Registration::register(tables, record)
    }

    fn register(tables: &Tables, record: WorkerRecord) -> Result<Registration> {
        let name = format!("{:016x}", TransactionId::random().0 as u64);
        let lease = worker_lease(&name);
        let transaction = Transaction::new()
            .then(Effect::Grant { lease: lease.clone(), holder: name.clone(), ttl: WORKER_LEASE })
            .then(tables.workers().put(&name, &record).map_err(of_store)?);
        match tables.store.commit(&transaction).map_err(of_store)? {
            Outcome::Committed { version, .. } => {
                let lease = Lease::of(&tables.store, &lease, Token(version));
                Ok(Registration { name, record, lease })
            }
            Outcome::Conflict { .. } => exec_err!("{} refused to register a worker", tables.store.describe()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says that the worker is alive; false if it was declared dead before.
    ///
    /// # Errors
    /// Those of the store.
    pub fn renew(&self) -> Result<bool> {
        self.lease.renew(WORKER_LEASE).map_err(of_store)
    }

    /// Registers under another name.
    ///
    /// # Errors
    /// Those of the store.
    pub fn register_again(&mut self, tables: &Tables) -> Result<()> {
        *self = Registration::register(tables, self.record.clone())?;
        Ok(())
    }

    /// Leaves the table of workers.
    ///
    /// # Errors
    /// Those of the store.
    pub fn leave(self, tables: &Tables) -> Result<()> {
        let leave = Transaction::new()
            .then(tables.workers().delete(&self.name))
            .then(Effect::Release { lease: self.lease.name().to_string() });
        tables.store.commit(&leave).map(|_| ()).map_err(of_store)
    }
}
