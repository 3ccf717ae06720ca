//! The rows alive on one side of an operator (trill.txt §5.2.3: the synopsis), by key, with the queue of
//! their ends.
//!
//! Invariants: rows are not copied in: an entry points into the batch it came with, which is kept while it
//! has entries, and when most of what is kept is dead the living rows are moved together. The entries of a
//! group form a list in the order in which they came. `ends` holds every entry with a known end; an item
//! whose entry has gone, or whose place was taken by another, is skipped (`number` tells them apart).

use crate::checkpoint::{restore_rows, save_rows};
use crate::places;
use crate::time::{INFINITY, Time};
use arrow::array::{Array, RecordBatch};
use datafusion::common::{Result, exec_err};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Stands for no entry: the end of a list.
const NONE: u32 = u32::MAX;

/// Where a row is: which kept batch, and which row of it.
pub(crate) type RowRef = (u32, u32);

/// The number of an entry while it is alive.
pub(crate) type EntryId = u32;

/// A row that is alive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub group: u32,
    pub start: Time,
    /// [`INFINITY`]: not known yet.
    pub end: Time,
    /// What the operator remembers of it.
    pub note: Time,
    pub row: RowRef,
    /// How many entries were inserted before it: the order in which rows came.
    number: u64,
    /// Its neighbours in the list of its group.
    next: u32,
    previous: u32,
    /// False: the place of the entry is free.
    alive: bool,
}

/// A batch that entries point into.
#[derive(Debug)]
struct Kept {
    rows: RecordBatch,
    /// How many entries that are alive point into it.
    entries: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Synopsis {
    entries: Vec<Entry>,
    free: Vec<EntryId>,
    /// First and last entry of each group.
    lists: Vec<(u32, u32)>,
    /// The first end is on top, with the number and the id of its entry.
    ends: BinaryHeap<Reverse<(Time, u64, EntryId)>>,
    /// The entries of each group and start whose ends are not known, in the order in which they came. Made
    /// when the first end edge comes.
    open: Option<HashMap<(u32, Time), Vec<EntryId>>>,
    /// None: the place is free.
    kept: Vec<Option<Kept>>,
    free_kept: Vec<u32>,
    /// The number of the next entry.
    numbers: u64,
    living: usize,
    /// The rows of all kept batches, dead ones included.
    kept_rows: usize,
}

impl Synopsis {
    /// Keeps a batch whose rows may be inserted next.
    /// Its place is the first half of a [`RowRef`].
    pub fn keep(&mut self, rows: RecordBatch) -> u32 {
        self.kept_rows += rows.num_rows();
        let kept = Some(Kept { rows, entries: 0 });
        match self.free_kept.pop() {
            Some(place) => {
                self.kept[place as usize] = kept;
                place
            }
            None => {
                self.kept.push(kept);
                self.kept.len() as u32 - 1
            }
        }
    }

    /// Adds a row at the end of its group's list.
    /// It takes constant time, or, where the end is known, time logarithmic in the queue of ends.
    pub fn insert(&mut self, group: u32, row: RowRef, start: Time, end: Time, note: Time) -> EntryId {
        if self.lists.len() <= group as usize {
            self.lists.resize(group as usize + 1, (NONE, NONE));
        }
        let number = self.numbers;
        self.numbers += 1;
        let previous = self.lists[group as usize].1;
        let entry = Entry { group, start, end, note, row, number, next: NONE, previous, alive: true };
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        match previous {
            NONE => self.lists[group as usize].0 = id,
            last => self.entries[last as usize].next = id,
        }
        self.lists[group as usize].1 = id;
        if let Some(kept) = &mut self.kept[row.0 as usize] {
            kept.entries += 1;
        }
        match &mut self.open {
            _ if end < INFINITY => self.ends.push(Reverse((end, number, id))),
            Some(open) => open.entry((group, start)).or_default().push(id),
            None => {}
        }
        self.living += 1;
        id
    }

