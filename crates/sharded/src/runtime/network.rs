//! The thread of a runtime of other processes that talks to them: it moves frames, and waits for answers.
//!
//! A forked process has none of its parent's threads: what was connected before the fork is not there.

use datafusion::common::{DataFusionError, Result, internal_datafusion_err, plan_err};
use std::convert::Infallible;
use std::thread::{Builder, JoinHandle};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How many tasks of a network may block at the same time, such as reads of files: a task that waits costs
/// little, and a thread for each of hundreds does not.
const BLOCKING_THREADS: usize = 64;

/// A thread that runs tasks until it is dropped.
pub struct Network {
    handle: Handle,
    running: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
    /// The process that started it.
    process: u32,
}

impl Network {
    /// Starts the thread.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is none.
    pub fn start() -> Result<Network> {
        let exhausted = |error: std::io::Error| DataFusionError::ResourcesExhausted(error.to_string());
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime =
            builder.enable_all().max_blocking_threads(BLOCKING_THREADS).build().map_err(exhausted)?;
        let handle = runtime.handle().clone();
        let (running, stopped) = oneshot::channel();
        // Nothing is sent: the wait ends when the sender is dropped.
        let run = move || _ = runtime.block_on(stopped);
        let thread = Builder::new().name("network".into()).spawn(run).map_err(exhausted)?;
        let process = std::process::id();
        Ok(Network { handle, running: Some(running), thread: Some(thread), process })
    }

    /// Where tasks are given to it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Checks that the thread is there.
    ///
    /// # Errors
    /// `Plan` if another process started it, of which this one is a fork.
    pub fn check_process(&self) -> Result<()> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => plan_err!(
                "this was connected by the process {}, of which this one is a fork; connect again in this one",
                self.process
            ),
        }
    }

    /// Runs a task on it, and waits for what comes out. It must not be called on the thread itself.
    ///
    /// # Errors
    /// Those of the task; `Internal` if it panicked; as [`check_process`](Network::check_process).
    pub fn wait<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        // The receiver is there until it has an answer.
        self.check_process()?;
        self.handle.spawn(async move { _ = sender.send(task.await) });
        receiver.recv().map_err(|_| internal_datafusion_err!("a task of the network has panicked"))?
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let (running, thread) = (self.running.take(), self.thread.take());
        if self.process != std::process::id() {
            // To tell a thread that does not exist here would wait for it.
            std::mem::forget((running, thread));
            return;
        }
        drop(running);
        // A panic has been reported where it happened.
        let _ = thread.map(JoinHandle::join);
    }
}
