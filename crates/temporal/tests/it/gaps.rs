//! Gaps that are filled: against the oracle, and what is known when.

use crate::equal::{cases, grids, keys};
use crate::generate::{FLOAT, KEY, Kinds, NUMBER, Stream, TEXT, dice, interleave, streams};
use crate::model::{Physical, Value, assert_same, decode, physical};
use crate::oracle::{self, GapFill, Gaps};
use crate::plan::{Plan, Step, check};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::operators::{Fill, FillGaps};
use whimbrel_temporal::{Batch, INFINITY, Message, Operator, Other, Time};

/// A fill for a column: a constant, a null, the last value, or, of numbers, a line.
fn fill(column: usize, linear: bool) -> impl Strategy<Value = GapFill> {
    let constant = match column {
        TEXT => Value::Text("none".to_string()),
        FLOAT => Value::Float(0.5),
        _ => Value::Int(0),
    };
    let line = if linear && column != TEXT { GapFill::Linear } else { GapFill::Previous };
    prop_oneof![
        Just(GapFill::Constant(constant)),
        Just(GapFill::Constant(Value::Null)),
        Just(GapFill::Previous),
        Just(line),
    ]
}

fn gaps(max_gap: impl Strategy<Value = Option<i64>>) -> impl Strategy<Value = Gaps> {
    let fills = any::<bool>().prop_flat_map(|linear| {
        [KEY, NUMBER, TEXT, FLOAT].map(|column| fill(column, linear).boxed()).to_vec()
    });
    (keys(), fills, grids(), max_gap).prop_map(|((key, _), fills, (period, offset), max_gap)| Gaps {
        key,
        fills,
        period,
        offset,
        max_gap,
    })
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn gaps_are_filled(
        stream in streams(Kinds::Any, 30), gaps in gaps((1..40i64).prop_map(Some)), dice in dice(),
    ) {
        check(&Plan::of(Step::FillGaps(gaps)).then(Step::WithStart), &[stream], &dice);
    }

    #[test]
    fn gaps_of_windows_are_filled(
        stream in streams(Kinds::Points, 30), gaps in gaps((1..40i64).prop_map(Some)), dice in dice(),
    ) {
        let windows = Step::Quantize((gaps.period, gaps.period, gaps.offset), None);
        let plan = Plan::of(windows).then(Step::FillGaps(gaps)).then(Step::WithStart);
        check(&plan, &[stream], &dice);
    }

    #[test]
    fn gaps_after_what_was_always_there(
        stream in streams(Kinds::Any, 30), gaps in gaps((1..40i64).prop_map(Some)), dice in dice(),
    ) {
        check(&Plan::of(Step::FillGaps(gaps)), &[stream.always_there()], &dice);
    }

    /// Without a maximum gaps go on as far as time comes.
    #[test]
    fn gaps_are_filled_as_far_as_time_comes(
        stream in streams(Kinds::Any, 30), gaps in gaps(Just(None)), size in 1..9usize, dice in dice(),
    ) {
        let mut dice = dice;
        let messages = interleave(vec![stream.messages(size, &mut dice)], &mut dice);
        let messages: Vec<Message> = messages.into_iter().map(|(_, message)| message).collect();
        let expected = oracle::fill_gaps(&stream.events, &gaps, how_far(&messages));
        let mut graph = Plan::of(Step::FillGaps(gaps)).graph(std::slice::from_ref(&stream.schema));
        let mut out = Vec::new();
        messages.into_iter().for_each(|message| graph.push(0, message, &mut out).unwrap());
        assert_same(&expected, &decode(out.iter().map(|(_, message)| message)), "as far as time comes");
    }
}

/// The last instant that rows or punctuations name.
fn how_far(messages: &[Message]) -> Time {
    let times = |message: &Message| match message {
        Message::Batch(batch) => physical(batch).iter().flat_map(|row| [row.sync, row.other]).collect(),
        Message::Punctuation(time) => vec![*time],
    };
    messages.iter().flat_map(times).filter(|&time| time < INFINITY).max().unwrap_or(0)
}

