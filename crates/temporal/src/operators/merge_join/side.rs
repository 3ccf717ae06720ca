//! One side of a merge join: the rows that wait for their turn, and the run of the current key.
//!
//! Invariants: rows come in the order of their keys; those that wait have keys, and their batches are pinned.

use crate::batch::Batch;
use crate::checkpoint::{SavedBatch, restore_rows, save_rows};
use crate::held::Held;
use crate::key::{Key, KeyOrder, OrderedKey, OrderedKeys, OwnedKey};
use crate::synopsis::{KeptBatches, RowRef};
use crate::time::{BEGINNING, INFINITY, Time};
use arrow::array::{BooleanArray, RecordBatch};
use datafusion::common::{Result, exec_err};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub(super) struct Side {
    key: Vec<usize>,
    kept: KeptBatches,
    waiting: VecDeque<Waiting>,
    /// The key of the last row that came.
    last: Option<OwnedKey>,
    /// No row with a key will come any more: those without one are the last.
    keys_ended: bool,
    /// No row before this will come.
    frontier: Time,
    /// The last punctuation that came.
    punctuated: Time,
    /// The rows of the current key.
    pub run: Vec<RunRow>,
}

/// Rows that wait for their turn; there is one.
#[derive(Debug)]
pub(super) struct Waiting {
    pub batch: Batch,
    pub keys: OrderedKeys,
    place: u32,
    /// How many of them have had their turn.
    pub taken: usize,
}

impl Waiting {
    /// A row of the batch.
    #[inline]
    pub fn row(&self, row: usize) -> RunRow {
        RunRow { start: self.batch.sync[row], end: self.batch.other_at(row), row: (self.place, row as u32) }
    }
}

/// A row that has had its turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunRow {
    pub start: Time,
    pub end: Time,
    pub row: RowRef,
}

/// The next row of a side.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Head<'a> {
    pub key: OrderedKey<'a>,
    pub start: Time,
}

/// A side of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedSide {
    waiting: Vec<SavedBatch>,
    last: Option<OwnedKey>,
    keys_ended: bool,
    frontier: Time,
    punctuated: Time,
    /// Start and end of the rows of the run, and their columns.
    run: Vec<(Time, Time)>,
    rows: Option<Vec<u8>>,
}

impl Side {
    /// A side with these key columns, from which nothing has come.
    pub fn new(key: Vec<usize>) -> Side {
        Side {
            key,
            kept: KeptBatches::default(),
            waiting: VecDeque::new(),
            last: None,
            keys_ended: false,
            frontier: BEGINNING,
            punctuated: BEGINNING,
            run: Vec::new(),
        }
    }

    /// Rows wait for their turn.
    pub fn wait(&mut self, batch: Batch, order: KeyOrder, nulls_equal: bool) -> Result<()> {
        // Sync times of absent rows are as good as any: they too bound what follows.
        self.frontier = self.frontier.max(batch.sync.last().copied().unwrap_or(BEGINNING));
        let mut batch = batch.compact()?;
        if !nulls_equal && let Some(nulls) = Key::nulls(&batch.rows, &self.key) {
            // Only the first column of a key is in order throughout.
            let first = batch.rows.column(self.key[0]).logical_nulls();
            self.keys_ended |= first.is_some_and(|first| first.is_null(batch.len() - 1));
            batch.retain(&BooleanArray::new(nulls.into_inner(), None));
            batch = batch.compact()?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        let columns: Vec<_> = self.key.iter().map(|column| batch.rows.column(*column).clone()).collect();
        let keys = order.keys(&columns)?;
        debug_assert!(self.last.as_ref().is_none_or(|last| last.get() <= keys.get(0)));
        self.last = Some(keys.get(batch.len() - 1).to_owned());
        let place = self.kept.keep(batch.rows.clone());
        self.kept.pin(place);
        self.waiting.push_back(Waiting { batch, keys, place, taken: 0 });
        Ok(())
    }

    /// Time comes to `time`.
    pub fn punctuate(&mut self, time: Time) {
        self.frontier = self.frontier.max(time);
        self.punctuated = self.punctuated.max(time);
    }

    /// No row before this will come.
    pub fn frontier(&self) -> Time {
        self.frontier
    }

    /// Whether a punctuation has come of this or a later instant.
    pub fn has_punctuated(&self, time: Time) -> bool {
        self.punctuated >= time
    }

    /// The next row.
    #[inline]
    pub fn head(&self) -> Option<Head<'_>> {
        let first = self.waiting.front()?;
        Some(Head { key: first.keys.get(first.taken), start: first.batch.sync[first.taken] })
    }

    /// Whether no row with a key will come any more.
    pub fn has_ended(&self) -> bool {
        self.keys_ended || self.frontier == INFINITY
    }

    /// Whether a row of this key may still have its turn. All rows of smaller keys have had it.
    #[inline]
    pub fn may_follow(&self, key: OrderedKey) -> bool {
        match self.head() {
            Some(head) => head.key == key,
            None => !self.has_ended() && self.last.as_ref().is_none_or(|last| last.get() <= key),
        }
    }

