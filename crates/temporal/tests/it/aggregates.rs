//! The snapshot aggregate against the oracle: every function, every variant, every kind of key.

use crate::calls::Call;
use crate::equal::{cases, closed, session_caps, unary, with_lists};
use crate::formula::Formula;
use crate::generate::{Dice, FLOAT, KEY, Kinds, NUMBER, Stream, TEXT, conditions, dice, streams};
use crate::model::{Event, Value, assert_identical};
use crate::plan::{Plan, Step, Variant, answer};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::common::Result;
use datafusion::logical_expr::Operator;
use proptest::prelude::*;
use std::any::Any;
use std::sync::Arc;
use whimbrel_temporal::operators::{
    Accumulator, AggregateFunction as F, Fraction, Rows, UserAggregate, same,
};
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

/// Those where no row is ended by itself: edges have tests of their own.
fn windows() -> impl Strategy<Value = Variant> {
    variants().prop_filter("rows are ended one by one", |v| !matches!(v, Variant::Any))
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

/// The number, made so small that sums of its squares are numbers of 64 bits.
fn small_number() -> Formula {
    Formula::column(NUMBER).binary(Operator::Modulo, Formula::Int(1000))
}

fn fractions() -> impl Strategy<Value = Fraction> {
    let numbers = prop_oneof![Just(0.0), Just(0.5), Just(0.6), Just(1.0), 0.0..1.0];
    numbers.prop_map(|number| Fraction::new(number).expect("it is from 0 to 1"))
}

/// Aggregates of numbers.
pub fn of_numbers() -> impl Strategy<Value = F> {
    prop_oneof![
        Just(F::Sum),
        Just(F::Average),
        any::<bool>().prop_map(|population| F::Variance { population }),
        any::<bool>().prop_map(|population| F::StandardDeviation { population }),
        Just(F::AverageOfSquares),
        Just(F::Product),
        fractions().prop_map(|fraction| F::Percentile { fraction, continuous: true }),
    ]
}

/// Aggregates of anything that do not ask in which order rows came.
pub fn of_anything() -> impl Strategy<Value = F> {
    prop_oneof![
        Just(F::Min),
        Just(F::Max),
        Just(F::Count),
        Just(F::CountDistinct),
        fractions().prop_map(|fraction| F::Percentile { fraction, continuous: false }),
        (1..5usize, any::<bool>(), any::<bool>()).prop_map(|(k, ties, descending)| F::TopK {
            k: k.try_into().expect("it is not 0"),
            ties,
            descending,
        }),
        Just(F::Collect),
        Just(F::Single),
    ]
}

/// Aggregates that do not ask in which order rows came.
fn unordered() -> impl Strategy<Value = Call> {
    let of = |c: usize| Some(Formula::column(c));
    let columns = || prop_oneof![2 => Just(NUMBER), 2 => Just(FLOAT), 1 => Just(TEXT)];
    let pairs = (columns(), columns()).prop_map(|(key, value)| Some(Formula::pair(key, value)));
    let numbers = || prop_oneof![Just(NUMBER), Just(FLOAT)].prop_map(of);
    let call = prop_oneof![
        1 => Just((F::Count, None)),
        5 => (of_numbers(), numbers()),
        6 => (of_anything(), columns().prop_map(of)),
        1 => (Just(F::SumOfSquares), prop_oneof![Just(of(FLOAT)), Just(Some(small_number()))]),
        2 => (prop_oneof![Just(F::MaxBy), Just(F::MinBy)], pairs),
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

/// Aggregates of floats that are computed without rounding, or in one order.
fn exact() -> impl Strategy<Value = F> {
    prop_oneof![2 => of_numbers(), 1 => of_anything()].prop_map(|function| match function {
        // In twice the precision of a float, but not exact.
        F::Sum | F::Average => F::SumOfSquares,
        exact => exact,
    })
}

/// Aggregates of lists, and of structs.
fn of_nested() -> impl Strategy<Value = Call> {
    let columns = || prop_oneof![Just(NUMBER), Just(TEXT), Just(FLOAT)];
    let by = prop_oneof![Just(F::MaxBy), Just(F::MinBy)];
    let call = prop_oneof![
        3 => (of_anything(), columns().prop_map(Formula::column)),
        1 => (by, (columns(), columns()).prop_map(|(key, value)| Formula::pair(key, value))),
    ];
    call.prop_map(|(function, argument)| Call { function, argument: Some(argument), filter: None })
}

/// The same stream, with structs of the text and the float in place of the text.
fn with_structs(mut stream: Stream) -> Stream {
    let mut fields = stream.schema.fields().to_vec();
    let pair = [&fields[TEXT], &fields[FLOAT]].map(|f| f.as_ref().clone());
    fields[TEXT] = Arc::new(Field::new("pair", DataType::Struct(pair.to_vec().into()), true));
    stream.schema = Arc::new(Schema::new(fields));
    stream.events.iter_mut().enumerate().for_each(|(i, Event { row, .. })| {
        let pair = vec![row[TEXT].clone(), row[FLOAT].clone()];
        row[TEXT] = if i % 5 == 4 { Value::Null } else { Value::Struct(pair) };
    });
    stream
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
    fn over_sessions(
        stream in streams(Kinds::Any, 40), key in keys(), timeout in 1..12i64,
        cap in prop::option::of(session_caps(1..30)),
        calls in prop::collection::vec(unordered(), 0..5), dice in dice(),
    ) {
        let calls = calls.into_iter().filter(|call| !call.function.asks_for_starts()).collect();
        unary(Step::SessionAggregate((key, timeout, cap), calls), inexact(stream), &dice);
    }

    /// Not even in the last bit, and whether rows are told by edges or as intervals.
    #[test]
    fn arrival_does_not_show(
        stream in streams(Kinds::Any, 40), functions in prop::collection::vec(exact(), 1..4),
        variant in variants(), sizes in (1..50usize, 1..50usize), dice in dice(),
    ) {
        let call = |function| Call { function, argument: Some(Formula::column(FLOAT)), filter: None };
        let calls = functions.into_iter().map(call).collect();
        let plan = Plan::of(Step::Aggregate { key: vec![KEY], calls, variant });
        let mut dice = dice;
        let stream = inexact(stream);
        let one = answer(&plan, &stream, sizes.0, &mut dice);
        let other = answer(&plan, &stream.shuffled(&mut dice), sizes.1, &mut dice);
        assert_identical(&one, &other, "another order");
    }

    #[test]
    fn over_nested_values(
        stream in streams(Kinds::Any, 40), key in prop_oneof![Just(vec![KEY]), Just(vec![])],
        calls in prop::collection::vec(of_nested(), 1..4), variant in variants(), dice in dice(),
    ) {
        aggregate(key, calls, variant, with_structs(with_lists(stream)), &dice);
    }

    #[test]
    fn first_and_last_of_windows(
        stream in streams(Kinds::Any, 40), key in keys(), calls in prop::collection::vec(ordered(), 1..3),
        variant in windows(), dice in dice(),
    ) {
        aggregate(key, calls, variant, stream, &dice);
    }

    #[test]
    fn first_and_last_nested_values(
        stream in streams(Kinds::Any, 40), column in prop_oneof![Just(NUMBER), Just(TEXT)], last: bool,
        variant in windows(), dice in dice(),
    ) {
        let function = if last { F::Last } else { F::First };
        let call = Call { function, argument: Some(Formula::column(column)), filter: None };
        aggregate(vec![KEY], vec![call], variant, with_structs(with_lists(stream)), &dice);
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
