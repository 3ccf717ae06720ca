//! The thread that hands epochs to the sink.
//!
//! Invariants: epochs come in order. Those that the sink has already are left out. The sink commits at
//! every checkpoint, so that the checkpoint can be used.

use crate::sink::Sink;
use arrow::record_batch::RecordBatch;
use crossbeam_channel::{Receiver, Sender, bounded};
use datafusion::common::{DataFusionError, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

/// How many epochs wait for the sink before no more are computed.
const WAITING: usize = 16;

/// An epoch with all its rows.
pub struct CompleteEpoch {
    /// Its number.
    pub number: u64,
    /// Its rows, shard after shard.
    pub rows: Vec<RecordBatch>,
    /// Whether it is committed at once.
    pub commit: bool,
}

/// The sink on its thread.
pub struct Committer {
    epochs: Option<Sender<CompleteEpoch>>,
    committed: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Committer {
    /// Starts the thread; the sink has committed the epochs up to this one.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no thread.
    pub fn start(sink: Box<dyn Sink>, committed: u64) -> Result<Committer> {
        let (epochs, received) = bounded(WAITING);
        let committed = Arc::new(AtomicU64::new(committed));
        let shared = Arc::clone(&committed);
        let thread = Builder::new().name("sink".into()).spawn(move || deliver(sink, &received, &shared));
        let thread = thread.map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))?;
        Ok(Committer { epochs: Some(epochs), committed, thread: Some(thread) })
    }

    /// The last epoch that the sink has committed.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Hands an epoch on; waits while the sink is behind.
    ///
    /// # Errors
    /// That of the sink.
    pub fn send(&mut self, epoch: CompleteEpoch) -> Result<()> {
        match self.epochs.as_ref().is_some_and(|epochs| epochs.send(epoch).is_ok()) {
            true => Ok(()),
            false => self.finish(),
        }
    }

    /// Looks whether the sink has failed, which would be noticed late if no more epochs come.
    ///
    /// # Errors
    /// That of the sink.
    pub fn check(&mut self) -> Result<()> {
        // While epochs may come, its thread ends only if it fails.
        match self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            true => self.finish(),
            false => Ok(()),
        }
    }

    /// Waits until everything has been committed that was to be.
    ///
    /// # Errors
    /// That of the sink.
    pub fn finish(&mut self) -> Result<()> {
        self.epochs = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(DataFusionError::Internal("the sink panicked".to_string())),
            None => Ok(()),
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        // A sink is not left in the middle of a commit: whoever goes on with the job would find it
        // locked.
        let _ = self.finish();
    }
}

/// Writes and commits epochs until no more come.
fn deliver(mut sink: Box<dyn Sink>, epochs: &Receiver<CompleteEpoch>, committed: &AtomicU64) -> Result<()> {
    while let Ok(epoch) = epochs.recv() {
        if epoch.number <= committed.load(Ordering::Acquire) {
            continue;
        }
        epoch.rows.iter().try_for_each(|rows| sink.write(rows))?;
        if epoch.commit || sink.is_due() {
            sink.commit(epoch.number)?;
            committed.store(epoch.number, Ordering::Release);
        }
    }
    Ok(())
}