    /// Whether no row will come that precedes this one. One of equal key and start precedes it if `ties`.
    #[inline]
    pub fn has_passed(&self, head: &Head, ties: bool) -> bool {
        if let Some(own) = self.head() {
            return if ties { own > *head } else { own >= *head };
        }
        let Some(last) = &self.last else { return self.has_ended() };
        let follows = if ties { self.frontier > head.start } else { self.frontier >= head.start };
        self.has_ended() || last.get() > head.key || last.get() == head.key && follows
    }

    /// The next row has its turn; none if there is none.
    pub fn take(&mut self) -> Option<RunRow> {
        let first = self.waiting.front_mut()?;
        let row = first.row(first.taken);
        first.taken += 1;
        if first.taken == first.batch.len() {
            self.kept.unpin(first.place);
            self.waiting.pop_front();
        }
        Some(row)
    }

    /// The first batch whose rows wait; it has to be [put back](Side::put_back).
    pub fn take_first(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// What is left of the first batch waits on.
    pub fn put_back(&mut self, first: Waiting) {
        match first.taken < first.batch.len() {
            true => self.waiting.push_front(first),
            false => self.kept.unpin(first.place),
        }
    }

    /// The row stays as one of the run.
    #[inline]
    pub fn hold(&mut self, row: RunRow) {
        self.kept.point_to(row.row);
        self.run.push(row);
    }

    /// No row will be joined with those of the run any more.
    #[inline]
    pub fn forget_run(&mut self) {
        self.run.drain(..).for_each(|row| self.kept.let_go(row.row));
    }

    /// Takes out all rows that wait.
    pub fn drop_waiting(&mut self) {
        self.waiting.drain(..).for_each(|waiting| self.kept.unpin(waiting.place));
    }

    /// Takes out the next rows while they end before any row of the other side, which comes to `frontier`,
    /// starts.
    pub fn drop_ended(&mut self, frontier: Time) {
        let ends = |side: &Side| side.waiting.front().map(|first| first.batch.other_at(first.taken));
        while ends(self).is_some_and(|end| end <= frontier && end < INFINITY) {
            self.take();
        }
    }

    /// No row before this has its turn any more.
    pub fn next_start(&self) -> Time {
        self.head().map_or(self.frontier, |head| head.start)
    }

    /// When the first row starts that waits or is in the run.
    pub fn oldest(&self) -> Option<Time> {
        self.run.first().map(|row| row.start).or_else(|| self.head().map(|head| head.start))
    }

    /// The batches of its rows.
    pub fn batches(&self) -> &KeptBatches {
        &self.kept
    }

    /// Lets go of the batches without rows that are needed.
    pub fn tidy(&mut self) {
        self.kept.drop_unused();
    }

    /// The rows that wait and those of the run.
    pub fn held(&self) -> Held {
        let waiting: usize = self.waiting.iter().map(|waiting| waiting.batch.len() - waiting.taken).sum();
        Held { rows: waiting + self.run.len(), bytes: self.kept.memory(), oldest: self.oldest() }
    }

    /// The key of the first row of the run.
    pub fn run_key(&self, order: KeyOrder) -> Result<Option<OwnedKey>> {
        let Some(RunRow { row: (place, row), .. }) = self.run.first() else { return Ok(None) };
        let Some(rows) = self.kept.batch(*place) else { return Ok(None) };
        let column = |column: &usize| rows.column(*column).slice(*row as usize, 1);
        let columns: Vec<_> = self.key.iter().map(column).collect();
        Ok(Some(order.keys(&columns)?.get(0).to_owned()))
    }

    /// The side for a checkpoint.
    pub fn save(&self) -> Result<SavedSide> {
        let rest = |waiting: &Waiting| {
            SavedBatch::of(&waiting.batch.slice(waiting.taken, waiting.batch.len() - waiting.taken))
        };
        let rows = match self.run.is_empty() {
            true => None,
            false => Some(save_rows(&self.kept.gather(self.run.iter().map(|row| row.row))?)?),
        };
        Ok(SavedSide {
            waiting: self.waiting.iter().map(rest).collect::<Result<_>>()?,
            last: self.last.clone(),
            keys_ended: self.keys_ended,
            frontier: self.frontier,
            punctuated: self.punctuated,
            run: self.run.iter().map(|row| (row.start, row.end)).collect(),
            rows,
        })
    }

    /// Takes over the side of a checkpoint.
    pub fn restore(&mut self, saved: SavedSide, order: KeyOrder, nulls_equal: bool) -> Result<()> {
        let mut side = Side::new(std::mem::take(&mut self.key));
        for batch in saved.waiting {
            side.wait(batch.batch()?, order, nulls_equal)?;
        }
        let rows = saved.rows.map(|rows| restore_rows(&rows)).transpose()?;
        if rows.as_ref().map_or(0, RecordBatch::num_rows) != saved.run.len() {
            return exec_err!("the checkpoint has rows without lifetimes, or the reverse; take a new one");
        }
        if let Some(rows) = rows {
            let place = side.kept.keep(rows);
            for ((start, end), row) in saved.run.into_iter().zip(0..) {
                side.hold(RunRow { start, end, row: (place, row) });
            }
        }
        let SavedSide { last, keys_ended, frontier, punctuated, .. } = saved;
        *self = Side { last, keys_ended, frontier, punctuated, ..side };
        Ok(())
    }
}
