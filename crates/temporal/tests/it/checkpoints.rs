//! Checkpoints: an ingress that starts from one goes on as the other would, message for message; bytes that
//! are not the checkpoint of the like are refused.

use crate::equal::cases;
use crate::generate::{Dice, KEY, Kinds, dice, streams};
use crate::ingress::{INTERVAL, arrivals, options, punctuate, table};
use crate::ingress_edges::{self, EDGES, rows_of, sync};
use crate::model::{Physical, physical};
use crate::plan::{Pair, Plan, Step};
use arrow::array::RecordBatch;
use proptest::prelude::*;
use whimbrel_temporal::operators::AllowedLateness;
use whimbrel_temporal::{
    Disorder, Graph, Ingress, IngressOptions, Message, OnCompleted, Operator, Punctuate, Time, TimeColumns,
};

/// A message, down to how rows are cut into batches.
#[derive(Debug, PartialEq)]
pub enum Exact {
    Rows(Vec<Physical>),
    Punctuation(Time),
}

pub fn exact(messages: &[Message]) -> Vec<Exact> {
    let exact = |message: &Message| match message {
        Message::Batch(batch) => Exact::Rows(physical(batch)),
        Message::Punctuation(time) => Exact::Punctuation(*time),
    };
    messages.iter().map(exact).collect()
}

/// What is done to an ingress.
#[derive(Debug, Clone)]
enum Act {
    Push(RecordBatch),
    Advance(Time),
    Flush,
    TakeLate,
    Complete,
}

/// What comes of it: messages, late rows, and the error, if it is one.
fn act(ingress: &mut Ingress, act: &Act) -> (Vec<Exact>, Vec<RecordBatch>, Option<String>) {
    let (mut out, mut late) = (Vec::new(), Vec::new());
    let done = match act.clone() {
        Act::Push(rows) => ingress.push(rows, &mut out),
        Act::Advance(time) => ingress.advance(time, &mut out),
        Act::Flush => ingress.flush(&mut out),
        Act::Complete => ingress.complete(&mut out),
        Act::TakeLate => {
            late = ingress.take_late();
            Ok(())
        }
    };
    (exact(&out), late, done.err().map(|e| e.strip_backtrace()))
}

/// The rows in pieces, with other calls between them.
fn acts(rows: &RecordBatch, dice: &mut Dice) -> Vec<Act> {
    let (mut acts, mut at) = (Vec::new(), 0);
    while at < rows.num_rows() {
        let size = (1 + dice.below(9)).min(rows.num_rows() - at);
        acts.push(Act::Push(rows.slice(at, size)));
        at += size;
        match dice.below(9) {
            0 => acts.push(Act::Advance(dice.below(60) as Time - 40)),
            1 => acts.push(Act::Flush),
            2 => acts.push(Act::TakeLate),
            3 => acts.push(Act::Complete),
            _ => {}
        }
    }
    acts.extend([Act::Complete, Act::TakeLate]);
    acts
}

/// Holds an ingress against one that starts from a checkpoint at each place in turn.
fn goes_on(time: &TimeColumns, options: &IngressOptions, rows: &RecordBatch, dice: &mut Dice) {
    let fresh = || Ingress::new(time.clone(), options.clone(), rows.schema()).expect("an ingress");
    let mut ingress = fresh();
    let mut others: Vec<Ingress> = Vec::new();
    for next in acts(rows, dice) {
        let state = ingress.save().expect("a checkpoint");
        let mut restored = fresh();
        restored.restore(&state).expect("restores");
        others.push(restored);
        let came = act(&mut ingress, &next);
        for (taken, other) in others.iter_mut().enumerate() {
            assert_eq!(act(other, &next), came, "from a checkpoint before call {taken} on: {next:?}");
            assert_eq!(other.dropped(), ingress.dropped());
        }
        if came.2.is_some() {
            return;
        }
    }
}

fn any_options() -> impl Strategy<Value = IngressOptions> {
    let disorder =
        prop_oneof![4 => Just(Disorder::Adjust), 4 => Just(Disorder::Drop), 1 => Just(Disorder::Raise)];
    let end =
        prop_oneof![Just(OnCompleted::EndOfStream), Just(OnCompleted::Flush), Just(OnCompleted::Nothing)];
    let latency = prop_oneof![Just(0), 1..30i64];
    let batch_rows = prop_oneof![1..6usize, Just(80_000usize)];
    (disorder, latency, punctuate(), batch_rows, end).prop_map(
        |(disorder, reorder_latency, punctuate, batch_rows, on_completed)| IngressOptions {
            disorder,
            reorder_latency,
            punctuate,
            batch_rows,
            on_completed,
            idle: None,
        },
    )
}

