//! What a job's channels and whoever waits for it share: counters, the order to stop, the first error.

use crate::options::LateRows;
use crossbeam_channel::{Receiver, Sender, bounded};
use datafusion::common::DataFusionError;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

pub(crate) struct Control {
    pub rows_read: AtomicU64,
    pub rows_late: AtomicU64,
    pub rows_out: AtomicU64,
    pub rows_total: Option<u64>,
    pub late: Option<LateRows>,
    /// Whether a user asked to stop.
    cancelled: AtomicBool,
    error: Mutex<Option<DataFusionError>>,
    /// Dropped to stop: every thread that waits for anything waits for that too.
    running: Mutex<Option<Sender<Infallible>>>,
    stopped: Receiver<Infallible>,
    /// Wakes those who wait in another way.
    on_stop: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Control {
    pub fn new(rows_total: Option<u64>, late: Option<LateRows>) -> Control {
        let (running, stopped) = bounded(0);
        Control {
            rows_read: AtomicU64::new(0),
            rows_late: AtomicU64::new(0),
            rows_out: AtomicU64::new(0),
            rows_total,
            late,
            cancelled: AtomicBool::new(false),
            error: Mutex::new(None),
            running: Mutex::new(Some(running)),
            stopped,
            on_stop: OnceLock::new(),
        }
    }

    /// Stops on somebody's wish.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.stop();
    }

    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Stops because of an error; the first one counts.
    pub fn fail(&self, error: DataFusionError) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(error);
        }
        drop(first);
        self.stop();
    }

    pub fn take_error(&self) -> Option<DataFusionError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn stop(&self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(wake) = self.on_stop.get() {
            wake();
        }
    }

    /// What else is to be done when the job is to stop. A job has one runtime, which says this once, before
    /// it starts.
    pub fn on_stop(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.on_stop.set(wake);
    }

    /// Nothing ever comes from it; it is disconnected once the job is to stop.
    pub fn stopped(&self) -> &Receiver<Infallible> {
        &self.stopped
    }

    pub fn is_stopped(&self) -> bool {
        matches!(self.stopped.try_recv(), Err(crossbeam_channel::TryRecvError::Disconnected))
    }
}
