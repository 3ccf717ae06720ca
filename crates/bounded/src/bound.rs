//! Bounds: the most that a call can cost, whatever is in the store.
//!
//! Invariant: numbers saturate. `u64::MAX` means that nothing limits it, which only a plan that was allowed
//! to be unbounded has.

use std::fmt;

/// The most that a call can cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Requests to the store.
    pub requests: u64,
    /// Sequential rounds of requests.
    pub rounds: u64,
    /// Keys and values that come back.
    pub tuples: u64,
    /// Bytes that come back.
    pub bytes: Bytes,
    /// Rows that the call returns.
    pub rows: u64,
}

/// The most bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bytes {
    /// So many.
    AtMost(u64),
    /// Not known: this column has no length.
    NoLength(String),
}

impl Bound {
    /// Of what asks the store nothing.
    pub(crate) fn of_rows(rows: u64) -> Bound {
        Bound { requests: 0, rounds: 0, tuples: 0, bytes: Bytes::AtMost(0), rows }
    }

    /// Whether there is a bound at all.
    pub fn is_bounded(&self) -> bool {
        self.requests != u64::MAX && self.tuples != u64::MAX
    }

    /// Adds requests of one kind, and what comes back for them.
    pub(crate) fn add(&mut self, requests: u64, tuples: u64, each: Result<u64, String>, rounds: u64) {
        self.requests = self.requests.saturating_add(requests);
        self.tuples = self.tuples.saturating_add(tuples);
        self.rounds += rounds;
        self.bytes = match (&self.bytes, each) {
            (Bytes::AtMost(bytes), Ok(each)) => {
                Bytes::AtMost(bytes.saturating_add(tuples.saturating_mul(each)))
            }
            (Bytes::NoLength(column), _) => Bytes::NoLength(column.clone()),
            (_, Err(column)) => Bytes::NoLength(column),
        };
    }

    /// Two plans that run side by side.
    pub(crate) fn in_parallel(self, other: Bound) -> Bound {
        Bound {
            requests: self.requests.saturating_add(other.requests),
            rounds: self.rounds.max(other.rounds),
            tuples: self.tuples.saturating_add(other.tuples),
            bytes: match (self.bytes, other.bytes) {
                (Bytes::AtMost(left), Bytes::AtMost(right)) => Bytes::AtMost(left.saturating_add(right)),
                (Bytes::NoLength(column), _) | (_, Bytes::NoLength(column)) => Bytes::NoLength(column),
            },
            rows: self.rows.saturating_add(other.rows),
        }
    }

    /// What the planner keeps small: a request weighs as much as ten tuples.
    pub(crate) fn cost(&self) -> u64 {
        self.requests.saturating_mul(10).saturating_add(self.tuples)
    }
}

/// The most that writing the rows of a statement can cost, once they are known. It is that of one try: where
/// somebody else changes the same rows in the meantime, the statement is tried again from the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteBound {
    /// Rows of the table.
    pub rows: u64,
    /// Requests that look at what is there.
    pub requests: u64,
    /// Sequential rounds of these.
    pub rounds: u64,
    /// What has to be true for the commits.
    pub conditions: u64,
    /// Keys that are put or deleted: records and entries of indexes. `u64::MAX` if a text without a length
    /// has an index of words.
    pub writes: u64,
}

impl WriteBound {
    /// This and then that.
    pub(crate) fn then(&mut self, more: &WriteBound) {
        self.requests = self.requests.saturating_add(more.requests);
        self.rounds = self.rounds.saturating_add(more.rounds);
        self.conditions = self.conditions.saturating_add(more.conditions);
        self.writes = self.writes.saturating_add(more.writes);
    }

    /// So many times.
    pub(crate) fn times(&self, times: u64) -> WriteBound {
        WriteBound {
            rows: self.rows.saturating_mul(times),
            requests: self.requests.saturating_mul(times),
            rounds: self.rounds.saturating_mul(times),
            conditions: self.conditions.saturating_mul(times),
            writes: self.writes.saturating_mul(times),
        }
    }
}

impl fmt::Display for WriteBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = |n: u64, one: &str| match n {
            u64::MAX => format!("any number of {one}s"),
            n => plural(n, one),
        };
        write!(
            f,
            "at most {}, {}, {}, {} in {}",
            most(self.rows, "row"),
            most(self.writes, "key"),
            most(self.conditions, "condition"),
            most(self.requests, "request"),
            most(self.rounds, "round")
        )
    }
}

/// `1 request`, `2 requests`
fn plural(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_bounded() {
            return f.write_str("no bound");
        }
        write!(
            f,
            "at most {} in {}, {}",
            plural(self.requests, "request"),
            plural(self.rounds, "round"),
            plural(self.tuples, "tuple")
        )?;
        match &self.bytes {
            Bytes::AtMost(bytes) => write!(f, ", {bytes} bytes"),
            Bytes::NoLength(column) => write!(f, ", bytes not known ({column} has no length)"),
        }
    }
}
