//! The rows alive on one side of an operator (trill.txt §5.2.3: the synopsis), by key, with the queue of
//! their ends.
//!
//! Invariants: rows are not copied in: an entry points into the batch it came with, and when most of what is
//! kept is dead the living rows are moved together. `ends` holds every entry with a known end; an item whose
//! entry has gone is skipped. No two entries ever have the same number.
//!
//! Rows leave in one of two ways. Either the operator asks which of them end, and removes them. Or nothing
//! follows from their ends: then they are in the [`Log`], and leave when time passes.
//!
//! Whoever will insert rows later, or knows them by their places, pins their batch.

mod buckets;
mod ends;
mod kept;
mod list;
mod log;

use crate::checkpoint::{restore_rows, save_rows};
use crate::held::Held;
use crate::time::{BEGINNING, INFINITY, Time};
use arrow::array::{Array, RecordBatch};
use datafusion::common::{Result, exec_err};
pub(crate) use ends::Ends;
pub(crate) use kept::{KeptBatches, RowRef};
use list::{List, Lists};
use log::Log;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What an entry is known by; the ids are in the order in which the entries came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryId {
    number: u64,
    pub group: u32,
}

/// A row that is alive.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub start: Time,
    /// [`INFINITY`]: not known yet.
    pub end: Time,
    /// What the operator remembers of it.
    pub note: Time,
    pub row: RowRef,
    /// How many entries were inserted before it.
    number: u64,
}

impl Entry {
    /// No row ends when time begins: this stands for the entry that was there.
    const REMOVED: Entry =
        Entry { start: BEGINNING, end: BEGINNING, note: BEGINNING, row: (0, 0), number: u64::MAX };

    #[inline]
    fn is_removed(&self) -> bool {
        self.end == BEGINNING
    }
}

/// What will be done with the rows of some groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Rows are added.
    Insert,
    /// All rows are looked at.
    Lookup,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Synopsis {
    /// The rows, where they leave when time passes; then nothing is in the lists.
    log: Option<Log>,
    /// The entries by group.
    lists: Lists,
    ends: Ends<EntryId>,
    /// The entries of each group and start whose ends are not known, in the order in which they came. Made
    /// when the first end edge comes.
    open: Option<HashMap<(u32, Time), Vec<EntryId>>>,
    kept: KeptBatches,
    /// The number of the next entry.
    numbers: u64,
    living: usize,
}

impl Synopsis {
    /// An empty one whose rows leave when time passes their ends, until [these are asked
    /// for](Synopsis::ask_for_ends). All ends have to be known.
    pub fn with_expiry() -> Synopsis {
        Synopsis { log: Some(Log::default()), ..Synopsis::default() }
    }

    /// Time passes: where rows leave so, those leave that end by now.
    #[inline]
    pub fn expire(&mut self, now: Time) {
        if let Some(log) = &mut self.log {
            log.expire(now, |row| self.kept.let_go(row));
        }
    }

    /// From now on rows stay until they are removed.
    pub fn ask_for_ends(&mut self) {
        let Some(mut log) = self.log.take() else { return };
        log.sweep(|row| self.kept.let_go(row));
        for entry in log.living() {
            self.insert(entry.group, entry.row, entry.start, entry.end, 0);
            self.kept.let_go(entry.row);
        }
    }

    /// Keeps a batch whose rows may be inserted before the next [`tidy`](Synopsis::tidy).
    /// Its place is the first half of a [`RowRef`].
    pub fn keep(&mut self, rows: RecordBatch) -> u32 {
        self.kept.keep(rows)
    }

    /// The batch at this place stays there until it is unpinned as often.
    #[inline]
    pub fn pin(&mut self, place: u32) {
        self.kept.pin(place);
    }

    #[inline]
    pub fn unpin(&mut self, place: u32) {
        self.kept.unpin(place);
    }

