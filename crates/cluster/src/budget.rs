//! How much of something may be used, and how much of it is.
//!
//! Invariant: what is used is at most the limit.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that many threads share.
#[derive(Debug)]
pub struct Budget {
    used: AtomicU64,
    limit: Option<u64>,
}

impl Budget {
    /// So many bytes; none: as many as anybody takes.
    pub fn new(limit: Option<u64>) -> Budget {
        Budget { used: AtomicU64::new(0), limit }
    }

    /// Takes so many bytes, if they are there.
    pub fn reserve(&self, bytes: u64) -> bool {
        let limit = self.limit.unwrap_or(u64::MAX);
        let take = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Gives back so many bytes.
    pub fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many bytes are used.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// How many bytes may be used, if there is a limit.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_used_than_there_is() {
        let budget = Budget::new(Some(10));
        assert!(budget.reserve(7) && !budget.reserve(4) && budget.reserve(3) && budget.reserve(0));
        assert!(!budget.reserve(u64::MAX));
        budget.release(10);
        assert_eq!((budget.used(), budget.limit()), (0, Some(10)));
        assert!(Budget::new(None).reserve(u64::MAX));
    }
}
