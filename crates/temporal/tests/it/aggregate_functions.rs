//! Aggregates over rows that were chosen by hand: published cases, values at the ends of their types, rows
//! that do not count, what is refused.

use crate::calls::Call;
use crate::formula::Formula;
use crate::generate::{Draft, Stream, dice};
use crate::model::{Event, Value, assert_same, decode};
use crate::oracle;
use crate::plan::{Plan, Step, Variant, aggregate_calls, check};
use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::logical_expr::Operator as Op;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::num::NonZeroUsize;
use std::sync::Arc;
use whimbrel_temporal::operators::{Aggregate, AggregateFunction as F, Combine, Fraction};
use whimbrel_temporal::{Batch, INFINITY, Lifetimes, Message, Operator, Other, Time};

const LIFETIMES: [Lifetimes; 4] =
    [Lifetimes::Any, Lifetimes::Constant(2), Lifetimes::Intervals, Lifetimes::StartEdges];

fn percentile(fraction: f64, continuous: bool) -> F {
    F::Percentile { fraction: Fraction::new(fraction).expect("a fraction"), continuous }
}

fn top(k: usize, ties: bool, descending: bool) -> F {
    F::TopK { k: NonZeroUsize::new(k).expect("it is not 0"), ties, descending }
}

fn call(function: F) -> Call {
    Call { function, argument: Some(Formula::column(0)), filter: None }
}

fn schema_of(data_type: DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("value", data_type, true)]))
}

/// What aggregates hand out over values that start at 0, 1, 2 ... and live two ticks, or for ever.
fn messages(calls: &[Call], values: ArrayRef, lifetimes: Lifetimes) -> Result<Vec<Message>> {
    let schema = schema_of(values.data_type().clone());
    let sync: Vec<Time> = (0..values.len() as i64).collect();
    let other = if lifetimes == Lifetimes::StartEdges { Other::Open } else { Other::After(2) };
    let rows = RecordBatch::try_new(schema.clone(), vec![values])?;
    let plan = aggregate_calls(calls, &schema);
    let mut aggregate = Aggregate::new(schema, vec![], plan, lifetimes)?;
    let mut out = Vec::new();
    aggregate.push(0, Message::Batch(Batch::new(sync.into(), other, rows)), &mut out)?;
    aggregate.push(0, Message::Punctuation(INFINITY), &mut out)?;
    Ok(out)
}

/// The same as events, by start.
fn results(calls: &[Call], values: ArrayRef, lifetimes: Lifetimes) -> Result<Vec<Event>> {
    Ok(oracle::in_order(decode(&messages(calls, values, lifetimes)?)))
}

fn column_of(events: &[Event], column: usize) -> Vec<Value> {
    events.iter().map(|e| e.row[column].clone()).collect()
}

/// Rows of one int64 column with their lifetimes, told by edges and by intervals.
fn stream(rows: &[(Time, Time, Option<i64>)], edges: bool) -> Stream {
    let draft = |&(start, end, value): &(Time, Time, Option<i64>)| {
        let row = vec![value.map_or(Value::Null, Value::Int)];
        Draft { event: Event { start, end, row }, edges, early: edges }
    };
    Stream::new(schema_of(DataType::Int64), rows.iter().map(draft).collect())
}

/// Checks that aggregates over these rows give `expected`: the start, the end and the results of each
/// snapshot; the oracle says so too, and the engine in any batches.
fn gives(calls: Vec<Call>, rows: &[(Time, Time, Option<i64>)], expected: &[(Time, Time, Vec<Value>)]) {
    let expected: Vec<Event> = expected
        .iter()
        .map(|(start, end, row)| Event { start: *start, end: *end, row: row.clone() })
        .collect();
    for edges in [false, true] {
        let stream = stream(rows, edges);
        assert_same(&expected, &oracle::aggregate(&stream.events, &[], &calls), "the oracle");
        let dice = dice().new_tree(&mut TestRunner::deterministic()).expect("dice").current();
        let step = Step::Aggregate { key: vec![], calls: calls.clone(), variant: Variant::Any };
        check(&Plan::of(step), &[stream], &dice);
    }
}

