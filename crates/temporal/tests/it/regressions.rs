//! Corners: payloads without columns, values that are not finite, large batches, foreign checkpoints.

use crate::calls::Call;
use crate::formula::Formula;
use crate::generate::{FLOAT, KEY, Kinds, NUMBER, TEXT, dice, streams};
use crate::model::{Event, Value, assert_same, decode, value};
use crate::plan::{Pair, Plan, Step, Variant, aggregate_calls};
use arrow::array::{
    ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::logical_expr::Operator as Op;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::sync::Arc;
use whimbrel_temporal::operators::{
    Aggregate, AggregateFunction as F, Clip, ClipConstant, Coalesce, CoalesceOrder, Exists, Join, PointAtEnd,
    Session, Union, Unnest, Where,
};
use whimbrel_temporal::{
    BEGINNING, Batch, Closed, DurationRule, INFINITY, Ingress, IngressOptions, Lifetimes, Message, Operator,
    Other, StartRule, Time, TimeColumns, egress,
};

fn push_all(operator: &mut dyn Operator, messages: &[(usize, Message)]) -> Vec<Message> {
    let mut out = Vec::new();
    messages.iter().for_each(|(input, m)| operator.push(*input, m.clone(), &mut out).expect("computes"));
    out
}

/// Rows without columns, as `count(*)` over a projection of nothing leaves them.
fn bare(times: &[(Time, Time)]) -> Message {
    let options = RecordBatchOptions::new().with_row_count(Some(times.len()));
    let rows = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).expect("rows");
    let sync: Vec<Time> = times.iter().map(|t| t.0).collect();
    let other: Vec<Time> = times.iter().map(|t| t.1).collect();
    Message::Batch(Batch::new(sync.into(), Other::Column(other.into()), rows))
}

fn lives(messages: &[Message]) -> Vec<(Time, Time)> {
    let mut lives: Vec<_> = decode(messages).into_iter().map(|e| (e.start, e.end)).collect();
    lives.sort();
    lives
}

#[test]
fn rows_without_columns_live_and_die() {
    let empty: SchemaRef = Arc::new(Schema::empty());
    let end = |input| (input, Message::Punctuation(INFINITY));
    let rows = [(1, 4), (2, 9), (3, INFINITY), (7, 3)];
    let one = [(0, bare(&rows)), end(0)];
    let two = [(0, bare(&rows)), (1, bare(&[(3, 5)])), end(0), end(1)];
    let run = |mut operator: Box<dyn Operator>| {
        let messages = if operator.inputs() == 2 { &two[..] } else { &one[..] };
        let expected = lives(&push_all(operator.as_mut(), messages));
        let mut fresh = expected.clone();
        fresh.dedup();
        assert!(!fresh.is_empty());
        expected
    };
    let keys = || (vec![], vec![]);
    assert_eq!(run(Box::new(PointAtEnd::new())), [(4, 5), (7, 8), (9, 10)]);
    assert_eq!(run(Box::new(Session::new(vec![], 3, None))), [(1, 6), (2, 6), (3, 6)]);
    assert_eq!(run(Box::new(ClipConstant::new(2))), [(1, 3), (2, 4), (3, 5)]);
    assert_eq!(run(Box::new(Coalesce::new(CoalesceOrder::Start))), [(1, 4), (2, 9), (3, 7)]);
    assert_eq!(run(Box::new(Union::new(2))), [(1, 4), (2, 9), (3, 5), (3, 7)]);
    assert_eq!(run(Box::new(Clip::new(keys().0, keys().1))), [(1, 3), (2, 3), (3, 7)]);
    assert_eq!(run(Box::new(Exists::new(false, keys().0, keys().1))), [(3, 4), (3, 5), (3, 5)]);
    assert_eq!(
        run(Box::new(Join::new(empty.clone(), empty.clone(), vec![], vec![]))),
        [(3, 4), (3, 5), (3, 5)]
    );
    let count = aggregate_calls(&[Call { function: F::Count, argument: None, filter: None }], &empty);
    let count = Aggregate::new(empty.clone(), vec![], count, Lifetimes::Any).expect("counts");
    assert_eq!(run(Box::new(count)), [(1, 2), (2, 3), (3, 4), (4, 7), (7, 9)]);
    assert_eq!(run(Box::new(Aggregate::distinct(empty, Lifetimes::Any).expect("distinct"))), [(1, 9)]);
}

