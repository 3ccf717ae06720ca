//! Operators that move or divide lifetimes: against the oracle, and the cases of Trill's own tests.

use crate::calls::Call;
use crate::equal::{cases, closed, grids, unary};
use crate::generate::{Dice, KEY, Kinds, Stream, dice, streams};
use crate::model::{Event, Physical, Row, Value, decode, physical};
use crate::plan::{Plan, Step, Variant, check};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::operators::{AggregateFunction, ExtendLifetime, Hopping, Quantize, Stitch};
use whimbrel_temporal::{
    BEGINNING, Batch, Closed, DurationRule, INFINITY, Message, Operator, Other, StartRule, Time,
};

/// Holds the rows into which a relation is divided against the oracle, not the relation only.
fn divided(plan: Plan, stream: Stream, dice: &Dice) {
    check(&plan.then(Step::WithStart), &[stream], dice);
}

fn progress() -> impl Strategy<Value = ((i64, i64), Option<i64>)> {
    let plain = grids().prop_map(|grid| (grid, None));
    let parts = (1..4i64, 2..5i64, -20..20i64);
    prop_oneof![plain, parts.prop_map(|(part, parts, offset)| ((part * parts, offset), Some(part)))]
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn extend_moves_ends(stream in streams(Kinds::Any, 40), by in -20..20i64, dice in dice()) {
        divided(Plan::of(Step::Extend(by)), stream, &dice);
    }

    #[test]
    fn extend_moves_ends_of_intervals(stream in streams(Kinds::Intervals, 40), by in -20..20i64, dice in dice()) {
        divided(Plan::of(Step::Extend(by)), stream, &dice);
    }

    #[test]
    fn extend_moves_ends_of_points(stream in streams(Kinds::Points, 40), by in -3..20i64, dice in dice()) {
        divided(Plan::of(Step::Extend(by)), stream, &dice);
    }

    /// Many equal rows.
    #[test]
    fn extend_moves_ends_of_few_payloads(
        stream in streams(Kinds::Any, 60), by in -20..20i64, dice in dice(),
    ) {
        divided(Plan::of(Step::Extend(by)), few_payloads(stream), &dice);
    }

    #[test]
    fn extend_of_what_was_always_there(stream in streams(Kinds::Any, 40), by in -20..20i64, dice in dice()) {
        unary(Step::Extend(by), stream.always_there(), &dice);
    }

    #[test]
    fn stitch_joins_what_touches(stream in streams(Kinds::Any, 60), dice in dice()) {
        divided(Plan::of(Step::Stitch), few_payloads(stream), &dice);
    }

    #[test]
    fn stitch_joins_what_touches_of_any_columns(stream in streams(Kinds::Any, 40), dice in dice()) {
        divided(Plan::of(Step::Stitch), stream, &dice);
    }

    #[test]
    fn stitch_joins_what_was_chopped(
        stream in streams(Kinds::Any, 30), period in 1..15i64, by_key: bool, dice in dice(),
    ) {
        let stream = if by_key { few_payloads(stream) } else { stream };
        let chopped = Plan::of(Step::ClipConstant(20)).then(Step::Chop(period, 0));
        divided(chopped.then(Step::Stitch), stream, &dice);
    }

    #[test]
    fn stitch_of_what_was_always_there(stream in streams(Kinds::Any, 40), dice in dice()) {
        unary(Step::Stitch, few_payloads(stream).always_there(), &dice);
    }

    #[test]
    fn quantize_snaps_lifetimes(
        stream in streams(Kinds::Any, 40), (grid, progress) in progress(), size in 1..30i64, dice in dice(),
    ) {
        divided(Plan::of(Step::Quantize((size, grid.0, grid.1), progress)), stream, &dice);
    }

    #[test]
    fn quantize_snaps_points(
        stream in streams(Kinds::Points, 40), (grid, progress) in progress(), size in 1..30i64, dice in dice(),
    ) {
        divided(Plan::of(Step::Quantize((size, grid.0, grid.1), progress)), stream, &dice);
    }

    #[test]
    fn quantize_of_what_was_always_there(
        stream in streams(Kinds::Any, 40), (grid, progress) in progress(), size in 1..30i64, dice in dice(),
    ) {
        let step = Step::Quantize((size, grid.0, grid.1), progress);
        unary(step, few_payloads(stream).always_there(), &dice);
    }

    #[test]
    fn hopping_windows_of_any_size(
        stream in streams(Kinds::Any, 40), grid in grids(), size in 1..30i64, closed in closed(), dice in dice(),
    ) {
        divided(Plan::of(Step::Hopping((size, grid.0, grid.1), closed)), stream, &dice);
    }

    /// Where the size is a multiple of the hop, there are two ways to say it.
    #[test]
    fn hopping_windows_of_whole_hops(
        stream in streams(Kinds::Any, 40), grid in grids(), hops in 1..5i64, closed in closed(), dice in dice(),
    ) {
        let (hop, offset) = grid;
        let start = StartRule::Snap { hop, offset, closed };
        divided(Plan::of(Step::Alter(start, DurationRule::Constant(hop * hops))), stream.clone(), &dice);
        divided(Plan::of(Step::Hopping((hop * hops, hop, offset), closed)), stream, &dice);
    }

    /// A row for each window, also where nothing changes: windows, cut where they end, then aggregated.
    #[test]
    fn hopping_windows_repeat(
        stream in streams(Kinds::Any, 30), grid in grids(), size in 1..30i64, closed in closed(), dice in dice(),
    ) {
        let (hop, offset) = grid;
        let count = Call { function: AggregateFunction::Count, argument: None, filter: None };
        let windows = Plan::of(Step::Hopping((size, hop, offset), closed)).then(Step::Chop(hop, offset));
        let counts = Step::Aggregate { key: vec![KEY], calls: vec![count], variant: Variant::Any };
        divided(windows.then(counts), stream, &dice);
    }
}

