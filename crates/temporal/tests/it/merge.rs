//! The merge by time against sorting: rows by (time, input, arrival), and no news of time lost.

use crate::equal::cases;
use crate::generate::{Dice, Kinds, Stream, dice, interleave, streams};
use crate::model::{Physical, physical};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use whimbrel_temporal::{BEGINNING, INFINITY, Message, Time, TimeMerge};

/// What has gone into and come out of a merge.
struct Watched {
    merge: TimeMerge,
    /// The time before which nothing will come, by input.
    frontiers: Vec<Time>,
    pushed: Vec<(Time, usize, usize, Physical)>,
    taken: Vec<(usize, Physical)>,
    /// How far time has come in what came out.
    reached: Time,
    punctuated: Time,
}

impl Watched {
    fn new(inputs: usize) -> Watched {
        Watched {
            merge: TimeMerge::new(inputs),
            frontiers: vec![BEGINNING; inputs],
            pushed: Vec::new(),
            taken: Vec::new(),
            reached: BEGINNING,
            punctuated: BEGINNING,
        }
    }

    fn push(&mut self, input: usize, message: Message) {
        match &message {
            Message::Punctuation(time) => self.frontiers[input] = self.frontiers[input].max(*time),
            Message::Batch(batch) => {
                for row in physical(batch) {
                    self.frontiers[input] = self.frontiers[input].max(row.sync);
                    self.pushed.push((row.sync, input, self.pushed.len(), row));
                }
            }
        }
        self.merge.push(input, message);
    }

    fn drain(&mut self) {
        for (input, message) in self.merge.by_ref() {
            match message {
                Message::Punctuation(time) => {
                    assert!(time > self.punctuated && time >= self.reached, "time goes back to {time}");
                    self.punctuated = time;
                    self.reached = time;
                }
                Message::Batch(batch) => {
                    for row in physical(&batch) {
                        assert!(row.sync >= self.reached, "{row:?} after time has come to {}", self.reached);
                        self.reached = row.sync;
                        self.taken.push((input, row));
                    }
                }
            }
        }
    }

    /// Nothing that can be known is held back, and the input asked for is one that holds the others up.
    fn check_progress(&self) {
        let known = self.frontiers.iter().copied().min().unwrap_or(INFINITY);
        assert!(self.reached >= known, "time has come to {known}, but only {} is told", self.reached);
        match self.merge.waiting_for() {
            Some(input) => {
                assert_eq!(self.frontiers[input], known, "input {input} does not hold the others up");
                assert_eq!(self.merge.buffered(input), 0, "input {input} has rows waiting");
            }
            None => assert_eq!(known, INFINITY, "nothing is ready, and no input is asked for"),
        }
    }
}

fn merge(inputs: Vec<Vec<Message>>, dice: &mut Dice) -> Watched {
    let mut watched = Watched::new(inputs.len());
    for (input, message) in interleave(inputs, dice) {
        watched.push(input, message);
        if dice.one_in(2) {
            watched.drain();
            watched.check_progress();
        }
    }
    watched.drain();
    watched.check_progress();
    watched
}

fn without_holes(mut messages: Vec<Message>) -> Vec<Message> {
    let compact = |message: &mut Message| {
        if let Message::Batch(batch) = message {
            *batch = batch.clone().compact().expect("compacts");
        }
    };
    messages.iter_mut().for_each(compact);
    messages
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn merges_as_sorting_does(
        inputs in prop::collection::vec(streams(Kinds::Any, 20), 1..5), size in 1..9usize, dice in dice(),
    ) {
        let mut dice = dice;
        let messages = inputs.iter().map(|s: &Stream| without_holes(s.messages(size, &mut dice))).collect();
        let mut watched = merge(messages, &mut dice);
        watched.pushed.sort_by_key(|(sync, input, arrival, _)| (*sync, *input, *arrival));
        let expected: Vec<_> = watched.pushed.into_iter().map(|(_, input, _, row)| (input, row)).collect();
        prop_assert_eq!(expected, watched.taken);
        prop_assert_eq!(watched.punctuated, INFINITY);
    }
}

#[test]
fn one_input_passes_through_uncut() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let stream = streams(Kinds::Points, 60).new_tree(&mut runner).expect("a stream").current();
    let mut dice = dice().new_tree(&mut runner).expect("dice").current();
    let messages = without_holes(stream.messages(1000, &mut dice));
    let mut merge = TimeMerge::new(2);
    merge.push(1, Message::Punctuation(INFINITY));
    for message in messages {
        let rows = if let Message::Batch(batch) = &message { batch.len() } else { continue };
        merge.push(0, message);
        let Some((0, Message::Batch(batch))) = merge.next() else { panic!("the batch is ready") };
        assert_eq!(batch.len(), rows);
    }
}

#[test]
fn an_idle_input_is_the_one_waited_for() {
    let mut merge = TimeMerge::new(3);
    assert_eq!(merge.waiting_for(), Some(0));
    merge.push(0, Message::Punctuation(10));
    assert_eq!(merge.waiting_for(), Some(1));
    merge.push(1, Message::Punctuation(20));
    assert_eq!(merge.waiting_for(), Some(2));
    assert!(merge.next().is_none());
    merge.push(2, Message::Punctuation(30));
    assert!(matches!(merge.next(), Some((_, Message::Punctuation(10)))));
    assert_eq!(merge.waiting_for(), Some(0));
    (0..3).for_each(|input| merge.push(input, Message::Punctuation(INFINITY)));
    assert_eq!(merge.waiting_for(), None);
    assert!(matches!(merge.next(), Some((_, Message::Punctuation(INFINITY)))));
    assert!(merge.next().is_none());
}
