//! Instances of a pattern without memory: a loop over integers.
//!
//! Invariants: an instance is in one set of states of the [`Determinized`] program, and lives until its
//! deadline; the deadline of a match is its end. Without overlap a key has at most one instance; with it,
//! those of a key form a list in the order in which they started, which is that of their deadlines.

use super::determinized::{BEGIN, DEAD, Determinized, Step};
use super::filters::{Classes, Truths};
use super::intake::Events;
use super::matches::Matches;
use super::program::Program;
use super::registers::INITIAL;
use crate::time::{Time, end_after, start_before};
use datafusion::common::Result;
use serde::{Deserialize, Serialize};

/// More classes of events than this are forgotten before the next batch.
const CLASSES_KEPT: usize = 1 << 14;

/// Stands for no instance.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Instance {
    deadline: Time,
    set: u32,
    /// The next of its key, if several may be alive.
    next: u32,
}

const IDLE: Instance = Instance { deadline: 0, set: DEAD, next: NONE };

/// The instances of all keys.
#[derive(Debug)]
enum Alive {
    /// At most one a key, by key.
    One(Vec<Instance>),
    /// The first and the last of each key, and all.
    Many { lists: Vec<(u32, u32)>, instances: Vec<Instance>, free: Vec<u32> },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Scan {
    sets: Determinized,
    classes: Classes,
    class_of: Vec<u32>,
    alive: Alive,
    /// In ticks.
    max_duration: i64,
}

/// The instances of a checkpoint: the sets of states they are in, and for each key its instances.
pub(crate) type SavedScan = (Vec<Vec<u32>>, Vec<Vec<(Time, u32)>>);

impl Scan {
    pub fn new(program: &Program, overlap: bool, max_duration: i64) -> Scan {
        let alive = match overlap {
            true => Alive::Many { lists: Vec::new(), instances: Vec::new(), free: Vec::new() },
            false => Alive::One(Vec::new()),
        };
        Scan {
            sets: Determinized::new(),
            classes: Classes::new(program.filters.len()),
            class_of: Vec::new(),
            alive,
            max_duration,
        }
    }

    /// Takes events; `keys` is above the number of every key.
    pub fn events(
        &mut self,
        program: &Program,
        events: &Events,
        keys: usize,
        matches: &mut Matches,
    ) -> Result<()> {
        self.tidy();
        let truths = Truths::of(program, &events.rows, events.blank.as_ref())?;
        self.classes.classify(&truths, events.times.len(), &mut self.class_of);
        self.sets.fit(self.classes.len());
        match &mut self.alive {
            Alive::One(instances) => {
                instances.resize(keys.max(instances.len()), IDLE);
                self.one(program, events, matches);
            }
            Alive::Many { lists, .. } => {
                lists.resize(keys.max(lists.len()), (NONE, NONE));
                self.many(program, events, matches);
            }
        }
        Ok(())
    }

    /// Without overlap.
    fn one(&mut self, program: &Program, events: &Events, matches: &mut Matches) {
        let Scan { sets, classes, class_of, alive: Alive::One(instances), max_duration } = self else {
            return;
        };
        for (row, (&time, (&group, &class))) in
            events.times.iter().zip(events.groups.iter().zip(class_of.iter())).enumerate()
        {
            let instance = &mut instances[group as usize];
            if instance.set != DEAD && time < instance.deadline {
                let Step { to, accepts } = sets.step(program, classes, instance.set, class);
                if accepts {
                    matches.push(row as u32, instance.deadline, INITIAL);
                }
                instance.set = to;
                if to != DEAD {
                    continue;
                }
            }
            let Step { to, accepts } = sets.step(program, classes, BEGIN, class);
            instance.set = to;
            instance.deadline = end_after(time, *max_duration);
            if accepts {
                matches.push(row as u32, instance.deadline, INITIAL);
            }
        }
    }

