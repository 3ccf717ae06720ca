//! Points and intervals on their way in: what disorder, latency and punctuations do to them, however the
//! input is cut.

use crate::equal::cases;
use crate::model::{Decoder, Physical, Value, physical, record_batch};
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::{
    Disorder, INFINITY, Ingress, IngressOptions, Message, OnCompleted, Punctuate, Time, TimeColumns,
};

pub fn options(disorder: Disorder, reorder_latency: i64) -> IngressOptions {
    IngressOptions { disorder, reorder_latency, ..IngressOptions::default() }
}

/// Start, end and number of each row.
pub fn table(rows: &[(Time, Option<Time>)]) -> RecordBatch {
    let time = |name, nullable| Field::new(name, DataType::Int64, nullable);
    let schema = Schema::new(vec![time("start", false), time("end", true), time("number", false)]);
    let starts = Int64Array::from_iter_values(rows.iter().map(|r| r.0));
    let ends = Int64Array::from_iter(rows.iter().map(|r| r.1));
    let numbers = Int64Array::from_iter_values(0..rows.len() as i64);
    let columns: Vec<ArrayRef> = vec![Arc::new(starts), Arc::new(ends), Arc::new(numbers)];
    RecordBatch::try_new(Arc::new(schema), columns).expect("three columns")
}

pub const INTERVAL: TimeColumns = TimeColumns::Interval { start: 0, end: 1 };

/// What an ingress has made of a table.
#[derive(Debug, PartialEq)]
struct Outcome {
    rows: Vec<Physical>,
    /// Punctuations, and how many rows each has before it.
    punctuations: Vec<(Time, usize)>,
    late: Vec<i64>,
    error: Option<String>,
}

/// Pushes a table in pieces.
fn run(table: &RecordBatch, size: usize, time: &TimeColumns, options: &IngressOptions) -> Outcome {
    let mut ingress = Ingress::new(time.clone(), options.clone(), table.schema()).expect("an ingress");
    let mut out = Vec::new();
    let mut error = None;
    for from in (0..table.num_rows()).step_by(size) {
        let piece = table.slice(from, size.min(table.num_rows() - from));
        if let Err(e) = ingress.push(piece, &mut out) {
            error = Some(e.strip_backtrace());
            break;
        }
    }
    if error.is_none() {
        ingress.complete(&mut out).expect("completes");
    }
    let late = ingress.take_late();
    let numbers = |t: &RecordBatch| t.column(2).as_primitive::<Int64Type>().values().to_vec();
    let late: Vec<i64> = late.iter().flat_map(numbers).collect();
    assert_eq!(late.len() as u64, ingress.dropped());
    assert!(ingress.take_late().is_empty(), "what was taken is not handed out again");
    let (mut rows, mut punctuations) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::default();
    for message in &out {
        decoder.push(message);
        match message {
            Message::Punctuation(time) => punctuations.push((*time, rows.len())),
            Message::Batch(batch) => {
                assert!(!batch.is_empty() && batch.len() <= options.batch_rows);
                rows.extend(physical(batch));
            }
        }
    }
    Outcome { rows, punctuations, late, error }
}

/// The rule, row by row: sync time, end and number of those let in, in order; and the late ones.
fn let_in(rows: &[(Time, Option<Time>)], options: &IngressOptions) -> (Vec<(Time, Time, i64)>, Vec<i64>) {
    let (mut high, mut frontier) = (Time::MIN, Time::MIN);
    let (mut kept, mut late) = (Vec::new(), Vec::new());
    for (number, (start, end)) in (0..).zip(rows) {
        let end = end.unwrap_or(INFINITY);
        match options.disorder {
            _ if *start >= frontier => kept.push((*start, end, number)),
            Disorder::Adjust if end > frontier => kept.push((frontier, end, number)),
            _ => late.push(number),
        }
        high = high.max(*start);
        frontier = frontier.max(high.saturating_sub(options.reorder_latency));
    }
    kept.sort_by_key(|(sync, _, _)| *sync);
    (kept, late)
}

pub fn arrivals() -> impl Strategy<Value = Vec<(Time, Option<Time>)>> {
    // Mostly forward, sometimes far back.
    let row = (0..4i64, 0..30i64, any::<u8>(), prop::option::weighted(0.9, 1..30i64));
    prop::collection::vec(row, 0..60).prop_map(|rows| {
        let mut now = -40;
        let row = |(step, back, how, lives): (i64, i64, u8, Option<i64>)| {
            now += step;
            let start = if how < 100 { now - back } else { now };
            (start, lives.map(|l| start + l))
        };
        rows.into_iter().map(row).collect()
    })
}

