//! The snapshot aggregate against the oracle: every function, every variant, every kind of key.

use crate::equal::{cases, closed, unary};
use crate::formula::Formula;
use crate::generate::{Dice, FLOAT, KEY, Kinds, NUMBER, Stream, TEXT, conditions, dice, streams};
use crate::model::Value;
use crate::oracle::Call;
use crate::plan::{Step, Variant};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use proptest::prelude::*;
use std::any::Any;
use std::sync::Arc;
use whimbrel_temporal::operators::{Accumulator, AggregateFunction as F, Rows, UserAggregate, same};
use whimbrel_temporal::{Column, Time};

fn variants() -> impl Strategy<Value = Variant> {
    prop_oneof![
        1 => Just(Variant::Points),
        1 => (1..12i64).prop_map(Variant::Tumbling),
        2 => (1..8i64, 1..20i64, -4..4i64, closed())
            .prop_map(|(hop, size, offset, closed)| Variant::Hopping { size, hop, offset, closed }),
        1 => (1..15i64).prop_map(Variant::Sliding),
        1 => Just(Variant::Intervals),
        1 => Just(Variant::StartEdges),
        4 => Just(Variant::Any),
    ]
}

fn keys() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        3 => Just(vec![KEY]),
        1 => Just(vec![]),
        1 => Just(vec![TEXT]),
        1 => Just(vec![FLOAT]),
        1 => Just(vec![KEY, TEXT]),
        1 => Just(vec![TEXT, FLOAT, KEY]),
    ]
}

/// Aggregates that do not ask in which order rows came.
fn unordered() -> impl Strategy<Value = Call> {
    let numbers = prop_oneof![
        Just(F::Sum),
        Just(F::Average),
        Just(F::Min),
        Just(F::Max),
        Just(F::Count),
        Just(F::CountDistinct),
    ];
    let comparable = prop_oneof![Just(F::Min), Just(F::Max), Just(F::Count), Just(F::CountDistinct)];
    let of = |c: usize| Some(Formula::column(c));
    let call = prop_oneof![
        1 => Just((F::Count, None)),
        3 => numbers.clone().prop_map(move |f| (f, of(NUMBER))),
        3 => numbers.prop_map(move |f| (f, of(FLOAT))),
        2 => comparable.prop_map(move |f| (f, of(TEXT))),
        1 => Just((F::User(Arc::new(Squares) as Arc<dyn UserAggregate>), of(NUMBER))),
    ];
    (call, prop::option::weighted(0.3, conditions())).prop_map(|((function, argument), filter)| Call {
        function,
        argument,
        filter,
    })
}

/// Counts, sums and averages of whole numbers.
fn whole() -> impl Strategy<Value = Call> {
    let functions = prop_oneof![Just(F::Sum), Just(F::Average), Just(F::Count)];
    let call = prop_oneof![
        1 => Just((F::Count, None)),
        4 => functions.prop_map(|function| (function, Some(Formula::column(NUMBER)))),
        1 => Just((F::Count, Some(Formula::column(TEXT)))),
    ];
    (call, prop::option::weighted(0.3, conditions())).prop_map(|((function, argument), filter)| Call {
        function,
        argument,
        filter,
    })
}

/// First and last, of any column.
fn ordered() -> impl Strategy<Value = Call> {
    let function = prop_oneof![Just(F::First), Just(F::Last)];
    let column = prop_oneof![Just(NUMBER), Just(TEXT), Just(FLOAT)];
    (function, column, prop::option::weighted(0.3, conditions())).prop_map(|(function, column, filter)| {
        Call { function, argument: Some(Formula::column(column)), filter }
    })
}

/// The stream with floats whose sums are not exact, unless there are huge ones among them: in twice the
/// precision of a float there is no room for the digits of both.
fn inexact(mut stream: Stream) -> Stream {
    if stream.has_huge_floats() {
        return stream;
    }
    let tenths = |v: &mut Value| {
        if let Value::Float(f) = v {
            *f *= 0.4
        }
    };
    stream.events.iter_mut().for_each(|e| tenths(&mut e.row[FLOAT]));
    stream
}

fn aggregate(key: Vec<usize>, calls: Vec<Call>, variant: Variant, stream: Stream, dice: &Dice) {
    unary(Step::Aggregate { key, calls, variant }, stream, dice);
}

