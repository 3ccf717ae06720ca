//! Filters, projections and aggregates over large batches, which are worked on many rows at a time, against
//! the same rows in small ones: with and without a key, with nulls, and with rows that are absent.

use crate::formula::Formula;
use crate::generate::{Dice, dice};
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator as Op;
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::operators::{
    Aggregate, AggregateCall, AggregateFunction, AlterLifetime, Select, Where,
};
use whimbrel_temporal::{Batch, Closed, DurationRule, Graph, INFINITY, Lifetimes, Message, Other, StartRule};

const SIZE: i64 = 1000;
const COLUMNS: [&str; 2] = ["a", "b"];

fn schema() -> SchemaRef {
    Arc::new(Schema::new(COLUMNS.map(|name| Field::new(name, DataType::Int64, true)).to_vec()))
}

/// Rows at times that never fall, some of them null.
fn batch(rows: usize, step: usize, dice: &mut Dice) -> Batch {
    let mut number = || (!dice.one_in(20)).then(|| dice.below(2000) as i64 - 1000);
    let columns: [ArrayRef; 2] =
        [0; 2].map(|_| Arc::new((0..rows).map(|_| number()).collect::<Int64Array>()) as _);
    let mut time = 0;
    let mut next = |_| {
        time += i64::from(dice.one_in(step));
        time
    };
    let sync: Vec<i64> = (0..rows).map(&mut next).collect();
    Batch::new(sync.into(), Other::After(1), RecordBatch::try_new(schema(), columns.to_vec()).unwrap())
}

/// Of rows with `a < 300`, or of all, sums of `a * b + 7` and of `b`, by `b` or all together, in windows.
fn graph(filters: bool, keyed: bool, hop: i64) -> Graph {
    let column = Formula::column;
    let mut graph = Graph::new();
    let mut node = graph.input();
    if filters {
        let few = column(0).binary(Op::Lt, Formula::Int(300));
        node = graph.add(Box::new(Where::new(few.physical(&schema()))), &[node]);
    }
    let product = column(0).binary(Op::Multiply, column(1)).binary(Op::Plus, Formula::Int(7));
    let exprs = [product, column(1)].map(|expr| expr.physical(&schema()));
    node = graph.add(Box::new(Select::new(exprs.to_vec(), schema())), &[node]);
    let start = StartRule::Snap { hop, offset: 0, closed: Closed::Left };
    node = graph.add(Box::new(AlterLifetime::new(start, DurationRule::Constant(SIZE))), &[node]);
    let call = |function, argument: Option<usize>| AggregateCall {
        function,
        argument: argument.map(|place| column(place).physical(&schema())),
        filter: None,
        name: String::new(),
    };
    let calls = vec![
        call(AggregateFunction::Count, None),
        call(AggregateFunction::Sum, Some(0)),
        call(AggregateFunction::Average, Some(1)),
        call(AggregateFunction::Max, Some(0)),
    ];
    let key = if keyed { vec![1] } else { vec![] };
    let lifetimes = Lifetimes::Hop { size: SIZE, hop, offset: 0 };
    let aggregate = Aggregate::new(schema(), key, calls, lifetimes).unwrap();
    node = graph.add(Box::new(aggregate), &[node]);
    graph.output(node);
    graph
}

/// The rows that come out, those of an instant in any order.
fn answer(mut graph: Graph, batches: impl Iterator<Item = Batch>) -> Vec<String> {
    let mut out = Vec::new();
    for message in batches.map(Message::Batch).chain([Message::Punctuation(INFINITY)]) {
        graph.push(0, message, &mut out).unwrap();
    }
    let batches = out.iter().filter_map(|message| match message {
        (_, Message::Batch(batch)) => Some(batch.clone().compact().unwrap()),
        (_, Message::Punctuation(_)) => None,
    });
    let rows = batches.flat_map(|batch| {
        let row = |i: usize| {
            let value = |column: &ArrayRef| ScalarValue::try_from_array(column, i).unwrap().to_string();
            let values: Vec<String> = batch.rows.columns().iter().map(value).collect();
            format!("{} {} {}", batch.sync[i], batch.other_at(i), values.join(" "))
        };
        (0..batch.len()).map(row).collect::<Vec<_>>()
    });
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    rows
}

proptest! {
    #![proptest_config(crate::equal::cases(24))]

    #[test]
    fn large_batches_give_what_small_ones_do(
        mut dice in dice(),
        rows in prop_oneof![60..70usize, 1000..10_000usize],
        step in prop_oneof![Just(1usize), Just(3), Just(50), Just(100_000)],
        filters: bool, keyed: bool, hops: bool, absent: bool,
    ) {
        let mut batch = batch(rows, step, &mut dice);
        if absent {
            batch.retain(&(0..rows).map(|_| Some(!dice.one_in(3))).collect::<BooleanArray>());
        }
        let graph = || graph(filters, keyed, if hops { SIZE / 4 } else { SIZE });
        let small = (0..rows).step_by(7).map(|first| batch.slice(first, 7.min(rows - first)));
        let expected = answer(graph(), small);
        prop_assert_eq!(answer(graph(), std::iter::once(batch.clone())), expected);
    }
}
