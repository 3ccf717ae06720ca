//! What is found out about the order of a source, so that it is found out once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the rows of a source that does not change are in the order of a time column. Nobody knows at
/// first; an [`Ingress`](super::Ingress) that has read all of them in order says so, and those that come
/// later need not look.
#[derive(Debug, Clone, Default)]
pub struct KnownOrder(Arc<AtomicBool>);

impl KnownOrder {
    pub(super) fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn found(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