fn schema() -> SchemaRef {
    let number = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![number("key"), number("count"), Field::new("level", DataType::Float64, true)]))
}

/// Rows of a key, a count and a level.
fn rows(rows: &[(Time, Time, i64, i64, f64)]) -> Message {
    let column = |value: fn(&(Time, Time, i64, i64, f64)) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(value)))
    };
    let level: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.4)));
    let columns = vec![column(|row| row.2), column(|row| row.3), level];
    let sync: Vec<Time> = rows.iter().map(|row| row.0).collect();
    let other: Vec<Time> = rows.iter().map(|row| row.1).collect();
    let columns = RecordBatch::try_new(schema(), columns).unwrap();
    Message::Batch(Batch::new(sync.into(), Other::Column(other.into()), columns))
}

fn operator(level: Fill, max_gap: Option<i64>) -> FillGaps {
    let zero = Fill::Constant(ScalarValue::Int32(Some(0)));
    FillGaps::new(schema(), vec![0], vec![zero, level], (10, 0), max_gap).unwrap()
}

/// What a message brings out: rows as start, key and count, punctuations as they are.
fn out(operator: &mut FillGaps, message: Message) -> (Vec<(Time, i64, i64)>, Option<Time>) {
    let mut out = Vec::new();
    operator.push(0, message, &mut out).unwrap();
    let (mut found, mut punctuated) = (Vec::new(), None);
    for message in &out {
        match message {
            Message::Punctuation(time) => punctuated = Some(*time),
            Message::Batch(batch) => {
                found.extend(physical(batch).into_iter().map(|Physical { sync, row, .. }| match row[..] {
                    [Value::Int(key), Value::Int(count), _] => (sync, key, count),
                    _ => panic!("{row:?}"),
                }))
            }
        }
    }
    (found, punctuated)
}

#[test]
fn cells_are_filled_when_they_are_over() {
    let mut fill = operator(Fill::Previous, Some(25));
    let mut now = |message| out(&mut fill, message);
    assert_eq!(now(rows(&[(0, 10, 1, 5, 0.5), (0, 10, 2, 6, 0.5)])), (vec![(0, 1, 5), (0, 2, 6)], None));
    // Rows at the begin of the cell are not held, nor those after it once no key is without a row in it.
    assert_eq!(now(rows(&[(10, 20, 1, 7, 0.5)])), (vec![(10, 1, 7)], None));
    assert_eq!(now(Message::Punctuation(15)), (vec![], Some(10)));
    assert_eq!(now(rows(&[(15, 20, 3, 1, 0.5)])), (vec![], None));
    assert_eq!(now(rows(&[(16, 18, 2, 8, 0.5)])), (vec![(15, 3, 1), (16, 2, 8)], None));
    assert_eq!(now(Message::Punctuation(17)), (vec![], Some(17)));
    // A key that is late is waited for.
    assert_eq!(now(rows(&[(20, 30, 2, 9, 0.5)])), (vec![(20, 2, 9)], None));
    assert_eq!(now(Message::Punctuation(29)), (vec![], Some(20)));
    assert_eq!(now(Message::Punctuation(30)), (vec![(20, 1, 0), (20, 3, 0)], Some(30)));
    // Keys are forgotten at 50, the first instant of the grid 25 ticks after 20; the other one lives on.
    assert_eq!(now(rows(&[(30, 60, 2, 9, 0.5)])), (vec![(30, 2, 9)], None));
    let cells = vec![(30, 1, 0), (30, 3, 0), (40, 1, 0), (40, 3, 0)];
    assert_eq!(now(Message::Punctuation(55)), (cells, Some(55)));
    // After the end of the stream a key is filled until it is forgotten.
    assert_eq!(
        now(Message::Punctuation(INFINITY)),
        (vec![(60, 2, 0), (70, 2, 0), (80, 2, 0)], Some(INFINITY))
    );
}

