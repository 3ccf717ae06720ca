//! Edges on their way in: rows of every kind in one table.

use crate::equal::cases;
use crate::generate::{Kinds, Stream, dice, streams};
use crate::ingress::{options, told};
use crate::model::{Decoder, Event, Physical, Value, assert_same, decode, physical, record_batch};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::{Disorder, INFINITY, Ingress, IngressOptions, Kind, Message, Time, TimeColumns};

pub const EDGES: TimeColumns = TimeColumns::Edges { start: 1, end: 3, kind: 0 };

/// The kind, the start, a number, the end and the text of each row.
fn schema() -> SchemaRef {
    let field = |name, of| Field::new(name, of, true);
    Arc::new(Schema::new(vec![
        field("kind", DataType::Utf8),
        field("start", DataType::Int64),
        field("number", DataType::Int64),
        field("end", DataType::Int64),
        field("text", DataType::Utf8),
    ]))
}

pub type Told<'a> = (&'a str, Option<Time>, Option<Time>, Value, Value);

pub fn table(rows: &[Told]) -> RecordBatch {
    let time = |t: &Option<Time>| t.map_or(Value::Null, Value::Int);
    let row = |(kind, start, end, number, text): &Told| {
        vec![Value::Text(kind.to_string()), time(start), number.clone(), time(end), text.clone()]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    record_batch(&rows.iter().collect::<Vec<_>>(), &schema())
}

/// A row of the stream as a row of the table; the payload's number and text are kept.
fn as_told(Physical { sync, other, row }: &Physical) -> Told<'static> {
    let (number, text) = (row[1].clone(), row[2].clone());
    match Kind::of(*sync, *other) {
        Kind::Interval => ("interval", Some(*sync), Some(*other), number, text),
        Kind::Start => ("start", Some(*sync), None, number, text),
        Kind::End => ("end", Some(*other), Some(*sync), number, text),
    }
}

fn ingress(options: IngressOptions) -> Ingress {
    Ingress::new(EDGES, options, schema()).expect("an ingress")
}

fn run(rows: &[Told], size: usize, options: IngressOptions) -> Vec<Message> {
    let mut ingress = ingress(options);
    let mut out = Vec::new();
    for rows in rows.chunks(size) {
        ingress.push(table(rows), &mut out).expect("takes rows");
    }
    ingress.complete(&mut out).expect("completes");
    out
}

fn payload(event: &Event) -> Event {
    Event { row: vec![event.row[1].clone(), event.row[2].clone()], ..*event }
}

/// The rows and punctuations of a stream in order, as a table tells them.
pub fn rows_of(stream: &Stream, dice: &mut crate::generate::Dice) -> Vec<Told<'static>> {
    let mut rows = Vec::new();
    for message in stream.messages(1, dice) {
        match message {
            Message::Batch(batch) => rows.extend(physical(&batch).iter().map(as_told)),
            Message::Punctuation(INFINITY) => {}
            Message::Punctuation(time) => {
                rows.push(("punctuation", Some(time), None, Value::Null, Value::Null))
            }
        }
    }
    rows
}

