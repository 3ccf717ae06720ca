//! The runtime of object stores. Their clients are asynchronous and readers of files are not: one thread
//! drives all requests, and any other thread may wait for them, also one that runs a runtime itself.
//!
//! A forked process has none of its parent's threads, and starts a runtime of its own.

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use std::future::Future;
use std::sync::{Mutex, PoisonError, mpsc};
use tokio::runtime::{Builder, Handle};

/// The runtime, and the process that it is in.
static RUNTIME: Mutex<Option<(u32, Handle)>> = Mutex::new(None);

/// The runtime, which is started on first use.
///
/// # Errors
/// `ResourcesExhausted` if there is no thread for it.
pub(super) fn object_runtime() -> Result<Handle> {
    let mut started = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, handle)) = started.as_ref()
        && *process == std::process::id()
    {
        return Ok(handle.clone());
    }
    let failed = |e: std::io::Error| {
        DataFusionError::ResourcesExhausted(format!("no thread that talks to object stores: {e}"))
    };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let drive = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("whimbrel-objects".to_string()).spawn(drive).map_err(failed)?;
    // The handle of a parent's runtime is leaked: dropping it would wake a thread that does not exist here.
    std::mem::forget(started.replace((std::process::id(), handle.clone())));
    Ok(handle)
}

/// Runs a request and waits for its result.
///
/// # Errors
/// `Execution` if it gave none; `ResourcesExhausted` if there is no runtime.
pub(super) fn block_on<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    object_runtime()?.spawn(async move {
        // The receiver is gone if the query was stopped.
        let _ = sender.send(work.await);
    });
    receiver.recv().map_err(|_| exec_datafusion_err!("the object store gave no answer"))
}
