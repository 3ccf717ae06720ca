//! Recovery: channels of workers that are lost are given to others (quokka.txt Algorithm 2).
//!
//! There is no barrier: channels that lost nothing go on. Whoever finds a lost worker first does it, under a
//! lease; and what it writes is conditional on that lease and on the rows that it has read, so two that do it
//! at once, or one that was too slow, change nothing twice.

use super::job::JobRun;
use super::registration::Registration;
use crate::error::of_store;
use crate::placement::replace;
use crate::records::{
    ChannelRecord, NEWS, RECOVERY_LEASE, Tables, channel_key, client_lease, recovery_lease,
};
use crate::workers::{LiveWorker, placement};
use datafusion::common::Result;
use whimbrel_control::{Effect, Lease, Transaction};

/// Gives what was lost of a job to workers that are alive; removes the job if its client is lost.
///
/// # Errors
/// Those of the store.
pub fn recover(
    tables: &Tables,
    registration: &Registration,
    job: &JobRun,
    live: &[LiveWorker],
) -> Result<()> {
    let name = &job.plan.job;
    if Lease::holding(tables.store.as_ref(), &client_lease(name)).map_err(of_store)?.is_none() {
        return tables.remove_job(name);
    }
    let rows = tables.channels(name).rows().map_err(of_store)?;
    let channels: Vec<ChannelRecord> = rows.iter().map(|(_, row)| row.value.clone()).collect();
    let replaced = replace(&job.plan.topology, &job.plan.result(), &channels, &placement(live));
    if channels.len() != job.plan.topology.channels().len() || replaced.is_empty() {
        return Ok(());
    }
    let lease = Lease::acquire(&tables.store, &recovery_lease(name), registration.name(), RECOVERY_LEASE);
    let Some(lease) = lease.map_err(of_store)? else { return Ok(()) };
    let mut transaction = Transaction::new().when(lease.held());
    for (channel, record) in replaced {
        let (table, key) = (tables.channels(name), channel_key(channel));
        transaction = transaction
            .when(table.unchanged(&key, Some(rows[channel].1.version)))
            .then(table.put(&key, &record).map_err(of_store)?);
    }
    let publish = Effect::Publish { topic: NEWS.to_string(), payload: name.clone().into() };
    // After a conflict, the next look decides anew.
    let _ = tables.store.commit(&transaction.then(publish)).map_err(of_store)?;
    lease.release().map(|_| ()).map_err(of_store)
}
