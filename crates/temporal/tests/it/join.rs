//! What the oracle does not ask of a join: the order of its rows, and how soon they come.

use crate::equal::{cases, keys};
use crate::generate::{Dice, Kinds, Stream, dice, interleave, streams};
use crate::model::{Physical, physical};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::operators::Join;
use whimbrel_temporal::{Batch, INFINITY, Message, Operator, Other};

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
