//! The join of sorted streams: against the oracle, in one order however it is fed, and without keeping what
//! it has passed.

use crate::equal::cases;
use crate::generate::{Dice, FLOAT, KEY, Kinds, NUMBER, Stream, TEXT, dice, interleave, streams};
use crate::model::{Physical, physical};
use crate::plan::{Pair, Plan, check};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::operators::MergeJoin;
use whimbrel_temporal::{Batch, INFINITY, Message, Operator, Other, Time};

type Keys = (Vec<usize>, Vec<usize>);

fn keys() -> impl Strategy<Value = Keys> {
    let one = |c: usize| (vec![c], vec![c]);
    prop_oneof![
        4 => Just(one(KEY)),
        1 => Just((vec![KEY], vec![NUMBER])),
        1 => Just(one(TEXT)),
        1 => Just((vec![KEY, TEXT], vec![NUMBER, TEXT])),
        1 => Just(one(FLOAT)),
    ]
}

fn kinds() -> impl Strategy<Value = Kinds> {
    prop::sample::select(vec![Kinds::Points, Kinds::Constant, Kinds::Intervals, Kinds::Open])
}

fn sorted_pair(most: usize) -> impl Strategy<Value = ([Stream; 2], Keys)> {
    (keys(), kinds(), kinds()).prop_flat_map(move |(keys, left, right)| {
        let sorted =
            move |(l, r): (Stream, Stream)| ([l.sorted_by(&keys.0), r.sorted_by(&keys.1)], keys.clone());
        (streams(left, most), streams(right, most)).prop_map(sorted)
    })
}

/// The joined rows as they come when the inputs are read in some order.
fn rows(streams: &[Stream; 2], keys: &Keys, size: usize, dice: &mut Dice) -> Vec<Physical> {
    let schema = streams[0].schema.clone();
    let mut join = MergeJoin::new(schema.clone(), schema, keys.0.clone(), keys.1.clone(), false);
    let messages = streams.iter().map(|s| s.messages(size, dice)).collect();
    let (mut rows, mut reached) = (Vec::new(), Time::MIN);
    for (input, message) in interleave(messages, dice) {
        let mut out = Vec::new();
        join.push(input, message, &mut out).expect("joins");
        for message in &out {
            match message {
                Message::Batch(batch) => {
                    assert!(batch.sync[0] >= reached, "a row before the punctuation at {reached}");
                    rows.extend(physical(batch));
                }
                Message::Punctuation(time) => reached = *time,
            }
        }
    }
    assert_eq!(reached, INFINITY);
    rows
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn sorted_streams_are_joined_while_both_are_alive(
        (streams, keys) in sorted_pair(30), nulls_equal: bool, dice in dice(),
    ) {
        let plan = Plan::Input(0).with(Pair::MergeJoin { keys, nulls_equal }, Plan::Input(1));
        check(&plan, &streams, &dice);
    }

    #[test]
    fn rows_have_one_order((streams, keys) in sorted_pair(30), dice in dice()) {
        let mut dice = dice;
        let once = rows(&streams, &keys, 1, &mut dice);
        for size in [1, 2, 7, 1000] {
            prop_assert_eq!(&once, &rows(&streams, &keys, size, &mut dice), "in batches of {}", size);
        }
    }
}

/// Start edges at one instant with these keys.
fn keyed(time: Time, keys: impl IntoIterator<Item = i64>) -> Message {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
    let rows = RecordBatch::try_from_iter([("k", column)]).expect("one column");
    Message::Batch(Batch::new(vec![time; rows.num_rows()].into(), Other::Open, rows))
}

fn join() -> MergeJoin {
    let Message::Batch(Batch { rows, .. }) = keyed(0, []) else { unreachable!("a batch") };
    MergeJoin::new(rows.schema(), rows.schema(), vec![0], vec![0], false)
}

/// What comes out of a push, piece by piece: the lengths of batches, and punctuations.
fn push(join: &mut MergeJoin, input: usize, message: Message) -> (Vec<usize>, Vec<Time>) {
    let (mut lengths, mut times) = (Vec::new(), Vec::new());
    let mut out = Vec::new();
    join.push(input, message, &mut out).expect("joins");
    while !out.is_empty() {
        for message in std::mem::take(&mut out) {
            match message {
                Message::Batch(batch) => lengths.push(batch.len()),
                Message::Punctuation(time) => times.push(time),
            }
        }
        join.proceed(&mut out).expect("joins");
    }
    (lengths, times)
}

#[test]
fn passed_keys_are_forgotten_though_rows_never_end() {
    let mut join = join();
    let (rows, batches, mut joined) = (100, 500, 0);
    for batch in 0..batches {
        for side in [0, 1] {
            let (lengths, _) = push(&mut join, side, keyed(batch, batch * rows..(batch + 1) * rows));
            joined += lengths.iter().sum::<usize>();
            assert!(join.held().rows <= 1 + rows as usize, "{:?}", join.held());
        }
    }
    for side in [0, 1] {
        joined += push(&mut join, side, Message::Punctuation(INFINITY)).0.iter().sum::<usize>();
    }
    assert_eq!(joined, (rows * batches) as usize);
}

#[test]
fn long_runs_come_piece_by_piece() {
    let mut join = join();
    push(&mut join, 0, keyed(1, vec![7; 300]));
    push(&mut join, 0, Message::Punctuation(INFINITY));
    let (lengths, times) = push(&mut join, 1, keyed(2, vec![7; 300]));
    assert_eq!((lengths.iter().sum::<usize>(), times), (90_000, vec![2]));
    assert!(lengths.len() > 4);
    assert_eq!(push(&mut join, 1, Message::Punctuation(INFINITY)), (vec![], vec![INFINITY]));
    assert_eq!(join.held().rows, 0);
}

#[test]
fn rows_wait_for_keys_and_not_for_time() {
    let mut join = join();
    push(&mut join, 0, keyed(5, [1, 2, 3]));
    // The right side may have more rows with key 2, and the left side more with key 3.
    assert_eq!(push(&mut join, 1, keyed(9, [1, 2])).0, [2]);
    assert_eq!(push(&mut join, 1, keyed(9, [2, 4])).0, [1]);
    // The right side is at key 4: a left row with it comes at 20 at the earliest.
    assert_eq!(push(&mut join, 0, Message::Punctuation(20)).1, [20]);
    assert_eq!(push(&mut join, 0, keyed(30, [4])), (vec![], vec![]));
    // Rows of one key come in the order of time.
    assert_eq!(push(&mut join, 1, Message::Punctuation(30)), (vec![1], vec![30]));
}

#[test]
fn one_side_that_has_ended_takes_no_memory_on_the_other() {
    let mut join = join();
    push(&mut join, 0, keyed(5, [1]));
    push(&mut join, 0, Message::Punctuation(INFINITY));
    for batch in 0..100 {
        push(&mut join, 1, keyed(batch, [batch; 50]));
        assert!(join.held().rows <= 51, "{:?}", join.held());
    }
    assert_eq!(join.held().rows, 0);
}

#[test]
fn rows_that_end_before_the_other_side_comes_are_dropped() {
    let mut join = join();
    for time in 0..1000 {
        let Message::Batch(batch) = keyed(time, [1000 + time]) else { unreachable!("a batch") };
        push(&mut join, 0, Message::Batch(batch.with_times(batch.sync.clone(), Other::After(10))));
        push(&mut join, 1, Message::Punctuation(time));
        assert!(join.held().rows <= 11, "{:?}", join.held());
    }
}