proptest! {
    #![proptest_config(cases(1200))]

    #[test]
    fn any_functions(
        stream in streams(Kinds::Any, 40), key in keys(), calls in prop::collection::vec(unordered(), 1..5),
        variant in variants(), dice in dice(),
    ) {
        aggregate(key, calls, variant, inexact(stream), &dice);
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn over_intervals(
        stream in streams(Kinds::Intervals, 40), key in keys(),
        calls in prop::collection::vec(unordered(), 1..5), dice in dice(),
    ) {
        aggregate(key, calls, Variant::Any, inexact(stream), &dice);
    }

    #[test]
    fn sums_of_whole_numbers(
        stream in streams(Kinds::Any, 40), key in keys(), calls in prop::collection::vec(whole(), 1..5),
        variant in variants(), dice in dice(),
    ) {
        aggregate(key, calls, variant, stream, &dice);
    }

    #[test]
    fn sums_over_constant_durations(
        stream in streams(Kinds::Constant, 40), key in keys(), calls in prop::collection::vec(whole(), 1..5),
        dice in dice(),
    ) {
        aggregate(key, calls, Variant::Any, stream, &dice);
    }

    #[test]
    fn over_constant_durations(
        stream in streams(Kinds::Constant, 40), key in keys(),
        calls in prop::collection::vec(unordered(), 1..5), dice in dice(),
    ) {
        aggregate(key, calls, Variant::Any, stream, &dice);
    }

    #[test]
    fn over_start_edges(
        stream in streams(Kinds::Open, 40), key in keys(), calls in prop::collection::vec(unordered(), 1..5),
        dice in dice(),
    ) {
        aggregate(key, calls, Variant::StartEdges, stream, &dice);
    }

    #[test]
    fn first_and_last_of_windows(
        stream in streams(Kinds::Any, 40), key in keys(), calls in prop::collection::vec(ordered(), 1..3),
        variant in variants().prop_filter("edges have a test of their own", |v| !matches!(v, Variant::Any)),
        dice in dice(),
    ) {
        aggregate(key, calls, variant, stream, &dice);
    }

    /// Rows that start together and are ended one by one, each with a value of its own.
    #[test]
    fn first_and_last_of_edges(stream in streams(Kinds::Any, 40), last: bool, dice in dice()) {
        let mut stream = stream;
        stream.events.iter_mut().enumerate().for_each(|(i, e)| e.row[FLOAT] = Value::Float(i as f64));
        let function = if last { F::Last } else { F::First };
        let call = Call { function, argument: Some(Formula::column(FLOAT)), filter: None };
        aggregate(vec![KEY], vec![call], Variant::Any, stream, &dice);
    }

    /// Rows with one start and one value, of which one is told by edges and another by an interval.
    #[test]
    fn first_and_last_of_tied_edges(stream in streams(Kinds::Any, 40), last: bool, dice in dice()) {
        let function = if last { F::Last } else { F::First };
        let call = Call { function, argument: Some(Formula::column(NUMBER)), filter: None };
        let mut stream = stream;
        stream.events.iter_mut().for_each(|e| e.row[NUMBER] = Value::Int(e.start % 5));
        aggregate(vec![KEY], vec![call], Variant::Any, stream, &dice);
    }

    #[test]
    fn distinct(stream in streams(Kinds::Any, 40), variant in variants(), dice in dice()) {
        let mut stream = stream;
        // Few payloads, so that some are alive several times.
        stream.events.iter_mut().for_each(|e| {
            e.row[NUMBER] = Value::Null;
            e.row[FLOAT] = Value::Float(0.5);
        });
        unary(Step::Distinct(variant), stream, &dice);
    }
}

/// A user's aggregate: the sum of the squares of an int64.
#[derive(Debug)]
struct Squares;

impl UserAggregate for Squares {
    fn name(&self) -> &str {
        "squares"
    }
    fn return_type(&self, _argument: Option<&DataType>) -> Result<DataType> {
        Ok(DataType::Int64)
    }
    fn accumulator(&self, _argument: Option<&DataType>, _undone: bool) -> Box<dyn Accumulator> {
        Box::<SquaresStates>::default()
    }
}

/// The sum and the count of each state.
#[derive(Debug, Default)]
struct SquaresStates {
    states: Vec<(i64, i64)>,
    values: Option<Int64Array>,
    filter: Option<BooleanArray>,
}

impl SquaresStates {
    fn change(&mut self, states: &[u32], first: usize, by: i64) {
        let Some(values) = &self.values else { return };
        for (row, &state) in (first..).zip(states) {
            let counts = self.filter.as_ref().is_none_or(|f| f.is_valid(row) && f.value(row));
            if values.is_valid(row) && counts {
                let square = values.value(row).wrapping_mul(values.value(row));
                let (sum, count) = &mut self.states[state as usize];
                *sum = sum.wrapping_add(square.wrapping_mul(by));
                *count += by;
            }
        }
    }

    fn transfer(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], by: i64) {
        for (&t, &f) in to.iter().zip(from) {
            let (sum, count) = same::<Self>(other).states[f as usize];
            let state = &mut self.states[t as usize];
            *state = (state.0.wrapping_add(sum.wrapping_mul(by)), state.1 + count * by);
        }
    }
}

impl Accumulator for SquaresStates {
    fn grow(&mut self, states: usize) {
        self.states.resize(states.max(self.states.len()), (0, 0));
    }
    fn reset(&mut self, states: &[u32]) {
        states.iter().for_each(|&s| self.states[s as usize] = (0, 0));
    }
    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.values = rows.argument.as_ref().map(|a| a.as_primitive::<Int64Type>().clone());
        self.filter = rows.filter.clone();
        Ok(())
    }
    fn accumulate(&mut self, states: &[u32], first: usize) {
        self.change(states, first, 1);
    }
    fn deaccumulate(&mut self, states: &[u32], first: usize) {
        self.change(states, first, -1);
    }
    fn combine(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        self.transfer(to, other, from, 1);
    }
    fn difference(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], _end: Time) {
        self.transfer(to, other, from, -1);
    }
    fn result(&self, states: &[u32], out: &mut Column) {
        let sum = |&s: &u32| Some(self.states[s as usize]).filter(|s| s.1 > 0).map(|s| s.0);
        let sums: ArrayRef = Arc::new(Int64Array::from_iter(states.iter().map(sum)));
        out.append(&sums).expect("an int64 column");
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn save(&self) -> Result<Vec<u8>> {
        Ok(self.states.iter().flat_map(|s| [s.0.to_le_bytes(), s.1.to_le_bytes()]).flatten().collect())
    }
    fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let word = |b: &[u8]| i64::from_le_bytes(b.try_into().expect("eight bytes"));
        self.states = bytes.chunks_exact(16).map(|c| (word(&c[..8]), word(&c[8..]))).collect();
        Ok(())
    }
}
