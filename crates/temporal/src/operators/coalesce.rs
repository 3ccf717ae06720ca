//! Edges to intervals, for those who read the result.
//!
//! Invariants: a start edge waits in `open` for its end edge. Ordered by start, nothing passes a row that
//! still waits; ordered by end, a row leaves when its end comes. At the end of the stream what still waits
//! leaves as it is.

use crate::batch::{Batch, Message};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::open_edges::OpenEdges;
use crate::operators::rows_out::RowsOut;
use crate::synopsis::{EntryId, SavedSynopsis, Synopsis};
use crate::time::{INFINITY, Kind, Time};
use datafusion::common::Result;
use std::collections::VecDeque;

/// In which order whole lifetimes leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoalesceOrder {
    /// By their start: a row whose end is unknown holds back all later ones (Trill's egress).
    Start,
    /// As soon as the end is known. The batches are then not a stream: their sync times may go backwards.
    End,
}

/// Joins start and end edges into intervals.
pub struct Coalesce {
    order: CoalesceOrder,
    /// The rows whose end is not known.
    open: OpenEdges,
    /// Rows that have not left. The note is the end, once it is known.
    waiting: Synopsis,
    /// The waiting rows in the order of their start, if they leave in it.
    queue: VecDeque<EntryId>,
    /// The groups of rows that have just left.
    left: Vec<u32>,
    rows: RowsOut,
}

impl Coalesce {
    /// Lifetimes leave in this order.
    pub fn new(order: CoalesceOrder) -> Coalesce {
        Coalesce {
            order,
            open: OpenEdges::default(),
            waiting: Synopsis::default(),
            queue: VecDeque::new(),
            left: Vec::new(),
            rows: RowsOut::default(),
        }
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let mut batch = batch.compact()?;
        let edges = (0..batch.len()).any(|i| batch.kind_at(i) != Kind::Interval);
        if !edges && self.queue.is_empty() {
            out.push(Message::Batch(batch));
            return Ok(());
        }
        let mut numbers = self.open.intern(&mut batch)?;
        let kept = self.waiting.keep(batch.rows.clone());
        for (row, &group) in numbers.iter().enumerate() {
            self.row(&batch, row, group, (kept, row as u32))?;
        }
        self.release();
        numbers.append(&mut self.left);
        self.open.forget_empty(&numbers, &self.waiting);
        Ok(())
    }

    fn row(&mut self, batch: &Batch, row: usize, group: u32, place: (u32, u32)) -> Result<()> {
        let (sync, other) = (batch.sync[row], batch.other_at(row));
        match Kind::of(sync, other) {
            Kind::Interval if self.order == CoalesceOrder::End => self.rows.push(sync, other, place),
            Kind::Interval | Kind::Start => {
                let id = self.waiting.insert(group, place, sync, INFINITY, other);
                self.enqueue(id);
            }
            Kind::End => {
                let id = self.open.close(group, other, sync)?;
                self.waiting.note(id, sync);
                match self.order {
                    CoalesceOrder::Start => self.release(),
                    CoalesceOrder::End => self.leave(id),
                }
            }
        }
        Ok(())
    }

    /// Notes a waiting row among the open ones, if its end is not known, and in the queue, if rows leave in
    /// it.
    fn enqueue(&mut self, id: EntryId) {
        let entry = self.waiting.get(id);
        if entry.note == INFINITY {
            self.open.open(id.group, entry.start, id);
        }
        if self.order == CoalesceOrder::Start {
            self.queue.push_back(id);
        }
    }

    /// A row leaves with its end; without one only when the stream ends.
    fn leave(&mut self, id: EntryId) {
        let entry = self.waiting.get(id);
        self.rows.push(entry.start, entry.note, entry.row);
        self.left.push(id.group);
        self.waiting.remove(id);
    }

    /// Lets go of the first rows as long as their ends are known.
    fn release(&mut self) {
        while let Some(&id) = self.queue.front()
            && self.waiting.get(id).note < INFINITY
        {
            self.queue.pop_front();
            self.leave(id);
        }
    }

    /// The time before which nothing will leave any more.
    fn horizon(&self, time: Time) -> Time {
        self.queue.front().map_or(time, |&id| self.waiting.get(id).start.min(time))
    }

    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.rows.flush(&self.waiting, out)?;
        self.waiting.tidy()
    }
}

impl Operator for Coalesce {
    fn held(&self) -> Held {
        self.waiting.held()
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out)?,
            Message::Punctuation(time) => {
                if time == INFINITY {
                    let all: Vec<EntryId> = self.waiting.all().map(|(id, _)| id).collect();
                    all.into_iter().for_each(|id| self.leave(id));
                    self.queue.clear();
                    self.open.clear();
                }
                self.flush(out)?;
                let time = if self.order == CoalesceOrder::Start { self.horizon(time) } else { time };
                out.push(Message::Punctuation(time));
            }
        }
        self.flush(out)
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(self.open.groups(), self.waiting.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (groups, waiting): (_, SavedSynopsis) = decode(state)?;
        self.open = OpenEdges::restore(groups);
        self.waiting = Synopsis::restore(waiting)?;
        let all: Vec<EntryId> = self.waiting.all().map(|(id, _)| id).collect();
        all.into_iter().for_each(|id| self.enqueue(id));
        Ok(())
    }
}
