//! The groups with rows alive, and the snapshot of each that has been told.
//!
//! Invariants: a group without rows is dead: its state is initial, and it keeps its number until the dead outnumber the
//! living, when all of them are forgotten at once; keys tend to come back, and coming back is then free. `told[g]` is the
//! ticket of the snapshot of `g` that has begun and not ended. Within one instant a group is first
//! [`touch`](Live::touch)ed (what was told ends), then changed, then, when time has passed the instant,
//! [`commit`](Live::commit)ted (the new snapshot begins, or the group is forgotten).

use super::calls::{Plan, States};
use super::function::Leaving;
use super::tell::{Tell, Ticket, UNTOLD};
use crate::batch::Message;
use crate::groups::Groups;
use crate::operator::{decode, encode};
use crate::time::Time;
use datafusion::common::Result;

/// See the module.
#[derive(Debug)]
pub(super) struct Live {
    pub groups: Groups,
    pub states: States,
    /// Rows alive by group.
    pub alive: Vec<i64>,
    told: Vec<Ticket>,
    touched: Vec<u32>,
    mark: Vec<bool>,
    /// Snapshots without values: an unchanged one is not told again.
    bare: bool,
    /// Which groups are dead, and how many.
    is_dead: Vec<bool>,
    dead: usize,
    tell: Tell,
    ended: Vec<u32>,
}

impl Live {
    pub fn new(plan: &Plan, leaving: Leaving, tell: Tell) -> Result<Live> {
        Ok(Live {
            groups: Groups::new(&plan.key_types),
            states: plan.states(leaving)?,
            alive: Vec::new(),
            told: Vec::new(),
            touched: Vec::new(),
            mark: Vec::new(),
            bare: plan.calls.is_empty(),
            is_dead: Vec::new(),
            dead: 0,
            tell,
            ended: Vec::new(),
        })
    }

    /// Makes room for all groups there are.
    pub fn grow(&mut self) {
        let capacity = self.groups.capacity();
        if capacity > self.alive.len() {
            self.alive.resize(capacity, 0);
            self.told.resize(capacity, UNTOLD);
            self.mark.resize(capacity, false);
            self.is_dead.resize(capacity, false);
        }
        self.states.grow(capacity);
    }

    /// Says that these groups (one or several times each) are about to change at `now`.
    pub fn touch(&mut self, groups: &[u32], now: Time) {
        let Live { ended, touched, mark, told, is_dead, dead, bare, .. } = self;
        ended.clear();
        for &group in groups {
            let g = group as usize;
            if !mark[g] {
                mark[g] = true;
                touched.push(group);
                *dead -= std::mem::take(&mut is_dead[g]) as usize;
                if told[g] != UNTOLD && !*bare {
                    ended.push(group);
                }
            }
        }
        self.end(now);
    }

    /// The snapshots of the groups in `ended` end.
    fn end(&mut self, now: Time) {
        self.tell.end(now, &self.groups, &self.states, &self.ended, &mut self.told);
    }

    /// Time passes `now`: what was touched is told, or is dead if nothing is alive any more.
    pub fn commit(&mut self, now: Time, out: &mut Vec<Message>) -> Result<()> {
        if self.touched.is_empty() {
            return Ok(());
        }
        let mut touched = std::mem::take(&mut self.touched);
        self.ended.clear();
        let Live { alive, told, mark, ended, is_dead, dead, bare, .. } = self;
        let mut lost = Vec::new();
        touched.retain(|&group| {
            let g = group as usize;
            mark[g] = false;
            if alive[g] > 0 {
                return told[g] == UNTOLD;
            }
            is_dead[g] = true;
            *dead += 1;
            lost.push(group);
            if *bare && told[g] != UNTOLD {
                ended.push(group);
            }
            false
        });
        self.end(now);
        self.states.reset(&lost);
        self.tell.begin(now, &self.groups, &self.states, &touched, &mut self.told);
        touched.clear();
        self.touched = touched;
        self.bury();
        self.tell.flush_full(out)
    }

    /// Forgets the dead groups once they outnumber the living.
    fn bury(&mut self) {
        if self.dead < 1024 || self.dead * 2 < self.groups.len() {
            return;
        }
        self.groups.remove_all(&self.is_dead);
        self.is_dead.fill(false);
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
        encode(&(
            &self.groups,
            self.states.save()?,
            &self.alive,
            &self.told,
            &self.touched,
            &self.mark,
            &self.is_dead,
            self.tell.save()?,
        ))
    }

    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let states: Vec<Vec<u8>>;
        let tell: Vec<u8>;
        (self.groups, states, self.alive, self.told, self.touched, self.mark, self.is_dead, tell) =
            decode(bytes)?;
        self.tell.restore(&tell)?;
        self.dead = self.is_dead.iter().filter(|d| **d).count();
        self.states.restore(&states)
    }
}
