//! The end of the interpreter: the threads of the engine have to be out of it before.
//!
//! A thread that enters an interpreter which is ending is ended by it, and that aborts the process. So every
//! call from the engine into Python goes through [`attach`], and a Python thread that waits for the engine
//! is counted too. `atexit` calls [`leave`]: from then on no thread enters, and it waits until all are out.

use datafusion::common::exec_err;
use datafusion::error::Result;
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::LocalKey;
use std::time::{Duration, Instant};
use whimbrel_sharded::for_this_thread;

/// How long [`leave`] waits for a function that does not return.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often [`leave`] looks whether all threads are out.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

// Atomics and no lock: a fork may happen at any time, and would leave a lock that no thread releases.
/// The number of threads that are inside.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// Whether the interpreter is ending.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// A thread that is inside the interpreter, or waits in it, as long as this lives.
pub struct InterpreterGuard(());

impl InterpreterGuard {
    /// Counts this thread.
    ///
    /// # Errors
    /// `Execution` if the interpreter is ending.
    pub fn new() -> Result<InterpreterGuard> {
        // Counted first, checked afterwards: `leave` sets its flag first, and reads the count afterwards.
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let guard = InterpreterGuard(());
        check()?;
        Ok(guard)
    }
}

impl Drop for InterpreterGuard {
    fn drop(&mut self) {
        // In the child of a fork the count begins at zero, while this thread may have been counted before.
        let _ = INSIDE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |inside| inside.checked_sub(1));
    }
}

thread_local! {
    /// How many calls of the engine into Python this thread is in.
    static CALLS: Cell<usize> = const { Cell::new(0) };
    /// How many of them compute a value of a query.
    static COMPUTATIONS: Cell<usize> = const { Cell::new(0) };
}

/// A call that is counted as long as this lives.
struct Counted(&'static LocalKey<Cell<usize>>);

impl Counted {
    fn new(calls: &'static LocalKey<Cell<usize>>) -> Counted {
        calls.set(calls.get() + 1);
        Counted(calls)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Calls Python from a thread of the engine.
///
/// # Errors
/// `Execution` if the interpreter is ending.
pub fn attach<R>(call: impl FnOnce(Python<'_>) -> R) -> Result<R> {
    let _guard = InterpreterGuard::new()?;
    let _counted = Counted::new(&CALLS);
    Ok(Python::attach(call))
}

/// Calls Python for a value of a query, from a thread of the engine.
///
/// # Errors
/// As [`attach`].
pub fn attach_to_compute<R>(call: impl FnOnce(Python<'_>) -> R) -> Result<R> {
    let _counted = Counted::new(&COMPUTATIONS);
    attach(call)
}

/// Whether this thread computes a value of a query, which does not go on before.
pub fn is_computing() -> bool {
    COMPUTATIONS.get() > 0
}

/// Works without the interpreter. A thread of the engine that has called Python drives a query already, and
/// cannot drive another one: there, the work is that of a thread of its own.
pub fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    if CALLS.get() == 0 {
        return py.detach(work);
    }
    py.detach(|| {
        std::thread::scope(|scope| match scope.spawn(for_this_thread(work)).join() {
            Ok(result) => result,
            Err(payload) => std::panic::resume_unwind(payload),
        })
    })
}

/// Fails if the interpreter is ending. A thread that stays inside for long calls this now and then.
///
/// # Errors
/// `Execution`, if so.
pub fn check() -> Result<()> {
    match LEAVING.load(Ordering::SeqCst) {
        true => exec_err!("Python has ended before the query"),
        false => Ok(()),
    }
}

/// Whether the interpreter is ending.
#[pyfunction]
pub fn leaving() -> bool {
    LEAVING.load(Ordering::SeqCst)
}

/// Resets the state in the child of a fork: of the threads of its parent, it has this one only.
#[pyfunction]
pub fn forked() {
    INSIDE.store(0, Ordering::SeqCst);
    LEAVING.store(false, Ordering::SeqCst);
}

/// Lets no thread enter any more, and waits until all are out.
///
/// # Errors
/// What a signal handler raises.
#[pyfunction]
pub fn leave(py: Python<'_>) -> PyResult<()> {
    LEAVING.store(true, Ordering::SeqCst);
    let until = Instant::now() + TIMEOUT;
    while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        py.detach(|| std::thread::sleep(POLL_INTERVAL));
        py.check_signals()?;
    }
    py.detach(|| whimbrel_functions::wait_for_clean_up(whimbrel_functions::CLEAN_UP_WAIT));
    Ok(())
}
