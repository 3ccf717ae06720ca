//! The workers of a cluster that are alive.

use crate::error::of_store;
use crate::placement::Workers;
use crate::records::{Tables, WorkerRecord, worker_lease};
use datafusion::common::Result;
use std::collections::BTreeMap;
use whimbrel_control::{Found, Read};

/// A worker that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWorker {
    /// Its name.
    pub name: String,
    /// What it has registered.
    pub record: WorkerRecord,
}

/// The workers that are alive.
///
/// # Errors
/// Those of the store.
pub fn live_workers(tables: &Tables) -> Result<Vec<LiveWorker>> {
    let rows = tables.workers().rows().map_err(of_store)?;
    let reads = rows.iter().map(|(name, _)| Read::Holding { lease: worker_lease(name) });
    let found = tables.store.read_all(&reads.collect::<Vec<_>>()).map_err(of_store)?;
    let live = rows.into_iter().zip(found).filter(|(_, found)| matches!(found, Found::Holding(Some(_))));
    Ok(live.map(|((name, row), _)| LiveWorker { name, record: row.value }).collect())
}

/// What channels are placed by.
pub fn placement(live: &[LiveWorker]) -> Workers {
    live.iter().map(|worker| (worker.name.clone(), worker.record.threads)).collect()
}

/// Where each worker can be reached.
pub fn addresses(live: &[LiveWorker]) -> BTreeMap<String, String> {
    live.iter().map(|worker| (worker.name.clone(), worker.record.address.clone())).collect()
}
