//! Rows that are picked and added up by formulas, against the same rows that go through a filter first: long runs and
//! short ones, nulls, numbers that are too large for formulas, rows that are absent already.

use crate::formula;
use crate::generate::{Dice, dice};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator as Op;
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::formula::Formula;
use whimbrel_temporal::operators::{
    Aggregate, AggregateCall, AggregateFunction, AlterLifetime, Formulas, Operand, Picked, Where,
};
use whimbrel_temporal::{
    Batch, Closed, DurationRule, Graph, INFINITY, Lifetimes, Message, NodeId, Other, StartRule,
};

const SIZE: i64 = 1000;

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![field("a"), field("b")]))
}

/// Rows at times that never fall; `wild`: how many of them in ten thousand are null, or nearly too large.
fn batch(rows: usize, time: &mut i64, step: usize, wild: usize, dice: &mut Dice) -> Batch {
    let mut number = || match dice.below(10_000) {
        one if one < wild => [None, Some(i64::MAX), Some(i64::MIN), Some(1 << 40)][one % 4],
        _ => Some(dice.below(2000) as i64 - 1000),
    };
    let columns = [0; 2].map(|_| Arc::new((0..rows).map(|_| number()).collect::<Int64Array>()) as _);
    let sync: Vec<i64> = (0..rows)
        .map(|_| {
            *time += i64::from(dice.one_in(step));
            *time
        })
        .collect();
    Batch::new(sync.into(), Other::After(1), RecordBatch::try_new(schema(), columns.to_vec()).unwrap())
}

/// `a <= 300 and a <> b`, and `a * b + 7`.
fn queries() -> [(formula::Formula, Formula); 2] {
    let column = formula::Formula::column;
    let (a, b, limit, seven) =
        (Formula::Argument(0), Formula::Argument(1), Formula::Argument(2), Formula::Argument(3));
    let few = column(0).binary(Op::LtEq, formula::Formula::Int(300));
    let predicate = few.binary(Op::And, column(0).binary(Op::NotEq, column(1)));
    let picked = Formula::of(
        Op::And,
        Formula::of(Op::LtEq, a.clone(), limit),
        Formula::of(Op::NotEq, a.clone(), b.clone()),
    );
    let product = column(0).binary(Op::Multiply, column(1)).binary(Op::Plus, formula::Formula::Int(7));
    let sum = Formula::of(Op::Plus, Formula::of(Op::Multiply, a, b), seven);
    [(predicate, picked), (product, sum)]
}

fn calls(argument: &formula::Formula) -> Vec<AggregateCall> {
    let call = |function, argument: Option<&formula::Formula>| AggregateCall {
        function,
        argument: argument.map(|argument| argument.physical(&schema())),
        filter: None,
        name: String::new(),
    };
    vec![
        call(AggregateFunction::Count, None),
        call(AggregateFunction::Sum, Some(argument)),
        call(AggregateFunction::Average, Some(argument)),
        call(AggregateFunction::Sum, Some(&formula::Formula::column(1))),
    ]
}

fn windows(graph: &mut Graph) -> NodeId {
    let input = graph.input();
    let start = StartRule::Snap { hop: SIZE, offset: 0, closed: Closed::Left };
    graph.add(Box::new(AlterLifetime::new(start, DurationRule::Constant(SIZE))), &[input])
}

fn by_formulas(picks: bool) -> Graph {
    let [(predicate, picked), (argument, sum)] = queries();
    let predicate = predicate.physical(&schema());
    let formulas = Formulas {
        arguments: vec![Operand::Column(0), Operand::Column(1), Operand::Value(300), Operand::Value(7)],
        picked: picks.then_some(Picked { predicates: vec![predicate], formula: picked }),
        calls: vec![None, Some(sum.clone()), Some(sum), Some(Formula::Argument(1))],
    };
    let aggregate = Aggregate::of_formulas(schema(), calls(&argument), formulas, SIZE).unwrap();
    let mut graph = Graph::new();
    let node = windows(&mut graph);
    let node = graph.add(Box::new(aggregate), &[node]);
    graph.output(node);
    graph
}

fn one_by_one(picks: bool) -> Graph {
    let [(predicate, _), (argument, _)] = queries();
    let mut graph = Graph::new();
    let mut node = windows(&mut graph);
    if picks {
        node = graph.add(Box::new(Where::new(predicate.physical(&schema()))), &[node]);
    }
    let lifetimes = Lifetimes::Hop { size: SIZE, hop: SIZE, offset: 0 };
    let aggregate = Aggregate::new(schema(), vec![], calls(&argument), lifetimes).unwrap();
    let node = graph.add(Box::new(aggregate), &[node]);
    graph.output(node);
    graph
}

fn answer(mut graph: Graph, messages: &[Message], restored: Option<(usize, Graph)>) -> Vec<String> {
    let mut out = Vec::new();
    let (at, mut other) = restored.map_or((usize::MAX, None), |(at, graph)| (at, Some(graph)));
    for (number, message) in messages.iter().enumerate() {
        if let Some(mut fresh) = other.take_if(|_| number == at) {
            fresh.restore(&graph.save().unwrap()).unwrap();
            graph = fresh;
        }
        // A sum that is too large is so in either way.
        if let Err(error) = graph.push(0, message.clone(), &mut out) {
            return vec![error.strip_backtrace()];
        }
    }
    let batches = out.iter().filter_map(|message| match message {
        (_, Message::Batch(batch)) => Some(batch.clone().compact().unwrap()),
        (_, Message::Punctuation(_)) => None,
    });
    batches
        .flat_map(|batch| {
            let row = |i: usize| {
                let value =
                    |column: &ArrayRef| format!("{:?}", ScalarValue::try_from_array(column, i).unwrap());
                let values = batch.rows.columns().iter().map(value);
                format!("{} {} {}", batch.sync[i], batch.other_at(i), values.collect::<Vec<_>>().join(" "))
            };
            (0..batch.len()).map(row).collect::<Vec<_>>()
        })
        .collect()
}

proptest! {
    #![proptest_config(crate::equal::cases(64))]

    #[test]
    fn formulas_pick_and_add_up_what_expressions_do(
        mut dice in dice(),
        sizes in prop::collection::vec(prop_oneof![0..40usize, 500..530usize, 1000..3000usize], 1..8),
        step in prop_oneof![Just(1usize), Just(3), Just(50), Just(100_000)],
        wild in prop_oneof![Just(0usize), Just(3), Just(300)],
        picks in any::<bool>(),
    ) {
        let mut time = 0;
        let mut messages: Vec<Message> = sizes
            .iter()
            .map(|rows| Message::Batch(batch(*rows, &mut time, step, wild, &mut dice)))
            .collect();
        messages.push(Message::Punctuation(INFINITY));
        let expected = answer(one_by_one(picks), &messages, None);
        prop_assert_eq!(&answer(by_formulas(picks), &messages, None), &expected);
        let at = dice.below(messages.len());
        prop_assert_eq!(answer(by_formulas(picks), &messages, Some((at, by_formulas(picks)))), expected);
    }
}
