//! What functions and their exchange use: requests, bytes, invocations, memory.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// What functions and their exchange have used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Requests that read objects.
    pub gets: u64,
    /// Those of them that read tables.
    pub table_gets: u64,
    /// Requests that wrote objects.
    pub puts: u64,
    /// Bytes that were read from objects.
    pub read_bytes: u64,
    /// Bytes of objects that were written.
    pub written_bytes: u64,
    /// Invocations of functions.
    pub invocations: u64,
    /// Memory of functions by the time for which it is billed, in gigabytes and seconds.
    pub gb_seconds: f64,
    /// Requests that were sent a second time, since the first took too long. They are among the others.
    pub hedged: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.gets += other.gets;
        self.table_gets += other.table_gets;
        self.puts += other.puts;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.invocations += other.invocations;
        self.gb_seconds += other.gb_seconds;
        self.hedged += other.hedged;
    }
}

impl Usage {
    /// What was used since an earlier look at the same meter.
    #[must_use]
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            gets: self.gets - earlier.gets,
            table_gets: self.table_gets - earlier.table_gets,
            puts: self.puts - earlier.puts,
            read_bytes: self.read_bytes - earlier.read_bytes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            invocations: self.invocations - earlier.invocations,
            gb_seconds: self.gb_seconds - earlier.gb_seconds,
            hedged: self.hedged - earlier.hedged,
        }
    }
}
