//! What the scripts return.

use super::script::Script;
use crate::error::{Error, Result};
use crate::read::{Found, Holding, Read, Records, Row};
use crate::transaction::{Outcome, Token};
use redis::Value;
use std::time::Duration;

/// The outcomes of transactions.
///
/// # Errors
/// `Damaged` if the answer has another form.
pub fn outcomes(answer: Value, transactions: usize) -> Result<Vec<Outcome>> {
    let outcomes: Option<Vec<_>> = list(answer).and_then(|list| list.into_iter().map(outcome).collect());
    complete(outcomes, transactions, Script::Commit)
}

/// What reads found.
///
/// # Errors
/// `Damaged` if the answer has another form.
pub fn found(answer: Value, reads: &[Read]) -> Result<Vec<Found>> {
    let found: Option<Vec<_>> = list(answer)
        .and_then(|list| list.into_iter().zip(reads).map(|(value, read)| found_by(read, value)).collect());
    complete(found, reads.len(), Script::Read)
}

/// All of the answers, or an error.
fn complete<T>(answers: Option<Vec<T>>, expected: usize, script: Script) -> Result<Vec<T>> {
    answers.filter(|answers| answers.len() == expected).ok_or_else(|| {
        Error::Damaged(format!(
            "Redis answered the script {script:?} with what it does not return: something else writes keys \
             of this namespace; give the store a namespace of its own"
        ))
    })
}

fn outcome(value: Value) -> Option<Outcome> {
    let mut values = list(value)?.into_iter();
    match (unsigned(&values.next()?)?, unsigned(&values.next()?)?) {
        (0, condition) => Some(Outcome::Conflict { condition: usize::try_from(condition).ok()? }),
        (_, version) => {
            Some(Outcome::Committed { version, popped: values.map(popped).collect::<Option<_>>()? })
        }
    }
}

/// An element, or none.
fn popped(value: Value) -> Option<Option<Vec<u8>>> {
    match list(value)?.into_iter().next() {
        None => Some(None),
        Some(element) => bytes(element).map(Some),
    }
}

fn found_by(read: &Read, value: Value) -> Option<Found> {
    Some(match read {
        Read::Row { .. } if value == Value::Nil => Found::Row(None),
        Read::Row { .. } => Found::Row(Some(row(value)?)),
        Read::Rows { .. } => Found::Rows(rows(value)?),
        Read::Records { from, .. } => Found::Records(records(value, *from)?),
        Read::Waiting { .. } => Found::Waiting(unsigned(&value)?),
        Read::Holding { .. } if value == Value::Nil => Found::Holding(None),
        Read::Holding { .. } => Found::Holding(Some(holding(value)?)),
    })
}

/// A row is its version, a space, and its value.
fn row(value: Value) -> Option<Row> {
    let mut stored = bytes(value)?;
    let space = stored.iter().position(|byte| *byte == b' ')?;
    let version = std::str::from_utf8(&stored[..space]).ok()?.parse().ok()?;
    stored.drain(..=space);
    Some(Row { version, value: stored })
}

/// Keys and rows in turn, in no order.
fn rows(value: Value) -> Option<Vec<(String, Row)>> {
    let mut values = list(value)?.into_iter();
    let mut rows = Vec::with_capacity(values.len() / 2);
    while let (Some(key), Some(stored)) = (values.next(), values.next()) {
        rows.push((String::from_utf8(bytes(key)?).ok()?, row(stored)?));
    }
    rows.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Some(rows)
}

fn records(value: Value, from: u64) -> Option<Records> {
    let [length, first, records] = list(value)?.try_into().ok()?;
    let records = list(records)?.into_iter().map(bytes).collect::<Option<_>>()?;
    // Redis may have rounded a position that lies behind all that can be.
    Some(Records { length: unsigned(&length)?, first: unsigned(&first)?.max(from), records })
}

fn holding(value: Value) -> Option<Holding> {
    let [token, remaining, holder] = list(value)?.try_into().ok()?;
    Some(Holding {
        holder: String::from_utf8(bytes(holder)?).ok()?,
        token: Token(unsigned(&token)?),
        remaining: Duration::from_millis(unsigned(&remaining)?),
    })
}

fn list(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

fn unsigned(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}
