//! The rows of a stream; at the instants at which it has none, one row that stands for them.
//!
//! An aggregate without a key has a row at every instant in SQL, also where nothing is alive: a count of 0. A
//! snapshot aggregate has none there, and this operator adds it.
//!
//! Invariants: `alive` counts the input's rows alive now; whether the standing row is visible at an instant
//! is decided once, when time has passed it; `emitted` is where the piece of the standing row began that has
//! not ended yet.

use crate::batch::{Batch, Message, Other};
use crate::checkpoint::{restore_rows, save_rows};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::runs::runs;
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use std::collections::BTreeMap;

/// A stream that always has a row.
pub struct OrElse {
    row: RecordBatch,
    alive: i64,
    /// How many intervals end at each coming instant.
    ends: BTreeMap<Time, i64>,
    now: Time,
    emitted: Option<Time>,
}

impl OrElse {
    /// The row that is there where the input has none.
    ///
    /// # Errors
    /// `Internal` if it is not one row.
    pub fn new(row: RecordBatch) -> Result<OrElse> {
        match row.num_rows() {
            1 => Ok(OrElse { row, alive: 0, ends: BTreeMap::new(), now: BEGINNING, emitted: None }),
            n => internal_err!("one row stands where there are none, not {n}"),
        }
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let batch = batch.compact()?;
        let mut first = 0;
        for run in runs(&batch.sync) {
            let mut edges = Vec::new();
            self.advance(batch.sync[run.start], &mut edges);
            if !edges.is_empty() {
                // The edges belong between the rows of the instants before and those of this one.
                hand_out(batch.slice(first, run.start - first), out);
                first = run.start;
                out.extend(edges);
            }
            for row in run {
                match batch.kind_at(row) {
                    Kind::End => self.alive -= 1,
                    Kind::Start => self.alive += 1,
                    Kind::Interval => {
                        self.alive += 1;
                        *self.ends.entry(batch.other_at(row)).or_default() += 1;
                    }
                }
            }
        }
        hand_out(batch.slice(first, batch.len() - first), out);
        Ok(())
    }

    fn advance(&mut self, time: Time, out: &mut Vec<Message>) {
        while self.now < time {
            self.commit(out);
            let end = self.ends.first_key_value().map_or(INFINITY, |(&end, _)| end);
            self.now = end.min(time);
            self.alive -= self.ends.remove(&self.now).unwrap_or(0);
        }
    }

    /// Time passes `now`: the row is emitted, or ended.
    fn commit(&mut self, out: &mut Vec<Message>) {
        let other = match (self.alive == 0, self.emitted) {
            (true, None) => INFINITY,
            (false, Some(start)) => start,
            _ => return,
        };
        self.emitted = (other == INFINITY).then_some(self.now);
        let other = Other::Column(vec![other].into());
        out.push(Message::Batch(Batch::new(vec![self.now].into(), other, self.row.clone())));
    }
}

fn hand_out(batch: Batch, out: &mut Vec<Message>) {
    if !batch.is_empty() {
        out.push(Message::Batch(batch));
    }
}

impl Operator for OrElse {
    fn held(&self) -> Held {
        Held::saved(self.alive as usize, None, self.save())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out),
            Message::Punctuation(time) => {
                self.advance(time, out);
                out.push(Message::Punctuation(time));
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(save_rows(&self.row)?, self.alive, &self.ends, self.now, self.emitted))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let row: Vec<u8>;
        (row, self.alive, self.ends, self.now, self.emitted) = decode(state)?;
        self.row = restore_rows(&row)?;
        Ok(())
    }
}
