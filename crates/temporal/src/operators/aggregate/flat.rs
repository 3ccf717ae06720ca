//! The windowed aggregate over groups that are flat rows: all that is known of a group lies together, and what comes and
//! what goes are the same kind of change. It does what [`windowed`](super::windowed) does, for keyed aggregates that are
//! [vectors of words](super::vectors): there a group is looked up in a column for each thing that is known of it, here
//! once.
//!
//! Invariants: those of [`windowed`](super::windowed) and of [`live`](super::live). A group is alive if it has rows or is
//! touched; the dead keep their numbers until they outnumber the living. `panes` are in the order of their ends.

use super::calls::Plan;
use super::emit::Snapshots;
use super::tell::{Tell, Ticket, UNTOLD};
use super::vectors::{Change, Totals, Vectors};
use super::windowed::rows_apart;
use crate::batch::{Batch, Message};
use crate::groups::Groups;
use crate::key::Key;
use crate::operator::{Operator, decode, encode};
use crate::operators::runs::runs;
use crate::time::{BEGINNING, INFINITY, Time, end_after};
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
    told: Ticket,
    /// Twice the number of its rows, and one if it is touched.
    rows: i64,
    words: [i64; W],
}

impl<const W: usize> Group<W> {
    const UNBORN: Group<W> = Group { told: UNTOLD, rows: 0, words: [0; W] };

    #[inline(always)]
    fn is_touched(&self) -> bool {
        self.rows & 1 == 1
    }

    #[inline(always)]
    fn state(&self) -> Change<W> {
        Change { rows: self.rows >> 1, words: self.words }
    }

    #[inline(always)]
    fn touch(&mut self, change: &Change<W>) {
        self.told = UNTOLD;
        self.rows = (self.rows + 2 * change.rows) | 1;
        self.words.iter_mut().zip(change.words).for_each(|(word, by)| *word = word.wrapping_add(by));
    }
}

/// What starts at one instant, and ends at one: parts of groups.
#[derive(Debug, Default)]
struct Pane<const W: usize> {
    end: Time,
    numbers: Vec<u32>,
    changes: Vec<Change<W>>,
}

/// See the module.
pub(super) struct Flat<const W: usize> {
    plan: Plan,
    vectors: Vectors,
    size: i64,
    now: Time,
    /// The rows of this instant, summed up by key.
    held: Groups,
    held_states: Vec<Change<W>>,
    keys: Groups,
    groups: Vec<Group<W>>,
    touched: Vec<u32>,
    alive: usize,
    panes: VecDeque<Pane<W>>,
    /// The memory of panes that are over.
    spare: Vec<Pane<W>>,
    /// How many rows are still taken in without being summed up first.
    apart: usize,
    tell: Tell,
    numbers: Vec<u32>,
    /// Room for the groups, their states and the tickets of snapshots that end, or begin.
    chosen: Vec<u32>,
    states: Vec<Change<W>>,
    tickets: Vec<Ticket>,
}

impl<const W: usize> Flat<W> {
    /// Aggregates over rows that live `size` ticks.
    pub fn new(plan: Plan, vectors: Vectors, size: i64, tell: Tell) -> Flat<W> {
        Flat {
            size,
            now: BEGINNING,
            held: Groups::new(&plan.key_types),
            held_states: Vec::new(),
            keys: Groups::new(&plan.key_types),
            groups: Vec::new(),
            touched: Vec::new(),
            alive: 0,
            panes: VecDeque::new(),
            spare: Vec::new(),
            apart: 0,
            tell,
            numbers: Vec::new(),
            chosen: Vec::new(),
            states: Vec::new(),
            tickets: Vec::new(),
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
            let apart = self.apart > 0;
            if apart {
                self.settle()?;
                self.apart = self.apart.saturating_sub(run.len());
            }
            for first in run.clone().step_by(PIECE) {
                let piece = first..run.end.min(first + PIECE);
                match apart {
                    true => self.add_each(&key, piece)?,
                    false => self.hold(&key, piece)?,
                }
            }
        }
        self.tell.flush(out)
    }

    /// Sums up rows that start now by key.
    fn hold(&mut self, key: &Key, rows: Range<usize>) -> Result<()> {
        self.numbers.clear();
        self.held.intern(key, rows.clone(), &mut self.numbers)?;
        self.held_states.resize(self.held.capacity(), Change::NONE);
        self.vectors.add(rows, &self.numbers, &mut self.held_states);
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
        if self.held_states.is_empty() {
            return Ok(());
        }
        let (mut pane, first) = self.pane();
        self.keys.adopt(&self.held, &mut pane.numbers)?;
        pane.changes.append(&mut self.held_states);
        self.held.clear();
        let parts = &pane.changes[first..];
        let rows = parts.iter().map(|part| part.rows).sum::<i64>() as usize;
        self.apart = rows_apart(parts.len(), rows);
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
        self.groups.resize(self.keys.capacity().max(self.groups.len()), Group::UNBORN);
        self.alter(&pane.numbers[first..], &pane.changes[first..], Change::clone, self.now);
        self.panes.push_back(pane);
    }

