//! Attempts to match a row pattern: one for each row of a key, of which the preferred match is found.
//!
//! Invariants: an attempt has its threads in order of preference, and no thread that is less preferred than
//! its candidate, the preferred match so far (Pike's machine: Cox, *Regular Expression Matching: the Virtual
//! Machine Approach*). It is decided when no thread is left. The attempts of a key are in order of their
//! first rows, and the first of them is not decided: a match counts when it is known which rows before it are
//! skipped. Every attempt with a candidate is among the holders of `held`, at the time of its candidate; no
//! match that is found later is before all of them and before the rows that come.

use super::filters::Truths;
use super::holds::Holds;
use super::intake::Events;
use super::moves::{Move, Moves};
use super::program::{Program, START};
use super::registers::{INITIAL, Registers};
use super::rounds::Rounds;
use crate::time::{INFINITY, Time, end_after, start_before};
use datafusion::common::{Result, exec_err};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Where the next match of a key may begin, after a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum AfterMatch {
    /// After its last row.
    PastLastRow,
    /// After its first row.
    ToNextRow,
    /// At its first row of this variable.
    ToFirst(usize),
    /// At its last row of this variable.
    ToLast(usize),
}

/// Stands for no attempt: the end of a list, or the attempt that a row begins.
const NONE: u32 = u32::MAX;

/// The number of a row of a key, counted from 0.
type Row = u64;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Thread {
    state: u32,
    register: u32,
    /// The row of the variable that is skipped to.
    mark: Option<Row>,
}

/// The preferred match of an attempt so far.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Candidate {
    time: Time,
    /// Its last row.
    row: Row,
    mark: Option<Row>,
    register: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Attempt {
    /// How many attempts began before it.
    number: u64,
    /// Its first row.
    row: Row,
    deadline: Time,
    threads: Vec<Thread>,
    candidate: Option<Candidate>,
    /// The next of its key.
    next: u32,
}

/// The thread with which an attempt begins.
const FIRST: Thread = Thread { state: START, register: INITIAL, mark: None };

/// What there is of a key.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct KeyState {
    first: u32,
    last: u32,
    rows: Row,
    matches: i64,
    candidates: u32,
    /// When it is looked at in any case; never: [`INFINITY`].
    alarm: Time,
}

impl Default for KeyState {
    fn default() -> KeyState {
        KeyState { first: NONE, last: NONE, rows: 0, matches: 0, candidates: 0, alarm: INFINITY }
    }
}

/// A match that counts. Matches are in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Found {
    /// That of its last row.
    pub time: Time,
    pub group: u32,
    /// Its number among the matches of its key, from 1.
    pub number: i64,
    /// A slot that is held for it.
    pub register: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Attempts {
    after_match: AfterMatch,
    /// In ticks; none: a match may last as long as it likes.
    within: Option<i64>,
    keys: Vec<KeyState>,
    attempts: Vec<Attempt>,
    free: Vec<u32>,
    held: Holds,
    /// How many attempts there were.
    begun: u64,
    alarms: BinaryHeap<Reverse<(Time, u32)>>,
    rounds: Rounds,
    moves: Moves,
    /// Whose the moves are: the attempt, and the mark of the thread.
    sources: Vec<(u32, Option<Row>)>,
    /// Registers of threads that have taken their row.
    spent: Vec<u32>,
}

/// The attempts of a checkpoint. Slots of registers are places among `registers`.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedAttempts {
    keys: Vec<KeyState>,
    attempts: Vec<Vec<Attempt>>,
}

impl Attempts {
    pub fn new(after_match: AfterMatch, within: Option<i64>) -> Attempts {
        Attempts {
            after_match,
            within,
            keys: Vec::new(),
            attempts: Vec::new(),
            free: Vec::new(),
            held: Holds::default(),
            begun: 0,
            alarms: BinaryHeap::new(),
            rounds: Rounds::default(),
            moves: Moves::default(),
            sources: Vec::new(),
            spent: Vec::new(),
        }
    }