/// The same lifetimes, with three different payloads.
fn few_payloads(mut stream: Stream) -> Stream {
    let row = |row: &mut Row| {
        let number = if let Value::Int(key) = row[KEY] { key % 3 } else { 0 };
        *row = vec![Value::Int(number), Value::Null, Value::Null, Value::Float(-0.0)];
    };
    stream.events.iter_mut().for_each(|event| row(&mut event.row));
    stream
}

/// Rows of one number: sync time, other time, number.
fn rows(rows: &[(Time, Time, i64)]) -> Message {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)));
    let columns = RecordBatch::try_from_iter([("v", column)]).unwrap();
    let sync: Vec<Time> = rows.iter().map(|row| row.0).collect();
    let other: Vec<Time> = rows.iter().map(|row| row.1).collect();
    Message::Batch(Batch::new(sync.into(), Other::Column(other.into()), columns))
}

const END: Message = Message::Punctuation(INFINITY);

fn pushed(operator: &mut dyn Operator, messages: Vec<Message>) -> Vec<Message> {
    let mut out = Vec::new();
    messages.into_iter().for_each(|message| operator.push(0, message, &mut out).unwrap());
    out
}

/// What comes out, row by row: sync time, other time, number.
fn row_by_row(operator: &mut dyn Operator, messages: Vec<Message>) -> Vec<(Time, Time, i64)> {
    let row = |Physical { sync, other, row }: Physical| match row[..] {
        [Value::Int(number)] => (sync, other, number),
        _ => panic!("{row:?}"),
    };
    let batch = |message: &Message| match message {
        Message::Batch(batch) => physical(batch).into_iter().map(row).collect(),
        Message::Punctuation(_) => Vec::new(),
    };
    pushed(operator, messages).iter().flat_map(batch).collect()
}

fn lives(operator: &mut dyn Operator, given: &[(Time, Time, i64)]) -> Vec<(Time, Time, i64)> {
    let life = |Event { start, end, row }: Event| match row[..] {
        [Value::Int(number)] => (start, end, number),
        _ => panic!("{row:?}"),
    };
    let mut lives: Vec<_> = decode(&pushed(operator, vec![rows(given), END])).into_iter().map(life).collect();
    lives.sort();
    lives
}

