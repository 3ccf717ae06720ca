//! When to look for keys that have nothing any more. Each look is paid for by the events before it.

use serde::{Deserialize, Serialize};

/// Keys are looked through after so many new ones, or a part of all if that is more.
const NEW: usize = 1 << 16;
const PART: usize = 4;
/// Or after so many times as many events as there are keys.
const EVENTS: usize = 8;

/// See the module.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Sweeps {
    /// Events since the last sweep.
    events: usize,
    /// Keys that it left.
    kept: usize,
}

impl Sweeps {
    /// So many events came.
    pub fn count(&mut self, events: usize) {
        self.events += events;
    }

    /// Whether it is time for a sweep over so many keys, among as many numbers.
    pub fn is_due(&self, keys: usize, capacity: usize) -> bool {
        keys.saturating_sub(self.kept) > NEW.max(capacity / PART) || self.events > EVENTS * NEW.max(capacity)
    }

    /// A sweep has left so many keys.
    pub fn swept(&mut self, kept: usize) {
        *self = Sweeps { events: 0, kept };
    }
}