pub fn punctuate() -> impl Strategy<Value = Punctuate> {
    prop_oneof![
        Just(Punctuate::Never),
        (1..20i64).prop_map(Punctuate::Every),
        (1..9usize).prop_map(Punctuate::Rows)
    ]
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn disorder_is_settled_row_by_row(
        rows in arrivals(), latency in prop_oneof![Just(0), 1..30i64], adjust: bool, punctuate in punctuate(),
        batch_rows in prop_oneof![1..6usize, Just(80_000usize)],
    ) {
        let disorder = if adjust { Disorder::Adjust } else { Disorder::Drop };
        let options = IngressOptions { punctuate, batch_rows, ..options(disorder, latency) };
        let (kept, late) = let_in(&rows, &options);
        let table = table(&rows);
        let first = run(&table, 1, &INTERVAL, &options);
        let found: Vec<_> = first.rows.iter().map(|r| (r.sync, r.other, r.row[2].clone())).collect();
        let expected: Vec<_> = kept.into_iter().map(|(s, e, n)| (s, e, Value::Int(n))).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(&first.late, &late);
        for size in [2, 7, 1000] {
            prop_assert_eq!(&run(&table, size, &INTERVAL, &options), &first, "in tables of {}", size);
        }
        check_punctuations(&first, punctuate);
    }

    #[test]
    fn raising_names_the_first_late_row(rows in arrivals(), latency in 0..30i64, size in 1..9usize) {
        let options = options(Disorder::Raise, latency);
        let late = let_in(&rows, &IngressOptions { disorder: Disorder::Drop, ..options.clone() }).1;
        let outcome = run(&table(&rows), size, &INTERVAL, &options);
        prop_assert_eq!(outcome.error.is_some(), !late.is_empty());
        if let Some(error) = outcome.error {
            let (row, time) = (late[0], rows[late[0] as usize].0);
            let start = format!("Execution error: row {row} is out of order: its time is {time}");
            prop_assert!(error.starts_with(&start), "{}", error);
        }
    }
}

fn check_punctuations(outcome: &Outcome, punctuate: Punctuate) {
    let told = outcome.punctuations.split_last().map_or(&[][..], |(_, told)| told);
    let time = |at: usize| outcome.rows[at].sync;
    match punctuate {
        Punctuate::Never => assert!(told.is_empty()),
        Punctuate::Every(period) => {
            let beat = |t: Time| t.div_euclid(period) * period;
            let crossed = |at: &usize| beat(time(*at)) > beat(time(*at - 1));
            let expected: Vec<_> =
                (1..outcome.rows.len()).filter(crossed).map(|at| (beat(time(at)), at)).collect();
            assert_eq!(told, expected);
        }
        Punctuate::Rows(rows) => {
            let mut expected: Vec<(Time, usize)> = Vec::new();
            for at in (rows..=outcome.rows.len()).step_by(rows) {
                if expected.last().is_none_or(|e| e.0 < time(at - 1)) {
                    expected.push((time(at - 1), at));
                }
            }
            assert_eq!(told, expected);
        }
    }
}

fn starts(rows: &[Physical]) -> Vec<Time> {
    rows.iter().map(|r| r.sync).collect()
}

fn points(times: &[Time]) -> RecordBatch {
    table(&times.iter().map(|t| (*t, None)).collect::<Vec<_>>())
}

const POINT: TimeColumns = TimeColumns::Point { start: 0 };

/// The events and punctuations of messages, as text.
pub fn told(out: &mut Vec<Message>) -> String {
    let mut words = Vec::new();
    for message in out.drain(..) {
        match message {
            Message::Punctuation(INFINITY) => words.push("end".to_string()),
            Message::Punctuation(time) => words.push(format!("P{time}")),
            Message::Batch(batch) => words.extend(batch.sync.iter().map(Time::to_string)),
        }
    }
    words.join(" ")
}

