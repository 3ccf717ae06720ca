//! How a job is doing, as a client sees it in the store.

use crate::error::of_store;
use crate::live_workers::{addresses, live_workers};
use crate::plan::Plan;
use crate::pull::{Places, Unreachable};
use crate::records::{ChannelRecord, JobRecord, JobState, RunRecord, Tables};
use crossbeam_channel::Receiver;
use datafusion::common::{DataFusionError, Result};
use std::thread::sleep;
use std::time::Duration;
use tokio::sync::watch;
use whimbrel_sharded::error::unavailable;
use whimbrel_sharded::runtime::{LaneOrigin, Progress};

/// How long whoever reads a result does without the store: the workers do so, too.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(60);

/// How often, and how many times, a client looks whether all channels have told what they counted.
const SETTLE: (Duration, usize) = (Duration::from_millis(10), 30);

/// The record of a job.
///
/// # Errors
/// `Execution` if there is none.
pub fn record(tables: &Tables, job: &str) -> Result<JobRecord> {
    let found = tables.jobs().get(job).map_err(of_store)?;
    found.map(|record| record.value).ok_or_else(|| gone(job))
}

/// The error of a job that is not there any more.
fn gone(job: &str) -> DataFusionError {
    DataFusionError::Execution(format!(
        "the cluster has no job {job}: it was cancelled, its time was over, or its client was not heard of for \
         too long"
    ))
}

/// The channels of a job.
///
/// # Errors
/// Those of the store.
pub fn channels(tables: &Tables, job: &str) -> Result<Vec<ChannelRecord>> {
    let rows = tables.channels(job).rows().map_err(of_store)?;
    Ok(rows.into_iter().map(|(_, row)| row.value).collect())
}

/// The runs of the channels of a job.
///
/// # Errors
/// Those of the store.
pub fn runs(tables: &Tables, job: &str) -> Result<Vec<RunRecord>> {
    let rows = tables.runs(job).rows().map_err(of_store)?;
    Ok(rows.into_iter().map(|(_, row)| row.value).collect())
}

/// Looks where the channels of a job are, for those who read its result.
///
/// # Errors
/// Those of the store: whether the job is over is not known then.
pub fn follow(tables: &Tables, job: &str, places: &watch::Sender<Places>) -> Result<Followed> {
    let Some(record) = tables.jobs().get(job).map_err(of_store)? else {
        return Ok(Followed::Over(gone(job)));
    };
    match record.value.state {
        JobState::Running | JobState::Ended => {}
        JobState::Failed(failure) => return Ok(Followed::Over(failure.error())),
        JobState::Released => return Ok(Followed::Released),
    }
    let channels = channels(tables, job)?;
    places.send_if_modified(|places| {
        let is_new = places.channels != channels;
        places.channels = channels;
        is_new
    });
    let is_unknown =
        |places: &Places| places.channels.iter().any(|record| !places.addresses.contains_key(&record.worker));
    if is_unknown(&places.borrow()) {
        let known = addresses(&live_workers(tables)?);
        places.send_modify(|places| places.addresses.extend(known));
    }
    Ok(Followed::There)
}

/// The error of a job whose result was given up.
pub fn released(job: &str) -> DataFusionError {
    DataFusionError::Execution(format!("the result of the job {job} was removed"))
}

/// What became of a job that is followed.
pub enum Followed {
    /// It runs, or has its result.
    There,
    /// Its result was given up.
    Released,
    /// It has failed, or is gone.
    Over(DataFusionError),
}

/// The error of a worker that could not be reached for long, though it is alive. One that is lost is
/// replaced; one that is cut off from whoever reads would be waited for without end.
///
/// # Errors
/// Those of the store.
pub fn unreachable_worker(
    tables: &Tables,
    complaints: &Receiver<Unreachable>,
) -> Result<Option<DataFusionError>> {
    let complaints: Vec<Unreachable> = complaints.try_iter().collect();
    if complaints.is_empty() {
        return Ok(None);
    }
    let addresses = addresses(&live_workers(tables)?);
    let address = complaints.iter().find_map(|complaint| addresses.get(&complaint.worker));
    Ok(address.map(|address| {
        unavailable(format!(
            "the worker at {address} is alive, but cannot be reached from here; whoever reads a result connects \
             to the workers that have it: open their ports to this machine, or start them with a `--listen` \
             and `--host` that it can reach"
        ))
    }))
}

/// Shows how many rows were read, and how many came too late.
///
/// # Errors
/// Those of the store.
pub fn show_progress(tables: &Tables, plan: &Plan, progress: &Progress) -> Result<()> {
    let reads_source = |run: &&RunRecord| {
        let lanes = plan.topology.lanes(run.channel as usize);
        lanes.iter().any(|lane| matches!(lane, LaneOrigin::Source { .. }))
    };
    let (channels, runs) = (channels(tables, &plan.job)?, runs(tables, &plan.job)?);
    let current = |run: &&RunRecord| {
        channels.get(run.channel as usize).is_some_and(|channel| channel.attempt == run.attempt)
    };
    let read = runs.iter().filter(current).filter(reads_source).map(|run| run.rows).sum();
    let late = runs.iter().filter(current).map(|run| run.late_rows).sum();
    progress.set_rows(read, late);
    Ok(())
}

/// Shows the progress of a job whose result has been read, once all channels have told theirs.
///
/// # Errors
/// Those of the store.
pub fn show_end(tables: &Tables, plan: &Plan, progress: &Progress) -> Result<()> {
    for _ in 0..SETTLE.1 {
        if channels(tables, &plan.job)?.iter().all(|channel| channel.ended) {
            break;
        }
        sleep(SETTLE.0);
    }
    show_progress(tables, plan, progress)
}
