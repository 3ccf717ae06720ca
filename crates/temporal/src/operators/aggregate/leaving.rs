//! How rows leave a stream, and the accumulator that fits it and an aggregate.

use super::accumulator::Accumulator;
use super::bag::{Bag, Distinct, Kept, Readout};
use super::carried::Carried;
use super::ends::{End, Ends};
use super::extremes::{Best, Pick, Queue};
use super::float_sum::FloatSum;
use super::function::AggregateFunction;
use super::lists::{All, First};
use super::moments::{Dispersion, ExactMoments, IntegerMoments};
use super::percentile::{Continuous, Discrete};
use super::product::Product;
use super::sort_keys::{Argument, ByThenValue, SortKeys, StartThenValue};
use super::squares::{ExactSquares, IntegerSquares};
use super::state_column::StateColumn;
use super::sums::{AsQuotient, AsSum, Count, Sum, Wide, WideUnsigned};
use crate::values::{Bytes, Form};
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};

/// How rows leave a stream: what an accumulator must be able to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// Never, or all at once.
    Never,
    /// In the order in which they came.
    InOrder,
    /// In any order.
    AnyOrder,
}

/// What is made for the form `$value` of the values of a type.
macro_rules! by_form {
    ($of:expr, $value:ident => $make:expr) => {
        match Form::of($of) {
            Form::Int => by_form!(@make $value = i64, $make),
            Form::Uint => by_form!(@make $value = u64, $make),
            Form::Float => by_form!(@make $value = f64, $make),
            Form::Decimal => by_form!(@make $value = i128, $make),
            Form::Bytes => by_form!(@make $value = Bytes, $make),
        }
    };
    (@make $value:ident = $form:ty, $make:expr) => {{
        type $value = $form;
        $make
    }};
}

impl AggregateFunction {
    /// A column of states. `undone`: rows leave them again.
    ///
    /// # Errors
    /// As [`return_type`](AggregateFunction::return_type).
    pub fn states(&self, argument: Option<&DataType>, undone: bool) -> Result<Box<dyn Accumulator>> {
        self.accumulator(argument, if undone { Leaving::AnyOrder } else { Leaving::Never })
    }

    /// A column of states that can undo what this stream asks for.
    pub(super) fn accumulator(
        &self,
        argument: Option<&DataType>,
        leaving: Leaving,
    ) -> Result<Box<dyn Accumulator>> {
        self.return_type(argument)?;
        let undone = leaving != Leaving::Never;
        let Some(of) = argument else {
            return match self {
                AggregateFunction::User(user) => Ok(user.accumulator(None, undone)),
                _ => Ok(StateColumn::boxed(Count)),
            };
        };
        Ok(match self {
            AggregateFunction::Count => StateColumn::boxed(Count),
            AggregateFunction::Sum => sum(of)?,
            AggregateFunction::Average => average(of)?,
            AggregateFunction::Min => by_form!(of, V => extreme(Argument::<V>::new(), Pick::Min, leaving)),
            AggregateFunction::Max => by_form!(of, V => extreme(Argument::<V>::new(), Pick::Max, leaving)),
            AggregateFunction::CountDistinct => by_form!(of, V => bag(Argument::<V>::new(), Distinct)),
            AggregateFunction::Variance { population } => dispersion(of, *population, false)?,
            AggregateFunction::StandardDeviation { population } => dispersion(of, *population, true)?,
            AggregateFunction::SumOfSquares => squares(of, false)?,
            AggregateFunction::AverageOfSquares => squares(of, true)?,
            AggregateFunction::Product => bag(Argument::<f64>::new(), Product),
            AggregateFunction::Percentile { fraction, continuous: true } => {
                bag(Argument::<f64>::new(), Continuous(*fraction))
            }
            AggregateFunction::Percentile { fraction, continuous: false } => {
                by_form!(of, V => bag(Argument::<V>::new(), Discrete(*fraction)))
            }
            AggregateFunction::MaxBy => by(of, true, leaving)?,
            AggregateFunction::MinBy => by(of, false, leaving)?,
            AggregateFunction::TopK { k, ties, descending } => {
                let end = if *descending { Pick::Max } else { Pick::Min };
                let first = First { end, count: *k, ties: *ties };
                by_form!(of, V => first_of(Argument::<V>::new(), first, leaving))
            }
            AggregateFunction::Collect => by_form!(of, V => bag(StartThenValue::<V>::new(), All)),
            AggregateFunction::First => end(End::First, of, leaving),
            AggregateFunction::Last => end(End::Last, of, leaving),
            AggregateFunction::Single => end(End::Only, of, leaving),
            AggregateFunction::User(user) => user.accumulator(argument, undone),
        })
    }
}

/// Of what has no total.
fn no_number(of: &DataType) -> Result<Box<dyn Accumulator>> {
    internal_err!("{of} is not a number, which should have been found out before")
}

