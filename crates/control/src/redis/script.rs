//! The scripts that Redis runs, and their arguments.
//!
//! A group of transactions is one call of one script, so it is one round trip, and is applied in order with
//! nothing in between: the server answers nobody else for some ten microseconds a transaction.

use crate::read::Read;
use crate::transaction::{Condition, Effect, REMEMBERED, Transaction};
use std::borrow::Cow;
use std::time::Duration;

/// A script.
#[derive(Debug, Clone, Copy)]
pub enum Script {
    /// Applies transactions.
    Commit,
    /// Reads.
    Read,
    /// Removes all.
    Remove,
}

/// An argument of a script.
pub type Argument<'a> = Cow<'a, [u8]>;

/// The largest number that Lua and Redis count to without rounding.
const EXACT: u64 = 1 << 53;

impl Script {
    /// All of them, each at the place of its number.
    pub const ALL: [Script; 3] = [Script::Commit, Script::Read, Script::Remove];

    /// Its text.
    pub fn text(self) -> &'static str {
        match self {
            Script::Commit => concat!(include_str!("prelude.lua"), include_str!("commit.lua")),
            Script::Read => concat!(include_str!("prelude.lua"), include_str!("read.lua")),
            Script::Remove => concat!(include_str!("prelude.lua"), include_str!("remove.lua")),
        }
    }
}

/// The arguments of [`Script::Commit`].
pub fn commit_arguments(transactions: &[Transaction]) -> Vec<Argument<'_>> {
    let mut arguments = vec![milliseconds(REMEMBERED)];
    for transaction in transactions {
        let mut steps = vec![number(transaction.conditions.len() as u64)];
        transaction.conditions.iter().for_each(|condition| steps.extend(condition_arguments(condition)));
        transaction.effects.iter().for_each(|effect| steps.extend(effect_arguments(effect)));
        arguments.push(Cow::Owned(format!("{:032x}", transaction.id.0).into_bytes()));
        arguments.push(number(steps.len() as u64));
        arguments.append(&mut steps);
    }
    arguments
}

/// The arguments of [`Script::Read`].
pub fn read_arguments(reads: &[Read]) -> Vec<Argument<'_>> {
    reads.iter().flat_map(read_argument).collect()
}

fn condition_arguments(condition: &Condition) -> Vec<Argument<'_>> {
    match condition {
        Condition::Version { table, row, version } => {
            vec![text("version"), text(table), text(row), number(*version)]
        }
        Condition::Absent { table, row } => vec![text("absent"), text(table), text(row)],
        Condition::Length { log, length } => vec![text("length"), text(log), number(*length)],
        Condition::Held { lease, token } => vec![text("held"), text(lease), number(token.0)],
        Condition::Free { lease } => vec![text("free"), text(lease)],
    }
}

fn effect_arguments(effect: &Effect) -> Vec<Argument<'_>> {
    match effect {
        Effect::Put { table, row, value } => vec![text("put"), text(table), text(row), bytes(value)],
        Effect::Delete { table, row } => vec![text("delete"), text(table), text(row)],
        Effect::RemoveTable { table } => vec![text("remove_table"), text(table)],
        Effect::Append { log, record } => vec![text("append"), text(log), bytes(record)],
        Effect::Trim { log, before } => vec![text("trim"), text(log), count(*before)],
        Effect::RemoveLog { log } => vec![text("remove_log"), text(log)],
        Effect::Push { queue, element } => vec![text("push"), text(queue), bytes(element)],
        Effect::Pop { queue } => vec![text("pop"), text(queue)],
        Effect::RemoveQueue { queue } => vec![text("remove_queue"), text(queue)],
        Effect::Publish { topic, payload } => vec![text("publish"), text(topic), bytes(payload)],
        Effect::Grant { lease, holder, ttl } => {
            vec![text("grant"), text(lease), milliseconds(*ttl), text(holder)]
        }
        Effect::Renew { lease, ttl } => vec![text("renew"), text(lease), milliseconds(*ttl)],
        Effect::Release { lease } => vec![text("release"), text(lease)],
    }
}

fn read_argument(read: &Read) -> Vec<Argument<'_>> {
    match read {
        Read::Row { table, row } => vec![text("row"), text(table), text(row)],
        Read::Rows { table } => vec![text("rows"), text(table)],
        Read::Records { log, from, limit } => {
            vec![text("records"), text(log), count(*from), count(*limit)]
        }
        Read::Waiting { queue } => vec![text("waiting"), text(queue)],
        Read::Holding { lease } => vec![text("holding"), text(lease)],
    }
}

fn text(text: &str) -> Argument<'_> {
    bytes(text.as_bytes())
}

fn bytes(bytes: &[u8]) -> Argument<'_> {
    Cow::Borrowed(bytes)
}

fn number(number: u64) -> Argument<'static> {
    Cow::Owned(number.to_string().into_bytes())
}

/// A position or a count, of which more than Redis can hold are as many as it can.
fn count(count: u64) -> Argument<'static> {
    number(count.min(EXACT))
}

fn milliseconds(time: Duration) -> Argument<'static> {
    Cow::Owned(time.as_millis().to_string().into_bytes())
}