    /// With overlap.
    fn many(&mut self, program: &Program, events: &Events, matches: &mut Matches) {
        let Scan { sets, classes, class_of, alive: Alive::Many { lists, instances, free }, max_duration } =
            self
        else {
            return;
        };
        for (row, (&time, (&group, &class))) in
            events.times.iter().zip(events.groups.iter().zip(class_of.iter())).enumerate()
        {
            let (mut at, mut last) = (lists[group as usize].0, NONE);
            lists[group as usize].0 = NONE;
            let mut keep = |id: u32, last: &mut u32, instances: &mut [Instance]| {
                match *last {
                    NONE => lists[group as usize].0 = id,
                    before => instances[before as usize].next = id,
                }
                *last = id;
            };
            while at != NONE {
                let Instance { deadline, set, next } = instances[at as usize];
                let mut to = DEAD;
                if time < deadline {
                    let step = sets.step(program, classes, set, class);
                    to = step.to;
                    if step.accepts {
                        matches.push(row as u32, deadline, INITIAL);
                    }
                }
                match to {
                    DEAD => free.push(at),
                    set => {
                        instances[at as usize].set = set;
                        keep(at, &mut last, instances);
                    }
                }
                at = next;
            }
            let Step { to, accepts } = sets.step(program, classes, BEGIN, class);
            let deadline = end_after(time, *max_duration);
            if accepts {
                matches.push(row as u32, deadline, INITIAL);
            }
            if to != DEAD {
                let id = free.pop().unwrap_or_else(|| {
                    instances.push(IDLE);
                    instances.len() as u32 - 1
                });
                instances[id as usize] = Instance { deadline, set: to, next: NONE };
                keep(id, &mut last, instances);
            }
            if last != NONE {
                instances[last as usize].next = NONE;
            }
            lists[group as usize].1 = last;
        }
    }

    /// Whether a key has no instance at `time`, or after it. Those that are over are let go of.
    pub fn retire(&mut self, group: u32, time: Time) -> bool {
        match &mut self.alive {
            Alive::One(all) => {
                let Some(instance) = all.get_mut(group as usize) else { return true };
                if instance.deadline <= time {
                    instance.set = DEAD;
                }
                instance.set == DEAD
            }
            Alive::Many { lists, instances, free } => {
                let Some((first, last)) = lists.get_mut(group as usize) else { return true };
                while *first != NONE && instances[*first as usize].deadline <= time {
                    free.push(*first);
                    *first = instances[*first as usize].next;
                }
                if *first == NONE {
                    *last = NONE;
                }
                *first == NONE
            }
        }
    }

    /// Forgets classes and sets that are too many.
    fn tidy(&mut self) {
        if self.classes.len() > CLASSES_KEPT {
            self.classes.clear();
            self.sets.forget_steps();
        }
        if self.sets.is_crowded() {
            match &mut self.alive {
                Alive::One(instances) => self.sets.retain(instances.iter_mut().map(|i| &mut i.set)),
                Alive::Many { instances, free, .. } => {
                    free.iter().for_each(|&id| instances[id as usize].set = DEAD);
                    self.sets.retain(instances.iter_mut().map(|i| &mut i.set));
                }
            }
        }
    }

    /// How many instances there are, and the start of the first.
    pub fn alive(&self) -> (usize, Option<Time>) {
        let (_, keys) = self.save();
        let deadlines = || keys.iter().flatten().map(|(deadline, _)| *deadline);
        let first = deadlines().min().and_then(|deadline| start_before(deadline, self.max_duration));
        (deadlines().count(), first)
    }

    pub fn save(&self) -> SavedScan {
        let states = |set: u32| self.sets.states(set).to_vec();
        let mut numbers = hashbrown::HashMap::new();
        let mut sets = Vec::new();
        let mut saved = |instance: &Instance| {
            let number = *numbers.entry(instance.set).or_insert_with(|| {
                sets.push(states(instance.set));
                sets.len() as u32 - 1
            });
            (instance.deadline, number)
        };
        let keys = match &self.alive {
            Alive::One(all) => {
                let alive = |instance: &Instance| (instance.set != DEAD).then(|| saved(instance));
                all.iter().map(alive).map(|alive| alive.into_iter().collect()).collect()
            }
            Alive::Many { lists, instances, .. } => {
                let mut of = |first: u32| {
                    let (mut at, mut list) = (first, Vec::new());
                    while let Some(instance) = instances.get(at as usize) {
                        list.push(saved(instance));
                        at = instance.next;
                    }
                    list
                };
                lists.iter().map(|&(first, _)| of(first)).collect()
            }
        };
        (sets, keys)
    }

    pub fn restore(&mut self, (sets, keys): SavedScan) {
        let sets: Vec<u32> = sets.into_iter().map(|states| self.sets.number(states.into())).collect();
        let restored =
            |&(deadline, set): &(Time, u32)| Instance { deadline, set: sets[set as usize], next: NONE };
        match &mut self.alive {
            Alive::One(all) => {
                *all = keys.iter().map(|key| key.first().map_or(IDLE, restored)).collect();
            }
            Alive::Many { lists, instances, free } => {
                instances.clear();
                free.clear();
                *lists = vec![(NONE, NONE); keys.len()];
                for (list, key) in lists.iter_mut().zip(&keys) {
                    for (place, instance) in key.iter().enumerate() {
                        let id = instances.len() as u32;
                        instances.push(Instance {
                            next: if place + 1 < key.len() { id + 1 } else { NONE },
                            ..restored(instance)
                        });
                        *list = (if place == 0 { id } else { list.0 }, id);
                    }
                }
            }
        }
    }
}
