//! What the oracle does not ask of a join: the order of its rows, and how soon they come.

use crate::equal::{cases, keys};
use crate::generate::{Dice, Kinds, Stream, dice, interleave, streams};
use crate::model::{Physical, physical};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::operators::{Join, PointAtEnd};
use whimbrel_temporal::{Batch, Graph, INFINITY, Message, Operator, Other, Time};

/// The joined rows as they come when the inputs are read in some order.
fn rows(
    streams: &[Stream; 2],
    keys: &(Vec<usize>, Vec<usize>),
    size: usize,
    dice: &mut Dice,
) -> Vec<Physical> {
    let [left, right] = streams;
    let mut join = Join::new(left.schema.clone(), right.schema.clone(), keys.0.clone(), keys.1.clone());
    let messages = streams.iter().map(|s| s.messages(size, dice)).collect();
    let mut out = Vec::new();
    for (input, message) in interleave(messages, dice) {
        join.push(input, message, &mut out).expect("joins");
    }
    let batch = |message: &Message| match message {
        Message::Batch(batch) => physical(batch),
        Message::Punctuation(_) => Vec::new(),
    };
    out.iter().flat_map(batch).collect()
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn the_order_of_rows_does_not_depend_on_what_was_read_first(
        left in streams(Kinds::Any, 30), right in streams(Kinds::Any, 30), keys in keys(), dice in dice(),
    ) {
        let (streams, mut dice) = ([left, right], dice);
        let once = rows(&streams, &keys, 1, &mut dice);
        for size in [1, 2, 7, 1000] {
            prop_assert_eq!(&once, &rows(&streams, &keys, size, &mut dice), "in batches of {}", size);
        }
    }
}

fn points(time: i64, values: &[i64]) -> Message {
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    let rows = RecordBatch::try_from_iter([("v", column)]).expect("one column");
    Message::Batch(Batch::new(vec![time; values.len()].into(), Other::After(1), rows))
}

/// How many rows each message brings out of a join on equal values.
fn joined(messages: Vec<(usize, Message)>) -> Vec<usize> {
    let Message::Batch(Batch { rows, .. }) = points(0, &[]) else { unreachable!("points are a batch") };
    let mut join = Join::new(rows.schema(), rows.schema(), vec![0], vec![0]);
    let push = |(input, message)| {
        let mut out = Vec::new();
        join.push(input, message, &mut out).expect("joins");
        out.iter().map(|m| if let Message::Batch(b) = m { b.len() } else { 0 }).sum()
    };
    messages.into_iter().map(push).collect()
}

#[test]
fn rows_of_one_instant_are_joined_before_time_moves() {
    assert_eq!(joined(vec![(0, points(100, &[1])), (1, points(100, &[1]))]), [0, 1]);
    assert_eq!(joined(vec![(1, points(100, &[1])), (0, points(100, &[1]))]), [0, 1]);
}

#[test]
fn a_rank_without_a_counterpart_waits_for_time() {
    let messages = vec![
        (0, points(100, &[1])),
        (1, points(100, &[1, 1])),
        (0, points(100, &[2])),
        (0, Message::Punctuation(101)),
        (1, Message::Punctuation(INFINITY)),
    ];
    assert_eq!(joined(messages), [0, 1, 1, 0, 0]);
    let ended = vec![
        (0, points(100, &[1])),
        (1, points(100, &[1, 1])),
        (0, Message::Punctuation(INFINITY)),
        (1, Message::Punctuation(INFINITY)),
    ];
    assert_eq!(joined(ended), [0, 1, 0, 1]);
}

#[test]
fn rows_of_one_instant_may_come_one_at_a_time() {
    let rows = 40_000;
    let messages = (0..rows).map(|row| (row % 2, points(100, &[row as i64 / 2]))).collect();
    assert_eq!(joined(messages).iter().sum::<usize>(), rows / 2);
}

/// Rows with a key and a number.
fn keyed(times: Vec<Time>, other: Vec<Time>, keys: Vec<i64>, numbers: Vec<i64>) -> Message {
    let columns: [ArrayRef; 2] = [Arc::new(Int64Array::from(keys)), Arc::new(Int64Array::from(numbers))];
    let rows =
        RecordBatch::try_from_iter(["k", "n"].into_iter().zip(columns)).expect("columns of one length");
    Message::Batch(Batch::new(times.into(), Other::Column(other.into()), rows))
}

