//! Leaving Python: threads of the engine are let out of the interpreter before it ends.
//!
//! A thread that comes back into an interpreter that is ending is ended by it, and that aborts the process. So every call
//! from the engine into Python goes through [`attached`], and every wait of Python's threads for the engine is counted
//! while it lasts. [`leave`] is what `atexit` calls: from then on nobody comes in, and it waits for those who are inside.

use datafusion::common::exec_err;
use datafusion::error::Result;
use pyo3::prelude::*;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::run::TICK;

/// How long a function that does not come back is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Threads {
    inside: usize,
    leaving: bool,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads { inside: 0, leaving: false });
static OUT: Condvar = Condvar::new();

/// Every change is one assignment, whole whatever panicked.
fn threads() -> MutexGuard<'static, Threads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that is inside as long as this lives.
pub struct Inside(());

impl Inside {
    /// # Errors
    /// `Execution` if Python is being left.
    pub fn enter() -> Result<Inside> {
        let mut threads = threads();
        if threads.leaving {
            return exec_err!("Python has ended before the query");
        }
        threads.inside += 1;
        Ok(Inside(()))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        threads().inside -= 1;
        OUT.notify_all();
    }
}

/// Calls Python from a thread of the engine.
///
/// # Errors
/// `Execution` if Python is being left.
pub fn attached<R>(work: impl FnOnce(Python<'_>) -> R) -> Result<R> {
    let _inside = Inside::enter()?;
    Ok(Python::attach(work))
}

/// Fails if Python is being left: those who are inside for long ask now and then.
///
/// # Errors
/// `Execution`, if so.
pub fn check() -> Result<()> {
    match threads().leaving {
        true => exec_err!("Python has ended before the query"),
        false => Ok(()),
    }
}

/// Whether Python is being left.
#[pyfunction]
pub fn leaving() -> bool {
    threads().leaving
}

/// Lets nobody in any more, and waits until all are out.
#[pyfunction]
pub fn leave(py: Python<'_>) -> PyResult<()> {
    threads().leaving = true;
    let until = Instant::now() + PATIENCE;
    let out = || {
        let waited = OUT.wait_timeout_while(threads(), TICK, |threads| threads.inside > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.inside == 0
    };
    while !py.detach(out) && Instant::now() < until {
        py.check_signals()?;
    }
    Ok(())
}
