//! The combiner: parts, aggregated again, are what the rows would have been, whether it puts them together or
//! not.

use crate::model::{assert_same, decode};
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::sync::Arc;
use whimbrel_temporal::operators::{Aggregate, AggregateCall, AggregateFunction as F, Combine};
use whimbrel_temporal::{Batch, INFINITY, Lifetimes, Message, Operator, Other};

const PANE: i64 = 10;
const ROWS: i64 = 150_000;

fn column(name: &str, place: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(name, place))
}

/// Rows in panes of ten thousand, with keys below `keys`, a value that may be null, and whether it counts.
fn messages(keys: i64) -> Vec<Message> {
    let batch = |first: i64| {
        let rows = first..first + 50_000;
        let mixed = |i: i64| (i * 2_654_435_761) % keys;
        let key = Int64Array::from_iter_values(rows.clone().map(mixed));
        let value = Int64Array::from_iter(rows.clone().map(|i| (i % 7 != 0).then_some(i % 1000 - 500)));
        let counts = BooleanArray::from_iter(rows.clone().map(|i| (i % 11 != 0).then_some(i % 3 == 0)));
        let columns: [(&str, ArrayRef); 3] =
            [("key", Arc::new(key)), ("value", Arc::new(value)), ("counts", Arc::new(counts))];
        let sync: Vec<i64> = rows.map(|i| i / 10_000 * PANE).collect();
        let rows =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true))).expect("rows");
        Message::Batch(Batch::new(sync.into(), Other::After(PANE), rows))
    };
    let batches = (0..ROWS).step_by(50_000).map(batch);
    batches.chain([Message::Punctuation(INFINITY)]).collect()
}

fn calls() -> Vec<AggregateCall> {
    let call = |(i, function): (usize, F)| AggregateCall {
        function,
        argument: (i > 0).then(|| column("value", 1)),
        filter: (i % 2 == 0).then(|| column("counts", 2)),
        name: format!("c{i}"),
    };
    [F::Count, F::Count, F::Sum, F::Sum, F::Min, F::Max].into_iter().enumerate().map(call).collect()
}

fn again() -> Vec<AggregateCall> {
    let call = |(i, function): (usize, F)| AggregateCall {
        function,
        argument: Some(column(&format!("c{i}"), i + 1)),
        filter: None,
        name: format!("c{i}"),
    };
    [F::Sum, F::Sum, F::Sum, F::Sum, F::Min, F::Max].into_iter().enumerate().map(call).collect()
}

fn run(operator: &mut dyn Operator, messages: Vec<Message>) -> Vec<Message> {
    let mut out = Vec::new();
    messages.into_iter().for_each(|m| operator.push(0, m, &mut out).expect("computes"));
    out
}

fn rows(messages: &[Message]) -> usize {
    let rows = |m: &Message| if let Message::Batch(batch) = m { batch.len() } else { 0 };
    messages.iter().map(rows).sum()
}

#[test]
fn parts_make_the_whole() {
    let lifetimes = Lifetimes::Hop { size: PANE, hop: PANE, offset: 0 };
    for (keys, most) in [(5, 1_000), (1_000_000, ROWS as usize)] {
        let input = messages(keys);
        let Message::Batch(first) = &input[0] else { panic!("rows come first") };
        let schema = first.rows.schema();
        let mut combine = Combine::new(schema.clone(), vec![0], calls(), PANE).expect("combines");
        let parts = run(&mut combine, input.clone());
        assert!(rows(&parts) <= most, "{keys} keys: {} parts", rows(&parts));
        let mut second =
            Aggregate::new(combine.schema().clone(), vec![0], again(), lifetimes).expect("aggregates");
        let mut direct = Aggregate::new(schema, vec![0], calls(), lifetimes).expect("aggregates");
        let found = run(&mut second, parts);
        let expected = run(&mut direct, input);
        assert_same(&decode(&expected), &decode(&found), &format!("{keys} keys"));
    }
}