/// A join over the rows of [`keyed`], of which the numbers and the left key come out.
fn numbers() -> Join {
    let Message::Batch(Batch { rows, .. }) = keyed(vec![], vec![], vec![], vec![]) else {
        unreachable!("a batch")
    };
    Join::new(rows.schema(), rows.schema(), vec![0], vec![0]).select(&[3, 1, 0])
}

/// Batches of both sides in turns: most rows live for some instants, some for one, and some for very long.
fn mixed_lifetimes(batches: usize) -> Vec<(usize, Message)> {
    let (size, mut state) = (50, 7_u64);
    let mut roll = |sides: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % sides) as i64
    };
    let mut messages = Vec::new();
    for batch in 0..batches {
        for side in [0, 1] {
            let times: Vec<Time> = (0..size).map(|row| (batch * size + row) as Time / 5).collect();
            let lifetime = |roll: i64| if roll == 0 { 5000 } else { 1 + roll % (30 + 200 * side as i64) };
            let other = times.iter().map(|time| time + lifetime(roll(100))).collect();
            let keys = times.iter().map(|_| roll(300)).collect();
            messages.push((side, keyed(times, other, keys, (0..size).map(|_| roll(1000)).collect())));
        }
    }
    messages.extend([0, 1].map(|side| (side, Message::Punctuation(INFINITY))));
    messages
}

/// A row without a known end that is joined with none, and its end.
fn lonely(time: Time) -> [Message; 2] {
    let row = |time, other| keyed(vec![time], vec![other], vec![-1], vec![0]);
    [row(time, INFINITY), row(time + 300, time)]
}

/// All that comes out.
fn run(join: &mut Join, messages: &[(usize, Message)]) -> Vec<Physical> {
    let mut out = Vec::new();
    messages.iter().for_each(|(side, message)| join.push(*side, message.clone(), &mut out).expect("joins"));
    let batch = |message| if let Message::Batch(batch) = message { physical(&batch) } else { Vec::new() };
    out.into_iter().flat_map(batch).collect()
}

#[test]
fn how_rows_leave_changes_no_answer() {
    let messages = mixed_lifetimes(200);
    let expected = run(&mut numbers(), &messages);
    assert!(expected.len() > 10_000, "there are {} pairs only", expected.len());
    // A row without a known end at the beginning, in the middle and near the end.
    for batch in [0, 101, 390] {
        let mut messages = messages.clone();
        let Message::Batch(Batch { sync, .. }) = &messages[batch].1 else { unreachable!("a batch") };
        let [start, end] = lonely(sync[0]);
        let side = messages[batch].0;
        let ends = messages.iter().rposition(|(other, _)| *other == side).expect("a punctuation");
        let later = |(other, message): &(usize, Message)| match message {
            Message::Batch(batch) => *other == side && batch.sync[0] > sync[0] + 300,
            Message::Punctuation(_) => false,
        };
        let at = messages.iter().position(later).unwrap_or(ends);
        messages.insert(at, (side, end));
        messages.insert(batch, (side, start));
        assert!(run(&mut numbers(), &messages) == expected, "with such a row in batch {batch}");
    }
}

#[test]
fn a_join_goes_on_from_a_checkpoint_however_its_rows_leave() {
    let messages = mixed_lifetimes(60);
    let expected = run(&mut numbers(), &messages);
    for cut in [1, 30, 77, 119] {
        let mut before = numbers();
        let mut all = run(&mut before, &messages[..cut]);
        let mut after = numbers();
        after.restore(&before.save().expect("saves")).expect("restores");
        all.extend(run(&mut after, &messages[cut..]));
        assert!(all == expected, "cut at {cut}");
    }
}

#[test]
fn nobody_keeps_rows_that_have_ended() {
    let mut join = numbers();
    let mut out = Vec::new();
    for time in 0..3000 {
        let rows = keyed(
            vec![time; 20],
            vec![time + 10; 20],
            (0..20).map(|row| time * 20 + row).collect(),
            vec![1; 20],
        );
        join.push(0, rows, &mut out).expect("joins");
        join.push(1, Message::Punctuation(time), &mut out).expect("joins");
        let held = join.held();
        assert!(held.rows <= 240 && held.bytes < 3_000_000, "at {time}: {held:?}");
    }
}