#[test]
fn rows_without_columns_are_saved() {
    let fresh = || Join::new(Arc::new(Schema::empty()), Arc::new(Schema::empty()), vec![], vec![]);
    let mut join = fresh();
    // A left row in the state, and a right one that waits for the left side.
    push_all(&mut join, &[(0, bare(&[(1, 20), (2, 20)])), (1, bare(&[(1, 5), (9, 12)]))]);
    let mut restored = fresh();
    restored.restore(&join.save().expect("a checkpoint")).expect("restores");
    let rest = [(0, Message::Punctuation(INFINITY)), (1, Message::Punctuation(INFINITY))];
    let rows = |join: &mut Join| lives(&push_all(join, &rest));
    assert_eq!(rows(&mut restored), rows(&mut join));
}

fn floats(values: &[f64]) -> (SchemaRef, Message) {
    let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Float64, true)]));
    let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
    let rows = RecordBatch::try_new(schema.clone(), vec![column]).expect("a column");
    let sync: Vec<Time> = (0..values.len() as i64).collect();
    (schema, Message::Batch(Batch::new(sync.into(), Other::After(2), rows)))
}

/// What is not a number, or not finite, leaves no trace once it has left.
#[test]
fn infinities_leave_again() {
    let (schema, rows) =
        floats(&[1.0, f64::INFINITY, 2.0, 4.0, f64::NAN, 5.0, 6.0, f64::NEG_INFINITY, f64::INFINITY, 1.5]);
    let call = |function| Call { function, argument: Some(Formula::column(0)), filter: None };
    for lifetimes in [Lifetimes::Constant(2), Lifetimes::Intervals] {
        let calls = aggregate_calls(&[call(F::Sum), call(F::Average)], &schema);
        let mut sum = Aggregate::new(schema.clone(), vec![], calls, lifetimes).expect("sums");
        let out = push_all(&mut sum, &[(0, rows.clone()), (0, Message::Punctuation(INFINITY))]);
        let mut events = decode(&out);
        events.sort_by_key(|e| e.start);
        let sums: Vec<String> = events.iter().map(|e| format!("{:?}", e.row[0])).collect();
        let inf = f64::INFINITY;
        let expected = [1.0, inf, inf, 6.0, f64::NAN, f64::NAN, 11.0, -inf, f64::NAN, inf, 1.5];
        let expected: Vec<String> = expected.iter().map(|f| format!("Float({f:?})")).collect();
        assert_eq!(sums, expected, "{lifetimes:?}");
    }
}

/// Large values pass through a sum and leave the small ones exact.
#[test]
fn sums_leave_no_residue() {
    let (schema, rows) = floats(&[0.1, 1e17, 0.2, 0.3, 1e300, -1e300, 0.7, 0.1]);
    let calls = [Call { function: F::Sum, argument: Some(Formula::column(0)), filter: None }];
    for lifetimes in [Lifetimes::Constant(2), Lifetimes::Intervals] {
        let calls = aggregate_calls(&calls, &schema);
        let mut sum = Aggregate::new(schema.clone(), vec![], calls, lifetimes).expect("sums");
        let out = push_all(&mut sum, &[(0, rows.clone()), (0, Message::Punctuation(INFINITY))]);
        let events = decode(&out);
        let at =
            |start| events.iter().filter(|e| e.start == start).map(|e| e.row.clone()).collect::<Vec<_>>();
        for (start, sum) in [(3, 0.2 + 0.3), (7, 0.7 + 0.1), (8, 0.1)] {
            let expected = [Event { start, end: INFINITY, row: vec![crate::model::Value::Float(sum)] }];
            let found =
                at(start).into_iter().map(|row| Event { start, end: INFINITY, row }).collect::<Vec<_>>();
            assert_same(&expected, &found, &format!("{lifetimes:?} at {start}"));
        }
    }
}

