//! Requires that all lifetimes are equally long, as the author of a query asserts (Trill's
//! `SetProperty().IsConstantDuration`; trill.txt §5.3).
//!
//! Invariant: every row that comes out lasts exactly as required, and says so without a column of ends.

use crate::batch::{Batch, Message, Other};
use crate::operator::Operator;
use crate::time::{INFINITY, Instant, Kind};
use arrow::datatypes::TimeUnit;
use datafusion::common::{Result, exec_err};

/// Passes rows on, and refuses those of another duration.
pub struct RequireDuration {
    /// The ticks of each lifetime; none: rows never end.
    duration: Option<i64>,
    unit: Option<TimeUnit>,
}

impl RequireDuration {
    /// Rows live so many ticks, or for ever; `unit` is that of the ticks, for messages.
    pub fn new(duration: Option<i64>, unit: Option<TimeUnit>) -> RequireDuration {
        RequireDuration { duration, unit }
    }

    /// The lifetimes, if they are as required.
    fn required(&self, batch: &Batch) -> Result<Other> {
        let required = self.duration.map_or(Other::Open, Other::After);
        let holds = |row: &usize| match self.duration {
            Some(duration) => {
                batch.kind_at(*row) == Kind::Interval
                    && batch.other_at(*row).checked_sub(batch.sync[*row]) == Some(duration)
            }
            None => batch.kind_at(*row) == Kind::Start,
        };
        let is_constant = match (&batch.other, self.duration) {
            (Other::Open, None) => true,
            (Other::After(given), Some(duration)) => *given == duration,
            _ => false,
        };
        match (0..batch.len()).find(|row| !is_constant && !holds(row)) {
            None => Ok(required),
            Some(row) => self.refuse(batch, row),
        }
    }

    /// The error for a row that lasts shorter or longer.
    fn refuse(&self, batch: &Batch, row: usize) -> Result<Other> {
        let instant = |time| Instant { time, unit: self.unit };
        let (start, end) = match batch.kind_at(row) {
            Kind::End => (batch.other_at(row), batch.sync[row]),
            _ => (batch.sync[row], batch.other_at(row)),
        };
        let end = if end == INFINITY { "has no end".into() } else { format!("ends at {}", instant(end)) };
        let required = self
            .duration
            .map_or("never end".into(), |d| format!("end at {}", instant(start.saturating_add(d))));
        exec_err!(
            "require_duration: a row that starts at {} {end}; it was said to {required}. Leave require_duration out, or \
             give rows their lifetime with alter_duration",
            instant(start)
        )
    }
}

impl Operator for RequireDuration {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        out.push(match message {
            Message::Batch(batch) => {
                let batch = batch.compact()?;
                let other = self.required(&batch)?;
                Message::Batch(batch.with_times(batch.sync.clone(), other))
            }
            punctuation => punctuation,
        });
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn restore(&mut self, _state: &[u8]) -> Result<()> {
        Ok(())
    }
}
