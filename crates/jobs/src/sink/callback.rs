//! A function as a sink: it is called with the rows of each epoch.
//!
//! The number of the last epoch is kept with the state of the job once its calls have returned. So after
//! a crash the function may be called with the rows of one epoch again; whoever keeps the number of the
//! epoch with the rows can leave these out.

use super::{Run, Sink};
use crate::codec;
use crate::store::StateStore;
use arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::sync::Arc;

const NAME: &str = "delivered";

/// Called with the number of an epoch and rows of it.
pub type Callback = Box<dyn FnMut(u64, RecordBatch) -> Result<()> + Send>;

/// Calls a function.
pub struct CallbackSink {
    callback: Callback,
    store: Arc<dyn StateStore>,
    rows: Vec<RecordBatch>,
}

impl CallbackSink {
    /// A sink that keeps its progress in the store of its job.
    pub fn new(callback: Callback, store: Arc<dyn StateStore>) -> CallbackSink {
        CallbackSink { callback, store, rows: vec![] }
    }
}

impl Sink for CallbackSink {
    fn open(&mut self, _: &Run) -> Result<Option<u64>> {
        self.store.get(NAME)?.map(|bytes| codec::open(&bytes, NAME)).transpose()
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.rows.push(rows.clone());
        Ok(())
    }

    fn commit(&mut self, epoch: u64) -> Result<()> {
        for rows in self.rows.drain(..) {
            (self.callback)(epoch, rows)?;
        }
        self.store.put(vec![(NAME.to_string(), codec::seal(&epoch)?)])
    }

    fn is_due(&self) -> bool {
        !self.rows.is_empty()
    }
}
