//! Count, sum and average: states from which rows can be taken out again by subtraction.

use super::accumulator::{Accumulator, Rows, same};
use super::carried::{Carried, TOO_LARGE};
use super::formulas::{AddBlock, Block};
use crate::formula::Numbers;
use crate::operator::{decode, encode};
use crate::time::Time;
use crate::values::{Column, Value};
use arrow::array::{Array, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::common::Result;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

/// Which rows of a batch an aggregate takes in: those that pass its filter and whose argument is not null.
pub(super) fn counted(rows: &Rows) -> Option<BooleanBuffer> {
    let filter = rows.filter.as_ref().map(|f: &BooleanArray| match f.nulls() {
        Some(nulls) => f.values() & nulls.inner(),
        None => f.values().clone(),
    });
    let valid = rows.argument.as_ref().and_then(|a| a.logical_nulls()).filter(|n| n.null_count() > 0);
    match (filter, valid) {
        (Some(filter), Some(valid)) => Some(&filter & valid.inner()),
        (Some(filter), None) => Some(filter),
        (None, Some(valid)) => Some(valid.inner().clone()),
        (None, None) => None,
    }
}

/// Which of these rows are both present and counted; none: all of them.
fn taken(
    rows: &Range<usize>,
    present: Option<&BooleanBuffer>,
    take: Option<&BooleanBuffer>,
) -> Option<BooleanBuffer> {
    let part = |all: &BooleanBuffer| all.slice(rows.start, rows.len());
    match (present, take) {
        (Some(present), Some(take)) => Some(&part(present) & &part(take)),
        (Some(one), None) | (None, Some(one)) => Some(part(one)),
        (None, None) => None,
    }
}

/// The number of rows.
#[derive(Debug, Default)]
pub(super) struct Count {
    counts: Vec<i64>,
    take: Option<BooleanBuffer>,
}

impl Count {
    fn add(&mut self, states: &[u32], first: usize, by: i64) {
        match &self.take {
            None => states.iter().for_each(|&s| self.counts[s as usize] += by),
            Some(take) => {
                for (i, &s) in states.iter().enumerate() {
                    self.counts[s as usize] += by * take.value(first + i) as i64;
                }
            }
        }
    }
}

impl Accumulator for Count {
    fn grow(&mut self, states: usize) {
        self.counts.resize(states.max(self.counts.len()), 0);
    }
    fn reset(&mut self, states: &[u32]) {
        states.iter().for_each(|&s| self.counts[s as usize] = 0);
    }
    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.take = counted(rows);
        Ok(())
    }
    fn accumulate(&mut self, states: &[u32], first: usize) {
        self.add(states, first, 1);
    }
    fn accumulate_run(&mut self, state: u32, rows: Range<usize>, present: Option<&BooleanBuffer>) {
        let taken = taken(&rows, present, self.take.as_ref());
        self.counts[state as usize] += taken.map_or(rows.len(), |t| t.count_set_bits()) as i64;
    }
    fn blocks(&mut self) -> Option<&mut dyn AddBlock> {
        Some(self)
    }
    fn deaccumulate(&mut self, states: &[u32], first: usize) {
        self.add(states, first, -1);
    }
    fn combine(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        let counts = &same::<Self>(other).counts;
        to.iter().zip(from).for_each(|(&t, &f)| self.counts[t as usize] += counts[f as usize]);
    }
    fn difference(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        let counts = &same::<Self>(other).counts;
        to.iter().zip(from).for_each(|(&t, &f)| self.counts[t as usize] -= counts[f as usize]);
    }
    fn result(&self, states: &[u32], out: &mut Column) {
        out.extend(states.iter().map(|&s| self.counts[s as usize]));
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn save(&self) -> Result<Vec<u8>> {
        encode(&self.counts)
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.counts = decode(bytes)?;
        Ok(())
    }
}

impl AddBlock for Count {
    fn add_block(&mut self, state: u32, block: &Block) {
        self.counts[state as usize] += block.count as i64;
    }
}

/// A sum to and from which values are added and taken.
pub(super) trait Total:
    Copy + Default + Debug + Send + Serialize + DeserializeOwned + 'static
{
    type Value: Value;
    /// How the numbers of a block are added up, where they are whole ones.
    const ADD_BLOCK: Option<fn(&mut Self, Numbers<i64>, &Block)> = None;
    fn add(&mut self, value: &Self::Value);
    fn remove(&mut self, value: &Self::Value);
    fn merge(&mut self, other: Self);
    fn unmerge(&mut self, other: Self);

    /// Whether it is a number of its type.
    fn fits(&self) -> bool {
        true
    }

    /// Adds those of the rows whose bit is set in `taken`, which begins at the first of them; none: all.
    fn add_run(
        &mut self,
        column: &<Self::Value as Value>::Column,
        rows: Range<usize>,
        taken: Option<&NullBuffer>,
    ) {
        for (i, row) in rows.enumerate() {
            if taken.is_none_or(|t| t.is_valid(i)) {
                self.add(&Self::Value::get(column, row));
            }
        }
    }
}

/// An integer sum that cannot overflow, for averages.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Wide(i128);
/// The same of unsigned integers.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct WideUnsigned(i128);

macro_rules! wide_total {
    ($total:ty, $value:ty, $add_block:expr) => {
        impl Total for $total {
            type Value = $value;
            const ADD_BLOCK: Option<fn(&mut Self, Numbers<i64>, &Block)> = $add_block;
            #[inline(always)]
            fn add(&mut self, value: &$value) {
                self.0 += *value as i128;
            }
            fn remove(&mut self, value: &$value) {
                self.0 -= *value as i128;
            }
            fn merge(&mut self, other: Self) {
                self.0 += other.0;
            }
            fn unmerge(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }
    };
}

wide_total!(Wide, i64, Some(|total, numbers, block| total.0 += wide_sum_of(numbers, block)));
wide_total!(WideUnsigned, u64, None);

/// The sum of the numbers that count, which cannot overflow: upper and lower halves are added up apart.
pub(super) fn wide_sum_of(numbers: Numbers<i64>, block: &Block) -> i128 {
    const HALF: u32 = i64::BITS / 2;
    let halves = |(high, low): (i64, i64), number: i64| {
        (high + (number >> HALF), low + (number & i64::from(u32::MAX)))
    };
    let (high, low) = match (numbers, block.taken) {
        (Numbers::Column(numbers), None) => numbers.iter().fold((0, 0), |sums, n| halves(sums, *n)),
        (Numbers::Column(numbers), Some(taken)) => {
            numbers.iter().zip(taken).fold((0, 0), |sums, (n, taken)| halves(sums, n & taken))
        }
        (Numbers::Same(number), _) => return i128::from(number) * block.count as i128,
    };
    (i128::from(high) << HALF) + i128::from(low)
}

/// Where a sum of floats is cut: what it is in units of this is counted apart, so that the rest cannot overflow.
const UNIT: f64 = f64::from_bits((1023 + 1022) << 52);

/// A sum of floats in twice the precision, so that taking values out again leaves no residue that shows; with the
/// values that are not finite counted apart, so that an infinity can leave again; and with the whole [`UNIT`]s in it
/// counted apart, so that it cannot become infinite on the way.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct FloatSum {
    /// Less than a unit.
    high: f64,
    low: f64,
    units: i32,
    nan: i32,
    positive: i32,
    negative: i32,
}

impl FloatSum {
    /// Adds what is less than a unit.
    #[inline(always)]
    fn plus(&mut self, value: f64) {
        let sum = self.high + value;
        let shadow = sum - self.high;
        self.low += (self.high - (sum - shadow)) + (value - shadow);
        self.high = sum;
        if sum.abs() >= UNIT {
            self.carry();
        }
    }

    #[cold]
    fn carry(&mut self) {
        let unit = UNIT.copysign(self.high);
        self.high -= unit;
        self.units += if unit > 0.0 { 1 } else { -1 };
    }

    #[inline(always)]
    fn count(&mut self, value: f64, by: i32) {
        match value.abs() < UNIT {
            true => self.plus(if by > 0 { value } else { -value }),
            false => self.count_large(value, by),
        }
    }

    #[cold]
    fn count_large(&mut self, value: f64, by: i32) {
        if value.is_nan() {
            self.nan += by;
        } else if value == f64::INFINITY {
            self.positive += by;
        } else if value == f64::NEG_INFINITY {
            self.negative += by;
        } else {
            // At most four units, so both numbers are exact.
            let units = (value / UNIT).trunc();
            self.units += by * units as i32;
            self.plus(f64::from(by) * (value - units * UNIT));
        }
    }

    fn value(self) -> f64 {
        match (self.nan > 0, self.positive > 0, self.negative > 0) {
            (true, _, _) | (_, true, true) => f64::NAN,
            (_, true, _) => f64::INFINITY,
            (_, _, true) => f64::NEG_INFINITY,
            _ if self.units == 0 => self.high + self.low,
            // Made smaller it cannot become infinite before it is whole.
            _ => (f64::from(self.units) + (self.high / UNIT + self.low / UNIT)) * UNIT,
        }
    }
}

impl Total for FloatSum {
    type Value = f64;
    #[inline(always)]
    fn add(&mut self, value: &f64) {
        self.count(*value, 1);
    }
    fn remove(&mut self, value: &f64) {
        self.count(*value, -1);
    }
    fn merge(&mut self, other: Self) {
        self.plus(other.high);
        self.low += other.low;
        self.units += other.units;
        self.nan += other.nan;
        self.positive += other.positive;
        self.negative += other.negative;
    }
    fn unmerge(&mut self, other: Self) {
        self.plus(-other.high);
        self.low -= other.low;
        self.units -= other.units;
        self.nan -= other.nan;
        self.positive -= other.positive;
        self.negative -= other.negative;
    }
}

/// What a sum and a count give.
pub(super) trait Finish<T: Total>: Debug + Send + 'static {
    type Value: Value;
    fn finish(total: T, count: i64, units: f64) -> Self::Value;
    /// Whether there is one.
    fn fits(total: T) -> bool {
        total.fits()
    }
}

