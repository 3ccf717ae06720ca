//! A pool of threads that live from query to query: a short query has more channels than milliseconds.
//!
//! Of the idle threads the oldest works first. So a query that runs again has its channels on the same
//! threads, and each thread keeps the memory that its channel needs. In any other order, each thread would in
//! time keep as much memory as the channel that needs most.
//!
//! Invariants: a thread is in the pool only while it waits for work. A forked process has none of its
//! parent's threads.

use crate::scheduler::STACK_BYTES;
use crossbeam_channel::{Receiver, SendError, Sender, bounded};
use datafusion::common::{DataFusionError, Result};
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread waits for work before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many threads wait at most.
const MAX_IDLE: usize = 64;

/// What a thread is given to do.
type Work = Box<dyn FnOnce() + Send>;

/// The threads of this process that wait for work.
struct Pool {
    process: u32,
    /// The threads that wait for work, by age.
    idle: BTreeMap<usize, Sender<Work>>,
    /// How many threads have been started.
    started: usize,
}

impl Pool {
    /// An empty pool.
    const fn of(process: u32) -> Pool {
        Pool { process, idle: BTreeMap::new(), started: 0 }
    }
}

/// The pool; it is replaced after a fork.
static POOL: Mutex<Pool> = Mutex::new(Pool::of(0));

/// The pool of this process.
fn pool() -> MutexGuard<'static, Pool> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if pool.process != std::process::id() {
        *pool = Pool::of(std::process::id());
    }
    pool
}

/// Does work on an idle thread, or on a new one. The work has to catch its own panics.
///
/// # Errors
/// If there is no idle thread, and none can be started.
pub fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut work: Work = Box::new(work);
    loop {
        let Some((_, idle)) = pool().idle.pop_first() else { break };
        match idle.send(work) {
            Ok(()) => return Ok(()),
            // The thread has just ended.
            Err(SendError(back)) => work = back,
        }
    }
    let (sender, receiver) = bounded(1);
    let age = {
        let mut pool = pool();
        pool.started += 1;
        pool.started
    };
    let thread = std::thread::Builder::new().name("whimbrel channel".into()).stack_size(STACK_BYTES);
    thread.spawn(move || {
        let mut next = Some(work);
        while let Some(work) = next {
            work();
            next = wait(age, &sender, &receiver);
        }
    })?;
    Ok(())
}

/// Waits for the next work of a thread; none if it is to end.
fn wait(age: usize, own: &Sender<Work>, work: &Receiver<Work>) -> Option<Work> {
    {
        let mut pool = pool();
        if pool.idle.len() >= MAX_IDLE {
            return None;
        }
        pool.idle.insert(age, own.clone());
    }
    work.recv_timeout(IDLE_TIMEOUT).ok().or_else(|| {
        pool().idle.remove(&age);
        // Work may have come before it was removed.
        work.try_recv().ok()
    })
}

/// Does several pieces of work at the same time: the first on this thread, each of the others on one of the
/// pool. The results come in the order of the work; a panic of one is a panic here.
///
/// # Errors
/// `ResourcesExhausted` if there is no thread for one of them.
pub(crate) fn share_out<T: Send + 'static>(
    works: impl Iterator<Item = impl FnOnce() -> T + Send + 'static>,
) -> Result<Vec<T>> {
    run_all(works).map_err(|error| {
        DataFusionError::ResourcesExhausted(format!("no thread for a part of a query: {error}"))
    })
}

/// See [`share_out`].
fn run_all<T: Send + 'static>(
    mut works: impl Iterator<Item = impl FnOnce() -> T + Send + 'static>,
) -> io::Result<Vec<T>> {
    let own = works.next();
    let begin = |work| -> io::Result<Receiver<std::thread::Result<T>>> {
        let (sender, receiver) = bounded(1);
        spawn(move || sender.send(catch_unwind(AssertUnwindSafe(work))).unwrap_or_default())?;
        Ok(receiver)
    };
    let others = works.map(begin).collect::<io::Result<Vec<_>>>()?;
    let own = own.map(|work| work());
    let result = |other: Receiver<std::thread::Result<T>>| match other.recv() {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(ended) => Err(io::Error::other(ended)),
    };
    own.map(Ok).into_iter().chain(others.into_iter().map(result)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn threads_are_used_again() {
        let (sender, receiver) = bounded(100);
        for _ in 0..100 {
            let sender = sender.clone();
            spawn(move || sender.send(std::thread::current().id()).unwrap()).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        let threads: HashSet<_> = receiver.iter().take(100).collect();
        assert!(threads.len() < 100, "{} threads", threads.len());
    }
}
