//! The groups with rows alive, and the snapshot of each that has begun.
//!
//! Invariants: a group without rows is dead: its state is initial, and it keeps its number until the dead
//! outnumber the living, when all of them are forgotten at once; keys tend to come back, and coming back
//! is then free. Within one instant a group is first [`touch`](Live::touch)ed (its snapshot ends), then
//! its state is changed, then, when time has passed the instant, [`commit`](Live::commit)ted (the new
//! snapshot begins, or the group is dead).
//!
//! What a group has beside its state lies together, and what decides about it are numbers, not branches:
//! which groups come, stay and go is nothing that a processor can foresee.

use super::calls::{Plan, States};
use super::emitter::{Emitter, NO_SNAPSHOT, SnapshotId};
use super::leaving::Leaving;
use super::output_batch::Snapshots;
use crate::batch::Message;
use crate::groups::Groups;
use crate::operator::{decode, encode};
use crate::time::Time;
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// A group, beside its key and its state.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Life {
    /// How many of its rows are alive.
    rows: i64,
    /// The snapshot that has begun and not ended.
    snapshot: SnapshotId,
    /// Whether it is touched.
    touched: bool,
    /// Whether it has been committed without rows.
    dead: bool,
}

const NEW: Life = Life { rows: 0, snapshot: NO_SNAPSHOT, touched: false, dead: false };

/// See the module.
#[derive(Debug)]
pub(super) struct Live {
    pub groups: Groups,
    pub states: States,
    lives: Vec<Life>,
    touched: Vec<u32>,
    dead: usize,
    /// Snapshots without values: an unchanged one is not emitted again.
    keys_only: bool,
    emitter: Emitter,
    /// The groups and their numbers of rows of snapshots that end, or begin, and the ids of those that
    /// end.
    chosen: Vec<u32>,
    rows: Vec<i64>,
    ids: Vec<SnapshotId>,
    /// The groups that have just lost their last row.
    emptied: Vec<u32>,
}

impl Live {
    pub fn new(plan: &Plan, leaving: Leaving, emitter: Emitter) -> Result<Live> {
        Ok(Live {
            groups: Groups::new(&plan.key_types),
            states: plan.states_beside_rows(leaving)?,
            lives: Vec::new(),
            touched: Vec::new(),
            dead: 0,
            keys_only: plan.calls.is_empty(),
            emitter,
            chosen: Vec::new(),
            rows: Vec::new(),
            ids: Vec::new(),
            emptied: Vec::new(),
        })
    }

    /// How many groups have rows alive.
    pub fn living(&self) -> usize {
        self.groups.len().saturating_sub(self.dead)
    }

    /// Makes room for all groups there are.
    pub fn grow(&mut self) {
        let capacity = self.groups.capacity();
        self.lives.resize(capacity.max(self.lives.len()), NEW);
        self.states.grow(capacity);
    }

    /// Says that these groups (one or several times each) are about to change at `now`: each by so many
    /// rows.
    pub fn touch(&mut self, groups: &[u32], changes: impl Iterator<Item = i64>, now: Time) {
        let Live { lives, touched, dead, keys_only, chosen, rows, ids, .. } = self;
        let first = touched.len();
        touched.resize(first + groups.len(), 0);
        chosen.resize(groups.len(), 0);
        rows.resize(groups.len(), 0);
        ids.resize(groups.len(), NO_SNAPSHOT);
        let (mut touches, mut ends) = (first, 0);
        for (&group, change) in groups.iter().zip(changes) {
            let life = &mut lives[group as usize];
            touched[touches] = group;
            touches += !life.touched as usize;
            life.touched = true;
            *dead -= life.dead as usize;
            life.dead = false;
            chosen[ends] = group;
            rows[ends] = life.rows;
            life.rows += change;
            ids[ends] = life.snapshot;
            let ended = (life.snapshot != NO_SNAPSHOT) & !*keys_only;
            ends += ended as usize;
            life.snapshot = if ended { NO_SNAPSHOT } else { life.snapshot };
        }
        touched.truncate(touches);
        let Live { groups: keys, states, .. } = self;
        let groups = &self.chosen[..ends];
        let results = &states.results(groups, &self.rows[..ends]);
        self.emitter.end(now, Snapshots { keys, groups, results }, &self.ids[..ends]);
    }

