//! Waiting for an object store. Its client is asynchronous, and who reads a file is not: a thread of its own
//! drives what is asked of it, so that any thread may wait, also one that drives something itself.

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use std::future::Future;
use std::sync::{OnceLock, mpsc};
use tokio::runtime::{Builder, Handle};

static DRIVER: OnceLock<Handle> = OnceLock::new();

/// The driver, started when it is needed first.
pub(super) fn driver() -> Result<&'static Handle> {
    if let Some(driver) = DRIVER.get() {
        return Ok(driver);
    }
    let failed = |e: std::io::Error| {
        DataFusionError::ResourcesExhausted(format!("no thread that talks to object stores: {e}"))
    };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    // Two threads may come here at once: the driver of the second is used by nobody, and sleeps.
    let driver = DRIVER.get_or_init(|| handle);
    let drive = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("whimbrel-objects".to_string()).spawn(drive).map_err(failed)?;
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
