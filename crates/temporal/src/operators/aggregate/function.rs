//! The aggregates by name, and their types.

use super::accumulator::Accumulator;
use super::fraction::Fraction;
use super::lists::{list_of, list_of_ranked};
use crate::values::Form;
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use std::fmt;
use std::num::NonZeroUsize;
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
    /// The variance of a number: float64, exact until it is rounded to one, so the order of rows does not
    /// show. Null if there are too few values; NaN while one of them is NaN or infinite.
    Variance {
        /// Of all there is, which one value has too; else estimated from a sample, of two values at least.
        population: bool,
    },
    /// The square root of the variance.
    StandardDeviation {
        /// As in [`Variance`](AggregateFunction::Variance).
        population: bool,
    },
    /// The sum of the squares of a number. int64, uint64 (one that is too large is an error), or float64 of
    /// floats and decimals.
    SumOfSquares,
    /// The mean of the squares of a number. float64.
    AverageOfSquares,
    /// The product of a number. float64; a zero in it has no sign.
    Product,
    /// A percentile.
    Percentile {
        /// The share of the values that are no larger than it.
        fraction: Fraction,
        /// Of a number: at its place between two values, on the line between them. float64. Else the first
        /// value in order with at least this share, of any type.
        continuous: bool,
    },
    /// The value of the row with the largest key: the argument is a struct of two fields, the key and the
    /// value. Rows without a key do not count. Of several rows the smallest value, null if none has one.
    MaxBy,
    /// The value of the row with the smallest key; else as [`MaxBy`](AggregateFunction::MaxBy).
    MinBy,
    /// A list of the smallest values in order, each with its rank: one more than there are values before it.
    /// Its elements are structs of `rank`, an int64, and `value`.
    TopK {
        /// How many values.
        k: NonZeroUsize,
        /// Whether those equal to the last are there too.
        ties: bool,
        /// The largest first, instead of the smallest.
        descending: bool,
    },
    /// A list of all values, nulls too, by the start of their rows, those that start together by value, a
    /// null first.
    Collect,
    /// The value of the only row, which may be null; null if there are several.
    Single,
    /// A user's own.
    User(U),
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
            (AggregateFunction::SumOfSquares, Some(of)) if of.is_signed_integer() => Ok(Int64),
            (AggregateFunction::SumOfSquares, Some(of)) if of.is_unsigned_integer() => Ok(UInt64),
            (function, Some(of)) if function.takes_numbers() => match is_number(of) {
                true => Ok(Float64),
                false => plan_err!("{function} takes numbers, not {of}; cast the argument"),
            },
            (AggregateFunction::MaxBy | AggregateFunction::MinBy, Some(of)) => match of {
                Struct(fields) if fields.len() == 2 => Ok(fields[1].data_type().clone()),
                other => plan_err!("{self} takes structs of a key and a value, not {other}"),
            },
            (AggregateFunction::TopK { .. }, Some(of)) => Ok(list_of_ranked(of.clone())),
            (AggregateFunction::Collect, Some(of)) => Ok(list_of(of.clone())),
            (_, Some(of)) => Ok(of.clone()),
        }
    }

    /// Whether it takes numbers alone, and gives a float64 where nothing else is said. Sums have a rule of
    /// their own.
    fn takes_numbers(&self) -> bool {
        use AggregateFunction::*;
        let of_squares =
            matches!(self, Variance { .. } | StandardDeviation { .. } | SumOfSquares | AverageOfSquares);
        of_squares || matches!(self, Average | Product | Percentile { continuous: true, .. })
    }

    /// Whether it depends on when rows started.
    pub fn asks_for_starts(&self) -> bool {
        use AggregateFunction::*;
        matches!(self, First | Last | Single | Collect | User(_))
    }
}

/// Whether a float64 can stand for every value of this type.
fn is_number(of: &DataType) -> bool {
    of.is_integer() || of.is_floating() || Form::of(of) == Form::Decimal
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
            AggregateFunction::Variance { population } => {
                AggregateFunction::Variance { population: *population }
            }
            AggregateFunction::StandardDeviation { population } => {
                AggregateFunction::StandardDeviation { population: *population }
            }
            AggregateFunction::SumOfSquares => AggregateFunction::SumOfSquares,
            AggregateFunction::AverageOfSquares => AggregateFunction::AverageOfSquares,
            AggregateFunction::Product => AggregateFunction::Product,
            AggregateFunction::Percentile { fraction, continuous } => {
                AggregateFunction::Percentile { fraction: *fraction, continuous: *continuous }
            }
            AggregateFunction::MaxBy => AggregateFunction::MaxBy,
            AggregateFunction::MinBy => AggregateFunction::MinBy,
            AggregateFunction::TopK { k, ties, descending } => {
                AggregateFunction::TopK { k: *k, ties: *ties, descending: *descending }
            }
            AggregateFunction::Collect => AggregateFunction::Collect,
            AggregateFunction::Single => AggregateFunction::Single,
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
            AggregateFunction::Variance { population: false } => "var_samp",
            AggregateFunction::Variance { population: true } => "var_pop",
            AggregateFunction::StandardDeviation { population: false } => "stddev_samp",
            AggregateFunction::StandardDeviation { population: true } => "stddev_pop",
            AggregateFunction::SumOfSquares => "sum_of_squares",
            AggregateFunction::AverageOfSquares => "average_of_squares",
            AggregateFunction::Product => "product",
            AggregateFunction::Percentile { continuous: true, .. } => "percentile_cont",
            AggregateFunction::Percentile { continuous: false, .. } => "percentile_disc",
            AggregateFunction::MaxBy => "max_by",
            AggregateFunction::MinBy => "min_by",
            AggregateFunction::TopK { .. } => "top_k",
            AggregateFunction::Collect => "collect",
            AggregateFunction::Single => "single",
            AggregateFunction::User(user) => user.as_ref().name(),
        }
    }
}

impl<U: AsRef<dyn UserAggregate>> fmt::Display for AggregateFunction<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
