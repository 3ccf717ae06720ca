//! Leaving Python: threads of the engine are let out of the interpreter before it ends.
//!
//! A thread that comes back into an interpreter that is ending is ended by it, and that aborts the process. So every
//! call from the engine into Python goes through [`attached`], and every wait of Python's threads for the engine is
//! counted while it lasts. [`leave`] is what `atexit` calls: from then on nobody comes in, and it waits for those who
//! are inside.

use datafusion::common::exec_err;
use datafusion::error::Result;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a function that does not come back is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked whether all are out.
const LOOK: Duration = Duration::from_millis(2);

// Numbers and no lock: a fork may happen at any time, and would leave a lock that nobody opens again.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static LEAVING: AtomicBool = AtomicBool::new(false);

/// A thread that is inside as long as this lives.
pub struct Inside(());

impl Inside {
    /// # Errors
    /// `Execution` if Python is being left.
    pub fn enter() -> Result<Inside> {
        // First in, then asked: `leave` says that it leaves, then looks who is in.
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(());
        check()?;
        Ok(inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // In the child of a fork the count begins anew, while this thread may have been inside before.
        let _ = INSIDE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |inside| inside.checked_sub(1));
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
    match LEAVING.load(Ordering::SeqCst) {
        true => exec_err!("Python has ended before the query"),
        false => Ok(()),
    }
}

/// Whether Python is being left.
#[pyfunction]
pub fn leaving() -> bool {
    LEAVING.load(Ordering::SeqCst)
}

/// Says that this process is a fork: of the threads of its parent, it has this one only.
#[pyfunction]
pub fn forked() {
    INSIDE.store(0, Ordering::SeqCst);
    LEAVING.store(false, Ordering::SeqCst);
}

/// Lets nobody in any more, and waits until all are out.
#[pyfunction]
pub fn leave(py: Python<'_>) -> PyResult<()> {
    LEAVING.store(true, Ordering::SeqCst);
    let until = Instant::now() + PATIENCE;
    while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        py.detach(|| std::thread::sleep(LOOK));
        py.check_signals()?;
    }
    Ok(())
}
