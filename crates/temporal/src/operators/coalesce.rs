//! Edges to intervals, for those who read the result.
//!
//! Invariants: a start edge waits for its end edge (rows with equal columns are one group; of several equal edges that
//! began together any may be taken). Ordered by start, nothing passes a row that still waits; ordered by what is known,
//! a row leaves when its end comes. At the end of the stream what still waits leaves as it is.

use crate::batch::{Batch, Message};
use crate::groups::Groups;
use crate::operator::{Operator, decode, encode};
use crate::operators::rows_out::RowsOut;
use crate::synopsis::{EntryId, SavedSynopsis, Synopsis};
use crate::time::{INFINITY, Kind, Time};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use std::collections::BTreeMap;

/// In which order whole lifetimes leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoalesceOrder {
    /// By their start: a row whose end is unknown holds back all later ones (Trill's egress).
    Start,
    /// As soon as the end is known. The batches are then not a stream: their sync times may go backwards.
    Known,
}

/// Joins start and end edges into intervals.
pub struct Coalesce {
    order: CoalesceOrder,
    groups: Option<Groups>,
    /// Rows that have not left. The note is the end, once it is known.
    waiting: Synopsis,
    /// The waiting rows in the order of their start and arrival.
    queue: BTreeMap<(Time, u64), EntryId>,
    arrivals: u64,
    place_of: BTreeMap<EntryId, (Time, u64)>,
    rows: RowsOut,
}

impl Coalesce {
    /// Lifetimes leave in this order.
    pub fn new(order: CoalesceOrder) -> Coalesce {
        Coalesce {
            order,
            groups: None,
            waiting: Synopsis::default(),
            queue: BTreeMap::new(),
            arrivals: 0,
            place_of: BTreeMap::new(),
            rows: RowsOut::default(),
        }
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let mut batch = batch.compact()?;
        let edges = (0..batch.len()).any(|i| batch.kind_at(i) != Kind::Interval);
        if !edges && (self.queue.is_empty() || self.order == CoalesceOrder::Known) {
            out.push(Message::Batch(batch));
            return Ok(());
        }
        let columns: Vec<usize> = (0..batch.rows.num_columns()).collect();
        let types: Vec<DataType> = batch.rows.columns().iter().map(|c| c.data_type().clone()).collect();
        let key = batch.key(&columns)?;
        let kept = self.waiting.keep(batch.rows.clone());
        let mut numbers = Vec::new();
        self.groups.get_or_insert_with(|| Groups::new(&types)).intern(&key, 0..batch.len(), &mut numbers)?;
        for (row, &group) in numbers.iter().enumerate() {
            self.row(&batch, row, group, (kept, row as u32))?;
        }
        self.release();
        for group in numbers {
            self.forget_if_empty(group);
        }
        Ok(())
    }

    fn row(&mut self, batch: &Batch, row: usize, group: u32, place: (u32, u32)) -> Result<()> {
        let (sync, other) = (batch.sync[row], batch.other_at(row));
        match Kind::of(sync, other) {
            Kind::Interval if self.order == CoalesceOrder::Known => self.rows.push(sync, other, place),
            Kind::Interval | Kind::Start => {
                let id = self.waiting.insert(group, place, sync, INFINITY, other);
                self.enqueue(id, sync);
            }
            Kind::End => {
                let open = self.waiting.of(group).find(|(_, e)| e.start == other && e.note == INFINITY);
                let Some((id, _)) = open else {
                    return exec_err!(
                        "an end edge at {sync} ends a row that began at {other}, but no such row is open; a start edge \
                         and its end edge carry equal columns"
                    );
                };
                self.waiting.note(id, sync);
                if self.order == CoalesceOrder::Known {
                    self.leave(id);
                }
            }
        }
        Ok(())
    }

    fn enqueue(&mut self, id: EntryId, start: Time) {
        self.queue.insert((start, self.arrivals), id);
        self.place_of.insert(id, (start, self.arrivals));
        self.arrivals += 1;
    }

    fn leave(&mut self, id: EntryId) {
        let entry = self.waiting.get(id);
        self.rows.push(entry.start, entry.note, entry.row);
        self.waiting.remove(id);
        if let Some(place) = self.place_of.remove(&id) {
            self.queue.remove(&place);
        }
    }

    /// Lets go of the first rows as long as their ends are known.
    fn release(&mut self) {
        while self.order == CoalesceOrder::Start
            && let Some((_, &id)) = self.queue.first_key_value()
            && self.waiting.get(id).note < INFINITY
        {
            self.leave(id);
        }
    }

    fn forget_if_empty(&mut self, group: u32) {
        if self.waiting.is_empty(group)
            && let Some(groups) = &mut self.groups
        {
            groups.remove(group);
        }
    }

    /// The time before which nothing will leave any more.
    fn horizon(&self, time: Time) -> Time {
        match self.queue.first_key_value() {
            Some((&(start, _), _)) => start.min(time),
            None => time,
        }
    }

    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.rows.flush(&self.waiting, out)?;
        self.waiting.tidy()
    }
}

impl Operator for Coalesce {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out)?,
            Message::Punctuation(time) => {
                if time == INFINITY {
                    let all: Vec<EntryId> = self.queue.values().copied().collect();
                    all.into_iter().for_each(|id| self.leave(id));
                }
                self.flush(out)?;
                let time = if self.order == CoalesceOrder::Start { self.horizon(time) } else { time };
                out.push(Message::Punctuation(time));
            }
        }
        self.flush(out)
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(&self.groups, self.waiting.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let waiting: SavedSynopsis;
        (self.groups, waiting) = decode(state)?;
        self.waiting = Synopsis::restore(waiting)?;
        let all: Vec<(EntryId, Time)> = self.waiting.all().map(|(id, e)| (id, e.start)).collect();
        all.into_iter().for_each(|(id, start)| self.enqueue(id, start));
        Ok(())
    }
}
