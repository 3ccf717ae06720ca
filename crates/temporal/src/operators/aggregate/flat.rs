//! The windowed aggregate over groups that are flat rows: the whole state of a group lies together, and what
//! comes and what goes are the same kind of change. It does what [`windowed`](super::windowed) does, for
//! keyed aggregates that are [vectors of words](super::vectors): there a group has a place in each of several
//! columns, here in one.
//!
//! Invariants: those of [`windowed`](super::windowed) and of [`live`](super::live). A group is alive if it
//! has rows or is touched; the dead keep their numbers until they outnumber the living. `panes` are in the
//! order of their ends.

use super::calls::Plan;
use super::emitter::{Emitter, NO_SNAPSHOT, SnapshotId};
use super::output_batch::Snapshots;
use super::vectors::{Change, Totals, Vectors};
use super::windowed::ungrouped_rows;
use crate::batch::{Batch, Message};
use crate::groups::Groups;
use crate::held::Held;
use crate::key::Key;
use crate::operator::{Operator, decode, encode};
use crate::runs::runs;
use crate::time::{BEGINNING, INFINITY, Time, end_after, start_before};
use datafusion::common::Result;
use std::collections::VecDeque;
use std::ops::Range;

/// More words than this are too many to be moved together.
pub(super) const MOST_WORDS: usize = 8;
/// How many rows are taken in at once: their changes stay in the nearest cache.
const PIECE: usize = 1024;

/// A group, beside its key. It is as small as it can be, for groups lie all over the memory.
#[derive(Debug, Clone, Copy)]
struct Group<const W: usize> {
    /// The snapshot that has begun and not ended.
    snapshot: SnapshotId,
    /// Twice the number of its rows, and one if it is touched.
    rows: i64,
    words: [i64; W],
}

impl<const W: usize> Group<W> {
    const NEW: Group<W> = Group { snapshot: NO_SNAPSHOT, rows: 0, words: [0; W] };

    #[inline(always)]
    fn is_touched(&self) -> bool {
        self.rows & 1 == 1
    }

    #[inline(always)]
    fn state(&self) -> Change<W> {
        Change { rows: self.rows >> 1, words: self.words }
    }

    /// Changes the group. The snapshot that has begun is over, and the group is touched.
    #[inline(always)]
    fn touch(&mut self, change: &Change<W>) {
        self.snapshot = NO_SNAPSHOT;
        self.rows = (self.rows + 2 * change.rows) | 1;
        self.words.iter_mut().zip(change.words).for_each(|(word, by)| *word = word.wrapping_add(by));
    }
}

/// What starts at one instant, and ends at one: parts of groups.
#[derive(Debug, Default)]
struct Pane<const W: usize> {
    end: Time,
    /// The group of each part.
    numbers: Vec<u32>,
    /// What each part adds to its group at the start, and takes back at the end.
    changes: Vec<Change<W>>,
}

/// See the module.
pub(super) struct Flat<const W: usize> {
    plan: Plan,
    vectors: Vectors,
    /// How many ticks a row lives.
    size: i64,
    now: Time,
    /// The rows of this instant, summed up by key.
    instant_keys: Groups,
    instant_states: Vec<Change<W>>,
    keys: Groups,
    groups: Vec<Group<W>>,
    touched: Vec<u32>,
    alive: usize,
    panes: VecDeque<Pane<W>>,
    /// The memory of panes that are over.
    spare: Vec<Pane<W>>,
    /// How many of the next rows are taken in without being summed up by key first.
    ungrouped: usize,
    emitter: Emitter,
    numbers: Vec<u32>,
    /// Room for the groups, their states and the ids of snapshots that end, or begin.
    chosen: Vec<u32>,
    states: Vec<Change<W>>,
    ids: Vec<SnapshotId>,
}

impl<const W: usize> Flat<W> {
    /// Aggregates over rows that live `size` ticks.
    pub fn new(plan: Plan, vectors: Vectors, size: i64, emitter: Emitter) -> Flat<W> {
        Flat {
            size,
            now: BEGINNING,
            instant_keys: Groups::new(&plan.key_types),
            instant_states: Vec::new(),
            keys: Groups::new(&plan.key_types),
            groups: Vec::new(),
            touched: Vec::new(),
            alive: 0,
            panes: VecDeque::new(),
            spare: Vec::new(),
            ungrouped: 0,
            emitter,
            numbers: Vec::new(),
            chosen: Vec::new(),
            states: Vec::new(),
            ids: Vec::new(),
            vectors,
            plan,
        }
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let mut batch = batch.compact()?;
        self.vectors.load(&self.plan.evaluate(&batch)?)?;
        let key = batch.key(&self.plan.key)?;
        for run in runs(&batch.sync) {
            self.advance(batch.sync[run.start], out)?;
            let ungrouped = self.ungrouped > 0;
            if ungrouped {
                self.settle()?;
                self.ungrouped = self.ungrouped.saturating_sub(run.len());
            }
            for first in run.clone().step_by(PIECE) {
                let piece = first..run.end.min(first + PIECE);
                match ungrouped {
                    true => self.add_each(&key, piece)?,
                    false => self.add_to_instant(&key, piece)?,
                }
            }
        }
        self.emitter.flush(out)
    }