    /// Time passes `now`: new snapshots of the touched groups begin; those without rows are dead.
    pub fn commit(&mut self, now: Time, out: &mut Vec<Message>) -> Result<()> {
        if self.touched.is_empty() {
            return Ok(());
        }
        let Live { lives, touched, chosen, rows, emptied, .. } = self;
        chosen.resize(touched.len(), 0);
        rows.resize(touched.len(), 0);
        emptied.resize(touched.len(), 0);
        let (mut begins, mut losses) = (0, 0);
        for &group in touched.iter() {
            let life = &mut lives[group as usize];
            life.touched = false;
            life.dead = life.rows <= 0;
            chosen[begins] = group;
            rows[begins] = life.rows;
            begins += (!life.dead & (life.snapshot == NO_SNAPSHOT)) as usize;
            emptied[losses] = group;
            losses += life.dead as usize;
        }
        touched.clear();
        chosen.truncate(begins);
        rows.truncate(begins);
        emptied.truncate(losses);
        self.dead += losses;
        if self.keys_only {
            self.end_emptied(now);
        }
        self.states.reset(&self.emptied);
        let new_ids = self.emitter.next_ids(now);
        let Live { groups: keys, states, chosen: groups, rows, .. } = self;
        let results = &states.results(groups, rows);
        self.emitter.begin(now, Snapshots { keys, groups, results });
        for (begun, &group) in self.chosen.iter().enumerate() {
            self.lives[group as usize].snapshot = new_ids.nth(begun);
        }
        self.forget_dead();
        self.emitter.flush_full(out)
    }

    /// The snapshots of the groups in `emptied` end.
    fn end_emptied(&mut self, now: Time) {
        self.emptied.retain(|&group| self.lives[group as usize].snapshot != NO_SNAPSHOT);
        let snapshot =
            |&group: &u32| std::mem::replace(&mut self.lives[group as usize].snapshot, NO_SNAPSHOT);
        let ids: Vec<SnapshotId> = self.emptied.iter().map(snapshot).collect();
        // There are no values, so nobody asks of how many rows they were.
        let results = &self.states.results(&self.emptied, &[]);
        self.emitter.end(now, Snapshots { keys: &self.groups, groups: &self.emptied, results }, &ids);
    }

    /// Forgets the dead groups once they outnumber the living.
    fn forget_dead(&mut self) {
        if self.dead < 1024 || self.dead * 2 < self.groups.len() {
            return;
        }
        let lives = &self.lives;
        self.groups.remove_all(|group| lives[group as usize].rows <= 0);
        self.lives.iter_mut().for_each(|life| life.dead = false);
        self.dead = 0;
    }

    /// Hands out the finished rows.
    pub fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.emitter.flush(out)
    }

    /// Hands on the punctuation at `time`, after the rows that belong before it.
    pub fn punctuation(&mut self, time: Time, out: &mut Vec<Message>) -> Result<()> {
        self.emitter.punctuation(time, out)
    }

    pub fn save(&self) -> Result<Vec<u8>> {
        encode(&(&self.groups, self.states.save()?, &self.lives, &self.touched, self.emitter.save()?))
    }

    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let states: Vec<ByteBuf>;
        let emitter: Vec<u8>;
        (self.groups, states, self.lives, self.touched, emitter) = decode(bytes)?;
        self.emitter.restore(&emitter)?;
        self.dead = self.lives.iter().filter(|life| life.dead).count();
        self.states.restore(&states)
    }
}
