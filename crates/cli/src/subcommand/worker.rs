//! `whimbrel worker`: a process that runs channels of the queries of a cluster.

use crate::arguments::{Settings, Worker};
use crate::error::{Error, Result, print_message};
use crate::interrupt::Interrupts;
use std::time::Duration;
use whimbrel_session::cluster::start_worker;

/// How often the worker looks whether it is to end.
const POLL: Duration = Duration::from_millis(100);

/// Runs a worker until Ctrl-C.
///
/// # Errors
/// `Query` if it cannot be started.
pub fn run(worker: &Worker, settings: &Settings) -> Result {
    let interrupts = Interrupts::install();
    let _watch = interrupts.watch();
    let failed = |error: datafusion::error::DataFusionError| Error::Query(error.message().into_owned());
    let running = start_worker(&worker.cluster, &worker.settings(settings.threads)).map_err(failed)?;
    print_message(&format!("a worker listens on {}", running.address()));
    if let Some(address) = running.metrics_address() {
        print_message(&format!("its metrics are at http://{address}/metrics"));
    }
    while !running.has_ended() && !interrupts.pressed() {
        std::thread::sleep(POLL);
    }
    match interrupts.pressed() {
        true => Ok(()),
        false => Err(Error::Query("the worker has ended".to_string())),
    }
}