/// Two floats whose sum is too large are infinite while both are alive, and no longer.
#[test]
fn sums_that_are_too_large_leave_no_trace() {
    let huge = f64::MAX;
    let (schema, rows) = floats(&[0.5, huge, huge, -huge, 0.25, -huge, -huge, -huge, -0.0, 0.5]);
    let inf = f64::INFINITY;
    let expected = [0.5, huge, inf, 0.0, -huge, -huge, -inf, -inf, -huge, 0.5, 0.5];
    let call = Call { function: F::Sum, argument: Some(Formula::column(0)), filter: None };
    for lifetimes in [Lifetimes::Constant(2), Lifetimes::Intervals] {
        let calls = aggregate_calls(std::slice::from_ref(&call), &schema);
        let mut sum = Aggregate::new(schema.clone(), vec![], calls, lifetimes).expect("sums");
        let out = push_all(&mut sum, &[(0, rows.clone()), (0, Message::Punctuation(INFINITY))]);
        let mut events = decode(&out);
        events.sort_by_key(|e| e.start);
        let sums: Vec<_> = events.iter().map(|e| e.row[0].clone()).collect();
        assert_eq!(sums, expected.map(Value::Float), "{lifetimes:?}");
    }
}

/// Lifetimes that would leave the range of instants are refused, and none becomes another one.
#[test]
fn lifetimes_stay_within_time() {
    let (schema, _) = floats(&[]);
    let run = |start, duration, times: &[(Time, Time)]| {
        let mut graph = Plan::of(Step::Alter(start, duration)).graph(std::slice::from_ref(&schema));
        let rows = times.iter().map(|_| 1.0).collect::<Vec<_>>();
        let Message::Batch(batch) = floats(&rows).1 else { panic!("a batch") };
        let (sync, other): (Vec<_>, Vec<_>) = times.iter().copied().unzip();
        let mut out = Vec::new();
        let batch = batch.with_times(sync.into(), Other::Column(other.into()));
        let messages = [Message::Batch(batch), Message::Punctuation(INFINITY)];
        let pushed = messages.into_iter().try_for_each(|message| graph.push(0, message, &mut out));
        let pushed = pushed.map_err(|e| e.strip_backtrace());
        pushed.map(|()| lives(&out.into_iter().map(|(_, message)| message).collect::<Vec<_>>()))
    };
    let (first, last) = (BEGINNING + 1, INFINITY - 1);
    let snap = |hop| StartRule::Snap { hop, offset: 0, closed: Closed::Left };
    // As long as all of time but an instant.
    let all = [(first, last)];
    assert_eq!(
        run(StartRule::Shift(-1), DurationRule::Keep, &[(first + 1, last)]).unwrap(),
        [(first, last - 1)]
    );
    assert_eq!(run(StartRule::Keep, DurationRule::Keep, &all).unwrap(), all);
    assert_eq!(
        run(StartRule::Keep, DurationRule::Constant(5), &[(last - 5, last)]).unwrap(),
        [(last - 5, last)]
    );
    let refused = |start, duration, times: (Time, Time), what: &str| {
        let error = run(start, duration, &[times]).expect_err("beyond time");
        assert!(error.contains(what), "{error}");
    };
    let (start, end) =
        ("would start before the first or after the last instant", "would end before the first or");
    refused(StartRule::Shift(1), DurationRule::Keep, (5, last), end);
    refused(StartRule::Shift(5), DurationRule::Constant(1), (last - 3, last), start);
    refused(StartRule::Shift(-1), DurationRule::Keep, (first, 9), start);
    refused(StartRule::Keep, DurationRule::Constant(9), (last - 3, last), end);
    refused(snap(1000), DurationRule::Constant(1), (last - 3, last), start);
    refused(snap(10), DurationRule::Constant(1 << 62), (1 << 62, last), end);
    refused(StartRule::Keep, DurationRule::ByStart(Formula::Int(9)), (last - 3, last), end);
    refused(StartRule::By(Formula::Int(INFINITY)), DurationRule::Constant(1), (3, 4), start);
}

