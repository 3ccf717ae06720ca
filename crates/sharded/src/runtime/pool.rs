//! Threads that are kept from query to query: a short query has more channels than milliseconds, and a thread that has
//! run one knows its memory already.
//!
//! Invariants: a thread is among the idle ones only while it waits for work. A process that was forked has none of its
//! parent's threads.

use crossbeam_channel::{Receiver, SendError, Sender, bounded};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread waits for work before it ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many threads wait at most.
const MOST: usize = 64;

type Work = Box<dyn FnOnce() + Send>;

struct Pool {
    process: u32,
    idle: Vec<Sender<Work>>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { process: 0, idle: Vec::new() });

fn pool() -> MutexGuard<'static, Pool> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if pool.process != std::process::id() {
        *pool = Pool { process: std::process::id(), idle: Vec::new() };
    }
    pool
}

/// Does the work on a thread that has nothing else to do. The work catches its own panics.
///
/// # Errors
/// If there is no such thread, and no new one can be had.
pub(super) fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut work: Work = Box::new(work);
    loop {
        let Some(idle) = pool().idle.pop() else { break };
        match idle.send(work) {
            Ok(()) => return Ok(()),
            // It has just ended.
            Err(SendError(back)) => work = back,
        }
    }
    let (sender, receiver) = bounded(1);
    let thread = std::thread::Builder::new().name("whimbrel channel".into());
    thread.spawn(move || {
        let mut next = Some(work);
        while let Some(work) = next {
            work();
            next = wait(&sender, &receiver);
        }
    })?;
    Ok(())
}

/// The next work of a thread, if any comes.
fn wait(own: &Sender<Work>, work: &Receiver<Work>) -> Option<Work> {
    {
        let mut pool = pool();
        if pool.idle.len() >= MOST {
            return None;
        }
        pool.idle.push(own.clone());
    }
    work.recv_timeout(PATIENCE).ok().or_else(|| {
        pool().idle.retain(|idle| !idle.same_channel(own));
        // Somebody may have been faster.
        work.try_recv().ok()
    })
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