    /// Makes room for so many groups, and fetches what is needed soon: rows of these groups come, or are
    /// looked for, and as many rows end. So memory is waited for once.
    pub fn expect(&mut self, groups: &[u32], capacity: usize, access: Access) {
        if let Some(log) = &mut self.log {
            log.grow(capacity);
            if access == Access::Lookup {
                log.fetch(groups.iter().copied());
            }
            return;
        }
        self.lists.grow(capacity);
        self.lists.fetch(groups.iter().copied());
        self.lists.fetch(self.ends.next().take(groups.len()).map(|id| id.group));
    }

    /// Adds a row at the end of its group's list.
    /// It takes constant time, or, where it ends before others that came before it, time logarithmic in
    /// those.
    pub fn insert(&mut self, group: u32, row: RowRef, start: Time, end: Time, note: Time) -> EntryId {
        debug_assert!(end > BEGINNING);
        let id = EntryId { number: self.numbers, group };
        self.numbers += 1;
        self.kept.point_to(row);
        if let Some(log) = &mut self.log {
            log.grow(group as usize + 1);
            log.push(group, row, start, end);
            return id;
        }
        self.lists.grow(group as usize + 1);
        self.lists.push(group, Entry { start, end, note, row, number: id.number });
        match &mut self.open {
            _ if end < INFINITY => self.ends.push((end, id)),
            Some(open) => open.entry((group, start)).or_default().push(id),
            None => {}
        }
        self.living += 1;
        id
    }

    /// Takes a row out. Its batch stays until [`tidy`](Synopsis::tidy).
    pub fn remove(&mut self, id: EntryId) {
        let Some(entry) = self.lists.remove(id.group, id.number) else { return };
        self.forget_open(id, &entry);
        if self.ends.first() == Some((entry.end, id)) {
            self.ends.pop();
        }
        self.kept.let_go(entry.row);
        self.living -= 1;
    }

    #[inline]
    fn find(&self, id: EntryId) -> Option<&Entry> {
        self.lists.of(id.group)?.get(id.number)
    }

    /// Takes out all rows of a group, and puts them behind `rows`, in order. Their batches stay until
    /// [`tidy`](Synopsis::tidy).
    pub fn take(&mut self, group: u32, rows: &mut Vec<Entry>) {
        let first = rows.len();
        self.lists.take(group, rows);
        for entry in &rows[first..] {
            self.forget_open(EntryId { number: entry.number, group }, entry);
            self.kept.let_go(entry.row);
        }
        self.living -= rows.len() - first;
    }

    /// A row that is alive.
    #[inline]
    pub fn get(&self, id: EntryId) -> &Entry {
        match self.find(id) {
            Some(entry) => entry,
            None => unreachable!("entry {id:?} has been removed"),
        }
    }

    /// Takes an entry whose end is not known out of the open ones.
    fn forget_open(&mut self, id: EntryId, entry: &Entry) {
        let Some(open) = &mut self.open else { return };
        if entry.end < INFINITY {
            return;
        }
        let key = (id.group, entry.start);
        let Some(entries) = open.get_mut(&key) else { return };
        if let Some(place) = entries.iter().position(|other| *other == id) {
            entries.remove(place);
        }
        if entries.is_empty() {
            open.remove(&key);
        }
    }

    /// Says when a row whose end was not known ends.
    pub fn close(&mut self, id: EntryId, end: Time) {
        let entry = self.get(id).clone();
        self.forget_open(id, &entry);
        self.change(id, |entry| entry.end = end);
        self.ends.push((end, id));
    }

    /// How many rows there are: those alive, and some that time has passed.
    pub fn count(&self) -> usize {
        self.log.as_ref().map_or(self.living, Log::len)
    }

    /// The rows alive, and the memory of their batches and entries.
    pub fn held(&self) -> Held {
        if let Some(log) = &self.log {
            let (rows, bytes) = (log.living().count(), self.kept.memory() + log.memory());
            return Held { rows, bytes, oldest: log.living().map(|entry| entry.start).min() };
        }
        let all = (0..self.lists.groups()).flat_map(|group| self.of(group));
        Held {
            rows: self.living,
            bytes: self.kept.memory() + self.lists.memory() + self.ends.memory(),
            oldest: all.map(|(_, entry)| entry.start).min(),
        }
    }