/// Trill's own test of percentiles (PercentileAggregates.cs, PercentileDiscAggregate).
#[test]
fn discrete_percentile() {
    let rows = [(1, 5, 10), (1, 3, 20), (2, 3, 30), (2, 4, 40), (3, 4, 50)];
    let expected = [(1, 2, 20), (2, 3, 30), (3, 4, 40), (4, 5, 10)];
    let rows = rows.map(|(start, end, value)| (start, end, Some(value)));
    let expected = expected.map(|(start, end, value)| (start, end, vec![Value::Int(value)]));
    gives(vec![call(percentile(0.6, false))], &rows, &expected);
}

/// The example of SQL's standard: a place between two values is a value between them.
#[test]
fn continuous_percentile() {
    let rows = [10, 20, 30, 50].map(|value| (0, 9, Some(value)));
    let calls = [0.0, 0.25, 0.5, 0.9, 1.0].map(|fraction| call(percentile(fraction, true))).to_vec();
    let expected = [10.0, 17.5, 25.0, 44.0, 50.0].map(Value::Float).to_vec();
    gives(calls, &rows, &[(0, 9, expected)]);
}

#[test]
fn ranks_of_the_first() {
    let rows = [7, 5, 9, 5, 7, 7, 1].map(|value| (0, 9, Some(value)));
    let list = |ranked: &[(i64, i64)]| {
        let of = |&(rank, value): &(i64, i64)| Value::Struct(vec![Value::Int(rank), Value::Int(value)]);
        Value::List(ranked.iter().map(of).collect())
    };
    let all = [(1, 9), (2, 7), (2, 7), (2, 7), (5, 5), (5, 5), (7, 1)];
    let expected = vec![
        list(&all[..2]),
        list(&all[..4]),
        list(&all[..6]),
        list(&all),
        list(&[(1, 1), (2, 5), (2, 5)]),
        list(&[(1, 1)]),
    ];
    let functions = [
        top(2, false, true),
        top(2, true, true),
        top(5, true, true),
        top(99, false, true),
        top(2, true, false),
        top(1, true, false),
    ];
    gives(functions.map(call).to_vec(), &rows, &[(0, 9, expected)]);
}

#[test]
fn collected_by_start_and_value() {
    let rows = [(3, 9, Some(1)), (2, 9, Some(8)), (2, 5, None), (2, 9, Some(-8)), (3, 5, Some(1))];
    let list = |values: &[Option<i64>]| {
        Value::List(values.iter().map(|v| v.map_or(Value::Null, Value::Int)).collect())
    };
    let (none, low, high, one) = (None, Some(-8), Some(8), Some(1));
    let expected = [
        (2, 3, vec![list(&[none, low, high])]),
        (3, 5, vec![list(&[none, low, high, one, one])]),
        (5, 9, vec![list(&[low, high, one])]),
    ];
    gives(vec![call(F::Collect)], &rows, &expected);
}

/// A null is a row like others, and a second row with the same value a second row.
#[test]
fn the_only_row() {
    let rows = [(0, 4, Some(5)), (2, 6, None), (5, 9, Some(5)), (7, 8, Some(5))];
    let (five, null) = (|| vec![Value::Int(5)], || vec![Value::Null]);
    let expected = [
        (0, 2, five()),
        (2, 4, null()),
        (4, 5, null()),
        (5, 6, null()),
        (6, 7, five()),
        (7, 8, null()),
        (8, 9, five()),
    ];
    gives(vec![call(F::Single)], &rows, &expected);
}

fn every_function() -> Vec<Call> {
    let mut functions: Vec<F> = vec![
        F::SumOfSquares,
        F::AverageOfSquares,
        F::Product,
        percentile(0.5, true),
        percentile(0.5, false),
        top(3, true, true),
        F::Collect,
        F::Single,
    ];
    for population in [false, true] {
        functions.extend([F::Variance { population }, F::StandardDeviation { population }]);
    }
    functions.into_iter().map(call).collect()
}

/// Where rows are alive and none counts there is a row, of nulls.
#[test]
fn rows_that_do_not_count() {
    let never = Formula::column(0).binary(Op::Lt, Formula::Int(0));
    let filtered = |call: Call| Call { filter: Some(never.clone()), ..call };
    let mut calls: Vec<Call> = every_function().into_iter().map(filtered).collect();
    calls.push(filtered(call(F::Count)));
    let mut nothing = vec![Value::Null; calls.len()];
    nothing[calls.len() - 1] = Value::Int(0);
    let expected = [(0, 3), (3, 5), (5, 9)].map(|(start, end)| (start, end, nothing.clone()));
    gives(calls, &[(0, 5, Some(1)), (3, 9, Some(2))], &expected);
    let nulls = vec![Value::Null; every_function().len() - 2];
    let of_values = every_function().into_iter().filter(|c| !matches!(c.function, F::Collect | F::Single));
    gives(of_values.collect(), &[(0, 9, None)], &[(0, 9, nulls)]);
}

