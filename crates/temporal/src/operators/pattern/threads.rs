//! Instances of a pattern that remember: what they do at an event may depend on their register.
//!
//! Invariants: an instance is a set of threads, each in a state and with a register; two threads of an
//! instance differ in one of them. The threads of a key form a list, those of an instance together and
//! instances in the order in which they started, which is that of their deadlines. An instance makes one
//! match of each register with which it is accepted at an event.

use super::filters::Truths;
use super::intake::Events;
use super::matches::Matches;
use super::moves::{Move, Moves};
use super::program::{Program, START};
use super::registers::{INITIAL, Registers};
use super::rounds::Rounds;
use crate::time::{Time, end_after, start_before};
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// Stands for no thread: the end of a list, or the owner of a move by which an instance starts.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Thread {
    state: u32,
    register: u32,
    /// The next of its key.
    next: u32,
    deadline: Time,
    /// The number of the event with which its instance started.
    instance: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Threads {
    overlap: bool,
    /// In ticks.
    max_duration: i64,
    /// The first and the last thread of each key.
    lists: Vec<(u32, u32)>,
    threads: Vec<Thread>,
    free: Vec<u32>,
    /// How many events there were before those that are looked at.
    before: u64,
    rounds: Rounds,
    moves: Moves,
    /// Threads that have taken their event; they are free when the round is over.
    spent: Vec<u32>,
    /// Of one instance at one event: its new threads, and the registers with which it was accepted.
    fresh: Vec<u32>,
    accepted: Vec<u32>,
}

/// A thread of a checkpoint: its state, deadline and instance. Its register is in the column of registers.
type SavedThread = (u32, Time, u64);

/// The threads of a checkpoint, by key; their registers, in that order; how many events there were.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedThreads {
    keys: Vec<Vec<SavedThread>>,
    registers: ByteBuf,
    before: u64,
}

impl Threads {
    pub fn new(overlap: bool, max_duration: i64) -> Threads {
        Threads {
            overlap,
            max_duration,
            lists: Vec::new(),
            threads: Vec::new(),
            free: Vec::new(),
            before: 0,
            rounds: Rounds::default(),
            moves: Moves::default(),
            spent: Vec::new(),
            fresh: Vec::new(),
            accepted: Vec::new(),
        }
    }

    /// Takes events; `keys` is above the number of every key.
    pub fn events(
        &mut self,
        program: &Program,
        events: &Events,
        keys: usize,
        registers: &mut Registers,
        matches: &mut Matches,
    ) -> Result<()> {
        let truths = Truths::of(program, &events.rows, events.blank.as_ref())?;
        self.lists.resize(keys.max(self.lists.len()), (NONE, NONE));
        let mut rounds = std::mem::take(&mut self.rounds);
        rounds.sort(&events.groups, keys);
        let mut step = Step { program, events, truths: &truths, registers, matches };
        for round in 0..rounds.len() {
            self.round(rounds.rows(round), &mut step)?;
        }
        self.rounds = rounds;
        self.before += events.times.len() as u64;
        Ok(())
    }

    /// At most one event of each key.
    fn round(&mut self, rows: &[u32], step: &mut Step) -> Result<()> {
        for &row in rows {
            self.advance(row, step);
            if self.overlap {
                self.start(row, step);
            }
        }
        self.take(step)?;
        if !self.overlap {
            for &row in rows {
                if self.lists[step.group(row)].0 == NONE {
                    self.start(row, step);
                }
            }
            self.take(step)?;
        }
        for id in self.spent.drain(..) {
            step.registers.release(self.threads[id as usize].register);
            self.free.push(id);
        }
        Ok(())
    }

    /// The moves by which the threads of a key may take an event.
    fn advance(&mut self, row: u32, step: &Step) {
        let group = step.group(row);
        let mut at = std::mem::replace(&mut self.lists[group], (NONE, NONE)).0;
        while at != NONE {
            let Thread { state, register, next, deadline, .. } = self.threads[at as usize];
            if step.time(row) < deadline {
                self.moves_of(state, register, at, row, step);
            }
            self.spent.push(at);
            at = next;
        }
    }

    /// The moves by which an instance may start with an event.
    fn start(&mut self, row: u32, step: &Step) {
        self.moves_of(START, INITIAL, NONE, row, step);
    }

    fn moves_of(&mut self, state: u32, register: u32, owner: u32, row: u32, step: &Step) {
        let first = step.program.states[state as usize].arcs.start as u32;
        for (arc, arrow) in (first..).zip(step.program.arcs_of(state)) {
            if step.truths.allow(arrow, row as usize) {
                self.moves.list.push(Move { row, register, arc, owner });
            }
        }
    }

