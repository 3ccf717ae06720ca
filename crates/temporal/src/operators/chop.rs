//! `chop`: lifetimes cut at the beats `offset + k·period` (Trill's `Chop`), or where a function of instants
//! says. The relation stays the same; what changes is into how many rows it is divided, which shows where
//! rows are read for when they start.
//!
//! Invariants: `waiting` are the rows that live beyond the next `beat`, with the start of their last piece as
//! their note; the pieces of a beat are emitted once time has passed it, so that an end at the beat leaves no
//! empty piece. Rows that were always there are not cut: they have no first beat. One that never ends is cut
//! as far as time has come.

use crate::batch::{Batch, Message};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::rows_out::RowsOut;
use crate::synopsis::{SavedSynopsis, Synopsis};
use crate::time::{BEGINNING, INFINITY, Kind, Time, next_on_grid};
use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// Where lifetimes are cut.
enum Beats {
    Every {
        /// Ticks between two beats; positive.
        period: i64,
        offset: i64,
    },
    /// At the values of an int64 expression over the column `start`: the first beat after that instant.
    Next {
        expr: Arc<dyn PhysicalExpr>,
        /// The last instant that the expression was evaluated for, and the first beat after it.
        last: Option<(Time, Time)>,
    },
}

/// Cuts lifetimes at beats.
pub struct Chop {
    beats: Beats,
    waiting: Synopsis,
    /// The first beat that has not been passed, while rows wait for one.
    beat: Time,
    rows: RowsOut,
}

impl Chop {
    /// Cuts at `offset + k·period`; the period is positive.
    pub fn new(period: i64, offset: i64) -> Chop {
        Chop::at(Beats::Every { period, offset })
    }

    /// Cuts at the instants that an int64 expression over the column `start` gives: the first one after it.
    pub fn at_next(expr: Arc<dyn PhysicalExpr>) -> Chop {
        Chop::at(Beats::Next { expr, last: None })
    }

    fn at(beats: Beats) -> Chop {
        Chop { beats, waiting: Synopsis::default(), beat: INFINITY, rows: RowsOut::default() }
    }

    /// The first beat after an instant. An expression is evaluated once for all instants between two beats.
    fn after(&mut self, time: Time) -> Result<Time> {
        let (expr, last) = match &mut self.beats {
            Beats::Every { period, offset } => return Ok(next_on_grid(time, *period, *offset, false)),
            Beats::Next { expr, last } => (expr, last),
        };
        match last {
            Some((from, beat)) if *from <= time && time < *beat => Ok(*beat),
            _ => {
                let beat = next(expr, time)?;
                *last = Some((time, beat));
                Ok(beat)
            }
        }
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let batch = batch.compact()?;
        let kept = self.waiting.keep(batch.rows.clone());
        for row in 0..batch.len() {
            let (sync, other) = (batch.sync[row], batch.other_at(row));
            self.pass(sync)?;
            let place = (kept, row as u32);
            match Kind::of(sync, other) {
                _ if batch.start_at(row) == BEGINNING => self.rows.push(sync, other, place),
                Kind::Interval | Kind::Start => {
                    let beat = self.after(sync)?;
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

    /// Emits the pieces that start at beats before `time`.
    fn pass(&mut self, time: Time) -> Result<()> {
        while self.beat < time && self.waiting.count() > 0 {
            // Rows that never end are not cut for ever.
            if time == INFINITY && self.waiting.next_end().is_none() {
                return Ok(());
            }
            self.emit_pieces()?;
        }
        if self.waiting.count() == 0 {
            self.beat = INFINITY;
        }
        Ok(())
    }

    /// Emits the pieces that start at the beat.
    fn emit_pieces(&mut self) -> Result<()> {
        let (beat, next) = (self.beat, self.after(self.beat)?);
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
        Ok(())
    }
}

/// The first beat after an instant.
fn next(expr: &Arc<dyn PhysicalExpr>, time: Time) -> Result<Time> {
    let schema = Arc::new(Schema::new(vec![Field::new("start", DataType::Int64, false)]));
    let rows = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![time]))])?;
    match ScalarValue::try_from_array(&expr.evaluate(&rows)?.into_array(1)?, 0)? {
        ScalarValue::Int64(Some(beat)) if beat > time => Ok(beat),
        other => exec_err!("chop: {expr} gives {other}, which is no instant after {time}"),
    }
}

impl Operator for Chop {
    fn held(&self) -> Held {
        self.waiting.held()
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch)?,
            Message::Punctuation(time) => {
                self.pass(time)?;
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