#[test]
fn extend_1() {
    let piece = |at: Time| [(at, INFINITY, 7), (at + 1, at, 7)];
    let given: Vec<_> = (1..5).flat_map(piece).collect();
    let found = row_by_row(&mut ExtendLifetime::new(3), vec![rows(&given), END]);
    let starts = [(1, INFINITY, 7), (2, INFINITY, 7), (3, INFINITY, 7), (4, INFINITY, 7)];
    assert_eq!(found, [&starts[..], &[(5, 1, 7), (6, 2, 7), (7, 3, 7), (8, 4, 7)]].concat());
}

#[test]
fn extend_2() {
    let given = [(1, 5, 7), (2, 10, 7), (3, 8, 7), (4, 6, 7), (8, 9, 7)];
    let expected = [(1, 15, 7), (2, 20, 7), (3, 18, 7), (4, 16, 7), (8, 19, 7)];
    assert_eq!(lives(&mut ExtendLifetime::new(10), &given), expected);
}

#[test]
fn extend_negative() {
    let longer = [(1, 15, 7), (2, 20, 7), (3, 18, 7), (4, 16, 7), (8, 19, 7)];
    let expected = [(1, 5, 7), (2, 10, 7), (3, 8, 7), (4, 6, 7), (8, 9, 7)];
    assert_eq!(lives(&mut ExtendLifetime::new(-10), &longer), expected);
    assert_eq!(lives(&mut ExtendLifetime::new(-15), &longer), [(2, 5, 7)]);
    let starts = [(1, INFINITY, 7), (2, INFINITY, 7), (3, INFINITY, 7), (4, INFINITY, 7)];
    let edges = [&starts[..], &[(5, 1, 7), (6, 2, 7), (17, 3, 7), (18, 4, 7)]].concat();
    let found = row_by_row(&mut ExtendLifetime::new(-10), vec![rows(&edges), END]);
    assert_eq!(found, [(3, INFINITY, 7), (4, INFINITY, 7), (7, 3, 7), (8, 4, 7)]);
}

/// Punctuations do not overtake what is held, and are not held where nothing is.
#[test]
fn extend_punctuates_as_early_as_it_can() {
    const NOTHING: [i64; 0] = [];
    let at = |operator: &mut ExtendLifetime, message| {
        let found = pushed(operator, vec![message]);
        found
            .into_iter()
            .map(|m| if let Message::Punctuation(time) = m { time } else { -1 })
            .collect::<Vec<_>>()
    };
    let mut shorter = ExtendLifetime::new(-10);
    assert_eq!(at(&mut shorter, Message::Punctuation(5)), [5]);
    assert_eq!(at(&mut shorter, rows(&[(6, INFINITY, 1)])), NOTHING);
    assert_eq!(at(&mut shorter, Message::Punctuation(9)), [6]);
    assert_eq!(at(&mut shorter, Message::Punctuation(16)), [6]);
    assert_eq!(at(&mut shorter, Message::Punctuation(18)), [-1, 8]);
    assert_eq!(at(&mut shorter, rows(&[(18, 30, 2)])), NOTHING);
    assert_eq!(at(&mut shorter, rows(&[(19, 6, 1)])), [-1]);
    assert_eq!(at(&mut shorter, Message::Punctuation(20)), [20]);
    let mut longer = ExtendLifetime::new(10);
    assert_eq!(at(&mut longer, rows(&[(5, INFINITY, 1), (6, 5, 1)])), [-1]);
    assert_eq!(at(&mut longer, Message::Punctuation(16)), [-1, 16]);
}

