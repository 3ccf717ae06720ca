//! Waiting for an object store. Its client is asynchronous, and who reads a file is not: a thread of its own
//! drives what is asked of it, so that any thread may wait, also one that drives something itself.
//!
//! A process that was forked has none of its parent's threads, and starts one of its own.

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use std::future::Future;
use std::sync::{Mutex, PoisonError, mpsc};
use tokio::runtime::{Builder, Handle};

/// The driver, and the process that it is in.
static DRIVER: Mutex<Option<(u32, Handle)>> = Mutex::new(None);

/// The driver, started when it is needed first.
pub(super) fn driver() -> Result<Handle> {
    let mut started = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, driver)) = started.as_ref()
        && *process == std::process::id()
    {
        return Ok(driver.clone());
    }
    let failed = |e: std::io::Error| {
        DataFusionError::ResourcesExhausted(format!("no thread that talks to object stores: {e}"))
    };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let driver = runtime.handle().clone();
    let drive = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("whimbrel-objects".to_string()).spawn(drive).map_err(failed)?;
    // A handle of the parent's driver, if there is one, is not dropped: what it wakes is not there.
    std::mem::forget(started.replace((std::process::id(), driver.clone())));
    Ok(driver)
}

/// What this gives, in the end.
pub(super) fn wait_for<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (answer, answers) = mpsc::sync_channel(1);
    driver()?.spawn(async move {
        // Nobody listens any more if the query was stopped.
        let _ = answer.send(work.await);
    });
    answers.recv().map_err(|_| exec_datafusion_err!("the object store gave no answer"))
}