/// An ingress, and a graph, in the middle of things, each with one of its kind that nothing was done to.
fn in_the_middle(rows: &RecordBatch) -> (Ingress, Ingress) {
    let fresh = || Ingress::new(INTERVAL, options(Disorder::Drop, 5), rows.schema()).expect("an ingress");
    let mut ingress = fresh();
    ingress.push(rows.clone(), &mut Vec::new()).expect("takes rows");
    (ingress, fresh())
}

/// Cuts, adds or changes something.
fn damage(state: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut state = state.to_vec();
    // Often in the header, else anywhere.
    let within = if dice.one_in(3) { state.len().min(40) } else { state.len() };
    let at = (dice.below(256) * 65_521 + dice.below(256)) % within;
    match dice.below(4) {
        0 => state.truncate(at),
        1 => state.push(dice.below(256) as u8),
        2 => state[at] ^= 1 << dice.below(8),
        _ => {
            let end = (at + 1 + dice.below(16)).min(state.len());
            let before = state[at..end].to_vec();
            state[at..end].iter_mut().for_each(|byte| *byte = dice.below(256) as u8);
            if state[at..end] == before {
                state[at] ^= 255;
            }
        }
    }
    state
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn an_ingress_goes_on_from_a_checkpoint(rows in arrivals(), options in any_options(), dice in dice()) {
        goes_on(&INTERVAL, &options, &table(&rows), &mut dice.clone());
        goes_on(&TimeColumns::Point { start: 0 }, &options, &table(&rows), &mut dice.clone());
    }

    /// Start edges that come late take their end edges along, on both sides of a checkpoint.
    #[test]
    fn an_ingress_of_edges_goes_on_from_a_checkpoint(
        stream in streams(Kinds::Any, 30), options in any_options(), most in 1..20usize, dice in dice(),
    ) {
        let mut dice = dice;
        let mut rows = rows_of(&stream, &mut dice);
        rows.retain(|r| r.0 != "punctuation" || !r.1.is_some_and(|_| dice.one_in(2)));
        // An end edge does not overtake its start edge.
        let delays: Vec<i64> = rows.iter().map(|r| sync(r) + dice.below(most) as i64).collect();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|i| if rows[*i].0 == "end" { sync(&rows[*i]) + most as i64 } else { delays[*i] });
        let rows: Vec<_> = order.into_iter().map(|i| rows[i].clone()).collect();
        goes_on(&EDGES, &options, &ingress_edges::table(&rows), &mut dice);
    }

    #[test]
    fn damaged_checkpoints_are_refused(rows in arrivals(), stream in streams(Kinds::Any, 30), dice in dice()) {
        let mut dice = dice;
        let (ingress, mut fresh) = in_the_middle(&table(&rows));
        let state = ingress.save().expect("a checkpoint");
        let plan = Plan::of(Step::Session(vec![KEY], 4, None))
            .with(Pair::Join(vec![KEY], vec![KEY]), Plan::Input(0));
        let new = || plan.graph(std::slice::from_ref(&stream.schema));
        let mut graph: Graph = new();
        let messages = stream.messages(7, &mut dice);
        for message in messages.iter().take(messages.len() / 2) {
            graph.push(0, message.clone(), &mut Vec::new()).expect("computes");
        }
        let states = graph.save().expect("a checkpoint");
        for _ in 0..20 {
            prop_assert!(fresh.restore(&damage(&state, &mut dice)).is_err());
            prop_assert!(new().restore(&damage(&states, &mut dice)).is_err());
        }
        // What was refused has left no trace.
        prop_assert_eq!(fresh.dropped(), 0);
        fresh.restore(&state).expect("restores");
        prop_assert_eq!(fresh.dropped(), ingress.dropped());
    }
}

fn refused(options: IngressOptions, time: TimeColumns, state: &[u8]) -> String {
    let mut ingress = Ingress::new(time, options, table(&[]).schema()).expect("an ingress");
    ingress.restore(state).expect_err("it is refused").strip_backtrace()
}