    /// No match that is not among those found is earlier.
    pub fn earliest(&mut self) -> Time {
        let Attempts { held, attempts, .. } = self;
        held.earliest(|(place, number)| {
            let attempt = attempts.get(place as usize).filter(|attempt| attempt.number == number)?;
            attempt.candidate.map(|candidate| candidate.time)
        })
    }

    /// Takes rows; `keys` is above the number of every key.
    pub fn events(
        &mut self,
        program: &Program,
        events: &Events,
        keys: usize,
        registers: &mut Registers,
        found: &mut Vec<Found>,
    ) -> Result<()> {
        let truths = Truths::of(program, &events.rows, events.blank.as_ref())?;
        self.keys.resize(keys.max(self.keys.len()), KeyState::default());
        let mut rounds = std::mem::take(&mut self.rounds);
        rounds.sort(&events.groups, keys);
        for round in 0..rounds.len() {
            let rows = rounds.rows(round);
            for &row in rows {
                self.advance(program, events, &truths, row, registers);
            }
            self.take(program, events, registers)?;
            for &row in rows {
                if !self.is_skipped(events.groups[row as usize]) {
                    self.push(program, &truths, row, NONE, &FIRST);
                }
            }
            self.take(program, events, registers)?;
            self.spent.drain(..).for_each(|slot| registers.release(slot));
            for &row in rows {
                self.decide(events.groups[row as usize], registers, found)?;
            }
        }
        self.rounds = rounds;
        Ok(())
    }

    /// The moves by which the attempts of a key may take a row.
    fn advance(
        &mut self,
        program: &Program,
        events: &Events,
        truths: &Truths,
        row: u32,
        registers: &mut Registers,
    ) {
        let (group, time) = (events.groups[row as usize], events.times[row as usize]);
        let key = &mut self.keys[group as usize];
        key.rows += 1;
        let mut at = key.first;
        while let Some(attempt) = self.attempts.get_mut(at as usize) {
            let (next, is_over) = (attempt.next, time >= attempt.deadline);
            let mut threads = std::mem::take(&mut attempt.threads);
            for thread in threads.drain(..) {
                if is_over {
                    registers.release(thread.register);
                } else {
                    self.push(program, truths, row, at, &thread);
                    self.spent.push(thread.register);
                }
            }
            self.attempts[at as usize].threads = threads;
            at = next;
        }
    }

    /// The moves by which a thread of an attempt may take a row.
    fn push(&mut self, program: &Program, truths: &Truths, row: u32, attempt: u32, thread: &Thread) {
        let owner = self.sources.len() as u32;
        self.sources.push((attempt, thread.mark));
        for arc in program.preferred(thread.state) {
            if truths.allow(&program.arcs[arc], row as usize) {
                self.moves.list.push(Move { row, register: thread.register, arc: arc as u32, owner });
            }
        }
    }

    /// Whether the last row of a key is one of a match that counts, so that no other may begin with it.
    fn is_skipped(&self, group: u32) -> bool {
        let key = &self.keys[group as usize];
        let first = self.attempts.get(key.first as usize);
        let candidate = first.and_then(|first| first.candidate);
        self.after_match == AfterMatch::PastLastRow
            && candidate.is_some_and(|candidate| candidate.row + 1 == key.rows)
    }

