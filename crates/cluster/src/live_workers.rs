//! The workers of a cluster that are alive.

use crate::error::of_store;
use crate::placement::Pools;
use crate::records::{Membership, Tables, WorkerRecord, worker_lease};
use datafusion::common::Result;
use std::collections::BTreeMap;
use whimbrel_control::{Found, Read, Transaction, Versioned};

/// A worker that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWorker {
    /// Its name.
    pub name: String,
    /// What it has registered.
    pub record: WorkerRecord,
    /// What was decided about it.
    pub membership: Membership,
    /// The version of that, if anything was.
    version: Option<u64>,
}

impl LiveWorker {
    /// Whether a virtual cluster can have it.
    pub fn is_free(&self) -> bool {
        self.membership == Membership::default()
    }

    /// Adds to a transaction that the worker belongs to a virtual cluster, if it is as it was read.
    ///
    /// # Errors
    /// `Plan` if the record is too large.
    pub fn assign(
        &self,
        tables: &Tables,
        transaction: Transaction,
        cluster: Option<&str>,
    ) -> Result<Transaction> {
        let members = tables.members();
        let membership = Membership { cluster: cluster.map(str::to_string), ..self.membership.clone() };
        Ok(transaction
            .when(members.unchanged(&self.name, self.version))
            .then(members.put(&self.name, &membership).map_err(of_store)?))
    }
}

/// The workers that are alive.
///
/// # Errors
/// Those of the store.
pub fn live_workers(tables: &Tables) -> Result<Vec<LiveWorker>> {
    let rows = tables.workers().rows().map_err(of_store)?;
    let reads = rows.iter().map(|(name, _)| Read::Holding { lease: worker_lease(name) });
    let found = tables.store.read_all(&reads.collect::<Vec<_>>()).map_err(of_store)?;
    let members: BTreeMap<String, Versioned<Membership>> =
        tables.members().rows().map_err(of_store)?.into_iter().collect();
    let live = rows.into_iter().zip(found).filter(|(_, found)| matches!(found, Found::Holding(Some(_))));
    let live = live.map(|((name, row), _)| {
        let member = members.get(&name);
        let membership = member.map(|row| row.value.clone()).unwrap_or_default();
        LiveWorker { version: member.map(|row| row.version), name, record: row.value, membership }
    });
    Ok(live.collect())
}

/// What channels are placed by.
pub fn pools(live: &[LiveWorker]) -> Pools {
    let mut pools = Pools::default();
    for LiveWorker { name, record, membership, .. } in live {
        pools.alive.insert(name.clone());
        if !membership.is_draining {
            let pool = pools.by_cluster.entry(membership.cluster.clone()).or_default();
            pool.insert(name.clone(), record.threads);
        }
    }
    pools
}

/// Where each worker can be reached.
pub fn addresses(live: &[LiveWorker]) -> BTreeMap<String, String> {
    live.iter().map(|worker| (worker.name.clone(), worker.record.address.clone())).collect()
}
