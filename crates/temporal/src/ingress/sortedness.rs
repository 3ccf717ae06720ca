//! Whether a source is in order: read once, known to all later readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the rows of a source that does not change are in the order of a time column. Not known at
/// first; an [`Ingress`](super::Ingress) that has read all of them in order says so, and those that come
/// later need not look.
#[derive(Debug, Clone, Default)]
pub struct Sortedness(Arc<AtomicBool>);

impl Sortedness {
    pub(super) fn is_sorted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Says that all rows were in order. A reader that does not see it yet looks at the order itself, so
    /// nothing else has to be ordered with it.
    pub(super) fn set_sorted(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
