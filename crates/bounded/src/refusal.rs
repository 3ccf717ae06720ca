//! A refusal: the query drawn with the part that has no end, why it has none, and what to write instead.
//!
//! Invariant: every fix was compiled before it is offered, and its bound is that of the query with it.

use crate::bound::Bound;
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
