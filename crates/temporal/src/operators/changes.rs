//! What changes in a relation, as rows: each with what it does to the relation, 1 for a row that comes and -1
//! for one that goes.
//!
//! The changes of an instant are emitted together when time has passed it, rows that go before rows that
//! come. What comes and goes at one instant is no change. Invariants: `pending` are the rows of the instant
//! `now`, with what they do; `ends` are the intervals that will go. What comes out is a stream of start
//! edges.
//!
//! Over rows that are forgotten (`AllowedLateness`), time is the clock of arrival: rows come at even
//! instants, and are forgotten at the odd instant after. What goes with them is final, and not told.

use crate::batch::{Batch, Message, Other};
use crate::checkpoint::{restore_rows, save_rows};
use crate::groups::Groups;
use crate::held::{Held, memory_of};
use crate::key::Key;
use crate::operator::{Operator, decode, encode};
use crate::runs::runs;
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows, and by how much each of them changes their number.
type Piece = (RecordBatch, Vec<i64>);

/// A relation as the stream of its changes.
pub struct Changes {
    /// The change, then the input's columns.
    schema: SchemaRef,
    now: Time,
    pending: Vec<Piece>,
    ends: BTreeMap<Time, Vec<RecordBatch>>,
    /// Whether rows are forgotten at odd instants.
    forgets: bool,
}

impl Changes {
    /// `schema`: an int64 column for the change, then those of the input.
    pub fn new(schema: SchemaRef) -> Changes {
        Changes { schema, now: BEGINNING, pending: Vec::new(), ends: BTreeMap::new(), forgets: false }
    }

    /// The same over rows that are forgotten at odd instants.
    pub fn forgetting(self) -> Changes {
        Changes { forgets: true, ..self }
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let batch = batch.compact()?;
        for run in runs(&batch.sync) {
            self.advance(batch.sync[run.start], out)?;
            let rows = batch.rows.slice(run.start, run.len());
            let mut by = Vec::with_capacity(run.len());
            for (place, row) in run.enumerate() {
                by.push(if batch.kind_at(row) == Kind::End { -1 } else { 1 });
                if batch.kind_at(row) == Kind::Interval {
                    self.ends.entry(batch.other_at(row)).or_default().push(rows.slice(place, 1));
                }
            }
            self.pending.push((rows, by));
        }
        Ok(())
    }

    fn advance(&mut self, time: Time, out: &mut Vec<Message>) -> Result<()> {
        while self.now < time {
            self.commit(out)?;
            let end = self.ends.first_key_value().map_or(INFINITY, |(&end, _)| end);
            self.now = end.min(time);
            let ending = self.ends.remove(&self.now).unwrap_or_default();
            self.pending.extend(ending.into_iter().map(|row| (row, vec![-1])));
        }
        Ok(())
    }

    /// Time passes `now`: what is left of its changes is emitted.
    fn commit(&mut self, out: &mut Vec<Message>) -> Result<()> {
        let (pieces, by): (Vec<RecordBatch>, Vec<Vec<i64>>) =
            std::mem::take(&mut self.pending).into_iter().unzip();
        let Some(first) = pieces.first() else { return Ok(()) };
        if self.forgets && self.now % 2 != 0 {
            return Ok(());
        }
        let rows = concat_batches(&first.schema(), &pieces)?;
        let (net, sample) = net(&rows, &by.concat())?;
        let mut places = Vec::new();
        let mut changes = Vec::new();
        for sign in [-1, 1] {
            for (by, place) in net.iter().zip(&sample).filter(|(by, _)| by.signum() == sign) {
                for _ in 0..by.abs() {
                    places.push(*place);
                    changes.push(sign);
                }
            }
        }
        if places.is_empty() {
            return Ok(());
        }
        let rows = take_record_batch(&rows, &UInt32Array::from(places))?;
        let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(changes))];
        columns.extend(rows.columns().iter().cloned());
        let rows = RecordBatch::try_new(self.schema.clone(), columns)?;
        let sync = vec![self.now; rows.num_rows()].into();
        out.push(Message::Batch(Batch::new(sync, Other::Open, rows)));
        Ok(())
    }
}

/// For each different row by how much its number changes, and a place where it stands.
fn net(rows: &RecordBatch, by: &[i64]) -> Result<(Vec<i64>, Vec<u32>)> {
    let all: Vec<usize> = (0..rows.num_columns()).collect();
    let types: Vec<DataType> = rows.columns().iter().map(|c| c.data_type().clone()).collect();
    let mut numbers = Vec::new();
    let mut groups = Groups::new(&types);
    groups.intern(&Key::exact(rows, &all)?, 0..rows.num_rows(), &mut numbers)?;
    let (mut net, mut sample) = (vec![0; groups.capacity()], vec![0; groups.capacity()]);
    for (place, (&number, by)) in numbers.iter().zip(by).enumerate() {
        net[number as usize] += by;
        sample[number as usize] = place as u32;
    }
    Ok((net, sample))
}

impl Operator for Changes {
    fn held(&self) -> Held {
        let pending = self.pending.iter().map(|(rows, _)| rows);
        let batches = || pending.clone().chain(self.ends.values().flatten());
        let oldest = (!self.pending.is_empty()).then_some(self.now);
        Held { rows: batches().map(RecordBatch::num_rows).sum(), bytes: memory_of(batches()), oldest }
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out),
            Message::Punctuation(time) => {
                self.advance(time, out)?;
                out.push(Message::Punctuation(time));
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        let piece = |(rows, by): &Piece| Ok((save_rows(rows)?, by.clone()));
        let pending: Vec<(Vec<u8>, Vec<i64>)> = self.pending.iter().map(piece).collect::<Result<_>>()?;
        let ends = self
            .ends
            .iter()
            .map(|(end, rows)| Ok((*end, rows.iter().map(save_rows).collect::<Result<_>>()?)));
        let ends: Vec<(Time, Vec<Vec<u8>>)> = ends.collect::<Result<_>>()?;
        encode(&(self.now, pending, ends))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let pending: Vec<(Vec<u8>, Vec<i64>)>;
        let ends: Vec<(Time, Vec<Vec<u8>>)>;
        (self.now, pending, ends) = decode(state)?;
        let piece = |(rows, by): (Vec<u8>, Vec<i64>)| Ok((restore_rows(&rows)?, by));
        self.pending = pending.into_iter().map(piece).collect::<Result<_>>()?;
        let end = |(end, rows): (Time, Vec<Vec<u8>>)| {
            Ok((end, rows.iter().map(|bytes| restore_rows(bytes)).collect::<Result<_>>()?))
        };
        self.ends = ends.into_iter().map(end).collect::<Result<_>>()?;
        Ok(())
    }
}
