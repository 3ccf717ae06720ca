//! `chop`: lifetimes cut at the beats `offset + k·period` (Trill's `Chop`). The relation stays the same; what changes is
//! how it is told, which shows where rows are read for when they start.
//!
//! Invariants: `waiting` are the rows that live beyond the next `beat`, with the start of the piece that was told last as
//! their note; pieces of the beat are told once time has passed it, so that an end at the beat leaves no empty piece. Rows
//! that were always there are not cut: they have no first beat. One that never ends is cut as far as time has come.

use crate::batch::{Batch, Message};
use crate::operator::{Operator, decode, encode};
use crate::operators::rows_out::RowsOut;
use crate::synopsis::{SavedSynopsis, Synopsis};
use crate::time::{BEGINNING, INFINITY, Kind, Time, next_on_grid};
use datafusion::common::{Result, exec_err};

/// Cuts lifetimes at beats.
pub struct Chop {
    period: i64,
    offset: i64,
    waiting: Synopsis,
    /// The first beat that has not been passed, while rows wait for one.
    beat: Time,
    rows: RowsOut,
}

impl Chop {
    /// Cuts at `offset + k·period`; the period is positive.
    pub fn new(period: i64, offset: i64) -> Chop {
        Chop { period, offset, waiting: Synopsis::default(), beat: INFINITY, rows: RowsOut::default() }
    }

    fn after(&self, time: Time) -> Time {
        next_on_grid(time, self.period, self.offset, false)
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let batch = batch.compact()?;
        let kept = self.waiting.keep(batch.rows.clone());
        for row in 0..batch.len() {
            let (sync, other) = (batch.sync[row], batch.other_at(row));
            self.pass(sync);
            let place = (kept, row as u32);
            match Kind::of(sync, other) {
                _ if batch.start_at(row) == BEGINNING => self.rows.push(sync, other, place),
                Kind::Interval | Kind::Start => {
                    let beat = self.after(sync);
                    self.rows.push(sync, if other == INFINITY { other } else { other.min(beat) }, place);
                    if other > beat {
                        self.waiting.insert(0, place, sync, other, sync);
                        self.beat = self.beat.min(beat);
                    }
                }
                Kind::End => {
                    let Some(id) = self.waiting.open_edge(0, other, &batch.rows, row) else {
                        return exec_err!(
                            "an end edge at {sync} has no start edge at {other} with the same payload"
                        );
                    };
                    self.rows.push(sync, self.waiting.get(id).note, place);
                    self.waiting.remove(id);
                }
            }
        }
        Ok(())
    }

    /// Tells the pieces that start at beats before `time`.
    fn pass(&mut self, time: Time) {
        while self.beat < time && self.waiting.count() > 0 {
            // Rows that never end are not cut for ever.
            if time == INFINITY && self.waiting.next_end().is_none() {
                return;
            }
            self.tell();
        }
        if self.waiting.count() == 0 {
            self.beat = INFINITY;
        }
    }

    /// The pieces that start at the beat.
    fn tell(&mut self) {
        let (beat, next) = (self.beat, self.after(self.beat));
        let cut: Vec<_> = self.waiting.all().filter(|(_, row)| row.note < beat).map(|(id, _)| id).collect();
        for id in cut {
            let row = self.waiting.get(id).clone();
            if row.end == INFINITY {
                self.rows.push(beat, row.note, row.row);
                self.rows.push(beat, INFINITY, row.row);
            } else {
                self.rows.push(beat, row.end.min(next), row.row);
            }
            match row.end <= next {
                true => self.waiting.remove(id),
                false => self.waiting.note(id, beat),
            }
        }
        self.beat = next;
    }
}

impl Operator for Chop {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch)?,
            Message::Punctuation(time) => {
                self.pass(time);
                self.rows.flush(&self.waiting, out)?;
                out.push(Message::Punctuation(time));
            }
        }
        self.rows.flush(&self.waiting, out)?;
        self.waiting.tidy()
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(self.waiting.save()?, self.beat))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let waiting: SavedSynopsis;
        (waiting, self.beat) = decode(state)?;
        self.waiting = Synopsis::restore(waiting)?;
        Ok(())
    }
}
