//! Clocks: the time of the machine, or a simulated time that advances only when somebody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock. Its clones are the same one.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The machine's.
    Wall(Instant),
    /// Nanoseconds that go by only where somebody waits, so that days of latencies are tried in seconds and
    /// come out the same each time. It is for one thread: two that wait would both move it.
    Simulated(Arc<AtomicU64>),
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::Wall(Instant::now())
    }
}

impl Clock {
    /// One that stands at zero.
    pub fn simulated() -> Clock {
        Clock::Simulated(Arc::default())
    }

    /// The time since it began.
    pub fn now(&self) -> Duration {
        match self {
            Clock::Wall(began) => began.elapsed(),
            Clock::Simulated(nanos) => Duration::from_nanos(nanos.load(Ordering::SeqCst)),
        }
    }

    /// Waits.
    pub fn wait(&self, time: Duration) {
        match self {
            _ if time.is_zero() => {}
            Clock::Wall(_) => std::thread::sleep(time),
            Clock::Simulated(nanos) => {
                nanos.fetch_add(time.as_nanos() as u64, Ordering::SeqCst);
            }
        }
    }
}
