//! The groups with rows alive, and the snapshot of each that has been told.
//!
//! Invariants: a group without rows is dead: its state is initial, and it keeps its number until the dead outnumber the
//! living, when all of them are forgotten at once; keys tend to come back, and coming back is then free. Within one instant
//! a group is first [`touch`](Live::touch)ed (what was told of it ends), then its state is changed, then, when time has passed
//! the instant, [`commit`](Live::commit)ted (the new snapshot begins, or the group is dead).
//!
//! All that is known of a group beside its state lies together, and what decides about it are numbers, not branches: which
//! groups come, stay and go is nothing that a processor can foresee.

use super::calls::{Plan, States};
use super::emit::Snapshots;
use super::function::Leaving;
use super::tell::{Tell, Ticket, UNTOLD};
use crate::batch::Message;
use crate::groups::Groups;
use crate::operator::{decode, encode};
use crate::time::Time;
use datafusion::common::Result;
use serde::{Deserialize, Serialize};

/// A group, beside its key and its state.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Life {
    /// How many of its rows are alive.
    rows: i64,
    /// The snapshot that has begun and not ended.
    told: Ticket,
    /// Whether it is touched.
    touched: bool,
    /// Whether it has been committed without rows.
    dead: bool,
}

const UNBORN: Life = Life { rows: 0, told: UNTOLD, touched: false, dead: false };

/// See the module.
#[derive(Debug)]
pub(super) struct Live {
    pub groups: Groups,
    pub states: States,
    lives: Vec<Life>,
    touched: Vec<u32>,
    dead: usize,
    /// Snapshots without values: an unchanged one is not told again.
    bare: bool,
    tell: Tell,
    /// The groups and their numbers of rows of snapshots that end, or begin, and the tickets of those that end.
    chosen: Vec<u32>,
    rows: Vec<i64>,
    tickets: Vec<Ticket>,
    /// The groups that have just lost their last row.
    lost: Vec<u32>,
}

impl Live {
    pub fn new(plan: &Plan, leaving: Leaving, tell: Tell) -> Result<Live> {
        Ok(Live {
            groups: Groups::new(&plan.key_types),
            states: plan.states_beside_rows(leaving)?,
            lives: Vec::new(),
            touched: Vec::new(),
            dead: 0,
            bare: plan.calls.is_empty(),
            tell,
            chosen: Vec::new(),
            rows: Vec::new(),
            tickets: Vec::new(),
            lost: Vec::new(),
        })
    }

    /// Makes room for all groups there are.
    pub fn grow(&mut self) {
        let capacity = self.groups.capacity();
        self.lives.resize(capacity.max(self.lives.len()), UNBORN);
        self.states.grow(capacity);
    }

    /// Says that these groups (one or several times each) are about to change at `now`: each by so many rows.
    pub fn touch(&mut self, groups: &[u32], changes: impl Iterator<Item = i64>, now: Time) {
        let Live { lives, touched, dead, bare, chosen, rows, tickets, .. } = self;
        let known = touched.len();
        touched.resize(known + groups.len(), 0);
        chosen.resize(groups.len(), 0);
        rows.resize(groups.len(), 0);
        tickets.resize(groups.len(), UNTOLD);
        let (mut touches, mut ends) = (known, 0);
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
            tickets[ends] = life.told;
            let ended = (life.told != UNTOLD) & !*bare;
            ends += ended as usize;
            life.told = if ended { UNTOLD } else { life.told };
        }
        touched.truncate(touches);
        let Live { groups: keys, states, .. } = self;
        let groups = &self.chosen[..ends];
        let results = &states.results(groups, &self.rows[..ends]);
        self.tell.end(now, Snapshots { keys, groups, results }, &self.tickets[..ends]);
    }

    /// Time passes `now`: what was touched is told, or is dead if nothing is alive any more.
    pub fn commit(&mut self, now: Time, out: &mut Vec<Message>) -> Result<()> {
        if self.touched.is_empty() {
            return Ok(());
        }
        let Live { lives, touched, chosen, rows, lost, .. } = self;
        chosen.resize(touched.len(), 0);
        rows.resize(touched.len(), 0);
        lost.resize(touched.len(), 0);
        let (mut begins, mut losses) = (0, 0);
        for &group in touched.iter() {
            let life = &mut lives[group as usize];
            life.touched = false;
            life.dead = life.rows <= 0;
            chosen[begins] = group;
            rows[begins] = life.rows;
            begins += (!life.dead & (life.told == UNTOLD)) as usize;
            lost[losses] = group;
            losses += life.dead as usize;
        }
        touched.clear();
        chosen.truncate(begins);
        rows.truncate(begins);
        lost.truncate(losses);
        self.dead += losses;
        if self.bare {
            self.end_lost(now);
        }
        self.states.reset(&self.lost);
        let tickets = self.tell.tickets(now);
        let Live { groups: keys, states, chosen: groups, rows, .. } = self;
        let results = &states.results(groups, rows);
        self.tell.begin(now, Snapshots { keys, groups, results });
        for (begun, &group) in self.chosen.iter().enumerate() {
            self.lives[group as usize].told = tickets.nth(begun);
        }
        self.bury();
        self.tell.flush_full(out)
    }

    /// The snapshots of the groups in `lost` end.
    fn end_lost(&mut self, now: Time) {
        self.lost.retain(|&group| self.lives[group as usize].told != UNTOLD);
        let told = |&group: &u32| std::mem::replace(&mut self.lives[group as usize].told, UNTOLD);
        let tickets: Vec<Ticket> = self.lost.iter().map(told).collect();
        // There are no values, so nobody asks of how many rows they were.
        let results = &self.states.results(&self.lost, &[]);
        self.tell.end(now, Snapshots { keys: &self.groups, groups: &self.lost, results }, &tickets);
    }

    /// Forgets the dead groups once they outnumber the living.
    fn bury(&mut self) {
        if self.dead < 1024 || self.dead * 2 < self.groups.len() {
            return;
        }
        let lives = &self.lives;
        self.groups.remove_all(|group| lives[group as usize].rows <= 0);
        self.lives.iter_mut().for_each(|life| life.dead = false);
        self.dead = 0;
    }

    /// Hands out what is known.
    pub fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.tell.flush(out)
    }

    /// Hands on the news that time has come to `time`, after what is known by then.
    pub fn punctuation(&mut self, time: Time, out: &mut Vec<Message>) -> Result<()> {
        self.tell.punctuation(time, out)
    }

    pub fn save(&self) -> Result<Vec<u8>> {
        encode(&(&self.groups, self.states.save()?, &self.lives, &self.touched, self.tell.save()?))
    }

    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let states: Vec<Vec<u8>>;
        let tell: Vec<u8>;
        (self.groups, states, self.lives, self.touched, tell) = decode(bytes)?;
        self.tell.restore(&tell)?;
        self.dead = self.lives.iter().filter(|life| life.dead).count();
        self.states.restore(&states)
    }
}