/// A hundred thousand rows: the same at every batch size, and as many row-ticks as went in.
#[test]
fn large_batches() {
    let rows = 100_000;
    let schema = crate::generate::schema();
    let number = |i: i64, n: i64| i.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17).rem_euclid(n);
    let ints = |n: i64| Arc::new(Int64Array::from_iter_values((0..rows).map(|i| number(i, n)))) as ArrayRef;
    let texts = StringArray::from_iter_values((0..rows).map(|i| format!("t{}", number(i, 50))));
    let halves = Float64Array::from_iter_values((0..rows).map(|i| number(i, 1000) as f64 / 2.0));
    let columns = vec![ints(300), ints(1000), Arc::new(texts) as ArrayRef, Arc::new(halves)];
    let table = RecordBatch::try_new(schema.clone(), columns).expect("four columns");
    let sync: Vec<Time> = (0..rows).map(|i| i / 20).collect();
    let batch = Batch::new(sync.into(), Other::After(1), table);
    let call = |function, c| Call { function, argument: Some(Formula::column(c)), filter: None };
    let calls = vec![call(F::Count, NUMBER), call(F::Max, NUMBER), call(F::Sum, FLOAT)];
    let hops = Variant::Hopping { size: 300, hop: 100, offset: 0, closed: Closed::Left };
    let odd = Formula::column(NUMBER).binary(Op::Modulo, Formula::Int(2)).binary(Op::NotEq, Formula::Int(0));
    let aggregate = |key, variant| Step::Aggregate { key, calls: calls.clone(), variant };
    let longer = Step::Alter(StartRule::Keep, DurationRule::Constant(30));
    let join = Plan::of(longer.clone())
        .with(Pair::Join(vec![KEY], vec![NUMBER]), Plan::of(Step::Where(odd.clone())));
    let plans = [
        Plan::of(Step::Where(odd)).then(aggregate(vec![KEY], hops)),
        Plan::of(aggregate(vec![TEXT], Variant::Tumbling(100))),
        Plan::of(longer).then(aggregate(vec![KEY, TEXT], Variant::Any)),
        join,
    ];
    for plan in plans {
        let run = |size: usize| {
            let mut graph = plan.graph(std::slice::from_ref(&schema));
            let mut out = Vec::new();
            for from in (0..batch.len()).step_by(size) {
                let piece = Message::Batch(batch.slice(from, size.min(batch.len() - from)));
                graph.push(0, piece, &mut out).expect("computes");
            }
            graph.push(0, Message::Punctuation(INFINITY), &mut out).expect("computes");
            decode(out.iter().map(|(_, message)| message))
        };
        let whole = run(80_000);
        assert!(whole.len() > 1000);
        assert_same(&whole, &run(1000), "in batches of 1000");
        assert_same(&whole, &run(77), "in batches of 77");
    }
}

#[test]
fn a_checkpoint_of_another_query_is_refused() {
    let key = || vec![0];
    let schema = crate::generate::schema();
    let calls = |n: usize| {
        aggregate_calls(&vec![Call { function: F::Count, argument: None, filter: None }; n], &schema)
    };
    let aggregate = |n| Aggregate::new(schema.clone(), key(), calls(n), Lifetimes::Any).expect("counts");
    let state = aggregate(2).save().expect("a checkpoint");
    let refused = aggregate(1).restore(&state).expect_err("one call more").strip_backtrace();
    assert!(refused.contains("the checkpoint has 2 aggregates, this query 1"), "{refused}");
    let plan = Plan::of(Step::PointAtEnd).then(Step::Coalesce);
    let state = plan.graph(std::slice::from_ref(&schema)).save().expect("a checkpoint");
    let mut other = Plan::of(Step::PointAtEnd).graph(&[schema]);
    let refused = other.restore(&state).expect_err("one operator more").strip_backtrace();
    assert!(
        refused.contains(
            "it has `node 1: PointAtEnd, feeds 2.0` where this one has `node 1: PointAtEnd, feeds output 0`"
        ),
        "{refused}"
    );
    let refused =
        Join::new(Arc::new(Schema::empty()), Arc::new(Schema::empty()), vec![], vec![]).restore(&[7, 7]);
    assert!(refused.expect_err("no state").strip_backtrace().contains("does not fit this query"));
}

