//! What the author of a query asserts: it holds or the query ends, at every batch size and from a checkpoint
//! on.

use crate::equal::cases;
use crate::generate::{BATCH_SIZES, FLOAT, KEY, Kinds, NUMBER, Stream, TEXT, dice, streams};
use crate::model::{Value, physical};
use proptest::prelude::*;
use whimbrel_temporal::operators::{RequireDistinctStarts, RequireSorted};
use whimbrel_temporal::{INFINITY, Message, Operator, Time};

fn columns() -> impl Strategy<Value = Vec<usize>> {
    prop::sample::select(vec![vec![KEY], vec![NUMBER], vec![TEXT], vec![FLOAT], vec![KEY, TEXT]])
}

/// Pushes messages through an operator, and from the middle on through another that starts from its
/// checkpoint; what comes out, and the error, if there is one.
fn run(fresh: impl Fn() -> Box<dyn Operator>, messages: &[Message]) -> (Vec<Message>, Option<String>) {
    let (mut operator, mut all) = (fresh(), Vec::new());
    for (number, message) in messages.iter().enumerate() {
        if number == messages.len() / 2 {
            let state = operator.save().expect("a checkpoint");
            operator = fresh();
            operator.restore(&state).expect("restores");
        }
        let mut out = Vec::new();
        let done = operator.push(0, message.clone(), &mut out);
        all.extend(out);
        if let Err(error) = done {
            return (all, Some(error.strip_backtrace()));
        }
    }
    (all, None)
}

fn sorted(stream: &Stream, columns: &[usize]) -> bool {
    let place = |value: &Value| match value {
        Value::Float(f) if f.is_nan() => (false, Value::Float(f64::NAN)),
        Value::Float(f) => (false, Value::Float(f + 0.0)),
        other => (matches!(other, Value::Null), other.clone()),
    };
    let key = |row: &Vec<Value>| columns.iter().map(|column| place(&row[*column])).collect::<Vec<_>>();
    stream.events.windows(2).all(|pair| key(&pair[0].row) <= key(&pair[1].row))
}

fn rows(messages: &[Message]) -> usize {
    messages.iter().map(|m| if let Message::Batch(batch) = m { physical(batch).len() } else { 0 }).sum()
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn sorted_rows_pass_and_others_do_not(
        stream in streams(Kinds::Any, 40), short in streams(Kinds::Any, 3), columns in columns(), dice in dice(),
    ) {
        let mut dice = dice;
        for stream in [stream.clone(), short, stream.sorted_by(&columns)] {
            for size in BATCH_SIZES {
                let messages = stream.messages(size, &mut dice);
                let fresh = || -> Box<dyn Operator> {
                    Box::new(RequireSorted::new(stream.schema.clone(), columns.clone(), None))
                };
                let (out, error) = run(fresh, &messages);
                match sorted(&stream, &columns) {
                    true => prop_assert_eq!((rows(&out), error), (rows(&messages), None)),
                    false => prop_assert!(error.expect("an error").contains("require_sorted")),
                }
            }
        }
    }

    #[test]
    fn rows_that_start_together_are_refused(
        kinds in prop::sample::select(vec![Kinds::Points, Kinds::Open, Kinds::Any]),
        stream in streams(Kinds::Any, 1), many in streams(Kinds::Any, 8), points in streams(Kinds::Points, 8),
        dice in dice(),
    ) {
        let mut dice = dice;
        let (streams, has_ends) = match kinds {
            Kinds::Any => (vec![stream, many], true),
            _ => (vec![points], false),
        };
        for stream in streams {
            let distinct = stream.events.windows(2).all(|pair| pair[0].start < pair[1].start);
            for size in BATCH_SIZES {
                let messages = stream.messages(size, &mut dice);
                let (out, error) = run(|| Box::new(RequireDistinctStarts::new(has_ends, None)), &messages);
                if !distinct {
                    prop_assert!(error.expect("an error").contains("require_distinct_starts"));
                    continue;
                }
                prop_assert_eq!((rows(&out), error), (rows(&messages), None));
                let mut reached = Time::MIN;
                for message in &out {
                    match message {
                        Message::Batch(batch) => prop_assert!(batch.sync[0] >= reached),
                        Message::Punctuation(time) => {
                            prop_assert!(*time > reached);
                            reached = *time;
                        }
                    }
                }
                prop_assert_eq!(reached, INFINITY);
            }
        }
    }

    /// What follows from a row need not wait for time to pass.
    #[test]
    fn time_passes_the_last_row_at_once(stream in streams(Kinds::Points, 8), dice in dice()) {
        let mut require = RequireDistinctStarts::new(false, None);
        for message in stream.messages(1, &mut dice.clone()) {
            let mut out = Vec::new();
            if require.push(0, message.clone(), &mut out).is_err() {
                return Ok(());
            }
            let Message::Batch(batch) = message else { continue };
            let is_present = |row: &usize| batch.present().is_none_or(|present| present.value(*row));
            if let Some(last) = (0..batch.len()).rfind(is_present) {
                prop_assert!(
                    matches!(out.last(), Some(Message::Punctuation(time)) if *time == batch.sync[last] + 1)
                );
            }
        }
    }
}