    /// Takes a row out. Its batch stays until [`tidy`](Synopsis::tidy).
    pub fn remove(&mut self, id: EntryId) {
        self.forget_open(id);
        let Entry { group, next, previous, row, .. } = self.entries[id as usize];
        match previous {
            NONE => self.lists[group as usize].0 = next,
            before => self.entries[before as usize].next = next,
        }
        match next {
            NONE => self.lists[group as usize].1 = previous,
            after => self.entries[after as usize].previous = previous,
        }
        self.entries[id as usize].alive = false;
        self.free.push(id);
        if let Some(kept) = &mut self.kept[row.0 as usize] {
            kept.entries -= 1;
        }
        self.living -= 1;
    }

    pub fn get(&self, id: EntryId) -> &Entry {
        &self.entries[id as usize]
    }

    /// Takes an entry whose end is not known out of the open ones.
    fn forget_open(&mut self, id: EntryId) {
        let Entry { group, start, end: INFINITY, .. } = self.entries[id as usize] else { return };
        let Some(open) = &mut self.open else { return };
        let Some(entries) = open.get_mut(&(group, start)) else { return };
        if let Some(place) = entries.iter().position(|entry| *entry == id) {
            entries.remove(place);
        }
        if entries.is_empty() {
            open.remove(&(group, start));
        }
    }

    /// Says when a row whose end was not known ends.
    pub fn close(&mut self, id: EntryId, end: Time) {
        self.forget_open(id);
        let entry = &mut self.entries[id as usize];
        entry.end = end;
        self.ends.push(Reverse((end, entry.number, id)));
    }

    /// How many rows are alive.
    pub fn count(&self) -> usize {
        self.living
    }

    /// Sets what the operator remembers of a row.
    pub fn note(&mut self, id: EntryId, note: Time) {
        self.entries[id as usize].note = note;
    }

    /// Whether a group has no rows.
    pub fn is_empty(&self, group: u32) -> bool {
        self.lists.get(group as usize).is_none_or(|l| l.0 == NONE)
    }

    /// The entries of a group, in order.
    pub fn of(&self, group: u32) -> impl Iterator<Item = (EntryId, &Entry)> {
        let mut at = self.lists.get(group as usize).map_or(NONE, |l| l.0);
        std::iter::from_fn(move || {
            let entry = self.entries.get(at as usize)?;
            let id = std::mem::replace(&mut at, entry.next);
            Some((id, entry))
        })
    }

    /// The start edge of `group` that began at `start` with the same payload as this row.
    /// All that began then may be looked at; of several that are equal the first that came is found.
    pub fn open_edge(&mut self, group: u32, start: Time, rows: &RecordBatch, row: usize) -> Option<EntryId> {
        if self.open.is_none() {
            self.open = Some(self.all_open());
        }
        let same = |entry: &Entry| {
            let Some(kept) = &self.kept[entry.row.0 as usize] else { return false };
            kept.rows
                .columns()
                .iter()
                .zip(rows.columns())
                .all(|(a, b)| a.slice(entry.row.1 as usize, 1).as_ref() == b.slice(row, 1).as_ref())
        };
        let open = self.open.as_ref()?.get(&(group, start))?;
        open.iter().find(|id| same(&self.entries[**id as usize])).copied()
    }

    /// The entries whose ends are not known, by group and start.
    fn all_open(&self) -> HashMap<(u32, Time), Vec<EntryId>> {
        let mut open: HashMap<_, Vec<EntryId>> = HashMap::new();
        for (id, entry) in self.all().filter(|(_, entry)| entry.end == INFINITY) {
            open.entry((entry.group, entry.start)).or_default().push(id);
        }
        open
    }

    /// The rows that started at `time`, in order.
    pub fn started_at(&self, time: Time) -> Vec<EntryId> {
        self.in_order().into_iter().filter(|&id| self.entries[id as usize].start == time).collect()
    }

    /// All rows alive, in order.
    pub fn all(&self) -> impl Iterator<Item = (EntryId, &Entry)> {
        self.in_order().into_iter().map(|id| (id, &self.entries[id as usize]))
    }

    /// The first known end among the rows alive.
    pub fn next_end(&mut self) -> Option<Time> {
        while let Some(Reverse((end, number, id))) = self.ends.peek() {
            let entry = &self.entries[*id as usize];
            if entry.alive && entry.number == *number {
                return Some(*end);
            }
            self.ends.pop();
        }
        None
    }