    /// Carries out the moves that pass their tests.
    fn take(&mut self, step: &mut Step) -> Result<()> {
        if self.moves.list.is_empty() {
            return Ok(());
        }
        self.moves.test(step.program, &step.events.rows, step.registers)?;
        self.moves.update(step.program, &step.events.rows, step.registers)?;
        let mut list = std::mem::take(&mut self.moves.list);
        let mut last = None;
        for taken in list.drain(..) {
            let (instance, deadline) = match taken.owner {
                NONE => (self.before + taken.row as u64, end_after(step.time(taken.row), self.max_duration)),
                owner => {
                    let owner = &self.threads[owner as usize];
                    (owner.instance, owner.deadline)
                }
            };
            if last != Some((taken.row, instance)) {
                last = Some((taken.row, instance));
                self.fresh.clear();
                self.accepted.clear();
            }
            self.arrive(taken, instance, deadline, step);
        }
        self.moves.list = list;
        Ok(())
    }

    /// A thread of an instance comes to a state.
    fn arrive(
        &mut self,
        Move { row, register, arc, .. }: Move,
        instance: u64,
        deadline: Time,
        step: &mut Step,
    ) {
        let state = step.program.arcs[arc as usize].to;
        let reached = &step.program.states[state as usize];
        if reached.accepts && !self.accepted.iter().any(|&other| step.registers.same(other, register)) {
            step.registers.hold(register);
            self.accepted.push(register);
            step.matches.push(row, deadline, register);
        }
        let is_known = |&id: &u32| {
            let other = &self.threads[id as usize];
            other.state == state && step.registers.same(other.register, register)
        };
        if reached.arcs.is_empty() || self.fresh.iter().any(is_known) {
            step.registers.release(register);
            return;
        }
        let id = self.add(step.group(row), Thread { state, register, next: NONE, deadline, instance });
        self.fresh.push(id);
    }

    /// Appends a thread to those of its key.
    fn add(&mut self, group: usize, thread: Thread) -> u32 {
        let id = match self.free.pop() {
            Some(id) => {
                self.threads[id as usize] = thread;
                id
            }
            None => {
                self.threads.push(thread);
                self.threads.len() as u32 - 1
            }
        };
        match std::mem::replace(&mut self.lists[group].1, id) {
            NONE => self.lists[group].0 = id,
            last => self.threads[last as usize].next = id,
        }
        id
    }

    /// Whether a key has no instance at `time`, or after it. Those that are over are let go of.
    pub fn retire(&mut self, group: u32, time: Time, registers: &mut Registers) -> bool {
        let Some((first, last)) = self.lists.get_mut(group as usize) else { return true };
        while let Some(&Thread { deadline, next, register, .. }) = self.threads.get(*first as usize)
            && deadline <= time
        {
            registers.release(register);
            self.free.push(*first);
            *first = next;
        }
        if *first == NONE {
            *last = NONE;
        }
        *first == NONE
    }

    /// How many threads there are, and the start of the first.
    pub fn alive(&self) -> (usize, Option<Time>) {
        // The threads of a key are in the order of their deadlines.
        let firsts = self.lists.iter().filter_map(|(first, _)| self.threads.get(*first as usize));
        let first = firsts.map(|thread| thread.deadline).min();
        let count = self.threads.len() - self.free.len();
        (count, first.and_then(|deadline| start_before(deadline, self.max_duration)))
    }

    pub fn save(&self, registers: &Registers) -> Result<SavedThreads> {
        let mut slots = Vec::new();
        let mut of = |first: u32| {
            let (mut at, mut list) = (first, Vec::new());
            while let Some(thread) = self.threads.get(at as usize) {
                slots.push(thread.register);
                list.push((thread.state, thread.deadline, thread.instance));
                at = thread.next;
            }
            list
        };
        let keys = self.lists.iter().map(|&(first, _)| of(first)).collect();
        Ok(SavedThreads { keys, registers: registers.save(&slots)?.into(), before: self.before })
    }

    pub fn restore(&mut self, saved: SavedThreads, registers: &mut Registers) -> Result<()> {
        self.before = saved.before;
        self.lists = vec![(NONE, NONE); saved.keys.len()];
        self.threads.clear();
        self.free.clear();
        let mut slots = registers.restore(&saved.registers)?.into_iter();
        for (group, threads) in saved.keys.into_iter().enumerate() {
            for ((state, deadline, instance), register) in threads.into_iter().zip(&mut slots) {
                self.add(group, Thread { state, register, next: NONE, deadline, instance });
            }
        }
        Ok(())
    }
}

/// What a round is about.
struct Step<'a> {
    program: &'a Program,
    events: &'a Events,
    truths: &'a Truths,
    registers: &'a mut Registers,
    matches: &'a mut Matches,
}

impl Step<'_> {
    #[inline]
    fn group(&self, row: u32) -> usize {
        self.events.groups[row as usize] as usize
    }

    #[inline]
    fn time(&self, row: u32) -> Time {
        self.events.times[row as usize]
    }
}
