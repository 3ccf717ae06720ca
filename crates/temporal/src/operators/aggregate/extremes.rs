//! Minimum, maximum and distinct count.
//!
//! Three ways to keep a minimum, by how rows leave (trill.txt §5.3): [`Best`] where none ever does, [`Queue`] where they
//! leave in the order in which they came (a monotone queue: what a newer row beats can never matter again), and [`Bag`],
//! a multiset, where any row may leave at any time.

use super::accumulator::{Accumulator, Rows, same};
use super::sums::counted;
use crate::operator::{decode, encode};
use crate::time::{INFINITY, Time};
use crate::values::{Column, Value};
use arrow::buffer::BooleanBuffer;
use datafusion::common::Result;
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

/// What is read off a multiset of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// How many different ones.
    Distinct,
}

impl Pick {
    /// Whether `new` makes `old` irrelevant once it is there at least as long.
    #[inline]
    fn beats<O: Ord>(self, new: &O, old: &O) -> bool {
        match self {
            Pick::Min => new <= old,
            _ => new >= old,
        }
    }
}

/// The argument of the batch at hand.
#[derive(Debug)]
struct Argument<V: Value> {
    column: V::Column,
    take: Option<BooleanBuffer>,
}

impl<V: Value> Default for Argument<V> {
    fn default() -> Self {
        Argument { column: V::Column::default(), take: None }
    }
}

impl<V: Value> Argument<V> {
    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.take = counted(rows);
        if let Some(argument) = &rows.argument {
            self.column = V::column(argument)?;
        }
        Ok(())
    }

    #[inline]
    fn each(&self, states: &[u32], first: usize, mut f: impl FnMut(usize, V::Ordered)) {
        for (i, &state) in states.iter().enumerate() {
            if self.take.as_ref().is_none_or(|take| take.value(first + i)) {
                f(state as usize, V::get(&self.column, first + i).ordered());
            }
        }
    }
}

/// The best value so far; rows never leave.
#[derive(Debug)]
pub(super) struct Best<V: Value> {
    states: Vec<Option<V::Ordered>>,
    argument: Argument<V>,
    pick: Pick,
}

impl<V: Value> Best<V> {
    pub fn new(pick: Pick) -> Self {
        Best { states: Vec::new(), argument: Argument::default(), pick }
    }

    fn offer(pick: Pick, state: &mut Option<V::Ordered>, value: V::Ordered) {
        match state {
            Some(old) if !pick.beats(&value, old) => {}
            _ => *state = Some(value),
        }
    }
}

impl<V: Value> Accumulator for Best<V> {
    fn grow(&mut self, states: usize) {
        self.states.resize(states.max(self.states.len()), None);
    }
    fn reset(&mut self, states: &[u32]) {
        states.iter().for_each(|&s| self.states[s as usize] = None);
    }
    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.argument.load(rows)
    }
    fn accumulate(&mut self, states: &[u32], first: usize) {
        let Best { states: all, argument, pick, .. } = self;
        argument.each(states, first, |s, value| Self::offer(*pick, &mut all[s], value));
    }
    fn deaccumulate(&mut self, _states: &[u32], _first: usize) {
        debug_assert!(false, "rows never leave here");
    }
    fn combine(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        let other = same::<Self>(other);
        for (&t, &f) in to.iter().zip(from) {
            if let Some(value) = other.states[f as usize].clone() {
                Self::offer(self.pick, &mut self.states[t as usize], value);
            }
        }
    }
    fn difference(&mut self, _to: &[u32], _other: &dyn Accumulator, _from: &[u32], _end: Time) {
        debug_assert!(false, "rows never leave here");
    }
    fn result(&self, states: &[u32], out: &mut Column) {
        out.extend_optional(states.iter().map(|&s| self.states[s as usize].as_ref().map(V::from_ordered)));
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn save(&self) -> Result<Vec<u8>> {
        encode(&self.states)
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.states = decode(bytes)?;
        Ok(())
    }
}

/// The values that can still become the best one, oldest first, each with its end; rows leave in the order they came.
#[derive(Debug)]
pub(super) struct Queue<V: Value> {
    states: Vec<VecDeque<(Time, V::Ordered)>>,
    argument: Argument<V>,
    pick: Pick,
}

impl<V: Value> Queue<V> {
    pub fn new(pick: Pick) -> Self {
        Queue { states: Vec::new(), argument: Argument::default(), pick }
    }

    fn offer(pick: Pick, state: &mut VecDeque<(Time, V::Ordered)>, end: Time, value: V::Ordered) {
        while state.back().is_some_and(|(until, old)| *until <= end && pick.beats(&value, old)) {
            state.pop_back();
        }
        state.push_back((end, value));
    }
}