    /// Carries out the moves that pass their tests.
    fn take(&mut self, program: &Program, events: &Events, registers: &mut Registers) -> Result<()> {
        self.moves.test(program, &events.rows, registers)?;
        self.moves.update(program, &events.rows, registers)?;
        let mut list = std::mem::take(&mut self.moves.list);
        // The attempt whose moves are looked at, the row with which it began if that is this one, and whether
        // it has come to a match that is preferred to what follows.
        let (mut attempt, mut begun, mut cut) = (NONE, None, false);
        for taken in list.drain(..) {
            let (owner, mark) = self.sources[taken.owner as usize];
            let (group, time) = (events.groups[taken.row as usize], events.times[taken.row as usize]);
            let is_same =
                if owner == NONE { begun == Some(taken.row) } else { begun.is_none() && attempt == owner };
            if !is_same {
                cut = false;
                begun = (owner == NONE).then_some(taken.row);
                attempt = if owner == NONE { self.begin(group, time) } else { owner };
            }
            match cut {
                true => registers.release(taken.register),
                false => cut = self.arrive(program, taken, attempt, (group, time, mark), registers),
            }
        }
        self.moves.list = list;
        self.sources.clear();
        Ok(())
    }

    /// An attempt begins with the last row of a key.
    fn begin(&mut self, group: u32, time: Time) -> u32 {
        let deadline = self.within.map_or(INFINITY, |within| end_after(time, within));
        let row = self.keys[group as usize].rows - 1;
        let number = self.begun;
        self.begun += 1;
        let id = self.free.pop().unwrap_or_else(|| {
            let threads = Vec::new();
            self.attempts.push(Attempt { number, row, deadline, threads, candidate: None, next: NONE });
            self.attempts.len() as u32 - 1
        });
        let attempt = &mut self.attempts[id as usize];
        (attempt.number, attempt.row, attempt.deadline, attempt.next) = (number, row, deadline, NONE);
        self.append(group, id);
        id
    }

    /// Makes an attempt the last of a key.
    fn append(&mut self, group: u32, id: u32) {
        let key = &mut self.keys[group as usize];
        match std::mem::replace(&mut key.last, id) {
            NONE => key.first = id,
            last => self.attempts[last as usize].next = id,
        }
    }

    /// A thread of an attempt comes to a state; whether it is a match there.
    fn arrive(
        &mut self,
        program: &Program,
        Move { register, arc, .. }: Move,
        attempt: u32,
        (group, time, mark): (u32, Time, Option<Row>),
        registers: &mut Registers,
    ) -> bool {
        let arrow = &program.arcs[arc as usize];
        let row = self.keys[group as usize].rows - 1;
        let mark = match self.after_match {
            AfterMatch::ToFirst(variable) if arrow.variable == Some(variable) => mark.or(Some(row)),
            AfterMatch::ToLast(variable) if arrow.variable == Some(variable) => Some(row),
            _ => mark,
        };
        let threads = &mut self.attempts[attempt as usize].threads;
        // What nothing asks for makes no difference to how a thread goes on.
        let asks = !program.tests.is_empty();
        let is_known =
            |other: &Thread| other.state == arrow.to && (!asks || registers.same(other.register, register));
        if threads.iter().any(is_known) {
            registers.release(register);
            return false;
        }
        if !program.preferred(arrow.to).is_empty() {
            registers.hold(register);
            threads.push(Thread { state: arrow.to, register, mark });
        }
        let accepts = program.states[arrow.to as usize].accepts;
        match accepts {
            true => self.prefer(group, attempt, Some(Candidate { time, row, mark, register }), registers),
            false => registers.release(register),
        }
        accepts
    }

    /// Replaces the candidate of an attempt.
    fn prefer(&mut self, group: u32, attempt: u32, candidate: Option<Candidate>, registers: &mut Registers) {
        let place = &mut self.attempts[attempt as usize];
        let key = &mut self.keys[group as usize];
        match (&place.candidate, &candidate) {
            (None, Some(new)) => {
                key.candidates += 1;
                self.held.add(new.time, (attempt, place.number));
            }
            (Some(_), None) => {
                key.candidates -= 1;
                self.held.remove();
            }
            _ => {}
        }
        if let Some(old) = std::mem::replace(&mut place.candidate, candidate) {
            registers.release(old.register);
        }
    }

