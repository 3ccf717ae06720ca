//! Count, sum and average: states from which rows can be taken out again by subtraction.

use super::accumulator::Rows;
use super::carried::{Carried, TOO_LARGE, sum_of_halves, sum_of_upper_and_lower};
use super::float_sum::FloatSum;
use super::state_column::Aggregator;
use super::total::Total;
use crate::time::Time;
use crate::values::{Column, Value};
use arrow::buffer::BooleanBuffer;
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::ops::Range;

/// How many of so many rows are selected.
fn count_of(rows: &Range<usize>, selection: Option<&BooleanBuffer>) -> i64 {
    selection.map_or(rows.len(), BooleanBuffer::count_set_bits) as i64
}

/// The number of rows.
#[derive(Debug)]
pub(super) struct Count;

impl Aggregator for Count {
    type State = i64;

    fn load(&mut self, _rows: &Rows, _first: u64) -> Result<()> {
        Ok(())
    }
    #[inline(always)]
    fn add(&self, state: &mut i64, _row: usize) {
        *state += 1;
    }
    fn add_run(&self, state: &mut i64, rows: Range<usize>, selection: Option<&BooleanBuffer>) {
        *state += count_of(&rows, selection);
    }
    fn remove(&self, state: &mut i64, _row: usize) {
        *state -= 1;
    }
    fn combine(&self, state: &mut i64, other: &i64, _end: Time) {
        *state += other;
    }
    fn difference(&self, state: &mut i64, other: &i64, _end: Time) {
        *state -= other;
    }
    fn results<'a>(&self, states: impl ExactSizeIterator<Item = &'a i64> + Clone, out: &mut Column) {
        out.extend(states.copied());
    }
}

/// An integer sum that cannot overflow, for averages.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Wide(i128);
/// The same of unsigned integers.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct WideUnsigned(i128);

macro_rules! wide_total {
    ($total:ty, $value:ty, $sum:expr) => {
        impl Total for $total {
            type Value = $value;
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
            fn add_run(
                &mut self,
                column: &<$value as Value>::Column,
                rows: Range<usize>,
                selection: Option<&BooleanBuffer>,
            ) {
                self.0 += $sum(&column[rows], selection) as i128;
            }
        }
    };
}

wide_total!(Wide, i64, sum_of_halves);
wide_total!(WideUnsigned, u64, sum_of_upper_and_lower);

/// What a sum and a count give.
pub(super) trait Finish<T: Total>: Debug + Send + 'static {
    type Value: Value;
    /// The result over `count` values, of which there is at least one; so many `units` make 1.
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

/// A sum, or what follows from it and the count. A state is both: one access to memory.
#[derive(Debug)]
pub(super) struct Sum<T: Total, F: Finish<T>> {
    column: <T::Value as Value>::Column,
    /// How many units of what is added up make 1: decimals are added up as whole numbers, without their
    /// point.
    units: f64,
    finish: std::marker::PhantomData<F>,
}

impl<T: Total, F: Finish<T>> Sum<T, F> {
    pub fn new() -> Self {
        Sum::of_units(1.0)
    }

    /// The same over decimals, which are added up as whole numbers: so many units make 1.
    pub fn of_units(units: f64) -> Self {
        Sum { column: Default::default(), units, finish: std::marker::PhantomData }
    }
}

impl<T: Total, F: Finish<T>> Aggregator for Sum<T, F> {
    type State = (T, i64);

    fn load(&mut self, rows: &Rows, _first: u64) -> Result<()> {
        if let Some(argument) = &rows.argument {
            self.column = T::Value::column(argument)?;
        }
        Ok(())
    }
    #[inline(always)]
    fn add(&self, (total, count): &mut Self::State, row: usize) {
        total.add(&T::Value::get(&self.column, row));
        *count += 1;
    }
    fn add_run(
        &self,
        (total, count): &mut Self::State,
        rows: Range<usize>,
        selection: Option<&BooleanBuffer>,
    ) {
        *count += count_of(&rows, selection);
        total.add_run(&self.column, rows, selection);
    }
    fn remove(&self, (total, count): &mut Self::State, row: usize) {
        total.remove(&T::Value::get(&self.column, row));
        *count -= 1;
    }
    fn combine(&self, (total, count): &mut Self::State, (added, by): &Self::State, _end: Time) {
        total.merge(*added);
        *count += by;
    }
    fn difference(&self, (total, count): &mut Self::State, (removed, by): &Self::State, _end: Time) {
        total.unmerge(*removed);
        *count -= by;
        if *count == 0 {
            *total = T::default();
        }
    }
    fn results<'a>(&self, states: impl ExactSizeIterator<Item = &'a Self::State> + Clone, out: &mut Column) {
        if !states.clone().all(|(total, _)| F::fits(*total)) {
            return out.refuse(TOO_LARGE);
        }
        let finish = |&(total, count): &Self::State| F::finish(total, count, self.units);
        match states.clone().all(|(_, count)| *count > 0) {
            true => out.extend(states.map(finish)),
            false => out.extend_optional(states.map(|state| (state.1 > 0).then(|| finish(state)))),
        }
    }
}