/// Bytes that are not a checkpoint are refused, and nothing panics.
#[test]
fn torn_checkpoints_are_refused() {
    let mut runner = TestRunner::deterministic();
    let plan =
        Plan::of(Step::Session(vec![KEY], 4, None)).with(Pair::Join(vec![KEY], vec![KEY]), Plan::Input(0));
    for _ in 0..20 {
        let stream = streams(Kinds::Any, 30).new_tree(&mut runner).expect("a stream").current();
        let mut dice = dice().new_tree(&mut runner).expect("dice").current();
        let mut graph = plan.graph(std::slice::from_ref(&stream.schema));
        let messages = stream.messages(7, &mut dice);
        let half = messages.len() / 2;
        for message in messages.into_iter().take(half) {
            graph.push(0, message, &mut Vec::new()).expect("computes");
        }
        let state = graph.save().expect("a checkpoint");
        for len in (0..state.len()).step_by(13) {
            let torn = plan.graph(std::slice::from_ref(&stream.schema)).restore(&state[..len]);
            assert!(torn.is_err(), "{len} of {} bytes", state.len());
        }
    }
}

#[test]
fn conditions_and_new_lifetimes_are_checked() {
    let stream = streams(Kinds::Open, 9).prop_filter("some rows", |s| !s.events.is_empty());
    let stream = stream.new_tree(&mut TestRunner::deterministic()).expect("a stream").current();
    let mut dice = dice().new_tree(&mut TestRunner::deterministic()).expect("dice").current();
    let mut failed = |step: Step| {
        let mut graph = Plan::of(step).graph(std::slice::from_ref(&stream.schema));
        let messages = stream.messages(7, &mut dice);
        let failed = messages.into_iter().find_map(|m| graph.push(0, m, &mut Vec::new()).err());
        failed.expect("it fails").strip_backtrace()
    };
    let error = failed(Step::Where(Formula::column(NUMBER)));
    assert!(error.contains("the condition number@1 is not a truth value"), "{error}");
    let error = failed(Step::Alter(StartRule::Keep, DurationRule::ByStart(Formula::Int(0))));
    assert!(error.contains("was given a duration of 0 ticks; a duration is positive"), "{error}");
    let not_a_number = Formula::column(0).binary(Op::Lt, Formula::Int(0));
    let error = failed(Step::Alter(StartRule::By(not_a_number), DurationRule::Keep));
    assert!(error.contains("is Boolean, not a number of ticks (int64)"), "{error}");
}

#[test]
fn a_start_that_goes_backwards_is_refused() {
    let back = Formula::Int(0).binary(Op::Minus, Formula::column(0));
    let schema = floats(&[]).0;
    let plan = Plan::of(Step::Alter(StartRule::By(back), DurationRule::Constant(1)));
    let failed = plan.graph(&[schema]).push(0, floats(&[1.0, 2.0]).1, &mut Vec::new());
    let error = failed.expect_err("1 is before 0 now").strip_backtrace();
    assert!(
        error.contains("moved a row to -1, before 0, to which the stream has already advanced"),
        "{error}"
    );
}

#[test]
fn coalesced_by_end_rows_leave_when_they_end() {
    let rows = [(1, INFINITY), (2, INFINITY), (3, 9), (5, 2), (6, INFINITY), (7, 1)];
    let mut coalesce = Coalesce::new(CoalesceOrder::End);
    let out = push_all(
        &mut coalesce,
        &[(0, bare(&rows)), (0, Message::Punctuation(8)), (0, Message::Punctuation(INFINITY))],
    );
    let told: Vec<_> = out
        .iter()
        .map(|m| match m {
            Message::Batch(b) => (0..b.len()).map(|i| (b.sync[i], b.other_at(i))).collect(),
            Message::Punctuation(time) => vec![(*time, *time)],
        })
        .collect();
    let (end, eight) = (vec![(INFINITY, INFINITY)], vec![(8, 8)]);
    assert_eq!(told, [vec![(3, 9), (2, 5), (1, 7)], eight, vec![(6, INFINITY)], end]);
    let error = coalesce_of(&[(5, 2)]).expect_err("nothing began at 2").strip_backtrace();
    assert!(
        error.contains("an end edge at 5 ends a row that began at 2, but no such row is open"),
        "{error}"
    );
}

