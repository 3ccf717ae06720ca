//! Names for columns that rewritings make: no two of a process are the same, so plans may be put together.

use std::sync::atomic::{AtomicU64, Ordering};

static NAMES: AtomicU64 = AtomicU64::new(0);

/// A name that nothing else has; `what` says what it is for.
pub(crate) fn name(what: &str) -> String {
    format!("__{what}_{}", NAMES.fetch_add(1, Ordering::Relaxed))
}