#[test]
fn a_refusal_says_why() {
    let (ingress, _) = in_the_middle(&table(&[(3, Some(9)), (5, None)]));
    let state = ingress.save().expect("a checkpoint");
    let here = |state: &[u8]| refused(options(Disorder::Drop, 5), INTERVAL, state);
    assert_eq!(here(b"PAR1"), "Execution error: these bytes are no checkpoint; restore what was saved");
    assert!(here(&[]).contains("the checkpoint is cut short: 0 bytes do not hold its header"));
    assert!(here(&state[..state.len() - 1]).contains("the checkpoint is cut short: "));
    assert!(here(&[&state[..], &[0]].concat()).contains("the checkpoint is too long: "));
    let with = |at: usize| {
        let mut state = state.clone();
        state[at] = !state[at];
        here(&state)
    };
    assert!(with(8).contains("the checkpoint is of format 248, this release reads format 7"));
    assert!(with(state.len() - 1).contains("the checkpoint is damaged"));
    let other = refused(options(Disorder::Raise, 5), INTERVAL, &state);
    assert!(other.contains("the checkpoint is of another query: it has `disorder Drop,"), "{other}");
    let other = refused(options(Disorder::Drop, 5), TimeColumns::Point { start: 0 }, &state);
    assert!(other.contains("where this one has `ingress by Point { start: 0 }`"), "{other}");
}

/// Results do not depend on the size of batches, so a checkpoint does not either.
#[test]
fn batches_may_have_another_size_afterwards() {
    let rows = table(&[(3, Some(9)), (5, None), (4, None)]);
    let (ingress, _) = in_the_middle(&rows);
    let smaller = IngressOptions { batch_rows: 1, punctuate: Punctuate::Never, ..options(Disorder::Drop, 5) };
    let mut restored = Ingress::new(INTERVAL, smaller, rows.schema()).expect("an ingress");
    restored.restore(&ingress.save().expect("a checkpoint")).expect("restores");
    let mut out = Vec::new();
    restored.complete(&mut out).expect("completes");
    assert_eq!(crate::ingress::told(&mut out), "3 4 5 end");
}

#[test]
fn an_ingress_that_failed_has_no_checkpoint() {
    let rows = table(&[(3, None), (20, None), (2, None)]);
    let mut ingress = Ingress::new(INTERVAL, options(Disorder::Raise, 5), rows.schema()).expect("an ingress");
    ingress.push(rows, &mut Vec::new()).expect_err("the third row is late");
    let error = ingress.save().expect_err("it failed").strip_backtrace();
    assert!(error.contains("a row was refused"), "{error}");
}

/// Rows at arrival instants, with their times in a column.
fn arriving(dice: &mut Dice) -> Vec<Message> {
    use arrow::array::Int64Array;
    use std::sync::Arc;
    use whimbrel_temporal::{Batch, Other};
    let (mut now, mut messages) = (0, Vec::new());
    for arrival in 0..30 {
        let times: Vec<i64> = (0..1 + dice.below(5))
            .map(|_| {
                now += dice.below(8) as i64;
                now - dice.below(20) as i64
            })
            .collect();
        let sync = vec![2 * arrival; times.len()].into();
        let rows = RecordBatch::try_from_iter([("t", Arc::new(Int64Array::from(times)) as _)]);
        messages.push(Message::Batch(Batch::new(sync, Other::Open, rows.expect("rows"))));
        messages.push(Message::Punctuation(2 * arrival + 2));
    }
    messages
}

proptest! {
    #[test]
    fn allowed_lateness_goes_on_from_every_place(mut dice in dice(), lateness in 0_i64..15, retention in 0_i64..15) {
        let fresh = || AllowedLateness::new(0, lateness, retention);
        let messages = arriving(&mut dice);
        for stop in 0..messages.len() {
            let (mut whole, mut before, mut after) = (fresh(), fresh(), fresh());
            let (mut expected, mut out) = (Vec::new(), Vec::new());
            for (place, message) in messages.iter().enumerate() {
                if place == stop {
                    after.restore(&before.save().expect("a state")).expect("the same operator");
                }
                whole.push(0, message.clone(), &mut expected).expect("no error");
                let other = if place < stop { &mut before } else { &mut after };
                other.push(0, message.clone(), &mut out).expect("no error");
            }
            prop_assert_eq!(exact(&out), exact(&expected));
            let kept = |operator: &AllowedLateness| (operator.held().rows, operator.held().oldest);
            prop_assert_eq!((after.rows_late(), kept(&after)), (whole.rows_late(), kept(&whole)));
        }
    }
}
