//! The aggregates by name: their types, and the accumulator that fits how rows leave the stream.

use super::accumulator::Accumulator;
use super::carried::Carried;
use super::ends::{End, Ends};
use super::extremes::{Bag, Best, Pick, Queue};
use super::float_sum::FloatSum;
use super::state_column::StateColumn;
use super::sums::{AsAverage, AsSum, Count, Sum, Wide, WideUnsigned};
use crate::values::{Bytes, Form};
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use std::fmt;
use std::sync::Arc;

/// An aggregate written by a user over the same framework as the built-in ones.
pub trait UserAggregate: Send + Sync + fmt::Debug {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// The type of its result.
    ///
    /// # Errors
    /// `Plan` if it does not take such an argument.
    fn return_type(&self, argument: Option<&DataType>) -> Result<DataType>;

    /// A column of its states. `undone`: rows leave them again; else only
    /// [`accumulate`](Accumulator::accumulate) and [`result`](Accumulator::result) will be asked for.
    fn accumulator(&self, argument: Option<&DataType>, undone: bool) -> Box<dyn Accumulator>;
}

/// What to compute over the rows alive. Plans and the engine share it: `U` is how either holds a user's
/// aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AggregateFunction<U = Arc<dyn UserAggregate>> {
    /// How many rows; with an argument, how many where it is not null.
    Count,
    /// The sum of a number. int64, uint64, float64 or decimal; one that is too large for its type is an
    /// error.
    Sum,
    /// The mean of a number. float64.
    Average,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The value of the row that started first.
    First,
    /// The value of the row that started last.
    Last,
    /// How many different values, nulls apart.
    CountDistinct,
    /// A user's own.
    User(U),
}

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

impl AggregateFunction {
    /// The type of the result over an argument of this type.
    ///
    /// # Errors
    /// `Plan` if the aggregate does not take such an argument; the message says which it takes.
    pub fn return_type(&self, argument: Option<&DataType>) -> Result<DataType> {
        use DataType::*;
        match (self, argument) {
            (AggregateFunction::User(user), argument) => user.return_type(argument),
            (AggregateFunction::Count | AggregateFunction::CountDistinct, _) => Ok(Int64),
            (function, None) => plan_err!("{function} needs an argument"),
            (AggregateFunction::Sum, Some(of)) => match of {
                Int8 | Int16 | Int32 | Int64 => Ok(Int64),
                UInt8 | UInt16 | UInt32 | UInt64 => Ok(UInt64),
                Float16 | Float32 | Float64 => Ok(Float64),
                Decimal128(precision, scale) => Ok(Decimal128((precision + 10).min(38), *scale)),
                other => plan_err!("sum takes numbers, not {other}; cast the argument"),
            },
            (AggregateFunction::Average, Some(of)) => match of {
                of if of.is_integer() || of.is_floating() || matches!(of, Decimal128(..)) => Ok(Float64),
                other => plan_err!("avg takes numbers, not {other}; cast the argument"),
            },
            (_, Some(of)) => Ok(of.clone()),
        }
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
            AggregateFunction::Min => extreme(Pick::Min, of, leaving),
            AggregateFunction::Max => extreme(Pick::Max, of, leaving),
            AggregateFunction::CountDistinct => extreme(Pick::Distinct, of, leaving),
            AggregateFunction::First => end(End::First, of, leaving),
            AggregateFunction::Last => end(End::Last, of, leaving),
            AggregateFunction::User(user) => user.accumulator(argument, undone),
        })
    }
}

fn sum(of: &DataType) -> Result<Box<dyn Accumulator>> {
    Ok(match Form::of(of) {
        Form::Int => StateColumn::boxed(Sum::<Carried<i64>, AsSum>::new()),
        Form::Uint => StateColumn::boxed(Sum::<Carried<u64>, AsSum>::new()),
        Form::Float => StateColumn::boxed(Sum::<FloatSum, AsSum>::new()),
        Form::Decimal => StateColumn::boxed(Sum::<Carried<i128>, AsSum>::new()),
        Form::Bytes => return plan_err!("sum takes numbers, not {of}"),
    })
}

fn average(of: &DataType) -> Result<Box<dyn Accumulator>> {
    Ok(match Form::of(of) {
        Form::Int => StateColumn::boxed(Sum::<Wide, AsAverage>::new()),
        Form::Uint => StateColumn::boxed(Sum::<WideUnsigned, AsAverage>::new()),
        Form::Float => StateColumn::boxed(Sum::<FloatSum, AsAverage>::new()),
        Form::Decimal => StateColumn::boxed(Sum::<Carried<i128>, AsAverage>::of_units(units(of))),
        Form::Bytes => return plan_err!("avg takes numbers, not {of}"),
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

/// One accumulator for each form of value.
macro_rules! by_form {
    ($of:expr, $make:ident, $($argument:expr),*) => {
        match Form::of($of) {
            Form::Int => StateColumn::boxed($make::<i64>::new($($argument),*)),
            Form::Uint => StateColumn::boxed($make::<u64>::new($($argument),*)),
            Form::Float => StateColumn::boxed($make::<f64>::new($($argument),*)),
            Form::Decimal => StateColumn::boxed($make::<i128>::new($($argument),*)),
            Form::Bytes => StateColumn::boxed($make::<Bytes>::new($($argument),*)),
        }
    };
}

/// How rows leave decides what has to be kept; different values can only be counted where all are.
fn extreme(pick: Pick, of: &DataType, leaving: Leaving) -> Box<dyn Accumulator> {
    match (pick, leaving) {
        (Pick::Distinct, _) | (_, Leaving::AnyOrder) => by_form!(of, Bag, pick),
        (_, Leaving::Never) => by_form!(of, Best, pick),
        (_, Leaving::InOrder) => by_form!(of, Queue, pick),
    }
}

fn end(end: End, of: &DataType, leaving: Leaving) -> Box<dyn Accumulator> {
    by_form!(of, Ends, end, leaving == Leaving::Never)
}

impl<U> AggregateFunction<U> {
    /// The same function where users' aggregates are held in another way.
    pub fn map_user<V>(&self, map: impl FnOnce(&U) -> V) -> AggregateFunction<V> {
        match self {
            AggregateFunction::Count => AggregateFunction::Count,
            AggregateFunction::Sum => AggregateFunction::Sum,
            AggregateFunction::Average => AggregateFunction::Average,
            AggregateFunction::Min => AggregateFunction::Min,
            AggregateFunction::Max => AggregateFunction::Max,
            AggregateFunction::First => AggregateFunction::First,
            AggregateFunction::Last => AggregateFunction::Last,
            AggregateFunction::CountDistinct => AggregateFunction::CountDistinct,
            AggregateFunction::User(user) => AggregateFunction::User(map(user)),
        }
    }
}

impl<U: AsRef<dyn UserAggregate>> AggregateFunction<U> {
    /// The function as it is written: `"count_distinct"`.
    pub fn name(&self) -> &str {
        match self {
            AggregateFunction::Count => "count",
            AggregateFunction::Sum => "sum",
            AggregateFunction::Average => "avg",
            AggregateFunction::Min => "min",
            AggregateFunction::Max => "max",
            AggregateFunction::First => "first",
            AggregateFunction::Last => "last",
            AggregateFunction::CountDistinct => "count_distinct",
            AggregateFunction::User(user) => user.as_ref().name(),
        }
    }
}

impl<U: AsRef<dyn UserAggregate>> fmt::Display for AggregateFunction<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
