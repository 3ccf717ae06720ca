//! Lifetimes whose ends move back: the half of `extend_lifetime` that holds rows back.
//!
//! Nothing can be handed out of a start edge before it is known that an end edge that comes later leaves
//! something of it. `reach` is how far ends have come: the present instant less the ticks that ends lose. A
//! start edge is decided once `reach` is past its start.
//!
//! Invariants: `queue` are the rows that have not left, in the order of their starts; the note of a row is
//! its new end, [`INFINITY`] while that is not known, or [`VANISHED`]. `live` start edges have left and not
//! ended. While there are any, an end edge may come out at `reach` from now on, so no interval after it
//! leaves. What leaves is in order, and no punctuation passes the first row of the queue.

use crate::batch::{Batch, Message, Other};
use crate::held::Held;
use crate::operator::{decode, encode};
use crate::operators::open_edges::OpenEdges;
use crate::operators::rows_out::RowsOut;
use crate::synopsis::{EntryId, SavedSynopsis, Synopsis};
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrow::array::BooleanArray;
use datafusion::common::Result;
use std::collections::VecDeque;

/// Stands for the end of a row of which nothing is left: no interval ends there.
const VANISHED: Time = BEGINNING;

/// Moves the ends of lifetimes back.
#[derive(Debug)]
pub(crate) struct Shorten {
    /// Ticks; negative.
    by: i64,
    /// Nothing before this instant follows.
    now: Time,
    open: OpenEdges,
    rows: Synopsis,
    queue: VecDeque<EntryId>,
    live: usize,
    /// Groups that may have lost their last row.
    emptied: Vec<u32>,
    out: RowsOut,
}

impl Shorten {
    /// Ends move by `by` ticks, which are negative.
    pub fn new(by: i64) -> Shorten {
        Shorten {
            by,
            now: BEGINNING,
            open: OpenEdges::default(),
            rows: Synopsis::default(),
            queue: VecDeque::new(),
            live: 0,
            emptied: Vec::new(),
            out: RowsOut::default(),
        }
    }

    pub fn push(&mut self, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out)?,
            Message::Punctuation(time) => {
                self.now = time;
                self.release();
                self.flush(out)?;
                out.push(Message::Punctuation(self.frontier()));
            }
        }
        self.flush(out)
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let mut batch = batch.compact()?;
        let edges = (0..batch.len()).any(|row| batch.kind_at(row) != Kind::Interval);
        if !edges && self.rows.count() == 0 {
            self.now = batch.sync.last().copied().unwrap_or(self.now);
            let batch = self.intervals(batch)?;
            out.extend((!batch.is_empty()).then_some(Message::Batch(batch)));
            return Ok(());
        }
        let numbers = self.open.intern(&mut batch)?;
        let kept = self.rows.keep(batch.rows.clone());
        for (row, &group) in numbers.iter().enumerate() {
            let (sync, other) = (batch.sync[row], batch.other_at(row));
            if sync > self.now {
                self.now = sync;
                self.release();
            }
            self.row(sync, other, group, (kept, row as u32))?;
            self.release();
        }
        self.emptied.extend(numbers);
        Ok(())
    }

    /// Intervals that nothing holds back.
    fn intervals(&self, batch: Batch) -> Result<Batch> {
        let ends: Vec<Time> = (0..batch.len()).map(|row| self.earlier(batch.other_at(row))).collect();
        let keep: BooleanArray = batch.sync.iter().zip(&ends).map(|(start, end)| Some(end > start)).collect();
        let mut batch = batch.with_times(batch.sync.clone(), Other::Column(ends.into()));
        batch.retain(&keep);
        batch.compact()
    }

    fn row(&mut self, sync: Time, other: Time, group: u32, place: (u32, u32)) -> Result<()> {
        match Kind::of(sync, other) {
            Kind::Interval => {
                let end = self.earlier(other);
                if end > sync {
                    self.queue.push_back(self.rows.insert(group, place, sync, INFINITY, end));
                }
            }
            Kind::Start => {
                let id = self.rows.insert(group, place, sync, INFINITY, INFINITY);
                self.open.open(group, sync, id);
                self.queue.push_back(id);
            }
            Kind::End => {
                let id = self.open.close(group, other, sync)?;
                let end = self.earlier(sync);
                if end > other {
                    self.out.push(end, other, self.rows.get(id).row);
                    self.rows.remove(id);
                    self.live -= 1;
                } else {
                    self.rows.note(id, VANISHED);
                }
            }
        }
        Ok(())
    }

    /// Where a lifetime ends that would have ended at `end`.
    fn earlier(&self, end: Time) -> Time {
        end.saturating_add(self.by)
    }

    /// No end edge before this instant comes out any more.
    fn reach(&self) -> Time {
        if self.now == INFINITY { INFINITY } else { self.earlier(self.now) }
    }

    /// Lets go of the first rows of the queue as long as they are decided.
    fn release(&mut self) {
        let reach = self.reach();
        while let Some(&id) = self.queue.front() {
            let entry = self.rows.get(id);
            match Kind::of(entry.start, entry.note) {
                Kind::Start if entry.start < reach => {
                    self.out.push(entry.start, INFINITY, entry.row);
                    self.live += 1;
                }
                Kind::Interval if entry.start <= reach || self.live == 0 => {
                    self.out.push(entry.start, entry.note, entry.row);
                    self.leave(id);
                }
                Kind::End => self.leave(id),
                _ => return,
            }
            self.queue.pop_front();
        }
    }

    /// Forgets a row.
    fn leave(&mut self, id: EntryId) {
        self.emptied.push(id.group);
        self.rows.remove(id);
    }

    /// The instant before which nothing comes out any more.
    fn frontier(&self) -> Time {
        match self.queue.front() {
            _ if self.live > 0 => self.reach(),
            Some(&first) => self.rows.get(first).start.min(self.now),
            None => self.now,
        }
    }

    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.out.flush(&self.rows, out)?;
        self.open.forget_empty(&std::mem::take(&mut self.emptied), &self.rows);
        self.rows.tidy()
    }

    /// The rows that have not left, and those that have not ended.
    pub fn held(&self) -> Held {
        self.rows.held()
    }

    pub fn save(&self) -> Result<Vec<u8>> {
        encode(&(self.open.groups(), self.rows.save()?, self.now))
    }

    pub fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (groups, rows): (_, SavedSynopsis);
        (groups, rows, self.now) = decode(state)?;
        self.open = OpenEdges::restore(groups);
        self.rows = Synopsis::restore(rows)?;
        (self.queue, self.live) = (VecDeque::new(), 0);
        let reach = self.reach();
        for (id, row) in self.rows.all() {
            let is_open = row.note == INFINITY;
            if is_open {
                self.open.open(id.group, row.start, id);
            }
            match is_open && row.start < reach {
                true => self.live += 1,
                false => self.queue.push_back(id),
            }
        }
        Ok(())
    }
}