    /// Sets what the operator remembers of a row.
    pub fn note(&mut self, id: EntryId, note: Time) {
        self.change(id, |entry| entry.note = note);
    }

    fn change(&mut self, id: EntryId, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.lists.of_mut(id.group).and_then(|list| list.get_mut(id.number)) {
            change(entry);
        }
    }

    /// Whether a group has no rows.
    pub fn is_empty(&self, group: u32) -> bool {
        match &self.log {
            Some(log) => log.is_empty(group),
            None => self.lists.of(group).is_none(),
        }
    }

    /// Shows the ends and rows of a group, in the order in which they came.
    #[inline]
    pub fn visit(&mut self, group: u32, mut see: impl FnMut(Time, RowRef)) {
        match &mut self.log {
            Some(log) => log.visit(group, see),
            None => self.of(group).for_each(|(_, entry)| see(entry.end, entry.row)),
        }
    }

    /// The entries of a group, in order.
    #[inline]
    pub fn of(&self, group: u32) -> impl Iterator<Item = (EntryId, &Entry)> {
        let entries = self.lists.of(group).into_iter().flat_map(List::iter);
        entries.map(move |entry| (EntryId { number: entry.number, group }, entry))
    }

    /// The start edge of `group` that began at `start` with the same payload as this row.
    /// All that began then may be looked at; of several that are equal the first that came is found.
    pub fn open_edge(&mut self, group: u32, start: Time, rows: &RecordBatch, row: usize) -> Option<EntryId> {
        if self.open.is_none() {
            self.open = Some(self.all_open());
        }
        let same = |entry: &Entry| {
            let Some(kept) = self.kept.batch(entry.row.0) else { return false };
            kept.columns()
                .iter()
                .zip(rows.columns())
                .all(|(a, b)| a.slice(entry.row.1 as usize, 1).as_ref() == b.slice(row, 1).as_ref())
        };
        let open = self.open.as_ref()?.get(&(group, start))?;
        open.iter().find(|id| same(self.get(**id))).copied()
    }

    /// The entries whose ends are not known, by group and start.
    fn all_open(&self) -> HashMap<(u32, Time), Vec<EntryId>> {
        let mut open: HashMap<_, Vec<EntryId>> = HashMap::new();
        for (id, entry) in self.all().filter(|(_, entry)| entry.end == INFINITY) {
            open.entry((id.group, entry.start)).or_default().push(id);
        }
        open
    }

    /// The rows that started at `time`, in order.
    pub fn started_at(&self, time: Time) -> Vec<EntryId> {
        self.all().filter(|(_, entry)| entry.start == time).map(|(id, _)| id).collect()
    }

    /// All rows alive, in order: a look at each group, and a sort.
    pub fn all(&self) -> impl Iterator<Item = (EntryId, &Entry)> {
        let mut all: Vec<_> = (0..self.lists.groups()).flat_map(|group| self.of(group)).collect();
        all.sort_unstable_by_key(|(id, _)| id.number);
        all.into_iter()
    }

    /// The first known end among the rows alive.
    pub fn next_end(&mut self) -> Option<Time> {
        self.first_end().map(|(end, _)| end)
    }

    /// The entry that ends next, if it ends at `time`.
    pub fn ending_at(&mut self, time: Time) -> Option<EntryId> {
        self.first_end().filter(|(end, _)| *end == time).map(|(_, id)| id)
    }

    fn first_end(&mut self) -> Option<(Time, EntryId)> {
        while let Some(first) = self.ends.first() {
            let (_, id) = first;
            if self.find(id).is_some() {
                return Some(first);
            }
            self.ends.pop();
        }
        None
    }

    /// The rows at these places.
    pub fn gather(&self, rows: impl ExactSizeIterator<Item = RowRef>) -> Result<RecordBatch> {
        self.kept.gather(rows)
    }

    /// The batches of the rows.
    pub fn batches(&self) -> &KeptBatches {
        &self.kept
    }

