//! What the channels of a job share with those who wait for it: counters, the signal to stop, the first
//! error.

use crossbeam_channel::{Receiver, Sender, bounded};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use whimbrel_temporal::NodeActivity;

/// A stage, and a channel of it.
pub type ChannelPlace = (usize, usize);

/// A callback for rows that came too late, as they were in their source.
pub type LateRows = Arc<dyn Fn(RecordBatch) + Send + Sync>;

/// The shared state of a job.
pub(crate) struct Control {
    pub rows_read: AtomicU64,
    pub rows_late: AtomicU64,
    pub rows_out: AtomicU64,
    pub rows_total: Option<u64>,
    pub late: Option<LateRows>,
    /// What the operators of each channel have done.
    activity: Mutex<BTreeMap<ChannelPlace, Vec<NodeActivity>>>,
    /// Whether the job was cancelled.
    cancelled: AtomicBool,
    error: Mutex<Option<DataFusionError>>,
    /// Dropped to stop the job: every thread that waits also waits for that.
    running: Mutex<Option<Sender<Infallible>>>,
    stopped: Receiver<Infallible>,
    /// Wakes threads that wait in another way.
    on_stop: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Control {
    /// The state of a new job.
    pub fn new(rows_total: Option<u64>, late: Option<LateRows>) -> Control {
        let (running, stopped) = bounded(0);
        Control {
            rows_read: AtomicU64::new(0),
            rows_late: AtomicU64::new(0),
            rows_out: AtomicU64::new(0),
            rows_total,
            late,
            activity: Mutex::default(),
            cancelled: AtomicBool::new(false),
            error: Mutex::new(None),
            running: Mutex::new(Some(running)),
            stopped,
            on_stop: OnceLock::new(),
        }
    }

    /// Keeps the counters of a channel's operators.
    pub fn watch(&self, channel: ChannelPlace, activity: Vec<NodeActivity>) {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner).insert(channel, activity);
    }

    /// Stops the job without an error.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Whether the job was cancelled.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Stops the job with an error; the first one is kept.
    pub fn fail(&self, error: DataFusionError) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(error);
        }
        drop(first);
        self.stop();
    }

    /// The first error, once.
    pub fn take_error(&self) -> Option<DataFusionError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Lets every thread that waits find out that the job stops.
    fn stop(&self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(wake) = self.on_stop.get() {
            wake();
        }
    }

    /// Sets what else happens when the job stops. Its runtime does that once, before it starts.
    pub fn on_stop(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.on_stop.set(wake);
    }

    /// A channel that is disconnected once the job stops; it never has a message.
    pub fn stopped(&self) -> &Receiver<Infallible> {
        &self.stopped
    }

    /// Whether the job is stopping, for whatever reason.
    pub fn is_stopped(&self) -> bool {
        matches!(self.stopped.try_recv(), Err(crossbeam_channel::TryRecvError::Disconnected))
    }
}

/// The progress of a job, and the handle to cancel it. Cheap to clone; usable from any thread.
#[derive(Clone)]
pub struct Progress {
    control: Arc<Control>,
}

impl Default for Progress {
    /// The progress of channels that have not begun to run.
    fn default() -> Progress {
        Progress::new(Arc::new(Control::new(None, None)))
    }
}

impl Progress {
    /// The progress of the job with this state.
    pub(crate) fn new(control: Arc<Control>) -> Progress {
        Progress { control }
    }

    /// The shared state of the job.
    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// How many rows have been read from sources.
    pub fn rows_read(&self) -> u64 {
        load(&self.control.rows_read)
    }

    /// How many rows will be read in all, if that is known and not zero.
    pub fn rows_total(&self) -> Option<u64> {
        self.control.rows_total.filter(|total| *total > 0)
    }

    /// How many rows came too late and were dropped.
    pub fn rows_late(&self) -> u64 {
        load(&self.control.rows_late)
    }

    /// How many rows the result has so far.
    pub fn rows_out(&self) -> u64 {
        load(&self.control.rows_out)
    }

    /// What the operators of each channel have done, of those that run in this process.
    pub fn activity(&self) -> BTreeMap<ChannelPlace, Vec<NodeActivity>> {
        self.control.activity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts rows of the result.
    pub fn add_rows_out(&self, rows: u64) {
        self.control.rows_out.fetch_add(rows, Ordering::Relaxed);
    }

    /// Sets how many rows have been read, and how many came too late: they are counted elsewhere.
    pub fn set_rows(&self, read: u64, late: u64) {
        self.control.rows_read.store(read, Ordering::Relaxed);
        self.control.rows_late.store(late, Ordering::Relaxed);
    }

    /// Cancels the job: no more rows come out from now on. Its channels end by themselves.
    pub fn cancel(&self) {
        self.control.cancel();
    }

    /// Whether the job was cancelled.
    pub fn cancelled(&self) -> bool {
        self.control.cancelled()
    }
}

/// The value of a counter.
fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
