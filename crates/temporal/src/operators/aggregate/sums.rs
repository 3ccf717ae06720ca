//! Count, sum, average and what else is a total: states from which rows can be taken out again by
//! subtraction.

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
            fn merge(&mut self, other: &Self) {
                self.0 += other.0;
            }
            fn unmerge(&mut self, other: &Self) {
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

/// A total that is a sum of its values' kind.
pub(super) trait Summed: Total {
    type Sum: Value;
    /// The sum, where it [fits](Total::fits).
    fn sum(&self) -> Self::Sum;
}

/// A total of which there are quotients, also where it does not fit its type.
pub(super) trait Divided: Total {
    /// The sum divided by a number.
    fn divided_by(&self, by: f64) -> f64;
}

macro_rules! summed {
    ($($total:ty => $sum:ty, $value:expr;)*) => {
        $(impl Summed for $total {
            type Sum = $sum;
            #[inline(always)]
            fn sum(&self) -> $sum {
                let value: fn(&$total) -> $sum = $value;
                value(self)
            }
        })*
    };
}

summed! {
    Carried<i64> => i64, |sum| sum.low;
    Carried<u64> => u64, |sum| sum.low;
    Carried<i128> => i128, |sum| sum.low;
    FloatSum => f64, |sum| sum.value();
}

macro_rules! divided {
    ($($total:ty, $value:expr;)*) => {
        $(impl Divided for $total {
            #[inline(always)]
            fn divided_by(&self, by: f64) -> f64 {
                let value: fn(&$total) -> f64 = $value;
                value(self) / by
            }
        })*
    };
}

divided! {
    Wide, |sum| sum.0 as f64;
    WideUnsigned, |sum| sum.0 as f64;
    FloatSum, |sum| sum.value();
    Carried<i128>, |sum| sum.value();
}

/// What a total and a count give.
pub(super) trait Finish<T: Total>: Debug + Send + 'static {
    type Value: Value;
    /// The fewest values of which there is a result; with fewer it is null.
    fn least(&self) -> i64 {
        1
    }
    /// The result over `count` values, of which there are enough.
    fn finish(&self, total: &T, count: i64) -> Self::Value;
    /// Whether there is one.
    fn fits(&self, _total: &T) -> bool {
        true
    }
}

/// The sum.
#[derive(Debug)]
pub(super) struct AsSum;

impl<T: Summed> Finish<T> for AsSum {
    type Value = T::Sum;
    #[inline(always)]
    fn finish(&self, total: &T, _count: i64) -> T::Sum {
        total.sum()
    }
    #[inline(always)]
    fn fits(&self, total: &T) -> bool {
        total.fits()
    }
}

/// The sum divided by the units of a value that make 1, and by the count if it is an average: decimals are
/// added up as whole numbers, without their point. An average is not larger than what it is of, whatever the
/// sum is.
#[derive(Debug)]
pub(super) struct AsQuotient {
    pub units: f64,
    pub average: bool,
}

impl<T: Divided> Finish<T> for AsQuotient {
    type Value = f64;
    #[inline(always)]
    fn finish(&self, total: &T, count: i64) -> f64 {
        let parts = if self.average { count as f64 } else { 1.0 };
        total.divided_by(parts * self.units)
    }
}

/// A total, or what follows from it and the count. A state is both: one access to memory.
#[derive(Debug)]
pub(super) struct Sum<T: Total, F: Finish<T>> {
    column: <T::Value as Value>::Column,
    finish: F,
}

impl<T: Total, F: Finish<T>> Sum<T, F> {
    pub fn new(finish: F) -> Self {
        Sum { column: Default::default(), finish }
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
        total.merge(added);
        *count += by;
    }
    fn difference(&self, (total, count): &mut Self::State, (removed, by): &Self::State, _end: Time) {
        total.unmerge(removed);
        *count -= by;
        if *count == 0 {
            *total = T::default();
        }
    }
    fn results<'a>(&self, states: impl ExactSizeIterator<Item = &'a Self::State> + Clone, out: &mut Column) {
        let Sum { finish, .. } = self;
        if !states.clone().all(|(total, _)| finish.fits(total)) {
            return out.refuse(TOO_LARGE);
        }
        let least = finish.least();
        let result = |(total, count): &Self::State| finish.finish(total, *count);
        match states.clone().all(|(_, count)| *count >= least) {
            true => out.extend(states.map(result)),
            false => out.extend_optional(states.map(|state| (state.1 >= least).then(|| result(state)))),
        }
    }
}