/// The sum; null if nothing was counted.
#[derive(Debug)]
pub(super) struct AsSum;
/// The sum divided by the count; null if nothing was counted.
#[derive(Debug)]
pub(super) struct AsAverage;

macro_rules! finish {
    ($($as:ty: $total:ty => $value:ty, $finish:expr;)*) => {
        $(impl Finish<$total> for $as {
            type Value = $value;
            #[inline(always)]
            fn finish(total: $total, count: i64, units: f64) -> $value {
                let finish: fn($total, i64, f64) -> $value = $finish;
                finish(total, count, units)
            }
        })*
    };
}

finish! {
    AsSum: Carried<i64> => i64, |sum, _, _| sum.low;
    AsSum: Carried<u64> => u64, |sum, _, _| sum.low;
    AsSum: Carried<i128> => i128, |sum, _, _| sum.low;
    AsSum: FloatSum => f64, |sum, _, _| sum.value();
    AsAverage: Wide => f64, |sum, count, _| sum.0 as f64 / count as f64;
    AsAverage: WideUnsigned => f64, |sum, count, _| sum.0 as f64 / count as f64;
    AsAverage: FloatSum => f64, |sum, count, _| sum.value() / count as f64;
}

/// An average is not larger than what it is of, whatever the sum is.
impl Finish<Carried<i128>> for AsAverage {
    type Value = f64;
    fn finish(total: Carried<i128>, count: i64, units: f64) -> f64 {
        total.value() / (count as f64 * units)
    }
    fn fits(_: Carried<i128>) -> bool {
        true
    }
}