#[test]
fn extended_ends_stay_within_time() {
    let given = [(5, INFINITY - 3, 1), (6, INFINITY, 2)];
    assert_eq!(lives(&mut ExtendLifetime::new(2), &given), [(5, INFINITY - 1, 1), (6, INFINITY, 2)]);
    assert_eq!(lives(&mut ExtendLifetime::new(3), &given), [(5, INFINITY, 1), (6, INFINITY, 2)]);
    assert_eq!(lives(&mut ExtendLifetime::new(i64::MAX), &given), [(5, INFINITY, 1), (6, INFINITY, 2)]);
    assert_eq!(lives(&mut ExtendLifetime::new(i64::MIN), &given), [(6, INFINITY, 2)]);
    let edges = [(5, INFINITY, 1), (INFINITY - 3, 5, 1)];
    assert_eq!(lives(&mut ExtendLifetime::new(2), &edges), [(5, INFINITY - 1, 1)]);
    assert_eq!(lives(&mut ExtendLifetime::new(3), &edges), [(5, INFINITY, 1)]);
    assert_eq!(lives(&mut ExtendLifetime::new(-3), &edges), [(5, INFINITY - 6, 1)]);
    let early = [(BEGINNING, INFINITY, 1), (BEGINNING + 9, BEGINNING, 1)];
    assert_eq!(lives(&mut ExtendLifetime::new(-8), &early), [(BEGINNING, BEGINNING + 1, 1)]);
    assert_eq!(lives(&mut ExtendLifetime::new(-9), &early), []);
    assert_eq!(lives(&mut ExtendLifetime::new(-10), &early), []);
    // All rows of one length, which has no number when it is longer.
    let early = Message::Batch(Batch::new(vec![-9].into(), Other::After(i64::MAX), bare(1)));
    let found = decode(&pushed(&mut ExtendLifetime::new(1), vec![early, END]));
    assert_eq!((found[0].start, found[0].end), (-9, i64::MAX - 8));
}

fn bare(rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap()
}

fn stitch() -> Stitch {
    let Message::Batch(Batch { rows, .. }) = rows(&[]) else { unreachable!("rows are a batch") };
    Stitch::new(rows.schema())
}

#[test]
fn stitch_edges() {
    let given = [(104, INFINITY, 1), (105, INFINITY, 2), (106, 104, 1), (106, 105, 2)];
    assert_eq!(row_by_row(&mut stitch(), vec![rows(&given), END]), given);
    let passes = [(1, INFINITY, 1), (2, INFINITY, 2), (3, 1, 1), (4, 2, 2)];
    assert_eq!(row_by_row(&mut stitch(), vec![rows(&passes), END]), passes);
}

#[test]
fn stitch_of_a_multiset_with_a_slow_row() {
    let twice = |sync, other| [(sync, other, 1), (sync, other, 1)];
    let mut given = vec![(1, INFINITY, 1); 3];
    for at in 2..5 {
        given.extend(twice(at, at - 1));
        given.extend(twice(at, INFINITY));
    }
    given.extend(twice(5, 4));
    given.push((6, 1, 1));
    let expected = [&[(1, INFINITY, 1); 3][..], &twice(5, 1), &[(6, 1, 1)]].concat();
    assert_eq!(row_by_row(&mut stitch(), vec![rows(&given), END]), expected);
}

/// Intervals and edges in any order within an instant; a start edge goes out at once where it may.
#[test]
fn stitch_waits_only_where_rows_may_go_on() {
    let mut operator = stitch();
    let mut now = |given: &[(Time, Time, i64)]| row_by_row(&mut operator, vec![rows(given)]);
    assert_eq!(now(&[(1, 5, 1)]), [(1, INFINITY, 1)]);
    // Another payload.
    assert_eq!(now(&[(2, INFINITY, 2)]), [(2, INFINITY, 2)]);
    // It is not known whether the second one ends.
    assert_eq!(now(&[(4, INFINITY, 2)]), []);
    assert_eq!(now(&[(4, 2, 2)]), []);
    assert_eq!(now(&[(5, 9, 1)]), []);
    assert_eq!(now(&[(9, 4, 2)]), []);
    assert_eq!(now(&[(10, 12, 3)]), [(9, 1, 1), (9, 2, 2), (10, INFINITY, 3)]);
    let failed = operator.push(0, rows(&[(11, 7, 3)]), &mut Vec::new()).unwrap_err().strip_backtrace();
    assert!(failed.contains("an end edge at 11 ends a row that began at 7"), "{failed}");
}

#[test]
fn rows_without_columns_are_stitched() {
    let given = Batch::new(vec![1, 4, 4].into(), Other::Column(vec![4, 6, 9].into()), bare(3));
    let empty = Arc::new(Schema::empty());
    let found = decode(&pushed(&mut Stitch::new(empty), vec![Message::Batch(given), END]));
    let mut found: Vec<_> = found.into_iter().map(|e| (e.start, e.end)).collect();
    found.sort();
    assert_eq!(found, [(1, 6), (4, 9)]);
}