    /// Takes the attempts of a key that are decided, and what they skip.
    fn decide(&mut self, group: u32, registers: &mut Registers, found: &mut Vec<Found>) -> Result<()> {
        while let Some(first) = self.attempts.get(self.keys[group as usize].first as usize) {
            let id = self.keys[group as usize].first;
            let decided = first.threads.is_empty();
            match first.candidate {
                // Whatever match it is in the end, it has these rows, too.
                Some(candidate) if self.after_match == AfterMatch::PastLastRow => {
                    self.skip(group, id, candidate.row + 1, registers);
                }
                Some(candidate) if decided => {
                    let to = self.next_start(first.row, &candidate)?;
                    self.skip(group, id, to, registers);
                }
                _ => {}
            }
            if !decided {
                break;
            }
            if let Some(Candidate { time, register, .. }) = self.attempts[id as usize].candidate {
                let key = &mut self.keys[group as usize];
                key.matches += 1;
                registers.hold(register);
                found.push(Found { time, group, number: key.matches, register });
            }
            self.remove_first(group, registers);
        }
        self.set_alarm(group);
        Ok(())
    }

    /// The row at which the match after this one may begin.
    fn next_start(&self, first: Row, candidate: &Candidate) -> Result<Row> {
        match (self.after_match, candidate.mark) {
            (AfterMatch::PastLastRow, _) => Ok(candidate.row + 1),
            (AfterMatch::ToNextRow, _) => Ok(first + 1),
            (_, Some(mark)) if mark > first => Ok(mark),
            (_, Some(_)) => exec_err!(
                "match_recognize: the match that ends at {} would be found for ever, for the row to skip to \
                 is its first; skip to another variable",
                candidate.time
            ),
            (_, None) => exec_err!(
                "match_recognize: the match that ends at {} has no row of the variable to skip to",
                candidate.time
            ),
        }
    }

    /// Drops the attempts of a key after this one that begin before a row.
    fn skip(&mut self, group: u32, first: u32, to: Row, registers: &mut Registers) {
        while let Some(next) = self.attempts.get(self.attempts[first as usize].next as usize)
            && next.row < to
        {
            let (id, after) = (self.attempts[first as usize].next, next.next);
            self.attempts[first as usize].next = after;
            if after == NONE {
                self.keys[group as usize].last = first;
            }
            self.clear(group, id, registers);
        }
    }

    fn remove_first(&mut self, group: u32, registers: &mut Registers) {
        let key = &mut self.keys[group as usize];
        let id = key.first;
        key.first = self.attempts[id as usize].next;
        if key.first == NONE {
            key.last = NONE;
        }
        self.clear(group, id, registers);
    }

    /// Lets go of an attempt that is in no list any more.
    fn clear(&mut self, group: u32, id: u32, registers: &mut Registers) {
        self.prefer(group, id, None, registers);
        let threads = &mut self.attempts[id as usize].threads;
        threads.drain(..).for_each(|thread| registers.release(thread.register));
        self.free.push(id);
    }

    /// Sees to it that a key with a candidate is looked at when its first attempt is over.
    fn set_alarm(&mut self, group: u32) {
        let key = &mut self.keys[group as usize];
        if let Some(first) = self.attempts.get(key.first as usize)
            && key.candidates > 0
            && first.deadline < key.alarm
        {
            key.alarm = first.deadline;
            self.alarms.push(Reverse((first.deadline, group)));
        }
    }

    /// Time has come to `time`: decides attempts that are over and hold a match back.
    pub fn pass(&mut self, time: Time, registers: &mut Registers, found: &mut Vec<Found>) -> Result<()> {
        while let Some(&Reverse((alarm, group))) = self.alarms.peek()
            && alarm <= time
        {
            self.alarms.pop();
            // Keys that were forgotten, and those that are looked at earlier, have another alarm.
            if self.keys[group as usize].alarm == alarm {
                self.keys[group as usize].alarm = INFINITY;
                self.expire(group, time, registers, found)?;
            }
        }
        if time == INFINITY {
            for group in 0..self.keys.len() as u32 {
                self.expire(group, time, registers, found)?;
            }
        }
        Ok(())
    }