#[test]
fn the_reorder_walk_through() {
    let mut ingress =
        Ingress::new(POINT, options(Disorder::Drop, 100), points(&[]).schema()).expect("an ingress");
    let mut out = Vec::new();
    let mut push = |ingress: &mut Ingress, times: &[Time]| {
        ingress.push(points(times), &mut out).expect("takes rows");
        told(&mut out)
    };
    assert_eq!(push(&mut ingress, &[2, 3, 21, 15, 63, 42, 84, 105]), "2 3");
    assert_eq!(push(&mut ingress, &[1]), "");
    assert_eq!(ingress.dropped(), 1);
    assert_eq!(push(&mut ingress, &[132]), "15 21");
    let mut out = Vec::new();
    ingress.advance(100, &mut out).expect("advances");
    assert_eq!(told(&mut out), "42 63 84 P100");
    ingress.complete(&mut out).expect("completes");
    assert_eq!(told(&mut out), "105 132 end");
}

#[test]
fn the_end_of_the_input() {
    let end = |on_completed, late: &[Time]| {
        let options = IngressOptions { on_completed, ..options(Disorder::Drop, 10) };
        let mut ingress = Ingress::new(POINT, options, points(&[]).schema()).expect("an ingress");
        let mut out = Vec::new();
        ingress.push(points(&[5, 20, 15]), &mut out).expect("takes rows");
        ingress.complete(&mut out).expect("completes");
        ingress.push(points(late), &mut out).expect("takes rows");
        (told(&mut out), ingress.dropped())
    };
    assert_eq!(end(OnCompleted::EndOfStream, &[]), ("5 15 20 end".into(), 0));
    assert_eq!(end(OnCompleted::Flush, &[]), ("5 15 20 P20".into(), 0));
    assert_eq!(end(OnCompleted::Nothing, &[]), ("5".into(), 0));
    // After a flush the stream goes on from where the last row was.
    assert_eq!(end(OnCompleted::Flush, &[19, 35, 20]), ("5 15 20 P20".into(), 2));
    assert_eq!(end(OnCompleted::Nothing, &[19, 30]), ("5 15 19 20".into(), 0));
}

#[test]
fn flush_tells_what_is_complete() {
    let mut ingress =
        Ingress::new(POINT, options(Disorder::Drop, 10), points(&[]).schema()).expect("an ingress");
    let mut out = Vec::new();
    ingress.flush(&mut out).expect("flushes");
    assert_eq!(told(&mut out), "");
    ingress.push(points(&[5, 30, 15]), &mut out).expect("takes rows");
    ingress.flush(&mut out).expect("flushes");
    assert_eq!(told(&mut out), "5 P20");
    assert_eq!(ingress.dropped(), 1);
    ingress.flush(&mut out).expect("flushes");
    assert_eq!(told(&mut out), "");
}

#[test]
fn rows_in_order_keep_their_columns() {
    let table = points(&[1, 1, 4, 9]);
    let mut ingress = Ingress::new(POINT, IngressOptions::default(), table.schema()).expect("an ingress");
    let mut out = Vec::new();
    ingress.push(table.clone(), &mut out).expect("takes rows");
    let [Message::Batch(batch)] = &out[..] else { panic!("one batch: {out:?}") };
    let lent = table.column(0).as_primitive::<Int64Type>().values();
    assert_eq!(batch.sync.as_ptr(), lent.as_ptr(), "the time column is not copied");
    assert_eq!(batch.rows, table);
}

#[test]
fn timestamps_are_ticks_of_their_unit() {
    let field = Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), true);
    let times = TimestampMillisecondArray::from(vec![-5, 7, 8]).with_timezone("UTC");
    let table =
        RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(times)]).expect("a column");
    let mut ingress = Ingress::new(POINT, IngressOptions::default(), table.schema()).expect("an ingress");
    let mut out = Vec::new();
    // A slice: the times do not begin where the buffer does.
    ingress.push(table.slice(1, 2), &mut out).expect("takes rows");
    assert_eq!(told(&mut out), "7 8");
}

fn refused(time: TimeColumns, fields: Vec<Field>) -> String {
    let refused = Ingress::new(time, IngressOptions::default(), Arc::new(Schema::new(fields)));
    refused.err().expect("it is refused").strip_backtrace()
}

#[test]
fn times_of_other_types_are_refused() {
    let number = |name| Field::new(name, DataType::Float64, false);
    let int = |name| Field::new(name, DataType::Int64, false);
    let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    assert_eq!(
        refused(POINT, vec![number("price")]),
        "Error during planning: column `price` cannot be the time: it is Float64; a time is a timestamp or \
         an int64 (cast it)"
    );
    assert!(refused(INTERVAL, vec![int("from"), number("to")]).contains("column `to` cannot be the time"));
    let mixed = refused(INTERVAL, vec![int("from"), at]);
    assert!(mixed.contains("the start `from` is Int64 but the end `at` is Timestamp(s)"), "{mixed}");
}