impl<V: Value> Accumulator for Queue<V> {
    fn grow(&mut self, states: usize) {
        self.states.resize(states.max(self.states.len()), VecDeque::new());
    }
    fn reset(&mut self, states: &[u32]) {
        states.iter().for_each(|&s| self.states[s as usize].clear());
    }
    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.argument.load(rows)
    }
    fn accumulate(&mut self, states: &[u32], first: usize) {
        // The rows of one pane end together: only the best one matters.
        let Queue { states: all, argument, pick, .. } = self;
        argument.each(states, first, |s, value| match all[s].front() {
            Some((_, old)) if !pick.beats(&value, old) => {}
            _ => {
                all[s].clear();
                all[s].push_back((INFINITY, value));
            }
        });
    }
    fn deaccumulate(&mut self, _states: &[u32], _first: usize) {
        debug_assert!(false, "there are no end edges here");
    }
    fn combine(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], end: Time) {
        let other = same::<Self>(other);
        for (&t, &f) in to.iter().zip(from) {
            if let Some((_, value)) = other.states[f as usize].front().cloned() {
                Self::offer(self.pick, &mut self.states[t as usize], end, value);
            }
        }
    }
    fn difference(&mut self, to: &[u32], _other: &dyn Accumulator, _from: &[u32], end: Time) {
        for &t in to {
            let state = &mut self.states[t as usize];
            while state.front().is_some_and(|(until, _)| *until <= end) {
                state.pop_front();
            }
        }
    }
    fn result(&self, states: &[u32], out: &mut Column) {
        let best = |&s: &u32| self.states[s as usize].front().map(|(_, value)| V::from_ordered(value));
        out.extend_optional(states.iter().map(best));
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn save(&self) -> Result<Vec<u8>> {
        encode(&self.states)
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.states = decode(bytes)?;
        Ok(())
    }
}

/// All values with how often each is there; any row may leave.
#[derive(Debug)]
pub(super) struct Bag<V: Value> {
    states: Vec<BTreeMap<V::Ordered, i64>>,
    argument: Argument<V>,
    pick: Pick,
}

impl<V: Value> Bag<V> {
    pub fn new(pick: Pick) -> Self {
        Bag { states: Vec::new(), argument: Argument::default(), pick }
    }

    fn change(state: &mut BTreeMap<V::Ordered, i64>, value: V::Ordered, by: i64) {
        let count = state.entry(value.clone()).or_insert(0);
        *count += by;
        if *count == 0 {
            state.remove(&value);
        }
    }

    fn transfer(&mut self, to: &[u32], other: &Self, from: &[u32], sign: i64) {
        for (&t, &f) in to.iter().zip(from) {
            for (value, count) in &other.states[f as usize] {
                Self::change(&mut self.states[t as usize], value.clone(), sign * count);
            }
        }
    }
}

impl<V: Value> Accumulator for Bag<V> {
    fn grow(&mut self, states: usize) {
        self.states.resize(states.max(self.states.len()), BTreeMap::new());
    }
    fn reset(&mut self, states: &[u32]) {
        states.iter().for_each(|&s| self.states[s as usize].clear());
    }
    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.argument.load(rows)
    }
    fn accumulate(&mut self, states: &[u32], first: usize) {
        let Bag { states: all, argument, .. } = self;
        argument.each(states, first, |s, value| Self::change(&mut all[s], value, 1));
    }
    fn deaccumulate(&mut self, states: &[u32], first: usize) {
        let Bag { states: all, argument, .. } = self;
        argument.each(states, first, |s, value| Self::change(&mut all[s], value, -1));
    }
    fn combine(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        self.transfer(to, same::<Self>(other), from, 1);
    }
    fn difference(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        self.transfer(to, same::<Self>(other), from, -1);
    }
    fn result(&self, states: &[u32], out: &mut Column) {
        let states = states.iter().map(|&s| &self.states[s as usize]);
        let value = |entry: Option<(&V::Ordered, &i64)>| entry.map(|(value, _)| V::from_ordered(value));
        match self.pick {
            Pick::Distinct => out.extend(states.map(|s| s.len() as i64)),
            Pick::Min => out.extend_optional(states.map(|s| value(s.first_key_value()))),
            Pick::Max => out.extend_optional(states.map(|s| value(s.last_key_value()))),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn save(&self) -> Result<Vec<u8>> {
        encode(&self.states)
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.states = decode(bytes)?;
        Ok(())
    }
}