/// When a row becomes known.
pub fn sync(row: &Told) -> Time {
    if row.0 == "end" { row.2.unwrap_or(0) } else { row.1.unwrap_or(0) }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_table_of_edges_is_its_stream(stream in streams(Kinds::Any, 30), size in 1..20usize, dice in dice()) {
        let mut dice = dice;
        let rows = rows_of(&stream, &mut dice);
        let found = decode(&run(&rows, size, options(Disorder::Raise, 0)));
        let expected: Vec<Event> = stream.events.iter().map(payload).collect();
        assert_same(&expected, &found, "edges in order");
    }

    /// Rows that come at most `most` ticks late, with that latency: all as if in order.
    #[test]
    fn edges_are_sorted(
        stream in streams(Kinds::Any, 30), size in 1..20usize, most in 1..9i64, dice in dice(),
    ) {
        let mut dice = dice;
        let mut rows = rows_of(&stream, &mut dice);
        rows.retain(|r| r.0 != "punctuation");
        rows.sort_by_cached_key(|r| sync(r) + dice.below(most as usize + 1) as i64);
        let found = decode(&run(&rows, size, options(Disorder::Raise, most)));
        let expected: Vec<Event> = stream.events.iter().map(payload).collect();
        assert_same(&expected, &found, "edges out of order");
    }

    /// Edges that come too late are adjusted in pairs: what ends in the input ends in the stream.
    #[test]
    fn late_edges_are_adjusted(stream in streams(Kinds::Any, 30), latency in 0..4i64, dice in dice()) {
        let mut dice = dice;
        let mut rows = rows_of(&stream, &mut dice);
        rows.retain(|r| r.0 != "punctuation");
        // Rows come late, but an end edge never before its start edge.
        let mut delays: Vec<(Time, Told)> = Vec::new();
        for row in rows {
            let arrival = sync(&row) + dice.below(12) as i64;
            let started =
                |(_, r): &&(Time, Told)| (r.0, r.1) == ("start", row.1) && (&r.3, &r.4) == (&row.3, &row.4);
            let starts = delays.iter().filter(started).map(|r| r.0).max();
            delays.push((starts.map_or(arrival, |s| s.max(arrival)), row));
        }
        delays.sort_by_key(|(arrival, _)| *arrival);
        let rows: Vec<Told> = delays.into_iter().map(|(_, row)| row).collect();
        let found = decode(&run(&rows, 1, options(Disorder::Adjust, latency)));
        let open = |events: &[Event]| events.iter().filter(|e| e.end == INFINITY).count();
        prop_assert_eq!(open(&found), open(&stream.events));
        for size in [2, 7, 1000] {
            let again = run(&rows, size, options(Disorder::Adjust, latency));
            assert_same(&found, &decode(&again), "cut otherwise");
        }
    }

    /// Whatever comes, what goes out is a stream.
    #[test]
    fn disorder_leaves_a_stream(
        stream in streams(Kinds::Any, 30), size in 1..9usize, drop: bool, dice in dice(),
    ) {
        let mut dice = dice;
        let mut rows = rows_of(&stream, &mut dice);
        rows.retain(|r| r.0 == "interval" || r.0 == "start");
        rows.sort_by_cached_key(|_| dice.below(256));
        let disorder = if drop { Disorder::Drop } else { Disorder::Adjust };
        let mut decoder = Decoder::default();
        run(&rows, size, options(disorder, 3)).iter().for_each(|m| decoder.push(m));
    }
}

proptest! {
    #![proptest_config(cases(100))]

    /// A start edge is lost, or an end edge comes twice: the end edge that ends nothing is refused, however
    /// rows come.
    #[test]
    fn an_end_edge_without_its_start_edge_is_refused(
        stream in streams(Kinds::Any, 20), size in 1..9usize, at in 0..20usize, twice: bool, dice in dice(),
    ) {
        let mut dice = dice;
        let mut rows = rows_of(&stream, &mut dice);
        rows.retain(|row| row.0 != "punctuation");
        let ends = rows.iter().enumerate().filter(|(_, row)| row.0 == "end").map(|(place, _)| place);
        let Some(end) = ends.cycle().nth(at) else { return Ok(()) };
        let told = rows[end].clone();
        let (_, start, _, number, text) = told.clone();
        let equal = |row: &&Told| (row.1, &row.3, &row.4) == (start, &number, &text);
        let count = |kind| rows.iter().filter(equal).filter(|row| row.0 == kind).count();
        if count("start") > count("end") {
            // An equal row that never ends would take the end edge.
            return Ok(());
        }
        match twice {
            true => rows.insert(end, told),
            false => {
                let started = |row: &Told| (row.0, row.1, &row.3, &row.4) == ("start", start, &number, &text);
                let lost = rows.iter().position(started).expect("it has a start edge");
                rows.remove(lost);
            }
        }
        // Other rows that are equal may be open: then it is the last end edge that ends nothing.
        let mut ingress = ingress(options(Disorder::Raise, 0));
        let pushed = rows.chunks(size).try_for_each(|rows| ingress.push(table(rows), &mut Vec::new()));
        let refused = pushed.expect_err("one end edge too many").strip_backtrace();
        prop_assert!(refused.contains("ends no row: no such start edge is open"), "{}", refused);
    }
}