fn failed(time: TimeColumns, tables: Vec<RecordBatch>) -> String {
    let mut ingress = Ingress::new(time, IngressOptions::default(), tables[0].schema()).expect("an ingress");
    let failed = tables.into_iter().find_map(|table| ingress.push(table, &mut Vec::new()).err());
    failed.expect("it fails").strip_backtrace()
}

#[test]
fn a_row_without_a_time_is_named_by_its_number_in_the_input() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("at", DataType::Int64, true)]));
    let table = |times: &[Value]| {
        let rows: Vec<_> = times.iter().map(|t| vec![t.clone()]).collect();
        record_batch(&rows.iter().collect::<Vec<_>>(), &schema)
    };
    let first = table(&[Value::Int(1), Value::Int(2)]);
    let second = table(&[Value::Int(3), Value::Null]);
    assert_eq!(
        failed(POINT, vec![first, second]),
        "Execution error: row 3 has no time: column `at` is null there; filter such rows out before the \
         time is read"
    );
}

#[test]
fn an_empty_lifetime_is_refused() {
    let rows = [(1, Some(5)), (2, Some(2))];
    assert_eq!(
        failed(INTERVAL, vec![table(&rows[..1]), table(&[(2, None), (2, Some(2))])]),
        "Execution error: row 2 ends at 2, not after its start 2; a lifetime [start, end) has at least one \
         tick"
    );
    assert!(failed(INTERVAL, vec![table(&rows)]).contains("row 1 ends at 2"));
}

#[test]
fn a_late_row_is_told_with_its_remedies() {
    let late = failed(POINT, vec![points(&[5, 9]), points(&[10, 3])]);
    assert_eq!(
        late,
        "Execution error: row 3 is out of order: its time is 3, after the time 10 has been reached; sort the \
         input, raise reorder_latency, or choose disorder \"drop\" or \"adjust\""
    );
    assert_eq!(starts(&run(&points(&[5, 9, 9]), 2, &POINT, &options(Disorder::Raise, 0)).rows), [5, 9, 9]);
}

#[test]
fn other_columns_may_be_of_any_type() {
    let fields = vec![Field::new("at", DataType::Int64, false), Field::new("price", DataType::Float64, true)];
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![3, 1])), Arc::new(Float64Array::from(vec![None, Some(0.5)]))];
    let table = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("two columns");
    let mut ingress = Ingress::new(POINT, options(Disorder::Raise, 10), table.schema()).expect("an ingress");
    let mut out = Vec::new();
    ingress.push(table, &mut out).expect("takes rows");
    ingress.complete(&mut out).expect("completes");
    let Message::Batch(batch) = &out[0] else { panic!("rows first: {out:?}") };
    assert_eq!(batch.sync.to_vec(), [1, 3]);
    assert!(batch.rows.column(1).is_null(1));
}

/// The ends of time stand for what was always there, and for the end of the stream.
#[test]
fn rows_at_the_ends_of_time_are_refused() {
    let (first, last) = (Time::MIN + 1, Time::MAX - 1);
    let error = |rows: &[(Time, Option<Time>)], time: &TimeColumns| {
        run(&table(rows), 2, time, &options(Disorder::Raise, 9)).error
    };
    let point = TimeColumns::Point { start: 0 };
    assert_eq!(error(&[(first, Some(2)), (3, Some(last)), (last, None)], &INTERVAL), None);
    assert_eq!(error(&[(first, None), (last - 1, None)], &point), None);
    for (time, columns) in [(Time::MIN, &INTERVAL), (last, &point), (Time::MAX, &point)] {
        for rows in [vec![(time, None)], vec![(5, None), (4, None), (time, None)]] {
            let told = error(&rows, columns).expect("refused");
            let row = format!(
                "row {} has the time {time} in column `start`, which is at the end of all time",
                rows.len() - 1
            );
            assert!(told.contains(&row), "{told}");
        }
    }
}

#[test]
fn many_rows_are_held_back_and_let_go() {
    let rows: Vec<_> = (0..50_000).map(|row| (row ^ 1, None)).collect();
    for punctuate in [Punctuate::Never, Punctuate::Every(7_000)] {
        let options = IngressOptions { punctuate, ..options(Disorder::Raise, 1_000_000) };
        let found = run(&table(&rows), 20_000, &INTERVAL, &options);
        assert_eq!(found.rows.len(), rows.len());
        assert!(found.rows.is_sorted_by_key(|row| row.sync));
    }
}
