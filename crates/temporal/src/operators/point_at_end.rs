//! `point_at_end`: a point where each lifetime ends. A row that never ends gives nothing.
//!
//! Invariant: `waiting` has the intervals whose end has not been passed; points leave in the order of their
//! ends.

use crate::batch::{Batch, Message};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::rows_out::RowsOut;
use crate::synopsis::{SavedSynopsis, Synopsis};
use crate::time::{INFINITY, Kind, Time};
use datafusion::common::{Result, exec_err};

/// Replaces each lifetime by the instant at which it ends.
#[derive(Default)]
pub struct PointAtEnd {
    waiting: Synopsis,
    rows: RowsOut,
}

impl PointAtEnd {
    /// A new operator.
    pub fn new() -> PointAtEnd {
        PointAtEnd::default()
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let batch = batch.compact()?;
        let kept = self.waiting.keep(batch.rows.clone());
        for row in 0..batch.len() {
            let (sync, other) = (batch.sync[row], batch.other_at(row));
            self.advance(sync)?;
            let place = (kept, row as u32);
            match Kind::of(sync, other) {
                Kind::Interval => {
                    self.waiting.insert(0, place, sync, other, 0);
                }
                Kind::End => self.rows.push(sync, next(sync)?, place),
                Kind::Start => {}
            }
        }
        Ok(())
    }

    /// Emits the ends up to `time`.
    fn advance(&mut self, time: Time) -> Result<()> {
        while let Some(end) = self.waiting.next_end()
            && end <= time
            && let Some(id) = self.waiting.ending_at(end)
        {
            self.rows.push(end, next(end)?, self.waiting.get(id).row);
            self.waiting.remove(id);
        }
        Ok(())
    }
}

/// The instant after this one.
pub(super) fn next(end: Time) -> Result<Time> {
    match end + 1 {
        INFINITY => {
            exec_err!("a row ends at {end}, the last instant; a point at its end has a tick after it")
        }
        next => Ok(next),
    }
}

impl Operator for PointAtEnd {
    fn held(&self) -> Held {
        self.waiting.held()
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch)?,
            Message::Punctuation(time) => {
                self.advance(time)?;
                self.rows.flush(&self.waiting, out)?;
                out.push(Message::Punctuation(time));
            }
        }
        self.rows.flush(&self.waiting, out)?;
        self.waiting.tidy()
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&self.waiting.save()?)
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let waiting: SavedSynopsis = decode(state)?;
        self.waiting = Synopsis::restore(waiting)?;
        Ok(())
    }
}
