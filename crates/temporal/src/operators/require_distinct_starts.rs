//! Requires that no two rows start at one instant, as the author of a query asserts (Trill's
//! `SetProperty().IsSyncTimeSimultaneityFree`; trill.txt §5.3).
//!
//! Invariants: every row that comes out starts later than all before it. Where rows come without end edges,
//! nothing else can happen at the instant of the last row: a punctuation says so at once, so what follows
//! from the row need not wait for time to pass.

use crate::batch::{Batch, Message};
use crate::operator::{Operator, decode, encode};
use crate::time::{BEGINNING, INFINITY, Instant, Kind, Time};
use arrow::datatypes::TimeUnit;
use datafusion::common::{Result, exec_err};

/// Passes rows on, and refuses one that starts together with another.
pub struct RequireDistinctStarts {
    /// Whether rows may come as end edges.
    has_ends: bool,
    unit: Option<TimeUnit>,
    /// No row starts before this.
    next: Time,
    /// The last punctuation that was handed out.
    punctuated: Time,
}

impl RequireDistinctStarts {
    /// `has_ends`: end edges may come; `unit` is that of the time, for messages.
    pub fn new(has_ends: bool, unit: Option<TimeUnit>) -> RequireDistinctStarts {
        RequireDistinctStarts { has_ends, unit, next: BEGINNING, punctuated: BEGINNING }
    }

    /// Looks at the rows of a batch that start.
    fn check(&mut self, batch: &Batch) -> Result<()> {
        for row in 0..batch.len() {
            let start = batch.sync[row];
            if batch.kind_at(row) == Kind::End {
                continue;
            }
            if start < self.next {
                return exec_err!(
                    "require_distinct_starts: two rows start at {}; it was said that no two rows start together. \
                     Leave require_distinct_starts out, or keep one row of each instant",
                    Instant { time: start, unit: self.unit }
                );
            }
            self.next = start.saturating_add(1);
        }
        Ok(())
    }

    /// Says how far time has come, if that is news.
    fn punctuate(&mut self, time: Time, out: &mut Vec<Message>) {
        if time > self.punctuated {
            self.punctuated = time;
            out.push(Message::Punctuation(time));
        }
    }
}

impl Operator for RequireDistinctStarts {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => {
                let batch = batch.compact()?;
                self.check(&batch)?;
                if !batch.is_empty() {
                    out.push(Message::Batch(batch));
                }
                if !self.has_ends && self.next < INFINITY {
                    self.punctuate(self.next, out);
                }
            }
            Message::Punctuation(time) => self.punctuate(time, out),
        }
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(self.next, self.punctuated))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        (self.next, self.punctuated) = decode(state)?;
        Ok(())
    }
}
