//! The deterministic automaton of a program without memory, made as far as it is needed (Thompson 1968).
//!
//! Invariants: a set has the states, in order, in which an instance is at the same time, and only those that
//! go on; set [`DEAD`] is empty and set [`BEGIN`] is where instances start. The table has the step from a set
//! by a class of events once it was computed; sets and classes beyond its limits are computed each time, so
//! that memory is bounded.

use super::filters::Classes;
use super::program::{Program, START};
use hashbrown::HashMap;

/// The set of an instance that does not go on.
pub(crate) const DEAD: u32 = 0;
/// The set in which instances start.
pub(crate) const BEGIN: u32 = 1;

/// Stands for a step that was not computed.
const UNKNOWN: u32 = u32::MAX;
/// Sets whose steps are remembered.
const SETS_MAX: usize = 1024;
/// Classes whose steps are remembered.
const CLASSES_MAX: usize = 4096;
/// So many sets are kept before those that no instance is in are forgotten.
const KEPT_MAX: usize = 1 << 14;

/// Where an instance comes to, and whether it is a match there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub to: u32,
    pub accepts: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Determinized {
    sets: Vec<Box<[u32]>>,
    numbers: HashMap<Box<[u32]>, u32>,
    /// Steps, by set and class: twice the set they lead to, and one if it accepts.
    table: Vec<u32>,
    /// Two to this power are the places of a set in the table.
    shift: u32,
    /// Beyond so many sets those in use are counted.
    crowded: usize,
}

impl Determinized {
    pub fn new() -> Determinized {
        let mut sets = Determinized {
            sets: Vec::new(),
            numbers: HashMap::new(),
            table: Vec::new(),
            shift: 0,
            crowded: KEPT_MAX,
        };
        sets.number(Box::default());
        sets.number([START].into());
        sets
    }

    /// The states of a set.
    pub fn states(&self, set: u32) -> &[u32] {
        &self.sets[set as usize]
    }

    /// The number of a set of states.
    pub fn number(&mut self, states: Box<[u32]>) -> u32 {
        if let Some(&number) = self.numbers.get(&states) {
            return number;
        }
        let number = self.sets.len() as u32;
        self.sets.push(states.clone());
        self.numbers.insert(states, number);
        if self.shift > 0 && self.sets.len() <= SETS_MAX {
            self.table.resize(self.sets.len() << self.shift, UNKNOWN);
        }
        number
    }

    /// Makes room for so many classes of events; those that were there have kept their numbers.
    pub fn fit(&mut self, classes: usize) {
        if classes > 1 << self.shift && 1 << self.shift < CLASSES_MAX {
            self.shift = classes.next_power_of_two().min(CLASSES_MAX).ilog2().max(4);
            self.forget_steps();
        }
    }

    /// Forgets all steps, because classes are others now.
    pub fn forget_steps(&mut self) {
        self.table.clear();
        self.table.resize(self.sets.len().min(SETS_MAX) << self.shift, UNKNOWN);
    }

    /// Whether there may be many sets that are not in use.
    pub fn is_crowded(&self) -> bool {
        self.sets.len() > self.crowded
    }

    /// Forgets the sets that are not among these, which get new numbers.
    pub fn retain<'a>(&mut self, in_use: impl Iterator<Item = &'a mut u32>) {
        let mut kept = Determinized { shift: self.shift, ..Determinized::new() };
        for set in in_use {
            *set = kept.number(self.sets[*set as usize].clone());
        }
        kept.crowded = KEPT_MAX.max(2 * kept.sets.len());
        kept.forget_steps();
        *self = kept;
    }

    /// The step from a set by an event of a class.
    #[inline(always)]
    pub fn step(&mut self, program: &Program, classes: &Classes, set: u32, class: u32) -> Step {
        let place = (set as usize) << self.shift | class as usize;
        match self.table.get(place) {
            Some(&known) if known != UNKNOWN && class >> self.shift == 0 => {
                Step { to: known >> 1, accepts: known & 1 == 1 }
            }
            _ => self.compute(program, classes, set, class),
        }
    }

    #[inline(never)]
    fn compute(&mut self, program: &Program, classes: &Classes, set: u32, class: u32) -> Step {
        let mut accepts = false;
        let mut states = Vec::new();
        for &state in self.sets[set as usize].iter() {
            for arc in program.arcs_of(state).iter().filter(|arc| classes.allow(arc, class)) {
                let to = &program.states[arc.to as usize];
                accepts |= to.accepts;
                if !to.arcs.is_empty() {
                    states.push(arc.to);
                }
            }
        }
        states.sort_unstable();
        states.dedup();
        let to = self.number(states.into());
        let place = (set as usize) << self.shift | class as usize;
        if class >> self.shift == 0
            && let Some(known) = self.table.get_mut(place)
        {
            *known = to << 1 | accepts as u32;
        }
        Step { to, accepts }
    }
}
