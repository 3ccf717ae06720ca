//! Recovery: channels of workers that are lost are given to others (quokka.txt Algorithm 2).
//!
//! There is no barrier: channels that lost nothing go on. Whoever finds a lost worker first does it, under a
//! lease; and what it writes is conditional on that lease and on the rows that it has read, so two that do it
//! at once, or one that was too slow, change nothing twice.

use super::job::JobRun;
use crate::error::of_store;
use crate::placement::{Kept, Pools, replace};
use crate::records::{
    ChannelRecord, JobState, RECOVERY_LEASE, Tables, channel_key, job_lease, news, now, recovery_lease,
};
use datafusion::common::Result;
use whimbrel_control::{Lease, Transaction};

/// Gives what was lost of a job to workers that are alive; removes the job if its time is over.
///
/// # Errors
/// Those of the store.
pub fn recover(tables: &Tables, own: &str, job: &JobRun, pools: &Pools) -> Result<()> {
    let name = &job.plan.job;
    if is_expired(tables, job)? {
        return tables.remove_job(name);
    }
    let rows = tables.channels(name).rows().map_err(of_store)?;
    let channels: Vec<ChannelRecord> = rows.iter().map(|(_, row)| row.value.clone()).collect();
    if channels.len() != job.plan.topology.channels().len() {
        return Ok(());
    }
    let excluded = tables.excluded(name).rows().map_err(of_store)?;
    let pools = &pools.without(excluded.iter().map(|(worker, _)| worker));
    let kept = match job.record.value.state {
        JobState::Ended => Kept::Result,
        _ => Kept::All,
    };
    let plan = &job.plan;
    let replaced = replace(&plan.topology, &plan.result(), &plan.locations, kept, &channels, pools);
    if replaced.is_empty() {
        return Ok(());
    }
    let lease = Lease::acquire(&tables.store, &recovery_lease(name), own, RECOVERY_LEASE);
    let Some(lease) = lease.map_err(of_store)? else { return Ok(()) };
    let unchanged = tables.jobs().unchanged(name, Some(job.record.version));
    let mut transaction = Transaction::new().when(lease.held()).when(unchanged);
    for (channel, record) in replaced {
        let lost = &channels[channel].worker;
        if !pools.alive.contains(lost) {
            transaction = transaction.then(tables.losses(name).put(lost, &now()).map_err(of_store)?);
        }
        let (table, key) = (tables.channels(name), channel_key(channel));
        transaction = transaction
            .when(table.unchanged(&key, Some(rows[channel].1.version)))
            .then(table.put(&key, &record).map_err(of_store)?);
    }
    // After a conflict, the next look decides anew.
    let _ = tables.store.commit(&transaction.then(news(name))).map_err(of_store)?;
    lease.release().map(|_| ()).map_err(of_store)
}

/// Whether the job is to be removed.
fn is_expired(tables: &Tables, job: &JobRun) -> Result<bool> {
    let record = &job.record.value;
    let lease = || Lease::holding(tables.store.as_ref(), &job_lease(&job.plan.job)).map_err(of_store);
    Ok(record.is_expired(true) || (record.is_expired(false) && lease()?.is_none()))
}
