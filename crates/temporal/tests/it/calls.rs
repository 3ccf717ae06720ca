//! The aggregates as they are defined: over the list of the rows alive, in order of start, then of arrival.

use crate::formula::Formula;
use crate::model::{Event, Value};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use whimbrel_temporal::operators::AggregateFunction as F;

/// One aggregate: what, over which values, over which rows.
#[derive(Debug, Clone)]
pub struct Call {
    pub function: F,
    pub argument: Option<Formula>,
    pub filter: Option<Formula>,
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Int(i) => *i as f64,
        Value::Float(f) => *f,
        other => panic!("{other:?} is not a number"),
    }
}

fn int(value: &Value) -> i64 {
    if let Value::Int(i) = value { *i } else { 0 }
}

impl Call {
    /// What it gives over these rows.
    pub fn result(&self, alive: &[&Event]) -> Value {
        let counted = alive.iter().filter(|e| self.filter.as_ref().is_none_or(|f| f.holds(&e.row)));
        let of = |e: &Event| self.argument.as_ref().map_or(Value::Int(1), |a| a.eval(&e.row));
        let mut values: Vec<(i64, Value)> = counted.map(|e| (e.start, of(e))).collect();
        if matches!(self.function, F::Collect) {
            values.sort();
        }
        match (&self.function, values.as_slice()) {
            (F::First, [(_, first), ..]) => first.clone(),
            (F::Last, [.., (_, last)]) => last.clone(),
            (F::Single, [(_, only)]) => only.clone(),
            (F::Collect, [_, ..]) => Value::List(values.into_iter().map(|(_, value)| value).collect()),
            (F::First | F::Last | F::Single | F::Collect, _) => Value::Null,
            _ => self.of_known(values.iter().map(|(_, value)| value).filter(|v| !v.is_null()).collect()),
        }
    }

    /// What it gives over values of which none is null.
    fn of_known(&self, known: Vec<&Value>) -> Value {
        let mut equal: Vec<Value> = known.iter().map(|v| v.of_equal()).collect();
        equal.sort();
        match &self.function {
            F::Count => Value::Int(known.len() as i64),
            F::CountDistinct => Value::Int(equal.iter().collect::<BTreeSet<_>>().len() as i64),
            F::MaxBy => by(&known, Ordering::reverse),
            F::MinBy => by(&known, |order| order),
            _ if known.is_empty() => Value::Null,
            F::Min => equal[0].clone(),
            F::Max => equal[equal.len() - 1].clone(),
            F::Percentile { fraction, continuous: false } => {
                let share = |place: usize| (place + 1) as f64 / equal.len() as f64;
                let first = (0..equal.len()).find(|&place| share(place) >= fraction.value());
                equal[first.expect("the last has all")].clone()
            }
            F::TopK { k, ties, descending } => top(equal, k.get(), *ties, *descending),
            // The tests' own aggregate: the sum of squares.
            F::User(_) => whole(&known, |v| int(v).wrapping_mul(int(v))),
            F::Sum if matches!(known[0], Value::Int(_)) => whole(&known, int),
            F::SumOfSquares if matches!(known[0], Value::Int(_)) => whole(&known, |v| int(v) * int(v)),
            _ => of_numbers(&self.function, known.into_iter().map(number).collect()),
        }
    }
}

/// The value beside the first key in this order, of several the smallest, a null if there is no other.
fn by(pairs: &[&Value], order: impl Fn(Ordering) -> Ordering) -> Value {
    let pair = |value: &&Value| match value {
        Value::Struct(fields) => (fields[0].of_equal(), fields[1].clone()),
        other => panic!("{other:?} is not a pair"),
    };
    let pairs = pairs.iter().map(pair).filter(|(key, _)| !key.is_null());
    let first = pairs.min_by(|(a_key, a), (b_key, b)| {
        order(a_key.cmp(b_key)).then_with(|| a.is_null().cmp(&b.is_null())).then_with(|| a.cmp(b))
    });
    first.map_or(Value::Null, |(_, value)| value)
}

/// The first of these values, which are in order, each with its rank.
fn top(mut values: Vec<Value>, k: usize, ties: bool, descending: bool) -> Value {
    if descending {
        values.reverse();
    }
    let rank = |value: &Value| values.iter().position(|other| other == value).expect("it is there") + 1;
    let taken = values.iter().enumerate().filter(|(i, value)| if ties { rank(value) <= k } else { *i < k });
    let ranked = taken.map(|(_, value)| Value::Struct(vec![Value::Int(rank(value) as i64), value.clone()]));
    Value::List(ranked.collect())
}