/// What is open is a part of a checkpoint.
#[test]
fn an_orphan_is_named() {
    let row = |kind, start, end, number| (kind, Some(start), end, Value::Int(number), Value::Null);
    let mut first = ingress(IngressOptions::default());
    first.push(table(&[row("start", 3, None, 1)]), &mut Vec::new()).expect("takes rows");
    let mut second = ingress(IngressOptions::default());
    second.restore(&first.save().expect("a checkpoint")).expect("restores");
    for mut ingress in [first, second] {
        let mut push =
            |row: Told| ingress.push(table(&[row]), &mut Vec::new()).map_err(|e| e.strip_backtrace());
        push(row("start", 4, None, 1)).expect("takes rows");
        push(row("end", 3, Some(7), 1)).expect("ends the first");
        assert_eq!(
            push(row("end", 3, Some(9), 1)).expect_err("has ended"),
            "Execution error: the end edge at 9 of the row (number: 1, text: null) that began at 3 ends no row: no such \
             start edge is open; a start edge and its end edge have the same start and equal columns"
        );
    }
}

fn told_of(rows: &[Told], options: IngressOptions) -> String {
    told(&mut run(rows, 1000, options))
}

#[test]
fn the_three_time_columns_leave() {
    let ingress = ingress(IngressOptions::default());
    let names: Vec<_> = ingress.schema().fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["number", "text"]);
}

#[test]
fn punctuations_move_time() {
    let row = |kind, start, end| (kind, start, end, Value::Int(1), Value::Null);
    let rows = [
        row("start", Some(3), None),
        row("punctuation", Some(10), None),
        row("end", Some(3), Some(10)),
        row("punctuation", None, None),
    ];
    assert_eq!(told_of(&rows, IngressOptions::default()), "3 P10 10 end");
}

#[test]
fn a_late_start_edge_takes_its_end_edge_along() {
    let row = |kind, start, end, number| (kind, Some(start), end, Value::Int(number), Value::Null);
    // The second row starts late and ends before it is let in; the third ends after.
    let rows = [
        row("start", 100, None, 1),
        row("start", 50, None, 2),
        row("start", 60, None, 3),
        row("end", 50, Some(80), 2),
        row("end", 60, Some(120), 3),
        row("end", 100, Some(130), 1),
    ];
    let events = |disorder| {
        let mut lives: Vec<_> = decode(&run(&rows, 2, options(disorder, 0)))
            .into_iter()
            .map(|e| (e.row[0].clone(), e.start, e.end))
            .collect();
        lives.sort();
        lives
    };
    let int = Value::Int;
    assert_eq!(events(Disorder::Adjust), [(int(1), 100, 130), (int(2), 100, 101), (int(3), 100, 120)]);
    assert_eq!(events(Disorder::Drop), [(int(1), 100, 130)]);
}

fn failed(rows: &[Told]) -> String {
    let mut ingress = ingress(IngressOptions::default());
    let failed = rows.chunks(2).find_map(|rows| ingress.push(table(rows), &mut Vec::new()).err());
    failed.expect("it fails").strip_backtrace()
}

#[test]
fn malformed_edges_are_refused() {
    let row = |kind, start, end| (kind, start, end, Value::Null, Value::Null);
    let good = || [row("interval", Some(1), Some(2)), row("punctuation", Some(2), None)];
    let after = |last: Told| failed(&good().into_iter().chain(good()).chain([last]).collect::<Vec<_>>());
    assert_eq!(
        failed(&[row("interval", Some(1), Some(2)), row("begin", Some(2), None)]),
        "Execution error: row 1: \"begin\" is no kind of row; the kinds are interval, start, end, punctuation"
    );
    let in_row_2 = |last: Told| failed(&good().into_iter().chain([last]).collect::<Vec<_>>());
    assert!(in_row_2(row("interval", Some(5), Some(4))).contains("row 2 ends at 4, not after its start 5"));
    assert!(in_row_2(row("end", Some(5), Some(4))).contains("row 2 ends at 4, not after its start 5"));
    assert!(in_row_2(row("end", Some(5), None)).contains("row 2: an end edge needs an end"));
    assert!(in_row_2(row("start", None, None)).contains("row 2 has no time: column `start` is null there"));
    // The second interval is late: row 2 of the input.
    assert!(after(row("start", Some(5), None)).contains("row 2 is out of order: its time is 1"));
}