    /// Decides the attempts of a key that are over at `time`.
    fn expire(
        &mut self,
        group: u32,
        time: Time,
        registers: &mut Registers,
        found: &mut Vec<Found>,
    ) -> Result<()> {
        let mut at = self.keys[group as usize].first;
        while let Some(attempt) = self.attempts.get_mut(at as usize) {
            if attempt.deadline <= time {
                attempt.threads.drain(..).for_each(|thread| registers.release(thread.register));
            }
            at = attempt.next;
        }
        self.decide(group, registers, found)
    }

    /// Whether a key has no attempt at `time` or after it; if so, its count of matches is forgotten.
    pub fn retire(
        &mut self,
        group: u32,
        time: Time,
        registers: &mut Registers,
        found: &mut Vec<Found>,
    ) -> Result<bool> {
        if group as usize >= self.keys.len() {
            return Ok(true);
        }
        self.expire(group, time, registers, found)?;
        let is_idle = self.keys[group as usize].first == NONE;
        if is_idle {
            self.keys[group as usize] = KeyState::default();
        }
        Ok(is_idle)
    }

    /// How many attempts there are, and the start of the first, if it has to end.
    pub fn alive(&self) -> (usize, Option<Time>) {
        // The attempts of a key are in the order of their deadlines.
        let firsts = self.keys.iter().filter_map(|key| self.attempts.get(key.first as usize));
        let first = firsts.map(|attempt| attempt.deadline).min().zip(self.within);
        let count = self.attempts.len() - self.free.len();
        (count, first.and_then(|(deadline, within)| start_before(deadline, within)))
    }

    /// The attempts, and the slots of their registers in the order of their places.
    pub fn save(&self) -> (SavedAttempts, Vec<u32>) {
        let mut slots = Vec::new();
        let mut place = |slot: &mut u32| {
            slots.push(*slot);
            *slot = slots.len() as u32 - 1;
        };
        let mut of = |first: u32| {
            let (mut at, mut list) = (first, Vec::new());
            while let Some(attempt) = self.attempts.get(at as usize) {
                let mut saved = attempt.clone();
                saved.threads.iter_mut().for_each(|thread| place(&mut thread.register));
                saved.candidate.iter_mut().for_each(|candidate| place(&mut candidate.register));
                list.push(saved);
                at = attempt.next;
            }
            list
        };
        let attempts = self.keys.iter().map(|key| of(key.first)).collect();
        (SavedAttempts { keys: self.keys.clone(), attempts }, slots)
    }

    /// Takes over saved attempts, whose registers are in these slots now.
    pub fn restore(&mut self, saved: SavedAttempts, slots: &[u32]) {
        self.keys = saved.keys;
        let alarms = (0..).zip(&self.keys).filter(|(_, key)| key.alarm < INFINITY);
        self.alarms = alarms.map(|(group, key)| Reverse((key.alarm, group))).collect();
        self.attempts.clear();
        self.free.clear();
        self.held = Holds::default();
        self.begun = 0;
        for (group, attempts) in (0..).zip(saved.attempts) {
            let key = &mut self.keys[group as usize];
            (key.first, key.last) = (NONE, NONE);
            for mut attempt in attempts {
                attempt.threads.iter_mut().for_each(|t| t.register = slots[t.register as usize]);
                if let Some(candidate) = &mut attempt.candidate {
                    candidate.register = slots[candidate.register as usize];
                    self.held.add(candidate.time, (self.attempts.len() as u32, self.begun));
                }
                (attempt.number, attempt.next) = (self.begun, NONE);
                self.begun += 1;
                self.attempts.push(attempt);
                self.append(group, self.attempts.len() as u32 - 1);
            }
        }
    }
}