/// What comes of a message step by step: the rows of each, of which the punctuations are left out.
fn steps(join: &mut Join, input: usize, message: Message) -> Vec<Vec<Physical>> {
    let batch = |message: &Message| match message {
        Message::Batch(batch) => physical(batch),
        Message::Punctuation(_) => Vec::new(),
    };
    let mut out = Vec::new();
    join.push(input, message, &mut out).expect("joins");
    let mut steps = Vec::new();
    while !out.is_empty() {
        steps.push(out.drain(..).flat_map(|message| batch(&message)).collect());
        join.proceed(&mut out).expect("joins");
    }
    steps
}

#[test]
fn long_results_come_in_pieces() {
    const ROWS: i64 = 300;
    let numbers_to = |end| (0..end).collect::<Vec<i64>>();
    for step in [0, 1, 100] {
        let times: Vec<Time> = (0..ROWS).map(|row| row * step).collect();
        let ends = |open: bool| vec![if open { INFINITY } else { 1_000_000 }; ROWS as usize];
        for (left_open, right_open) in [(false, false), (true, false)] {
            let side = |open| keyed(times.clone(), ends(open), vec![7; ROWS as usize], numbers_to(ROWS));
            let sides = [side(left_open), side(right_open)];
            let mut join = numbers();
            let [left, right] = sides.clone();
            let mut found: Vec<Physical> = steps(&mut join, 0, left).concat();
            for message in [right, Message::Punctuation(INFINITY)] {
                for step in steps(&mut join, 1, message) {
                    assert!(step.len() <= 40_000, "{} rows in one step", step.len());
                    found.extend(step);
                }
            }
            for rows in steps(&mut join, 0, Message::Punctuation(INFINITY)) {
                assert!(rows.len() <= 40_000, "{} rows in one step", rows.len());
                found.extend(rows);
            }
            let mut again = numbers();
            let mut one_by_one = Vec::new();
            for input in [0, 1] {
                let Message::Batch(batch) = &sides[input] else { unreachable!("a batch") };
                for row in 0..batch.len() {
                    one_by_one.extend(steps(&mut again, input, Message::Batch(batch.slice(row, 1))).concat());
                }
            }
            for input in [0, 1] {
                one_by_one.extend(steps(&mut again, input, Message::Punctuation(INFINITY)).concat());
            }
            assert!(found.len() >= (ROWS * ROWS) as usize);
            assert_eq!(found.len(), one_by_one.len());
            assert!(found == one_by_one, "in another order");
        }
    }
}

#[test]
fn a_graph_hands_out_long_results_in_pieces() {
    const ROWS: i64 = 300;
    let side =
        || keyed(vec![5; ROWS as usize], vec![9; ROWS as usize], vec![7; ROWS as usize], (0..ROWS).collect());
    let graph = || {
        let mut graph = Graph::new();
        let inputs = [graph.input(), graph.input()];
        let pairs = graph.add(Box::new(numbers()), &inputs);
        let ends = graph.add(Box::new(PointAtEnd::new()), &[pairs]);
        [pairs, ends, pairs].into_iter().for_each(|node| graph.output(node));
        graph
    };
    let messages = || {
        let sides = [(0, side()), (1, side())];
        sides.into_iter().chain([0, 1].map(|input| (input, Message::Punctuation(INFINITY))))
    };
    let shown =
        |out: &[(usize, Message)]| out.iter().map(|message| format!("{message:?}")).collect::<Vec<_>>();
    let mut at_once = Vec::new();
    let mut whole = graph();
    messages().for_each(|(input, message)| whole.push(input, message, &mut at_once).expect("joins"));

    let (mut in_pieces, mut calls) = (Vec::new(), 0);
    let mut graph = graph();
    messages().for_each(|(input, message)| graph.enqueue(input, message));
    let mut more = true;
    while more {
        let mut out = Vec::new();
        more = graph.proceed(&mut out).expect("joins");
        let rows = |(_, message): &(usize, Message)| match message {
            Message::Batch(batch) => batch.len(),
            Message::Punctuation(_) => 0,
        };
        let rows: usize = out.iter().map(rows).sum();
        assert!(rows <= 50_000, "{rows} rows at once");
        assert!(more || graph.save().is_ok(), "nothing is left to do");
        calls += 1;
        in_pieces.extend(out);
    }
    assert!(calls > 10, "{calls} calls");
    assert_eq!(shown(&in_pieces), shown(&at_once));
}