    /// Sums up rows that start now by key.
    fn add_to_instant(&mut self, key: &Key, rows: Range<usize>) -> Result<()> {
        self.numbers.clear();
        self.instant_keys.intern(key, rows.clone(), &mut self.numbers)?;
        self.instant_states.resize(self.instant_keys.capacity(), Change::NONE);
        self.vectors.add(rows, &self.numbers, &mut self.instant_states);
        Ok(())
    }

    /// Takes in rows that start now, each as a part of its pane by itself.
    fn add_each(&mut self, key: &Key, rows: Range<usize>) -> Result<()> {
        let (mut pane, first) = self.pane();
        self.keys.intern(key, rows.clone(), &mut pane.numbers)?;
        self.vectors.changes(rows, &mut pane.changes);
        self.add(pane, first);
        Ok(())
    }

    /// Takes in what was summed up by key.
    fn settle(&mut self) -> Result<()> {
        if self.instant_states.is_empty() {
            return Ok(());
        }
        let (mut pane, first) = self.pane();
        self.keys.adopt(&self.instant_keys, &mut pane.numbers)?;
        pane.changes.append(&mut self.instant_states);
        self.instant_keys.clear();
        let parts = &pane.changes[first..];
        let rows = parts.iter().map(|part| part.rows).sum::<i64>() as usize;
        self.ungrouped = ungrouped_rows(parts.len(), rows);
        self.add(pane, first);
        Ok(())
    }

    /// The pane of what starts now, and how many parts it has.
    fn pane(&mut self) -> (Pane<W>, usize) {
        let end = end_after(self.now, self.size);
        let begun = self.panes.pop_back_if(|pane| pane.end == end);
        let mut pane = begun.or_else(|| self.spare.pop()).unwrap_or_default();
        pane.end = end;
        let parts = pane.numbers.len();
        (pane, parts)
    }

    /// Adds the parts of a pane from `first` on to their groups, and queues it for its end.
    fn add(&mut self, pane: Pane<W>, first: usize) {
        self.groups.resize(self.keys.capacity().max(self.groups.len()), Group::NEW);
        self.alter(&pane.numbers[first..], &pane.changes[first..], Change::clone, self.now);
        self.panes.push_back(pane);
    }

    /// The snapshots of these groups end at `now`, and their states change.
    fn alter(
        &mut self,
        numbers: &[u32],
        changes: &[Change<W>],
        change: impl Fn(&Change<W>) -> Change<W>,
        now: Time,
    ) {
        match self.emitter {
            Emitter::Edges(_) => self.alter_with::<true>(numbers, changes, change, now),
            Emitter::Intervals(_) => self.alter_with::<false>(numbers, changes, change, now),
        }
    }

    /// `STATES`: the emitter needs the states in which the groups were.
    fn alter_with<const STATES: bool>(
        &mut self,
        numbers: &[u32],
        changes: &[Change<W>],
        change: impl Fn(&Change<W>) -> Change<W>,
        now: Time,
    ) {
        let Flat { groups, touched, chosen, states, ids, .. } = self;
        let first = touched.len();
        touched.resize(first + numbers.len(), 0);
        grow(ids, numbers.len(), NO_SNAPSHOT);
        if STATES {
            grow(chosen, numbers.len(), 0);
            grow(states, numbers.len(), Change::NONE);
        }
        let (mut touches, mut ends, mut born) = (first, 0, 0);
        for (&number, by) in numbers.iter().zip(changes) {
            let group = &mut groups[number as usize];
            touched[touches] = number;
            touches += !group.is_touched() as usize;
            born += (group.rows == 0) as usize;
            ids[ends] = group.snapshot;
            if STATES {
                chosen[ends] = number;
                states[ends] = group.state();
            }
            ends += (group.snapshot != NO_SNAPSHOT) as usize;
            group.touch(&change(by));
        }
        touched.truncate(touches);
        self.alive += born;
        let kept = if STATES { ends } else { 0 };
        let results = &Totals { vectors: &self.vectors, states: &self.states[..kept] };
        let of = Snapshots { keys: &self.keys, groups: &self.chosen[..kept], results };
        self.emitter.end(now, of, &self.ids[..ends]);
    }

