//! The time of a store that lives in one process.
//!
//! Leases lapse by this clock, and never by that of a holder. A simulation moves a [`ManualClock`] by hand,
//! so that a run is decided by its seed alone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time since some moment that is the same for all calls.
    fn now(&self) -> Duration;
}

/// The clock of the machine that no one can set.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that stands still until it is moved; clones are the same clock.
///
/// ```
/// use std::time::Duration;
/// use whimbrel_control::{Clock, ManualClock};
///
/// let clock = ManualClock::default();
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(clock.now(), Duration::from_secs(2));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ManualClock {
    now: Arc<Mutex<Duration>>,
}

impl ManualClock {
    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }

    /// Sets it, also back, as happens to the clocks of servers.
    pub fn set(&self, now: Duration) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