/// Every column as float64.
fn floats(message: Message) -> Message {
    let Message::Batch(batch) = message else { return message };
    let columns = batch.rows.columns().iter();
    let columns: Vec<ArrayRef> = columns.map(|c| cast(c, &DataType::Float64).expect("numbers")).collect();
    let names = (0..columns.len()).map(|i| format!("{i}"));
    let rows = RecordBatch::try_from_iter_with_nullable(names.zip(columns).map(|(n, c)| (n, c, true)));
    Message::Batch(batch.with_rows(rows.expect("columns"), None))
}

/// Numbers of every type give what the same numbers do as int64.
#[test]
fn numbers_of_every_type() {
    use DataType::*;
    let numbers = [Some(1), Some(3), None, Some(2), Some(2), Some(0)];
    let functions = every_function().into_iter();
    let calls: Vec<Call> = functions.filter(|c| !matches!(c.function, F::TopK { .. } | F::Collect)).collect();
    let float = |v: &mut Value| {
        if let Value::Int(i) = v {
            *v = Value::Float(*i as f64);
        }
    };
    let integers = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];
    let others = [Float16, Float32, Float64, Decimal32(5, 2), Decimal64(9, 0), Decimal128(38, 3)];
    for (of, lifetimes) in
        integers.into_iter().chain(others).flat_map(|of| LIFETIMES.map(|l| (of.clone(), l)))
    {
        let end = |start: Time| if lifetimes == Lifetimes::StartEdges { INFINITY } else { start + 2 };
        let row = |value: &Option<i64>| vec![value.map_or(Value::Null, Value::Int)];
        let event = |(start, value): (Time, &Option<i64>)| Event { start, end: end(start), row: row(value) };
        let events: Vec<Event> = (0..).zip(&numbers).map(event).collect();
        let mut expected = oracle::aggregate(&events, &[], &calls);
        expected.iter_mut().for_each(|e| e.row.iter_mut().for_each(float));
        let wide: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        let out =
            messages(&calls, cast(&wide, &of).expect("numbers of this type"), lifetimes).expect("computes");
        let found: Vec<Message> = out.into_iter().map(floats).collect();
        assert_same(&expected, &decode(&found), &format!("{of}, {lifetimes:?}"));
    }
}

/// What is too large, not finite or not a number leaves no trace once it has left.
#[test]
fn what_has_left_leaves_no_trace() {
    let (inf, huge) = (f64::INFINITY, f64::MAX);
    let values = [1.0, 3.0, huge, -huge, f64::NAN, 0.1, 0.3, -inf, 0.0, 0.0, 2.0, 5e-324, 1.0];
    let variance = F::Variance { population: true };
    let deviation = F::StandardDeviation { population: true };
    let functions =
        [variance, deviation, F::SumOfSquares, F::AverageOfSquares, F::Product, percentile(0.5, true)];
    let calls = functions.map(call);
    let nan = f64::NAN;
    let expected: [[f64; 6]; 14] = [
        [0.0, 0.0, 1.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 10.0, 5.0, 3.0, 2.0],
        [inf, huge / 2.0, inf, inf, inf, huge / 2.0],
        [inf, huge, inf, inf, -inf, 0.0],
        [nan, nan, nan, nan, nan, nan],
        [nan, nan, nan, nan, nan, nan],
        [0.01, 0.1, 0.1, 0.05, 0.03, 0.2],
        [nan, nan, inf, inf, -inf, -inf],
        [nan, nan, inf, inf, nan, -inf],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 4.0, 2.0, 0.0, 1.0],
        [1.0, 1.0, 4.0, 2.0, 1e-323, 1.0],
        [0.25, 0.5, 1.0, 0.5, 5e-324, 0.5],
        [0.0, 0.0, 1.0, 1.0, 1.0, 1.0],
    ];
    for lifetimes in [Lifetimes::Constant(2), Lifetimes::Intervals] {
        let found =
            results(&calls, Arc::new(Float64Array::from(values.to_vec())), lifetimes).expect("computes");
        assert_eq!(found.len(), expected.len());
        for (event, expected) in found.iter().zip(expected) {
            let same = |(found, expected): (&Value, f64)| match found {
                Value::Float(f) if expected.is_finite() => (f - expected).abs() <= expected.abs() * 1e-15,
                Value::Float(f) => f.is_nan() == expected.is_nan() && (f.is_nan() || *f == expected),
                _ => false,
            };
            assert!(event.row.iter().zip(expected).all(same), "{lifetimes:?}: {event:?}, not {expected:?}");
        }
    }
}

