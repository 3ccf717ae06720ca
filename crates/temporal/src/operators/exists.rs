//! `where_exists` and `where_not_exists`: the temporal semi- and anti-join (trill.txt §5.2.4).
//!
//! A left row is in the result at the instants at which some (no) right row of its key is alive.
//!
//! Invariants: `matches[g]` counts the right rows of group `g` alive now; the note of a left entry is the start of the
//! piece of its lifetime that has been told, or `HIDDEN`. Within an instant rows are taken in as they come, and what is
//! to be seen is decided once, when time has passed the instant; if nothing can change before a row ends, the piece is
//! told as an interval at once.

use crate::batch::{Batch, Message};
use crate::groups::Groups;
use crate::key::Key;
use crate::merge::TimeMerge;
use crate::operator::{Operator, decode, encode};
use crate::operators::rows_out::RowsOut;
use crate::operators::runs::runs;
use crate::synopsis::{EntryId, SavedSynopsis, Synopsis};
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use std::collections::BTreeMap;

/// The row is not in the result at present.
const HIDDEN: Time = INFINITY;

/// Keeps the left rows while right rows of their key are alive, or while none is.
pub struct Exists {
    negate: bool,
    keys: [Vec<usize>; 2],
    nulls_equal: bool,
    merge: TimeMerge,
    groups: Option<Groups>,
    left: Synopsis,
    matches: Vec<i64>,
    /// Right rows that end at each coming instant, by group.
    right_ends: BTreeMap<Time, Vec<u32>>,
    now: Time,
    arrived: Vec<EntryId>,
    changed: Vec<(u32, i64)>,
    numbers: Vec<u32>,
    rows: RowsOut,
}

impl Exists {
    /// `where_not_exists` if `negate`, else `where_exists`; a row's key are these columns of its side.
    pub fn new(negate: bool, left_key: Vec<usize>, right_key: Vec<usize>) -> Exists {
        Exists {
            negate,
            keys: [left_key, right_key],
            nulls_equal: false,
            merge: TimeMerge::new(2),
            groups: None,
            left: Synopsis::default(),
            matches: Vec::new(),
            right_ends: BTreeMap::new(),
            now: BEGINNING,
            arrived: Vec::new(),
            changed: Vec::new(),
            numbers: Vec::new(),
            rows: RowsOut::default(),
        }
    }

    /// The same, but a null equals a null.
    pub fn nulls_equal(self) -> Exists {
        Exists { nulls_equal: true, ..self }
    }

    fn batch(&mut self, side: usize, batch: Batch) -> Result<()> {
        let mut batch = batch.compact()?;
        let key = batch.key(&self.keys[side])?;
        let types: Vec<DataType> =
            self.keys[side].iter().map(|&c| batch.rows.column(c).data_type().clone()).collect();
        let nulls = if self.nulls_equal { None } else { Key::nulls(&batch.rows, &self.keys[side]) };
        let matches = |row: usize| nulls.as_ref().is_none_or(|n| n.is_valid(row));
        let kept = if side == 0 { self.left.keep(batch.rows.clone()) } else { 0 };
        for run in runs(&batch.sync) {
            self.advance(batch.sync[run.start]);
            let mut numbers = std::mem::take(&mut self.numbers);
            numbers.clear();
            let groups = self.groups.get_or_insert_with(|| Groups::new(&types));
            groups.intern(&key, run.clone(), &mut numbers)?;
            let capacity = groups.capacity().max(self.matches.len());
            self.matches.resize(capacity, 0);
            for (row, &group) in run.zip(&numbers) {
                match side {
                    0 => self.left_row(&batch, row, group, kept),
                    _ if matches(row) => self.right_row(&batch, row, group),
                    // A null key equals nothing.
                    _ => self.changed.push((group, self.matches[group as usize])),
                }
            }
            self.numbers = numbers;
        }
        Ok(())
    }

    fn left_row(&mut self, batch: &Batch, row: usize, group: u32, kept: u32) {
        let (sync, other) = (batch.sync[row], batch.other_at(row));
        match Kind::of(sync, other) {
            Kind::End => match self.left.open_edge(group, other, &batch.rows, row) {
                Some(id) => self.retire(id, sync),
                None => self.changed.push((group, self.matches[group as usize])),
            },
            _ => {
                let id = self.left.insert(group, (kept, row as u32), sync, other, HIDDEN);
                self.arrived.push(id);
            }
        }
    }