fn sum(of: &DataType) -> Result<Box<dyn Accumulator>> {
    Ok(match Form::of(of) {
        Form::Int => StateColumn::boxed(Sum::<Carried<i64>, _>::new(AsSum)),
        Form::Uint => StateColumn::boxed(Sum::<Carried<u64>, _>::new(AsSum)),
        Form::Float => StateColumn::boxed(Sum::<FloatSum, _>::new(AsSum)),
        Form::Decimal => StateColumn::boxed(Sum::<Carried<i128>, _>::new(AsSum)),
        Form::Bytes => return no_number(of),
    })
}

fn average(of: &DataType) -> Result<Box<dyn Accumulator>> {
    let mean = AsQuotient { units: units(of), average: true };
    Ok(match Form::of(of) {
        Form::Int => StateColumn::boxed(Sum::<Wide, _>::new(mean)),
        Form::Uint => StateColumn::boxed(Sum::<WideUnsigned, _>::new(mean)),
        Form::Float => StateColumn::boxed(Sum::<FloatSum, _>::new(mean)),
        Form::Decimal => StateColumn::boxed(Sum::<Carried<i128>, _>::new(mean)),
        Form::Bytes => return no_number(of),
    })
}

fn squares(of: &DataType, average: bool) -> Result<Box<dyn Accumulator>> {
    let quotient = AsQuotient { units: units(of) * units(of), average };
    Ok(match (Form::of(of), average) {
        (Form::Int, false) => StateColumn::boxed(Sum::<IntegerSquares<i64>, _>::new(AsSum)),
        (Form::Int, true) => StateColumn::boxed(Sum::<IntegerSquares<i64>, _>::new(quotient)),
        (Form::Uint, false) => StateColumn::boxed(Sum::<IntegerSquares<u64>, _>::new(AsSum)),
        (Form::Uint, true) => StateColumn::boxed(Sum::<IntegerSquares<u64>, _>::new(quotient)),
        (Form::Float, _) => StateColumn::boxed(Sum::<ExactSquares<f64>, _>::new(quotient)),
        (Form::Decimal, _) => StateColumn::boxed(Sum::<ExactSquares<i128>, _>::new(quotient)),
        (Form::Bytes, _) => return no_number(of),
    })
}

fn dispersion(of: &DataType, population: bool, root: bool) -> Result<Box<dyn Accumulator>> {
    let dispersion = Dispersion { population, root, units: units(of) };
    Ok(match Form::of(of) {
        Form::Int => StateColumn::boxed(Sum::<IntegerMoments<i64>, _>::new(dispersion)),
        Form::Uint => StateColumn::boxed(Sum::<IntegerMoments<u64>, _>::new(dispersion)),
        Form::Float => StateColumn::boxed(Sum::<ExactMoments<f64>, _>::new(dispersion)),
        Form::Decimal => StateColumn::boxed(Sum::<ExactMoments<i128>, _>::new(dispersion)),
        Form::Bytes => return no_number(of),
    })
}

/// How many of the smallest decimals of a type are 1.
fn units(of: &DataType) -> f64 {
    match of {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            10_f64.powi((*scale).into())
        }
        _ => 1.0,
    }
}

/// How rows leave decides what has to be kept.
fn extreme<K: SortKeys>(keys: K, pick: Pick, leaving: Leaving) -> Box<dyn Accumulator> {
    match leaving {
        Leaving::Never => StateColumn::boxed(Best::new(keys, pick)),
        Leaving::InOrder => StateColumn::boxed(Queue::new(keys, pick)),
        Leaving::AnyOrder => bag(keys, pick),
    }
}

fn bag<K: SortKeys>(keys: K, readout: impl Readout<K>) -> Box<dyn Accumulator> {
    StateColumn::boxed(Bag::new(keys, readout))
}

fn first_of<K: SortKeys>(keys: K, first: First, leaving: Leaving) -> Box<dyn Accumulator> {
    let kept = match leaving {
        Leaving::Never => Kept::First(first.end, i64::try_from(first.count.get()).unwrap_or(i64::MAX)),
        Leaving::InOrder | Leaving::AnyOrder => Kept::All,
    };
    StateColumn::boxed(Bag::keeping(kept, keys, first))
}

/// The largest key is the first one where keys are in descending order.
fn by(of: &DataType, descending: bool, leaving: Leaving) -> Result<Box<dyn Accumulator>> {
    let DataType::Struct(fields) = of else { return internal_err!("{of} is not a struct") };
    Ok(by_form!(fields[1].data_type(), V => extreme(ByThenValue::<V>::new(descending), Pick::Min, leaving)))
}

fn end(end: End, of: &DataType, leaving: Leaving) -> Box<dyn Accumulator> {
    by_form!(of, V => StateColumn::boxed(Ends::<V>::new(end, leaving == Leaving::Never)))
}