#[test]
fn a_line_waits_for_the_next_row() {
    let mut fill = operator(Fill::Linear, Some(100));
    out(&mut fill, rows(&[(0, 10, 1, 1, 2.0), (0, 10, 2, 1, 0.0)]));
    assert_eq!(out(&mut fill, rows(&[(20, 30, 2, 1, 4.0)])), (vec![], None));
    // The gap of the second key has ended; what is after the begin of the other's waits with it.
    assert_eq!(out(&mut fill, Message::Punctuation(35)), (vec![(10, 2, 0)], Some(10)));
    let mut given = Vec::new();
    for message in [rows(&[(40, 50, 1, 1, 0.0)]), Message::Punctuation(41)] {
        fill.push(0, message, &mut given).unwrap();
    }
    let [Message::Batch(batch), Message::Punctuation(30)] = &given[..] else { panic!("{given:?}") };
    let levels: Vec<_> =
        physical(batch).into_iter().map(|row| (row.sync, row.row[0].clone(), row.row[2].clone())).collect();
    let float = |time, key, level| (time, Value::Int(key), Value::Float(level));
    let expected = [float(10, 1, 1.5), float(20, 2, 4.0), float(20, 1, 1.0), float(30, 1, 0.5)];
    assert_eq!(levels, expected);
}

/// A gap that nothing ends is not filled for ever, and the present cell is over when time says so.
#[test]
fn without_a_maximum_gaps_are_filled_as_far_as_time_comes() {
    let mut fill = operator(Fill::Previous, None);
    assert_eq!(out(&mut fill, rows(&[(3, 5, 1, 5, 0.5)])), (vec![(3, 1, 5)], None));
    assert_eq!(out(&mut fill, Message::Punctuation(39)), (vec![(10, 1, 0), (20, 1, 0)], Some(30)));
    assert_eq!(out(&mut fill, Message::Punctuation(INFINITY)), (vec![], Some(INFINITY)));
}

#[test]
fn gaps_near_the_end_of_time() {
    let late = INFINITY - 25;
    let mut fill = operator(Fill::Previous, Some(i64::MAX));
    let (found, _) = out(&mut fill, rows(&[(late, late + 2, 1, 5, 0.5)]));
    assert_eq!(found, [(late, 1, 5)]);
    // The only whole cell that is left.
    let (found, _) = out(&mut fill, Message::Punctuation(INFINITY));
    assert_eq!(found, [(INFINITY - 17, 1, 0)]);
}

#[test]
fn fills_fit_their_columns() {
    let refused = |fills: Vec<Fill>, max_gap| {
        FillGaps::new(schema(), vec![0], fills, (10, 0), max_gap).err().unwrap().strip_backtrace()
    };
    let null = || Fill::Constant(ScalarValue::Null);
    assert!(refused(vec![null()], None).contains("1 fills for 2 columns beside the key"));
    assert!(refused(vec![null(), null()], None).contains("count has no nulls"));
    assert!(refused(vec![Fill::Linear, null()], None).contains("count has no nulls"));
    assert!(refused(vec![Fill::Constant("many".into()), null()], None).contains("is no value of count"));
    assert!(refused(vec![Fill::Previous, null()], Some(0)).contains("both are positive"));
    let text: SchemaRef = Arc::new(Schema::new(vec![Field::new("name", DataType::Utf8, true)]));
    let failed = FillGaps::new(text, vec![], vec![Fill::Linear], (10, 0), None).err().unwrap();
    assert!(failed.strip_backtrace().contains("a line goes through numbers; name is Utf8"));
}

/// A stream of nothing but its end.
#[test]
fn no_rows_have_no_gaps() {
    let stream = Stream::new(schema(), vec![]);
    assert!(stream.events.is_empty());
    assert_eq!(
        out(&mut operator(Fill::Previous, None), Message::Punctuation(INFINITY)),
        (vec![], Some(INFINITY))
    );
}