/// Sums of squares that do not fit are refused as sums are, and nothing else is.
#[test]
fn squares_of_large_integers() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![3_037_000_499, 2, i64::MIN, i64::MAX]));
    for lifetimes in [Lifetimes::Constant(2), Lifetimes::Intervals] {
        let squares = results(&[call(F::SumOfSquares)], values.slice(0, 2), lifetimes).expect("they fit");
        let most = 3_037_000_499_i64 * 3_037_000_499;
        assert_eq!(column_of(&squares, 0), [most, most + 4, 4].map(Value::Int));
        let error = results(&[call(F::SumOfSquares)], values.clone(), lifetimes).expect_err("too large");
        assert!(error.strip_backtrace().contains("a sum is too large for its type"), "{error}");
        let others = [call(F::AverageOfSquares), call(F::StandardDeviation { population: true })];
        let found = results(&others, values.slice(2, 2), lifetimes).expect("floats have room");
        let half = 2_f64.powi(63);
        assert_eq!(column_of(&found, 0), [half * half; 3].map(Value::Float));
        assert_eq!(column_of(&found, 1), [0.0, half, 0.0].map(Value::Float));
    }
}

/// Where rows never leave, what can no longer be asked for is not kept.
#[test]
fn rows_that_never_leave_are_forgotten() {
    let saved = |function: F, count: i64| {
        let schema = schema_of(DataType::Int64);
        let plan = aggregate_calls(&[call(function)], &schema);
        let mut aggregate =
            Aggregate::new(schema.clone(), vec![], plan, Lifetimes::StartEdges).expect("aggregates");
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..count).map(|i| i * 7919 % count)));
        let rows = RecordBatch::try_new(schema, vec![values]).expect("a column");
        let batch = Batch::new((0..count).collect::<Vec<_>>().into(), Other::Open, rows);
        aggregate.push(0, Message::Batch(batch), &mut Vec::new()).expect("computes");
        aggregate.save().expect("a checkpoint").len()
    };
    for function in [top(3, true, true), top(3, false, false), F::Single, F::Variance { population: true }] {
        let (few, many) = (saved(function.clone(), 100), saved(function.clone(), 20_000));
        assert!(many <= few + 64, "{function}: {few} bytes of 100 rows, {many} of 20000");
    }
}

#[test]
fn arguments_that_are_refused() {
    let refused = |function: F, of: DataType| {
        let error = function.return_type(Some(&of)).expect_err("it is refused").strip_backtrace();
        let schema = schema_of(of);
        let plan = aggregate_calls(&[call(function)], &schema);
        assert!(Aggregate::new(schema, vec![], plan, Lifetimes::Any).is_err());
        error
    };
    let numbers =
        |name: &str| format!("Error during planning: {name} takes numbers, not Utf8; cast the argument");
    assert_eq!(refused(F::Variance { population: false }, DataType::Utf8), numbers("var_samp"));
    assert_eq!(refused(F::StandardDeviation { population: true }, DataType::Utf8), numbers("stddev_pop"));
    assert_eq!(refused(F::SumOfSquares, DataType::Utf8), numbers("sum_of_squares"));
    assert_eq!(refused(F::Product, DataType::Utf8), numbers("product"));
    assert_eq!(refused(percentile(0.5, true), DataType::Utf8), numbers("percentile_cont"));
    refused(F::AverageOfSquares, DataType::Boolean);
    let pairs = "Error during planning: max_by takes structs of a key and a value, not Int64";
    assert_eq!(refused(F::MaxBy, DataType::Int64), pairs);
    let one = DataType::Struct(vec![Field::new("only", DataType::Int64, true)].into());
    refused(F::MinBy, one);
    for Call { function, .. } in every_function() {
        assert!(function.return_type(None).is_err(), "{function} of no argument");
        let schema = schema_of(DataType::Int64);
        let plan = aggregate_calls(&[call(function.clone())], &schema);
        let error = Combine::new(schema, vec![], plan, 5).err().expect("it is refused").strip_backtrace();
        assert_eq!(error, format!("Error during planning: {function} is not put together from parts"));
    }
}