    /// Lets go of batches without living rows, and moves the living together if they are few among the dead.
    /// Afterwards at most 4096 rows more than twice those that [count](Synopsis::count) are kept beside the
    /// pinned batches, and a batch for every 64 of these beside 64 others.
    /// Places of rows mean nothing afterwards.
    pub fn tidy(&mut self) -> Result<()> {
        if let Some(log) = &mut self.log {
            log.tidy(|row| self.kept.let_go(row));
        }
        self.kept.drop_unused();
        if self.kept.is_sparse(self.count()) {
            self.move_together()?;
        }
        Ok(())
    }

    /// Copies the living rows into one batch, in the order in which they came.
    fn move_together(&mut self) -> Result<()> {
        let Synopsis { log: Some(log), kept, .. } = self else { return self.move_listed() };
        log.sweep(|row| kept.let_go(row));
        let rows = log.living().map(|entry| entry.row).filter(|row| !kept.is_pinned(row.0));
        let rows: Vec<RowRef> = rows.collect();
        if !rows.is_empty() {
            let rows = kept.gather(rows.into_iter())?;
            let (place, pinned) = (kept.replace_all(rows), |row: &RowRef| kept.is_pinned(row.0));
            let mut next = 0..;
            log.relocate(|row| if pinned(&row) { row } else { (place, next.next().unwrap_or_default()) });
        }
        Ok(())
    }

    /// The same for the rows in the lists.
    fn move_listed(&mut self) -> Result<()> {
        let movable = self.all().filter(|(_, entry)| !self.kept.is_pinned(entry.row.0));
        let (ids, rows): (Vec<EntryId>, Vec<RowRef>) = movable.map(|(id, entry)| (id, entry.row)).unzip();
        if ids.is_empty() {
            return Ok(());
        }
        let rows = self.gather(rows.iter().copied())?;
        let place = self.kept.replace_all(rows);
        for (&id, row) in ids.iter().zip(0..) {
            self.change(id, |entry| entry.row = (place, row));
        }
        Ok(())
    }

    /// The entries in order, and their rows.
    pub fn save(&self) -> Result<SavedSynopsis> {
        let (entries, rows): (Vec<SavedEntry>, Vec<RowRef>) = match &self.log {
            Some(log) => log.living().map(|e| ((e.group, e.start, e.end, 0), e.row)).unzip(),
            None => self.all().map(|(id, e)| ((id.group, e.start, e.end, e.note), e.row)).unzip(),
        };
        Ok(SavedSynopsis { entries, rows: self.save_rows(&rows)? })
    }

    /// The rows at these places, for a checkpoint; none: there are none.
    pub fn save_rows(&self, rows: &[RowRef]) -> Result<Option<Vec<u8>>> {
        if rows.is_empty() { Ok(None) } else { Ok(Some(save_rows(&self.gather(rows.iter().copied())?)?)) }
    }

    /// Keeps so many rows that were [saved](Synopsis::save_rows).
    pub fn restore_rows(&mut self, saved: Option<Vec<u8>>, expected: usize) -> Result<u32> {
        let rows = saved.map(|saved| restore_rows(&saved)).transpose()?;
        if rows.as_ref().map_or(0, RecordBatch::num_rows) != expected {
            return exec_err!("the checkpoint has rows without lifetimes, or the reverse; take a new one");
        }
        Ok(rows.map_or(0, |rows| self.keep(rows)))
    }

    /// The same rows again; the numbers of entries are new: those of [`save`](Synopsis::save)d order.
    pub fn restore(saved: SavedSynopsis) -> Result<Synopsis> {
        Synopsis::default().refill(saved)
    }

    /// Puts the rows of a checkpoint into an empty synopsis.
    pub fn refill(mut self, saved: SavedSynopsis) -> Result<Synopsis> {
        let kept = self.restore_rows(saved.rows, saved.entries.len())?;
        for (&(group, start, end, note), row) in saved.entries.iter().zip(0..) {
            self.insert(group, (kept, row), start, end, note);
        }
        Ok(self)
    }
}

/// Group, start, end and note.
type SavedEntry = (u32, Time, Time, Time);

/// A synopsis of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedSynopsis {
    /// In the order in which they came; row `i` of `rows` is that of entry `i`.
    entries: Vec<SavedEntry>,
    rows: Option<Vec<u8>>,
}
