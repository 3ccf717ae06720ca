//! A small model of lineage, recovery and fencing, of which every state is visited.
//!
//! One channel with three frames; two workers, of which one may crash and one may be late; one consumer,
//! which may read what any worker has announced, as it may not know yet who has the channel. A frame is the
//! choice that was made for it: in turn (false), which is not logged, or out of turn (true), which is. This
//! follows the rules of `lineage.rs`, `recovery.rs` and `worker/`; the simulation in `src/simulation` runs
//! their code.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

const FRAMES: usize = 3;

/// A rule that the model follows, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rules {
    All,
    /// A choice is logged whatever the row of the channel says.
    Unfenced,
    /// Frames are announced before their choices are logged.
    NoWriteAhead,
    /// A channel that runs again makes choices of its own.
    NoReplay,
}

/// A run of the channel on a worker.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Run {
    attempt: u8,
    /// The choices that it has to make again.
    replayed: BTreeSet<usize>,
    frames: Vec<bool>,
    announced: usize,
    /// How many frames have their choices in the log, as far as the store knows and the run does not yet.
    logged: usize,
    is_fenced: bool,
}

/// A worker: how often it came back, each time under another name; whether its lease is held; what it runs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Worker {
    returns: u8,
    is_leased: bool,
    run: Option<Run>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct State {
    /// The row of the channel: its worker, with its name, and its attempt, which stands for its version, too.
    owner: (usize, u8),
    attempt: u8,
    ended: bool,
    /// The frames that were chosen out of turn, in the store.
    log: BTreeSet<usize>,
    workers: [Worker; 2],
    read: Vec<bool>,
    may_crash: bool,
    may_be_late: bool,
}

impl State {
    fn first() -> State {
        let worker = Worker { returns: 0, is_leased: true, run: None };
        State {
            owner: (0, 0),
            attempt: 0,
            ended: false,
            log: BTreeSet::new(),
            workers: [worker.clone(), worker],
            read: vec![],
            may_crash: true,
            may_be_late: true,
        }
    }

    /// The same after a change.
    fn with(&self, change: impl FnOnce(&mut State)) -> State {
        let mut next = self.clone();
        change(&mut next);
        next
    }

    /// All states that may be next.
    fn next(&self, rules: Rules) -> Vec<State> {
        (0..self.workers.len())
            .flat_map(|own| [self.of_worker(own), self.of_run(own, rules)].concat())
            .collect()
    }

    /// What may happen to a worker, and what it may do about the row.
    fn of_worker(&self, own: usize) -> Vec<State> {
        let mut next = Vec::new();
        let worker = &self.workers[own];
        let gone = |is_leased, returns| Worker { is_leased, returns, run: None };
        if self.may_crash {
            let lost = gone(false, worker.returns);
            next.push(self.with(|state| (state.may_crash, state.workers[own]) = (false, lost)));
        }
        if self.may_be_late && worker.is_leased {
            next.push(self.with(|s| (s.may_be_late, s.workers[own].is_leased) = (false, false)));
        }
        if !worker.is_leased {
            // It comes back, with nothing of what it had.
            next.push(self.with(|state| state.workers[own] = gone(true, worker.returns + 1)));
            return next;
        }
        let is_running = worker.run.as_ref().is_some_and(|run| run.attempt == self.attempt);
        if self.owner != (own, worker.returns) {
            next.push(self.with(|state| state.workers[own].run = None));
        } else if !self.ended && !is_running {
            let replayed = if self.attempt > 0 { self.log.clone() } else { BTreeSet::new() };
            let (attempt, frames) = (self.attempt, vec![]);
            let run = Run { attempt, replayed, frames, announced: 0, logged: 0, is_fenced: false };
            next.push(self.with(|state| state.workers[own].run = Some(run)));
        }
        let owner = &self.workers[self.owner.0];
        let is_lost = !owner.is_leased || owner.returns != self.owner.1;
        if is_lost && self.read.len() < FRAMES {
            next.push(self.with(|state| {
                (state.owner, state.attempt) = ((own, worker.returns), state.attempt + 1);
                state.ended = false;
            }));
        }
        next
    }

    /// What a run may do, also one whose worker is late.
    fn of_run(&self, own: usize, rules: Rules) -> Vec<State> {
        let mut next = Vec::new();
        let Some(run) = &self.workers[own].run else { return next };
        let with_run =
            |change: &dyn Fn(&mut Run)| self.with(|state| state.workers[own].run.iter_mut().for_each(change));
        let number = run.frames.len();
        if number < FRAMES {
            let is_free = run.attempt == 0 || rules == Rules::NoReplay;
            let choices = if is_free { vec![false, true] } else { vec![run.replayed.contains(&number)] };
            next.extend(choices.into_iter().map(|choice| with_run(&|run| run.frames.push(choice))));
        }
        if run.logged < number && !run.is_fenced {
            let is_current = run.attempt == self.attempt || rules == Rules::Unfenced;
            let mut logged = with_run(&|run| match is_current {
                true => run.logged = number,
                false => run.is_fenced = true,
            });
            if is_current && run.attempt == 0 {
                logged.log.extend((0..number).filter(|number| run.frames[*number]));
            }
            next.push(logged);
        }
        let announced = if rules == Rules::NoWriteAhead { number } else { run.logged };
        if run.announced < announced {
            next.push(with_run(&|run| run.announced = announced));
        }
        if run.announced == FRAMES && run.attempt == self.attempt && !self.ended {
            next.push(self.with(|state| state.ended = true));
        }
        if self.read.len() < run.announced {
            next.push(self.with(|state| state.read.push(run.frames[state.read.len()])));
        }
        next
    }

    /// Whether what was announced is what was read.
    fn is_right(&self) -> bool {
        let runs = self.workers.iter().filter_map(|worker| worker.run.as_ref());
        runs.into_iter().all(|run| self.read.iter().zip(&run.frames[..run.announced]).all(|(l, r)| l == r))
    }
}

/// Visits every state; the first one that is wrong, or from which the consumer never gets all. How many there
/// are, if all are right.
fn check(rules: Rules) -> Result<usize, Box<State>> {
    let mut before: BTreeMap<State, Vec<State>> = BTreeMap::from([(State::first(), vec![])]);
    let mut waiting = VecDeque::from([State::first()]);
    while let Some(state) = waiting.pop_front() {
        if !state.is_right() {
            return Err(Box::new(state));
        }
        for next in state.next(rules) {
            if !before.contains_key(&next) {
                waiting.push_back(next.clone());
            }
            before.entry(next).or_default().push(state.clone());
        }
    }
    // Backwards from where the consumer has all.
    let mut ending: Vec<&State> = before.keys().filter(|state| state.read.len() == FRAMES).collect();
    let mut ends: BTreeSet<&State> = ending.iter().copied().collect();
    while let Some(state) = ending.pop() {
        ending.extend(before[state].iter().filter(|previous| ends.insert(previous)));
    }
    match before.keys().find(|state| !ends.contains(state)) {
        Some(stuck) => Err(Box::new(stuck.clone())),
        None => Ok(before.len()),
    }
}

#[test]
fn every_state_is_right_and_leads_to_the_end() {
    match check(Rules::All) {
        Ok(states) => println!("{states} states"),
        Err(state) => panic!("{state:#?}"),
    }
}

#[test]
fn a_rule_that_is_broken_is_found() {
    for rules in [Rules::Unfenced, Rules::NoWriteAhead, Rules::NoReplay] {
        let found = check(rules);
        assert!(found.is_err_and(|state| !state.is_right()), "{rules:?} passes for right");
    }
}
