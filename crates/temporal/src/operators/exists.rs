//! `where_exists` and `where_not_exists`: the temporal semi- and anti-join (trill.txt §5.2.4).
//!
//! A left row is in the result at the instants at which some (no) right row of its key is alive.
//!
//! Invariants: `matches[g]` counts the right rows of group `g` alive now; the note of a left entry is the
//! start of the piece of its lifetime that has been emitted, or `HIDDEN`. Within an instant rows are taken in
//! as they come, and which are visible is decided once, when time has passed the instant; if nothing can
//! change before a row ends, the piece is emitted as an interval at once.

use crate::batch::Message;
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::keyed_inputs::{Arrival, KeyedInputs, Pairing, SavedInputs};
use crate::operators::rows_out::RowsOut;
use crate::synopsis::{EntryId, SavedSynopsis, Synopsis};
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use datafusion::common::Result;
use std::collections::BTreeMap;

/// The row is not in the result at present.
const HIDDEN: Time = INFINITY;

/// Keeps the left rows while right rows of their key are alive, or while none is.
pub struct Exists {
    inputs: KeyedInputs,
    state: State,
}

#[derive(Debug)]
struct State {
    negate: bool,
    left: Synopsis,
    matches: Vec<i64>,
    /// Right rows that end at each coming instant, by group.
    right_ends: BTreeMap<Time, Vec<u32>>,
    now: Time,
    arrived: Vec<EntryId>,
    /// The groups whose matches have changed now, with how many they had before.
    changed: Vec<(u32, i64)>,
    rows: RowsOut,
}

impl Exists {
    /// `where_not_exists` if `negate`, else `where_exists`; a row's key are these columns of its side.
    pub fn new(negate: bool, left_key: Vec<usize>, right_key: Vec<usize>) -> Exists {
        let state = State {
            negate,
            left: Synopsis::default(),
            matches: Vec::new(),
            right_ends: BTreeMap::new(),
            now: BEGINNING,
            arrived: Vec::new(),
            changed: Vec::new(),
            rows: RowsOut::default(),
        };
        Exists { inputs: KeyedInputs::new(left_key, right_key), state }
    }

    /// The same, but a null equals a null.
    pub fn nulls_equal(self) -> Exists {
        Exists { inputs: self.inputs.nulls_equal(), ..self }
    }
}

impl Pairing for State {
    fn synopsis(&mut self, side: usize) -> Option<&mut Synopsis> {
        (side == 0).then_some(&mut self.left)
    }

    fn expect(&mut self, _side: usize, _groups: &[u32], capacity: usize) {
        self.matches.resize(capacity.max(self.matches.len()), 0);
    }

    fn arrive(&mut self, row: Arrival) {
        match row.side {
            0 => self.left_row(row),
            _ if row.matches => self.right_row(row),
            // A null key equals nothing.
            _ => {}
        }
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

    fn empty_groups(&self) -> impl Fn(u32) -> bool {
        |group| {
            self.matches.get(group as usize).is_none_or(|matches| *matches == 0) && self.left.is_empty(group)
        }
    }

    fn flush(&mut self, out: &mut Vec<Message>) -> Result<bool> {
        self.rows.flush(&self.left, out)?;
        self.left.tidy()?;
        Ok(false)
    }
}

impl State {
    fn left_row(&mut self, row: Arrival) {
        let (sync, other) = (self.now, row.other());
        match row.kind() {
            Kind::End => {
                if let Some(id) = self.left.open_edge(row.group, other, &row.batch.rows, row.row) {
                    self.retire(id, sync);
                }
            }
            _ => self.arrived.push(self.left.insert(row.group, row.place, sync, other, HIDDEN)),
        }
    }

    /// Counts a right row; an interval is queued for its end.
    fn right_row(&mut self, row: Arrival) {
        let kind = row.kind();
        self.count(row.group, if kind == Kind::End { -1 } else { 1 });
        if kind == Kind::Interval {
            self.right_ends.entry(row.other()).or_default().push(row.group);
        }
    }

    /// The matches of a group change by so many.
    fn count(&mut self, group: u32, by: i64) {
        self.changed.push((group, self.matches[group as usize]));
        self.matches[group as usize] += by;
    }

    /// A left row ends: so does the piece of it that has been emitted.
    fn retire(&mut self, id: EntryId, time: Time) {
        let entry = self.left.get(id);
        if entry.note != HIDDEN {
            self.rows.push(time, entry.note, entry.row);
        }
        self.left.remove(id);
    }

    /// The next instant, up to `time`, at which something ends.
    fn next_end(&mut self, time: Time) -> Time {
        let right = self.right_ends.first_key_value().map_or(INFINITY, |(&t, _)| t);
        self.left.next_end().unwrap_or(INFINITY).min(right).min(time)
    }

    /// Time passes `now`, and the right side stays as it is until `horizon`: emits what is visible.
    fn commit(&mut self, horizon: Time) {
        for id in std::mem::take(&mut self.arrived) {
            let entry = self.left.get(id);
            if !self.visible(id.group) {
                continue;
            }
            if entry.end <= horizon && entry.end < INFINITY {
                self.rows.push(self.now, entry.end, entry.row);
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
        self.changed = changed;
        self.changed.clear();
    }

    /// Whether the left rows of a group are in the result now.
    fn visible(&self, group: u32) -> bool {
        (self.matches[group as usize] == 0) == self.negate
    }

    /// Shows or hides the rows of a group as its matches now ask.
    /// Only a count that reaches 0 or leaves it asks for this look at all left rows of the group (trill.txt
    /// §5.2.4).
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
}

impl Operator for Exists {
    fn held(&self) -> Held {
        let State { left, matches, right_ends, .. } = &self.state;
        let ends: usize = right_ends.values().map(Vec::len).sum();
        // Of the right rows only their groups and ends are kept.
        let right = Held {
            rows: matches.iter().sum::<i64>() as usize,
            bytes: size_of_val(&matches[..]) + ends * size_of::<u32>(),
            oldest: None,
        };
        self.inputs.held().and(left.held()).and(right)
    }

    fn inputs(&self) -> usize {
        2
    }

    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        self.inputs.push(&mut self.state, input, message, out)
    }

    fn save(&self) -> Result<Vec<u8>> {
        let State { left, matches, right_ends, now, changed, .. } = &self.state;
        // The entries that arrived at the present instant are known by their start.
        encode(&(self.inputs.save()?, (matches, right_ends, now, changed), left.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let Exists { inputs, state: own } = self;
        let (saved, left): (SavedInputs, SavedSynopsis);
        (saved, (own.matches, own.right_ends, own.now, own.changed), left) = decode(state)?;
        inputs.restore(saved)?;
        own.left = Synopsis::restore(left)?;
        own.arrived = own.left.started_at(own.now);
        Ok(())
    }
}