/// A sum, or what follows from it and the count. Both lie together: a state is one access to memory.
#[derive(Debug)]
pub(super) struct Sum<T: Total, F: Finish<T>> {
    /// Totals, and of how many values.
    states: Vec<(T, i64)>,
    column: <T::Value as Value>::Column,
    take: Option<BooleanBuffer>,
    /// How many units of what is added up make 1: decimals are added up as whole numbers, without their point.
    units: f64,
    finish: std::marker::PhantomData<F>,
}

impl<T: Total, F: Finish<T>> Sum<T, F> {
    /// A column without states.
    pub fn new() -> Self {
        Sum::of_units(1.0)
    }

    /// The same over decimals, which are added up as whole numbers: so many units make 1.
    pub fn of_units(units: f64) -> Self {
        let finish = std::marker::PhantomData;
        Sum { states: Vec::new(), column: Default::default(), take: None, units, finish }
    }

    #[inline(always)]
    fn each(&mut self, states: &[u32], first: usize, change: impl Fn(&mut T, &T::Value), by: i64) {
        for (i, &state) in states.iter().enumerate() {
            if self.take.as_ref().is_none_or(|take| take.value(first + i)) {
                let (total, count) = &mut self.states[state as usize];
                change(total, &T::Value::get(&self.column, first + i));
                *count += by;
            }
        }
    }
}

