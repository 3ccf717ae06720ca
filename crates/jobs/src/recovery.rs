//! Recovery: from what a store and a sink have to where a job goes on.
//!
//! The order matters. The run gets its number first; then the sink is taken over, so that no earlier run
//! can commit; only then is it read which epochs the sink has, and what has to be computed again.

use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::codec;
use crate::generation::Generation;
use crate::identity::{Identity, new_number};
use crate::sink::{Run, Sink};
use crate::store::StateStore;
use crate::tape::{Epoch, Tape};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use whimbrel_plan::Stream;

const JOB: &str = "job";

/// Where a job goes on.
pub struct Recovery {
    /// The number of this run.
    pub generation: Generation,
    /// The last epoch that the sink has.
    pub committed: u64,
    /// The state that the job goes on from; none at its beginning.
    pub checkpoint: Option<Checkpoint>,
    /// The epochs that are computed again.
    pub epochs: Vec<Epoch>,
    /// How many checkpoints were damaged.
    pub damaged: usize,
    /// The checkpoints of the job.
    pub checkpoints: Checkpoints,
    /// Its tape.
    pub tape: Tape,
}

/// What is kept of a job when it is begun.
#[derive(Debug, Serialize, Deserialize)]
struct JobRecord {
    identity: Identity,
    /// How many shards come out of each exchange of its query.
    shards: Vec<Option<u64>>,
}

/// The identity of the job in a store, of a new one if there is none; and the query with as many shards as
/// the job was begun with, for its states are those of so many.
///
/// # Errors
/// `Execution` if the store has another job; those of the store.
pub fn identify(
    store: &dyn StateStore,
    stream: &Stream,
    identity: impl Fn(String, &Stream) -> Result<Identity>,
) -> Result<(Identity, Stream)> {
    let found = store.get(JOB)?;
    let found = found.map(|bytes| codec::open::<JobRecord>(&bytes, JOB)).transpose()?;
    let Some(found) = found else {
        let identity = identity(new_number(), stream)?;
        let shards = stream.exchange_shards()?.into_iter().map(|shards| shards.map(|n| n as u64)).collect();
        let record = JobRecord { identity, shards };
        store.put(vec![(JOB.to_string(), codec::seal(&record)?)])?;
        return Ok((record.identity, stream.clone()));
    };
    let shards = found.shards.iter().map(|shards| shards.and_then(|n| usize::try_from(n).ok()));
    // With the shards of another query, a query may be none at all.
    let stream = stream.with_exchange_shards(&shards.collect::<Vec<_>>()).unwrap_or_else(|_| stream.clone());
    let own = identity(found.identity.job.clone(), &stream)?;
    own.check(&found.identity, &store.describe())?;
    Ok((own, stream))
}

/// Takes a job over and finds out where it goes on.
///
/// # Errors
/// `Execution` if the sink and the store do not belong together, or records are missing; those of both.
pub fn recover(
    store: &Arc<dyn StateStore>,
    identity: &Identity,
    sink: &mut dyn Sink,
    schema: SchemaRef,
    is_stopped: &Arc<AtomicBool>,
) -> Result<Recovery> {
    let generation = Generation::take(store)?;
    let (job, is_stopped) = (identity.job.clone(), Arc::clone(is_stopped));
    let run = Run { job, generation: generation.number(), schema, is_stopped };
    let committed = sink.open(&run)?.unwrap_or(0);
    let mut checkpoints = Checkpoints::new(Arc::clone(store), identity.clone());
    let (checkpoint, damaged) = checkpoints.newest(committed)?;
    let tape = Tape::new(Arc::clone(store));
    if checkpoint.is_none()
        && let Some(first) = tape.first()?.filter(|first| *first > 1)
    {
        return exec_err!(
            "the sink has the results up to epoch {committed}, and no checkpoint in `{}` is as old; the job is known \
             from epoch {first} on. Results are gone that cannot be computed again: restore the sink, or begin anew \
             with another folder",
            store.describe()
        );
    }
    let last = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.epoch);
    let epochs = tape.after(last)?;
    let end = epochs.last().map_or(last, |epoch| epoch.number);
    if end < committed {
        return exec_err!(
            "the sink has the results up to epoch {committed}, and the state in `{}` ends with epoch {end}: it is \
             older than the results, or was restored from a copy",
            store.describe()
        );
    }
    Ok(Recovery { generation, committed, checkpoint, epochs, damaged, checkpoints, tape })
}