    /// Time passes `now`: new snapshots of the touched groups begin; those without rows are dead.
    fn commit(&mut self, now: Time, out: &mut Vec<Message>) -> Result<()> {
        if self.touched.is_empty() {
            return Ok(());
        }
        let Flat { groups, touched, chosen, states, .. } = self;
        grow(chosen, touched.len(), 0);
        grow(states, touched.len(), Change::NONE);
        let new_ids = self.emitter.next_ids(now);
        let mut begins = 0;
        for &number in touched.iter() {
            let group = &mut groups[number as usize];
            group.rows &= !1;
            let lives = group.rows > 0;
            group.snapshot = if lives { new_ids.nth(begins) } else { NO_SNAPSHOT };
            chosen[begins] = number;
            states[begins] = group.state();
            begins += lives as usize;
        }
        self.alive -= touched.len() - begins;
        touched.clear();
        let results = &Totals { vectors: &self.vectors, states: &self.states[..begins] };
        self.emitter.begin(now, Snapshots { keys: &self.keys, groups: &self.chosen[..begins], results });
        self.forget_dead();
        self.emitter.flush_full(out)
    }

    /// Forgets the dead groups once they outnumber the living.
    fn forget_dead(&mut self) {
        let dead = self.keys.len() - self.alive;
        if dead >= 1024 && dead > self.alive {
            let groups = &self.groups;
            self.keys.remove_all(|group| groups[group as usize].rows == 0);
        }
    }

    /// Moves time to `time`, and emits everything before it.
    fn advance(&mut self, time: Time, out: &mut Vec<Message>) -> Result<()> {
        if time <= self.now {
            return Ok(());
        }
        self.settle()?;
        self.commit(self.now, out)?;
        while let Some(mut pane) = self.panes.pop_front_if(|pane| pane.end <= time && pane.end < INFINITY) {
            let end = pane.end;
            self.alter(&pane.numbers, &pane.changes, Change::negated, end);
            pane.numbers.clear();
            pane.changes.clear();
            self.spare.push(pane);
            if end < time {
                self.commit(end, out)?;
            }
        }
        self.now = time;
        Ok(())
    }
}

/// Room for so many. What is there already stays, to be written over.
fn grow<T: Clone>(room: &mut Vec<T>, len: usize, with: T) {
    room.resize(room.len().max(len), with);
}

/// Changes of a checkpoint: how many rows each has, and the words of all, one change after another.
type SavedChanges = (Vec<i64>, Vec<i64>);

fn saved<const W: usize>(changes: impl Iterator<Item = Change<W>>) -> SavedChanges {
    let (rows, words): (Vec<i64>, Vec<[i64; W]>) = changes.map(|change| (change.rows, change.words)).unzip();
    (rows, words.as_flattened().to_vec())
}

fn restored<const W: usize>((rows, words): SavedChanges) -> Vec<Change<W>> {
    let mut words = words.into_iter();
    let mut word = |_| words.next().unwrap_or_default();
    rows.into_iter().map(|rows| Change { rows, words: std::array::from_fn(&mut word) }).collect()
}

impl<const W: usize> Operator for Flat<W> {
    fn held(&self) -> Held {
        let first = self.panes.front().map_or(Some(self.now), |pane| start_before(pane.end, self.size));
        Held::saved(self.alive.max(self.instant_keys.len()), first, self.save())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out),
            Message::Punctuation(time) => {
                self.advance(time, out)?;
                self.emitter.punctuation(time, out)
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        let instant = (&self.instant_keys, saved(self.instant_states.iter().copied()));
        let snapshots: Vec<SnapshotId> = self.groups.iter().map(|group| group.snapshot).collect();
        let groups = (&self.keys, snapshots, saved(self.groups.iter().map(Group::state)));
        let pane = |pane: &Pane<W>| (pane.end, pane.numbers.clone(), saved(pane.changes.iter().copied()));
        let panes: Vec<_> = self.panes.iter().map(pane).collect();
        encode(&(
            self.now,
            self.ungrouped,
            instant,
            groups,
            &self.touched,
            self.alive,
            panes,
            self.emitter.save()?,
        ))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (instant, groups): (SavedChanges, SavedChanges);
        let snapshots: Vec<SnapshotId>;
        let panes: Vec<(Time, Vec<u32>, SavedChanges)>;
        let emitter: Vec<u8>;
        (
            self.now,
            self.ungrouped,
            (self.instant_keys, instant),
            (self.keys, snapshots, groups),
            self.touched,
            self.alive,
            panes,
            emitter,
        ) = decode(state)?;
        self.instant_states = restored(instant);
        let group = |(snapshot, Change { rows, words })| Group { snapshot, rows: 2 * rows, words };
        self.groups = snapshots.into_iter().zip(restored(groups)).map(group).collect();
        self.touched.iter().for_each(|&touched| self.groups[touched as usize].rows |= 1);
        let pane = |(end, numbers, changes): (Time, Vec<u32>, SavedChanges)| Pane {
            end,
            numbers,
            changes: restored(changes),
        };
        self.panes = panes.into_iter().map(pane).collect();
        self.emitter.restore(&emitter)
    }
}
