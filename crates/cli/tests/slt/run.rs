//! A script on a database, and what became of each record.

use crate::compare::{Answer, joined, same};
use crate::database::{Database, Failure, Place, Shared};
use crate::script::{Script, Step};
use crate::values::Letters;
use sqllogictest::{DefaultColumnType, QueryExpect, Record, RecordOutput, Runner, SortMode, StatementExpect};
use std::error::Error;
use std::fmt;
use std::ops::AddAssign;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// How many records did what.
#[derive(Debug, Default, Clone, Copy)]
pub struct Outcome {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Outcome) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Runs a script; the failures are texts for people.
pub fn run(script: &Script, place: Place, strict: bool) -> (Outcome, Vec<String>) {
    let shared = Shared::new(place);
    let connect = || std::future::ready(Ok::<_, Failure>(Database::new(shared.clone())));
    let mut runner = Runner::new(connect);
    let mut outcome = Outcome { skipped: script.skipped, ..Outcome::default() };
    let (mut failures, mut sort) = (Vec::new(), None);
    for step in &script.steps {
        if let Record::Control(sqllogictest::Control::SortMode(mode)) = &step.record {
            sort = Some(*mode);
        }
        if location_and_sql(step)
            .is_some_and(|(_, sql)| sql.trim_start().to_ascii_lowercase().starts_with("pragma "))
        {
            // A switch of the engine that the file was written for.
            outcome.skipped += 1;
            continue;
        }
        shared.write_as(letters(script, step));
        runner.with_hash_threshold(hash_threshold(step));
        let output = now(runner.apply_record(step.record(&shared.scratch())));
        let Some((location, sql)) = location_and_sql(step) else { continue };
        match verdict(script, step, sort, strict, &output) {
            _ if matches!(output, RecordOutput::Nothing) => outcome.skipped += 1,
            Ok(()) => outcome.passed += 1,
            Err(wrong) => {
                outcome.failed += 1;
                failures.push(format!("{location} on {place}\n{}\n{wrong}", indented(sql)));
            }
        }
    }
    (outcome, failures)
}

/// The result of a future that waits for nothing: our connections answer at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a connection of these tests waits for nothing"),
    }
}

/// The place and the text of a statement or query.
fn location_and_sql(step: &Step) -> Option<(&sqllogictest::Location, &str)> {
    match &step.record {
        Record::Statement { loc, sql, .. } | Record::Query { loc, sql, .. } => Some((loc, sql)),
        _ => None,
    }
}

fn letters(script: &Script, step: &Step) -> Letters {
    match &step.record {
        Record::Query { expected: QueryExpect::Results { types, .. }, .. } if script.sqlite => {
            Letters::Sqlite(types.clone())
        }
        _ => Letters::Types,
    }
}

/// An answer is hashed if the expected one is, whatever the threshold of the file is.
fn hash_threshold(step: &Step) -> usize {
    match &step.record {
        Record::Query { expected: QueryExpect::Results { results, .. }, .. } if hashed(results) => 1,
        _ => 0,
    }
}

fn hashed(results: &[String]) -> bool {
    matches!(results, [line] if line.contains(" values hashing to "))
}

fn verdict(
    script: &Script,
    step: &Step,
    sort: Option<SortMode>,
    strict: bool,
    output: &RecordOutput<DefaultColumnType>,
) -> Result<(), String> {
    if let RecordOutput::Query { error: Some(error), .. }
    | RecordOutput::Statement { error: Some(error), .. } = output
    {
        return failed(step, &error.to_string(), missing(error.as_ref()), strict);
    }
    if step.error().is_some() {
        return Err("it has to fail, and did not".to_string());
    }
    match (&step.record, output) {
        (
            Record::Statement { expected: StatementExpect::Count(count), .. },
            RecordOutput::Statement { count: n, .. },
        ) if count != n => Err(format!("{n} rows, where {count} were expected")),
        (
            Record::Query { expected: QueryExpect::Results { results, sort_mode, .. }, .. },
            RecordOutput::Query { rows, .. },
        ) if step.answered => {
            let sort = sort_mode.or(sort);
            let columns = rows.first().map_or(0, Vec::len);
            let answer = Answer { rows, columns, sorted: !matches!(sort, None | Some(SortMode::NoSort)) };
            match same(results, &answer, script.sqlite) {
                true => Ok(()),
                false => Err(difference(results, &joined(rows))),
            }
        }
        _ => Ok(()),
    }
}

/// A failure is right if one was expected, with this message if the file is ours.
fn failed(step: &Step, message: &str, missing: bool, strict: bool) -> Result<(), String> {
    let Some(expected) = step.error() else { return Err(message.to_string()) };
    if !strict {
        return match missing {
            true => Err(format!("it has to fail, but not for want of a feature\n  {message}")),
            false => Ok(()),
        };
    }
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    if !expected.is_match(message, None) {
        return Err(format!("the error is\n  {message}\nwhere this was expected\n  {expected}"));
    }
    match &step.message {
        Some(part) if !words(message).contains(&words(part)) => {
            Err(format!("the error is\n  {message}\nwhere this was expected\n  {part}"))
        }
        _ => Ok(()),
    }
}

/// Whether a failure says that something is missing which the statement asks for: what it says of the
/// statement nobody knows.
fn missing(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(failure) = error.downcast_ref::<Failure>() {
            return failure.is_missing;
        }
        cause = error.source();
    }
    false
}

const LINES_MAX: usize = 30;

fn difference(expected: &[String], actual: &[String]) -> String {
    format!("expected\n{}\nbut the answer is\n{}", shown(expected), shown(actual))
}

fn shown(lines: &[String]) -> String {
    let mut text = indented(&lines.iter().take(LINES_MAX).cloned().collect::<Vec<_>>().join("\n"));
    if lines.len() > LINES_MAX {
        text += &format!("\n  … {} lines", lines.len());
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