impl<T: Total, F: Finish<T>> Accumulator for Sum<T, F> {
    fn grow(&mut self, states: usize) {
        self.states.resize(states.max(self.states.len()), (T::default(), 0));
    }
    fn reset(&mut self, states: &[u32]) {
        states.iter().for_each(|&s| self.states[s as usize] = (T::default(), 0));
    }
    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.take = counted(rows);
        if let Some(argument) = &rows.argument {
            self.column = T::Value::column(argument)?;
        }
        Ok(())
    }
    fn accumulate(&mut self, states: &[u32], first: usize) {
        self.each(states, first, T::add, 1);
    }
    fn accumulate_run(&mut self, state: u32, rows: Range<usize>, present: Option<&BooleanBuffer>) {
        let taken = taken(&rows, present, self.take.as_ref()).map(NullBuffer::new);
        let (total, count) = &mut self.states[state as usize];
        *count += (rows.len() - taken.as_ref().map_or(0, |t| t.null_count())) as i64;
        total.add_run(&self.column, rows, taken.as_ref());
    }
    fn blocks(&mut self) -> Option<&mut dyn AddBlock> {
        match T::ADD_BLOCK {
            Some(_) => Some(self),
            None => None,
        }
    }
    fn deaccumulate(&mut self, states: &[u32], first: usize) {
        self.each(states, first, T::remove, -1);
    }
    fn combine(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        let other = same::<Self>(other);
        for (&t, &f) in to.iter().zip(from) {
            let (added, by) = other.states[f as usize];
            let (total, count) = &mut self.states[t as usize];
            total.merge(added);
            *count += by;
        }
    }
    fn difference(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        let other = same::<Self>(other);
        for (&t, &f) in to.iter().zip(from) {
            let (removed, by) = other.states[f as usize];
            let (total, count) = &mut self.states[t as usize];
            total.unmerge(removed);
            *count -= by;
            if *count == 0 {
                *total = T::default();
            }
        }
    }
    fn result(&self, states: &[u32], out: &mut Column) {
        let state = |&s: &u32| self.states[s as usize];
        if !states.iter().map(state).all(|(total, _)| F::fits(total)) {
            return out.refuse(TOO_LARGE);
        }
        if states.iter().map(state).all(|(_, count)| count > 0) {
            let finish = |(total, count)| F::finish(total, count, self.units);
            return out.extend(states.iter().map(state).map(finish));
        }
        let finish = |(total, count)| (count > 0).then(|| F::finish(total, count, self.units));
        out.extend_optional(states.iter().map(state).map(finish));
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

impl<T: Total, F: Finish<T>> AddBlock for Sum<T, F> {
    fn add_block(&mut self, state: u32, block: &Block) {
        let (total, count) = &mut self.states[state as usize];
        if let (Some(add), Some(numbers)) = (T::ADD_BLOCK, block.numbers) {
            add(total, numbers, block);
            *count += block.count as i64;
        }
    }
}
