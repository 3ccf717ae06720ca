//! What is checked, and what was found.

use super::lock::{Lock, Locked};
use crate::error::Error;
use crate::refusal::Fix;
use crate::syntax::{Place, Source, Statement};
use std::collections::BTreeMap;
use std::ops::Range;

/// What is looked at.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// The statements that make the schema, in order.
    pub schema: Vec<Source>,
    /// The queries and writes of the application.
    pub queries: Vec<Source>,
    /// The schema and the queries are PostgreSQL's, and so are the indexes: one that is missing is an error.
    pub plain_sql: bool,
    /// How many values an array that is given with a call of a PostgreSQL query can have: `= any($1)`.
    pub most_values: Option<u64>,
    /// How many rows a query of PostgreSQL can ask for where that is given with the call: `limit $1`.
    pub most_rows: Option<u64>,
    /// The store does what Redis Cluster does: it writes key by key, and orders keys within each of 64
    /// partitions.
    pub key_by_key: bool,
    /// The bounds as they were agreed to.
    pub lock: Option<Lock>,
}

/// What was found, and what every query may cost.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// In the order of files and lines.
    pub findings: Vec<Finding>,
    /// Those that have a bound, or need none.
    pub queries: Vec<Checked>,
}

/// A query that may run.
#[derive(Debug, Clone)]
pub struct Checked {
    /// What it is called.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// What it costs at most.
    pub locked: Locked,
    /// The same in a sentence.
    pub says: String,
}

/// Something to know about a line of a file.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What kind of thing.
    pub rule: Rule,
    /// Where.
    pub place: Place,
    /// The query, if it is about one.
    pub query: Option<String>,
    /// In one sentence.
    pub message: String,
    /// More of it: the drawing of a refusal, the line of a syntax error.
    pub detail: String,
    /// What to write.
    pub fixes: Vec<Fix>,
}

/// What kinds of things are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A query without a bound, or with one that is too large.
    Unbounded,
    /// A query that is wrong.
    InvalidQuery,
    /// A statement of the schema that is wrong.
    InvalidSchema,
    /// Two queries of one name.
    DuplicateName,
    /// A bound that needs an index which PostgreSQL does not have.
    MissingIndex,
    /// A bound that is above that of the lock file.
    RaisedBound,
    /// A query that the lock file does not know.
    NotLocked,
    /// A bound that is below that of the lock file.
    LoweredBound,
    /// A query of the lock file that is gone.
    Gone,
    /// A query that may run without a bound, and why.
    AllowedUnbounded,
    /// An index that `prepare` will make.
    NewIndex,
    /// Statements of the schema that say nothing about bounds.
    Skipped,
}

/// All rules, in order.
pub const RULES: [Rule; 12] = [
    Rule::Unbounded,
    Rule::InvalidQuery,
    Rule::InvalidSchema,
    Rule::DuplicateName,
    Rule::MissingIndex,
    Rule::RaisedBound,
    Rule::NotLocked,
    Rule::LoweredBound,
    Rule::Gone,
    Rule::AllowedUnbounded,
    Rule::NewIndex,
    Rule::Skipped,
];

impl Rule {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Unbounded => "unbounded",
            Rule::InvalidQuery => "invalid-query",
            Rule::InvalidSchema => "invalid-schema",
            Rule::DuplicateName => "duplicate-name",
            Rule::MissingIndex => "missing-index",
            Rule::RaisedBound => "raised-bound",
            Rule::NotLocked => "not-locked",
            Rule::LoweredBound => "lowered-bound",
            Rule::Gone => "gone",
            Rule::AllowedUnbounded => "allowed-unbounded",
            Rule::NewIndex => "new-index",
            Rule::Skipped => "skipped",
        }
    }

    /// What it finds, in a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Rule::Unbounded => "The number of requests of the query grows with the data, or is too large.",
            Rule::InvalidQuery => "The query does not fit the schema, or is not SQL.",
            Rule::InvalidSchema => "A statement of the schema cannot be understood.",
            Rule::DuplicateName => "Two queries have the same name.",
            Rule::MissingIndex => "The query has a bound only with an index that the schema does not have.",
            Rule::RaisedBound => "The query can cost more than the lock file says.",
            Rule::NotLocked => "The lock file does not know the query.",
            Rule::LoweredBound => "The query costs less than the lock file says.",
            Rule::Gone => "The lock file has a query that is not there any more.",
            Rule::AllowedUnbounded => "The query may run without a bound; the reason is listed.",
            Rule::NewIndex => "The query needs an index that is made when it is prepared.",
            Rule::Skipped => "Statements of the schema that say nothing about bounds were passed over.",
        }
    }

    /// Whether the check fails by it.
    pub fn is_error(self) -> bool {
        match self {
            Rule::Unbounded
            | Rule::InvalidQuery
            | Rule::InvalidSchema
            | Rule::DuplicateName
            | Rule::MissingIndex
            | Rule::RaisedBound
            | Rule::NotLocked => true,
            Rule::LoweredBound | Rule::Gone | Rule::AllowedUnbounded | Rule::NewIndex | Rule::Skipped => {
                false
            }
        }
    }
}

impl Report {
    /// Whether the check fails.
    pub fn failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.rule.is_error())
    }

    /// The lock file that agrees to what there is.
    pub fn lock(&self) -> Lock {
        let queries = self.queries.iter().map(|query| (query.name.clone(), query.locked.clone()));
        Lock { queries: queries.collect() }
    }
}

impl Report {
    /// Adds a finding without details.
    pub(super) fn add(&mut self, rule: Rule, place: Place, query: Option<String>, message: String) {
        self.findings.push(Finding { rule, place, query, message, detail: String::new(), fixes: vec![] });
    }

    /// A statement that failed, at the place of its text that the error is about.
    pub(super) fn add_error(
        &mut self,
        rule: Rule,
        source: &Source,
        statement: &Statement<'_>,
        query: Option<String>,
        error: Error,
    ) {
        let whole = statement.span.clone();
        let within = |bytes: Range<usize>| whole.start + bytes.start..whole.start + bytes.end;
        let finding = match error {
            Error::Unbounded(refusal) => Finding {
                rule: Rule::Unbounded,
                place: source.place(whole),
                query,
                message: refusal.reason.clone(),
                detail: refusal.drawing.clone(),
                fixes: refusal.fixes,
            },
            Error::Invalid(error) => {
                let rendered = whimbrel_sql::render(&error, statement.text);
                let message = rendered.split("\nline ").next().unwrap_or_default().to_string();
                let place = whimbrel_sql::place(&error, statement.text).map_or(whole.clone(), within);
                let detail = String::new();
                Finding { rule, place: source.place(place), query, message, detail, fixes: vec![] }
            }
            other => Finding {
                rule,
                place: source.place(whole),
                query,
                message: other.to_string(),
                detail: String::new(),
                fixes: vec![],
            },
        };
        self.findings.push(finding);
    }
}

/// Statements that were passed over, by what they are.
#[derive(Default)]
pub(super) struct Skipped(BTreeMap<String, (Place, usize)>);

impl Skipped {
    /// One more, called by its first words.
    pub(super) fn add(&mut self, source: &Source, statement: &Statement<'_>, words: usize) {
        let place = source.place(statement.span.clone());
        self.0.entry(statement.first_words(words)).or_insert((place, 0)).1 += 1;
    }

    pub(super) fn report(self, report: &mut Report) {
        for (what, (place, count)) in self.0 {
            let times = if count == 1 { String::new() } else { format!(", and {} more", count - 1) };
            report.add(Rule::Skipped, place, None, format!("passed over: {what} …{times}"));
        }
    }
}
