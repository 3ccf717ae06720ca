//! The thread that writes checkpoints, one at a time, and removes what is not needed any more.

use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::generation::Generation;
use crate::tape::Tape;
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use datafusion::common::{DataFusionError, Result, internal_err};
use std::thread::{Builder, JoinHandle};

/// A checkpoint that is to be written, and the last epoch that the sink had then.
pub type Task = (Checkpoint, u64);

/// The writer on its thread.
pub struct CheckpointWriter {
    tasks: Option<Sender<Task>>,
    written: Receiver<Result<u64>>,
    thread: Option<JoinHandle<()>>,
    /// Whether it has a task.
    pub is_busy: bool,
}

impl CheckpointWriter {
    /// Starts the thread.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no thread.
    pub fn start(
        generation: Generation,
        mut checkpoints: Checkpoints,
        tape: Tape,
    ) -> Result<CheckpointWriter> {
        let (tasks, received) = bounded::<Task>(1);
        let (sender, written) = bounded(1);
        let work = move || {
            while let Ok((checkpoint, committed)) = received.recv() {
                if sender.send(write(&generation, &mut checkpoints, &tape, &checkpoint, committed)).is_err() {
                    break;
                }
            }
        };
        let thread = Builder::new().name("checkpoints".into()).spawn(work);
        let thread = thread.map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))?;
        Ok(CheckpointWriter { tasks: Some(tasks), written, thread: Some(thread), is_busy: false })
    }

    /// Begins to write a checkpoint.
    pub fn begin(&mut self, task: Task) {
        self.is_busy = self.tasks.as_ref().is_some_and(|tasks| tasks.send(task).is_ok());
    }

    /// The epoch of the checkpoint that was written since the last call.
    ///
    /// # Errors
    /// Those of the store; `Internal` if the thread has panicked.
    pub fn poll(&mut self) -> Result<Option<u64>> {
        match self.written.try_recv() {
            Ok(written) => {
                self.is_busy = false;
                written.map(Some)
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => internal_err!("the writer of checkpoints panicked"),
        }
    }
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        // A store is not left in the middle of a write: whoever goes on with the job would find it
        // locked.
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(
    generation: &Generation,
    checkpoints: &mut Checkpoints,
    tape: &Tape,
    checkpoint: &Checkpoint,
    committed: u64,
) -> Result<u64> {
    generation.check_newest()?;
    checkpoints.write(checkpoint)?;
    // Writing may have taken long, and blocks of a later run look as if nobody needed them.
    generation.check_newest()?;
    if let Some(oldest) = checkpoints.prune(committed)? {
        tape.forget(oldest)?;
    }
    Ok(checkpoint.epoch)
}