fn coalesce_of(rows: &[(Time, Time)]) -> datafusion::common::Result<()> {
    Coalesce::new(CoalesceOrder::Start).push(0, bare(rows), &mut Vec::new())
}

#[test]
fn whole_lifetimes_are_tables() {
    let (_, Message::Batch(points)) = floats(&[1.0, 2.0]) else { panic!("a batch") };
    let open = points.with_times(points.sync.clone(), Other::Open);
    let table = egress::to_table(&open, &DataType::Int64).expect("a table");
    let column = |c: usize| (0..2).map(|i| value(table.column(c), i)).collect::<Vec<_>>();
    use crate::model::Value::{Float, Int, Null};
    assert_eq!(column(0), [Int(0), Int(1)]);
    assert_eq!(column(1), [Null, Null]);
    assert_eq!(column(2), [Float(1.0), Float(2.0)]);
    let ends = points.with_times(vec![5, 5].into(), Other::Column(vec![1, 2].into()));
    let error = egress::to_table(&ends, &DataType::Int64).expect_err("end edges").strip_backtrace();
    assert!(error.contains("coalesce the edges first"), "{error}");
}

/// A filter that leaves nothing of some batches, between others.
#[test]
fn nothing_left_of_a_batch() {
    let (schema, rows) = floats(&[1.0, -1.0, -2.0, 3.0]);
    let condition = Formula::column(0).binary(Op::GtEq, Formula::Float(0.0)).physical(&schema);
    let Message::Batch(batch) = rows else { panic!("a batch") };
    let pieces =
        (0..4).map(|i| (0, Message::Batch(batch.slice(i, 1)))).chain([(0, Message::Punctuation(INFINITY))]);
    let out = push_all(&mut Where::new(condition), &pieces.collect::<Vec<_>>());
    assert_eq!(lives(&out), [(0, 2), (3, 5)]);
}

/// A null list may have elements in its column; they are not its.
#[test]
fn elements_of_null_lists_are_none() {
    let item = Arc::new(Field::new_list_field(DataType::Int64, true));
    let elements: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let offsets = OffsetBuffer::from_lengths([2, 1, 0, 1]);
    let lists = ListArray::new(item.clone(), offsets, elements, Some(vec![false, true, true, true].into()));
    let schema = Schema::new(vec![Field::new("list", DataType::List(item), true)]);
    let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(lists)]).expect("a column");
    let batch = Batch::new(vec![1, 2, 3, 4].into(), Other::After(1), rows);
    let schema = Arc::new(Schema::new(vec![Field::new("list", DataType::Int64, true)]));
    let messages = [(0, Message::Batch(batch)), (0, Message::Punctuation(INFINITY))];
    let out = push_all(&mut Unnest::new(0, schema), &messages);
    let found: Vec<_> = decode(&out).into_iter().map(|e| (e.start, e.row)).collect();
    let row = |n| vec![crate::model::Value::Int(n)];
    assert_eq!(found, [(2, row(3)), (4, row(4))]);
}

/// From a table to a table, by way of a stream.
#[test]
fn in_and_out_again() {
    let times: ArrayRef = Arc::new(Int64Array::from(vec![3, 4, 4]));
    let table = RecordBatch::try_from_iter([("at", times)]).expect("a column");
    let mut ingress =
        Ingress::new(TimeColumns::Point { start: 0 }, IngressOptions::default(), table.schema())
            .expect("ingress");
    let mut out = Vec::new();
    ingress.push(table, &mut out).expect("takes rows");
    ingress.complete(&mut out).expect("completes");
    let events = egress::to_events(&out).expect("events");
    let ends: Vec<Time> = events
        .iter()
        .map(|e| match e {
            egress::Event::Interval { end, .. } => *end,
            egress::Event::Punctuation(time) => *time,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ends, [4, 5, 5, INFINITY]);
}