fn whole(values: &[&Value], part: impl Fn(&Value) -> i64) -> Value {
    Value::Int(values.iter().map(|v| part(v)).fold(0, i64::wrapping_add))
}

/// What comes of numbers, of which there are some, as a float.
fn of_numbers(function: &F, numbers: Vec<f64>) -> Value {
    let count = numbers.len() as f64;
    let squares = || numbers.iter().map(|n| n * n);
    let float = match function {
        F::Sum => sum_of(numbers.iter().copied()),
        F::Average => sum_of(numbers.iter().copied()) / count,
        F::SumOfSquares => squares().sum(),
        F::AverageOfSquares => squares().sum::<f64>() / count,
        F::Variance { population: false } | F::StandardDeviation { population: false } if count < 2.0 => {
            return Value::Null;
        }
        F::Variance { population } => {
            let (variance, unit) = variance(&numbers, *population);
            variance * unit * unit
        }
        F::StandardDeviation { population } => {
            let (variance, unit) = variance(&numbers, *population);
            variance.sqrt() * unit
        }
        F::Product => product(&numbers),
        F::Percentile { fraction, .. } => continuous(numbers, fraction.value()),
        other => panic!("{other} is not in the model"),
    };
    // A computed NaN is the positive one, whose place in the order of floats a condition can see.
    Value::Float(if float.is_nan() { f64::NAN } else { float })
}

/// The variance, in squares of a unit by which nothing overflows.
fn variance(numbers: &[f64], population: bool) -> (f64, f64) {
    let huge = numbers.iter().any(|n| n.abs() > 1e150);
    let unit = if huge { 2_f64.powi(600) } else { 1.0 };
    let numbers: Vec<f64> = numbers.iter().map(|n| n / unit).collect();
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|n| (n - mean) * (n - mean)).sum();
    (squares / if population { count } else { count - 1.0 }, unit)
}

/// The product, which neither overflows nor vanishes before its last factor.
fn product(numbers: &[f64]) -> f64 {
    const LARGE: f64 = (1_u128 << 100) as f64;
    let (mut product, mut exponent) = (1.0, 0);
    for &number in numbers {
        let factors = if number.is_finite() && number.abs() > 1e200 { [LARGE; 7] } else { [1.0; 7] };
        product *= factors.iter().fold(number, |number, factor| number / factor);
        exponent += factors.iter().filter(|factor| **factor > 1.0).count() as i32;
        while product.is_finite() && product.abs() > LARGE {
            product /= LARGE;
            exponent += 1;
        }
        while product != 0.0 && product.abs() < 1.0 / LARGE {
            product *= LARGE;
            exponent -= 1;
        }
    }
    let factor = if exponent < 0 { 1.0 / LARGE } else { LARGE };
    (0..exponent.abs()).fold(product, |product, _| product * factor)
}

/// The number at this part of the way through all of them, in order.
fn continuous(mut numbers: Vec<f64>, fraction: f64) -> f64 {
    numbers.iter_mut().for_each(|number| *number = if number.is_nan() { f64::NAN } else { *number });
    numbers.sort_by(f64::total_cmp);
    let place = fraction * (numbers.len() - 1) as f64;
    let (low, high) = (numbers[place.floor() as usize], numbers[place.ceil() as usize]);
    let part = place - place.floor();
    if part == 0.0 || low == high { low } else { low * (1.0 - part) + high * part }
}

/// The sum, infinite only if it is in the end: what is huge is added up apart, as smaller numbers.
fn sum_of(numbers: impl Iterator<Item = f64>) -> f64 {
    const SMALLER: f64 = 1.0 / (1_u64 << 62) as f64;
    let (huge, others): (Vec<f64>, Vec<f64>) =
        numbers.partition(|number| number.is_finite() && number.abs() > 1e300);
    let huge = huge.iter().fold(0.0, |sum, number| sum + number * SMALLER);
    let others = others.iter().fold(0.0, |sum, number| sum + number);
    if huge == 0.0 { others } else { (huge + others * SMALLER) / SMALLER }
}