fn quantize(size: i64, period: i64, offset: i64, progress: Option<i64>) -> Quantize {
    Quantize::new(size, period, offset, progress).unwrap()
}

/// Points that follow one another closely, and where they live.
fn points(operator: &mut Quantize, times: std::ops::Range<Time>) -> Vec<(Time, Time)> {
    let given: Vec<_> = times.map(|time| (time, time + 1, time)).collect();
    row_by_row(operator, vec![rows(&given), END]).into_iter().map(|(start, end, _)| (start, end)).collect()
}

#[test]
fn quantize_tumbling() {
    let given: Vec<_> = (0..40).map(|i| (i * 10, i * 10 + 1, i)).collect();
    let expected: Vec<_> = (0..40).map(|i| (i * 10, i * 10 + 10, i)).collect();
    assert_eq!(row_by_row(&mut quantize(10, 10, 0, None), vec![rows(&given), END]), expected);
    let expected: Vec<_> = (0..40).map(|t| (t - t % 5, t - t % 10 + 10)).collect();
    assert_eq!(points(&mut quantize(10, 10, 0, Some(5)), 0..40), expected);
}

#[test]
fn quantize_hopping() {
    let expected: Vec<_> = (0..40).map(|t| (t - t % 10, t - t % 10 + 100)).collect();
    assert_eq!(points(&mut quantize(100, 10, 0, None), 0..40), expected);
    let expected: Vec<_> = (5..45).map(|t| (t - (t - 5) % 10, t - (t - 5) % 10 + 100)).collect();
    assert_eq!(points(&mut quantize(100, 10, 5, None), 5..45), expected);
    let windows: Vec<_> = (0..40).map(|i| (i * 10, i * 10 + 100, i)).collect();
    assert_eq!(row_by_row(&mut quantize(100, 10, 0, None), vec![rows(&windows), END]), windows);
}

/// Ends wait for the snapped time, not for the time.
#[test]
fn quantized_edges_are_in_order() {
    let given = [(3, INFINITY, 1), (8, 3, 1), (12, INFINITY, 2), (19, 12, 2), (19, INFINITY, 3)];
    let expected = [(0, INFINITY, 1), (10, 0, 1), (10, INFINITY, 2), (10, INFINITY, 3), (20, 10, 2)];
    let messages = vec![rows(&given), Message::Punctuation(29), END];
    let mut found = pushed(&mut quantize(10, 10, 0, None), messages.clone());
    assert_eq!(row_by_row(&mut quantize(10, 10, 0, None), messages), expected);
    found.retain(|message| matches!(message, Message::Punctuation(_)));
    assert!(matches!(found[..], [Message::Punctuation(20), Message::Punctuation(INFINITY)]));
}

#[test]
fn grids_are_checked() {
    let refused = |failed: Option<datafusion::common::DataFusionError>| failed.unwrap().strip_backtrace();
    assert!(refused(Quantize::new(0, 10, 0, None).err()).contains("windows of 0 ticks every 10"));
    for part in [0, 3, 10, 20] {
        let failed = refused(Quantize::new(10, 10, 0, Some(part)).err());
        assert!(failed.contains("is smaller and divides the period"), "{failed}");
    }
    assert!(refused(Hopping::new(10, -1, 0, Closed::Left).err()).contains("every -1"));
    let mut out = Vec::new();
    let early = rows(&[(BEGINNING + 2, BEGINNING + 3, 1)]);
    let failed = quantize(i64::MAX, i64::MAX, 5, None).push(0, early, &mut out).unwrap_err();
    assert!(failed.strip_backtrace().contains("would start before the first instant"));
    let late = rows(&[(INFINITY - 3, INFINITY - 1, 1)]);
    let failed = Hopping::new(7, 10, 0, Closed::Left).unwrap().push(0, late.clone(), &mut out).unwrap_err();
    assert!(failed.strip_backtrace().contains("would end after the last instant"));
    let found = row_by_row(&mut quantize(20, 10, 0, None), vec![late, END]);
    assert_eq!(found, [(INFINITY - 7, INFINITY, 1)]);
}
