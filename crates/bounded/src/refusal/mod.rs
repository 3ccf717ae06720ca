//! A refusal: the query drawn with the part that has no end, why it has none, and what to write instead.
//!
//! Invariant: every fix was compiled before it is offered, and its bound is that of the query with it.

mod draw;
mod fixes;
mod view;

pub(crate) use draw::draw;
pub(crate) use fixes::Suggestions;

use crate::bound::Bound;
use crate::compile::DeadEnd;
use crate::plan::written;
use std::fmt;

/// Why a query was not taken, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The query as it was written.
    pub sql: String,
    /// The plan, with the unbounded part marked.
    pub drawing: String,
    /// Why, in one sentence.
    pub reason: String,
    /// It has a bound, and that is more than one call may take.
    pub bounded: bool,
    /// What to write, cheapest first.
    pub fixes: Vec<Fix>,
}

/// A change that makes the query bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// What it does.
    pub title: String,
    /// What to paste: a statement that changes the schema, or the query in other words.
    pub paste: String,
    /// Whether the schema changes, not the query.
    pub changes_schema: bool,
    /// The bound of the query with it.
    pub bound: Bound,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.bounded {
            true => "this query is too much for one call",
            false => "this query has no bound",
        };
        writeln!(f, "{what}: {}\n", self.reason)?;
        for line in self.drawing.lines() {
            writeln!(f, "    {line}")?;
        }
        for (at, fix) in self.fixes.iter().enumerate() {
            writeln!(f, "\nfix {}: {}", at + 1, fix.title)?;
            fix.paste.lines().try_for_each(|line| writeln!(f, "    {line}"))?;
            writeln!(f, "    -- {}", fix.bound)?;
        }
        write!(f, "\nto run it all the same, and have it listed: put `allow unbounded 'reason'` at its end")
    }
}

impl DeadEnd {
    /// Why there is no bound, in one sentence.
    pub(crate) fn reason(&self) -> String {
        let what = match self.alias == self.table.name {
            true => self.alias.clone(),
            false => format!("{} {}", self.table.name, self.alias),
        };
        let columns = self.table.column_names(&self.equal);
        let mut reason = match (self.joined.last(), self.equal.is_empty()) {
            (None, true) => {
                format!("nothing says which rows of {what} are meant, so all of them would be read")
            }
            (None, false) => format!("nothing limits how many rows of {what} have the same {columns}"),
            (Some(from), true) => format!("for each row of {from} all rows of {what} would be read"),
            (Some(from), false) => {
                format!(
                    "for each row of {from} nothing limits how many rows of {what} have the same {columns}"
                )
            }
        };
        if let (Some(stop), Some(predicate)) = (self.stop, self.residual.first()) {
            reason += &format!(
                "; its first {stop} rows are not enough, for `{}` drops rows after they were read",
                written(predicate)
            );
        } else if let (Some(stop), false) = (self.stop, self.orderable) {
            reason += &format!(
                "; its first {stop} rows are not enough, for the order of the result is not that of {what}"
            );
        } else if let (Some(stop), Some(reference)) = (self.stop, &self.nullable) {
            reason += &format!(
                "; its first {stop} rows are not enough, for {} can be null, and then the join drops the row",
                reference.written()
            );
        } else if let Some(stop) = self.stop {
            reason += &format!(
                "; its first {stop} rows are not enough, for a later join or predicate can drop some"
            );
        }
        reason
    }
}