    fn right_row(&mut self, batch: &Batch, row: usize, group: u32) {
        let (sync, other) = (batch.sync[row], batch.other_at(row));
        let kind = Kind::of(sync, other);
        self.count(group, if kind == Kind::End { -1 } else { 1 });
        if kind == Kind::Interval {
            self.right_ends.entry(other).or_default().push(group);
        }
    }

    fn count(&mut self, group: u32, by: i64) {
        self.changed.push((group, self.matches[group as usize]));
        self.matches[group as usize] += by;
    }

    /// A left row ends: so does the piece of it that has been told.
    fn retire(&mut self, id: EntryId, time: Time) {
        let entry = self.left.get(id);
        if entry.note != HIDDEN {
            self.rows.push(time, entry.note, entry.row);
        }
        self.changed.push((entry.group, self.matches[entry.group as usize]));
        self.left.remove(id);
    }

    /// The next instant, up to `time`, at which something ends.
    fn next_end(&mut self, time: Time) -> Time {
        let right = self.right_ends.first_key_value().map_or(INFINITY, |(&t, _)| t);
        self.left.next_end().unwrap_or(INFINITY).min(right).min(time)
    }

    fn advance(&mut self, time: Time) {
        while self.now < time {
            let right = self.right_ends.first_key_value().map_or(time, |(&t, _)| t.min(time));
            self.commit(right);
            self.now = self.next_end(time);
            while let Some(id) = self.left.ending_at(self.now) {
                self.retire(id, self.now);
            }
            for group in self.right_ends.remove(&self.now).unwrap_or_default() {
                self.count(group, -1);
            }
        }
    }

    /// Time passes `now`, and the right side stays as it is until `horizon`: tells what is to be seen.
    fn commit(&mut self, horizon: Time) {
        for id in std::mem::take(&mut self.arrived) {
            let entry = self.left.get(id);
            if !self.visible(entry.group) {
                continue;
            }
            if entry.end <= horizon && entry.end < INFINITY {
                self.rows.push(self.now, entry.end, entry.row);
                self.changed.push((entry.group, self.matches[entry.group as usize]));
                self.left.remove(id);
            } else {
                self.rows.push(self.now, INFINITY, entry.row);
                self.left.note(id, self.now);
            }
        }
        let changed = std::mem::take(&mut self.changed);
        for &(group, before) in &changed {
            if (before == 0) != (self.matches[group as usize] == 0) {
                self.reconsider(group);
            }
        }
        for &(group, _) in &changed {
            self.forget_if_empty(group);
        }
        self.changed = changed;
        self.changed.clear();
    }

    fn visible(&self, group: u32) -> bool {
        (self.matches[group as usize] == 0) == self.negate
    }

    /// Shows or hides the rows of a group as its matches now ask.
    fn reconsider(&mut self, group: u32) {
        let visible = self.visible(group);
        let ids: Vec<EntryId> =
            self.left.of(group).filter(|(_, e)| (e.note != HIDDEN) != visible).map(|(id, _)| id).collect();
        for id in ids {
            let entry = self.left.get(id);
            match visible {
                true => self.rows.push(self.now, INFINITY, entry.row),
                false => self.rows.push(self.now, entry.note, entry.row),
            }
            self.left.note(id, if visible { self.now } else { HIDDEN });
        }
    }

    fn forget_if_empty(&mut self, group: u32) {
        if self.matches[group as usize] == 0
            && self.left.is_empty(group)
            && let Some(groups) = &mut self.groups
        {
            groups.remove(group);
        }
    }

    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.rows.flush(&self.left, out)?;
        self.left.tidy()
    }
}

impl Operator for Exists {
    fn inputs(&self) -> usize {
        2
    }

    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        self.merge.push(input, message);
        while let Some((side, message)) = self.merge.next() {
            match message {
                Message::Batch(batch) => self.batch(side, batch)?,
                Message::Punctuation(time) => {
                    self.advance(time);
                    self.flush(out)?;
                    out.push(Message::Punctuation(time));
                }
            }
        }
        self.flush(out)
    }

    fn save(&self) -> Result<Vec<u8>> {
        // The entries that arrived at the present instant are known by their start.
        let state = (&self.groups, &self.matches, &self.right_ends, self.now, &self.changed);
        encode(&(self.merge.save()?, state, self.left.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (merge, left): (_, SavedSynopsis);
        (merge, (self.groups, self.matches, self.right_ends, self.now, self.changed), left) = decode(state)?;
        self.merge = TimeMerge::restore(merge)?;
        self.left = Synopsis::restore(left)?;
        self.arrived = self.left.started_at(self.now);
        Ok(())
    }
}