    /// The entry that ends next, if it ends at `time`.
    pub fn ending_at(&mut self, time: Time) -> Option<EntryId> {
        (self.next_end()? == time).then(|| self.ends.peek().map(|Reverse((_, _, id))| *id))?
    }

    /// The rows at these places.
    pub fn gather(&self, rows: &[RowRef]) -> Result<RecordBatch> {
        let mut place_of = vec![NONE; self.kept.len()];
        let mut batches = Vec::new();
        let mut indices = Vec::with_capacity(rows.len());
        for &(kept, row) in rows {
            let place = &mut place_of[kept as usize];
            if *place == NONE {
                *place = batches.len() as u32;
                batches.extend(self.kept[kept as usize].as_ref().map(|k| &k.rows));
            }
            indices.push((*place as usize, row as usize));
        }
        Ok(places::interleave(&batches, &indices)?)
    }

    /// Lets go of batches without living rows, and moves the living together if they are few among the dead.
    /// Afterwards at most 4096 rows more than twice the living are kept, and a batch for every 64 living
    /// rows beside 64 others.
    /// Places of rows mean nothing afterwards.
    pub fn tidy(&mut self) -> Result<()> {
        for (place, kept) in self.kept.iter_mut().enumerate() {
            if let Some(Kept { rows, entries: 0 }) = kept {
                self.kept_rows -= rows.num_rows();
                *kept = None;
                self.free_kept.push(place as u32);
            }
        }
        let batches = self.kept.len() - self.free_kept.len();
        if self.kept_rows > 4096 + 2 * self.living || batches > 64 + self.living / 64 {
            self.move_together()?;
        }
        Ok(())
    }

    /// Copies the living rows into one batch, in the order in which they came.
    fn move_together(&mut self) -> Result<()> {
        let ids = self.in_order();
        if ids.is_empty() {
            return Ok(());
        }
        let places: Vec<RowRef> = ids.iter().map(|&id| self.entries[id as usize].row).collect();
        let rows = self.gather(&places)?;
        for (row, &id) in ids.iter().enumerate() {
            self.entries[id as usize].row = (0, row as u32);
        }
        self.kept_rows = rows.num_rows();
        self.kept = vec![Some(Kept { rows, entries: ids.len() as u32 })];
        self.free_kept.clear();
        Ok(())
    }

    /// The living entries in the order in which they came: one look at each place, and a sort.
    fn in_order(&self) -> Vec<EntryId> {
        let mut ids: Vec<EntryId> =
            (0..self.entries.len() as u32).filter(|&i| self.entries[i as usize].alive).collect();
        ids.sort_unstable_by_key(|&id| self.entries[id as usize].number);
        ids
    }

    /// The entries in order, and their rows.
    pub fn save(&self) -> Result<SavedSynopsis> {
        let ids = self.in_order();
        let entries: Vec<Entry> = ids.iter().map(|&id| self.entries[id as usize].clone()).collect();
        let places: Vec<RowRef> = entries.iter().map(|e| e.row).collect();
        let rows = if places.is_empty() { None } else { Some(save_rows(&self.gather(&places)?)?) };
        Ok(SavedSynopsis { entries, rows })
    }

    /// The same rows again; the numbers of entries are new: those of [`save`](Synopsis::save)d order.
    pub fn restore(saved: SavedSynopsis) -> Result<Synopsis> {
        let mut synopsis = Synopsis::default();
        if let Some(rows) = saved.rows {
            let rows = restore_rows(&rows)?;
            if rows.num_rows() != saved.entries.len() {
                return exec_err!(
                    "the checkpoint has rows without lifetimes, or the reverse; take a new one"
                );
            }
            let kept = synopsis.keep(rows);
            for (row, e) in saved.entries.iter().enumerate() {
                synopsis.insert(e.group, (kept, row as u32), e.start, e.end, e.note);
            }
        }
        Ok(synopsis)
    }
}

/// A synopsis of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedSynopsis {
    /// In the order in which they came; row `i` of `rows` is that of entry `i`.
    entries: Vec<Entry>,
    rows: Option<Vec<u8>>,
}