    /// What is told of these groups ends at `now`, and their states change.
    fn alter(
        &mut self,
        numbers: &[u32],
        changes: &[Change<W>],
        change: impl Fn(&Change<W>) -> Change<W>,
        now: Time,
    ) {
        match self.tell {
            Tell::Edges(_) => self.alter_telling::<true>(numbers, changes, change, now),
            Tell::Intervals(_) => self.alter_telling::<false>(numbers, changes, change, now),
        }
    }

    /// `STATES`: who tells has to know in which states the groups were.
    fn alter_telling<const STATES: bool>(
        &mut self,
        numbers: &[u32],
        changes: &[Change<W>],
        change: impl Fn(&Change<W>) -> Change<W>,
        now: Time,
    ) {
        let Flat { groups, touched, chosen, states, tickets, .. } = self;
        let known = touched.len();
        touched.resize(known + numbers.len(), 0);
        grow(tickets, numbers.len(), UNTOLD);
        if STATES {
            grow(chosen, numbers.len(), 0);
            grow(states, numbers.len(), Change::NONE);
        }
        let (mut touches, mut ends, mut born) = (known, 0, 0);
        for (&number, by) in numbers.iter().zip(changes) {
            let group = &mut groups[number as usize];
            touched[touches] = number;
            touches += !group.is_touched() as usize;
            born += (group.rows == 0) as usize;
            tickets[ends] = group.told;
            if STATES {
                chosen[ends] = number;
                states[ends] = group.state();
            }
            ends += (group.told != UNTOLD) as usize;
            group.touch(&change(by));
        }
        touched.truncate(touches);
        self.alive += born;
        let kept = if STATES { ends } else { 0 };
        let results = &Totals { vectors: &self.vectors, states: &self.states[..kept] };
        let of = Snapshots { keys: &self.keys, groups: &self.chosen[..kept], results };
        self.tell.end(now, of, &self.tickets[..ends]);
    }

    /// Time passes `now`: what was touched is told, or is dead if nothing is alive any more.
    fn commit(&mut self, now: Time, out: &mut Vec<Message>) -> Result<()> {
        if self.touched.is_empty() {
            return Ok(());
        }
        let Flat { groups, touched, chosen, states, .. } = self;
        grow(chosen, touched.len(), 0);
        grow(states, touched.len(), Change::NONE);
        let tickets = self.tell.tickets(now);
        let mut begins = 0;
        for &number in touched.iter() {
            let group = &mut groups[number as usize];
            group.rows &= !1;
            let lives = group.rows > 0;
            group.told = if lives { tickets.nth(begins) } else { UNTOLD };
            chosen[begins] = number;
            states[begins] = group.state();
            begins += lives as usize;
        }
        self.alive -= touched.len() - begins;
        touched.clear();
        let results = &Totals { vectors: &self.vectors, states: &self.states[..begins] };
        self.tell.begin(now, Snapshots { keys: &self.keys, groups: &self.chosen[..begins], results });
        self.bury();
        self.tell.flush_full(out)
    }

    /// Forgets the dead groups once they outnumber the living.
    fn bury(&mut self) {
        let dead = self.keys.len() - self.alive;
        if dead >= 1024 && dead > self.alive {
            let groups = &self.groups;
            self.keys.remove_all(|group| groups[group as usize].rows == 0);
        }
    }

    /// Moves time to `time`: everything before it is told.
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
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out),
            Message::Punctuation(time) => {
                self.advance(time, out)?;
                self.tell.punctuation(time, out)
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        let held = (&self.held, saved(self.held_states.iter().copied()));
        let told: Vec<Ticket> = self.groups.iter().map(|group| group.told).collect();
        let groups = (&self.keys, told, saved(self.groups.iter().map(Group::state)));
        let pane = |pane: &Pane<W>| (pane.end, pane.numbers.clone(), saved(pane.changes.iter().copied()));
        let panes: Vec<_> = self.panes.iter().map(pane).collect();
        encode(&(self.now, self.apart, held, groups, &self.touched, self.alive, panes, self.tell.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (held, groups): (SavedChanges, SavedChanges);
        let told: Vec<Ticket>;
        let panes: Vec<(Time, Vec<u32>, SavedChanges)>;
        let tell: Vec<u8>;
        (
            self.now,
            self.apart,
            (self.held, held),
            (self.keys, told, groups),
            self.touched,
            self.alive,
            panes,
            tell,
        ) = decode(state)?;
        self.held_states = restored(held);
        let group = |(told, Change { rows, words })| Group { told, rows: 2 * rows, words };
        self.groups = told.into_iter().zip(restored(groups)).map(group).collect();
        self.touched.iter().for_each(|&touched| self.groups[touched as usize].rows |= 1);
        let pane = |(end, numbers, changes): (Time, Vec<u32>, SavedChanges)| Pane {
            end,
            numbers,
            changes: restored(changes),
        };
        self.panes = panes.into_iter().map(pane).collect();
        self.tell.restore(&tell)
    }
}
