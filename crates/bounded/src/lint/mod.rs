//! The compiler as a check for pull requests: a schema and the queries of an application as files, no store, no rows.
//!
//! 1. `split`: files to statements, with their comments and places;
//! 2. `plain`, `dump`: the schema and the queries of an ordinary PostgreSQL application;
//! 3. here: every query compiled, and what there is to say of it as a [`Finding`] with a place;
//! 4. [`Lock`]: the bounds as they were agreed to, and what rose since.
//!
//! Invariant: what is found depends on the files alone, so a laptop and a build server find the same.

mod dump;
mod lock;
mod plain;
mod split;

pub use lock::{Lock, Locked};
pub use split::{Place, Source};

use crate::database::{Compiled, Database};
use crate::error::{Error, Result};
use crate::refusal::Fix;
use crate::store::{MemoryStore, RedisStore};
use lock::Difference;
use split::{Statement, split};
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
    /// The store does what Redis Cluster does: it writes key by key, and orders keys within each of 64 partitions.
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

/// Compiles all queries of an application over its schema.
///
/// # Errors
/// `Internal` if it is our bug; what is wrong in the files is found, not returned.
///
/// ```
/// use whimbrel_bounded::lint::{self, Input, Rule, Source};
///
/// let file = |file: &str, text: &str| Source { file: file.into(), text: text.into() };
/// let report = lint::check(&Input {
///     schema: vec![file("schema.sql", "create table t (a int primary key, b int);")],
///     queries: vec![file("queries.sql", "-- name: by_b\nselect a from t where b = ?;")],
///     ..Input::default()
/// })?;
/// assert_eq!(report.findings[0].rule, Rule::Unbounded);
/// assert_eq!((report.findings[0].place.line, report.findings[0].place.column), (2, 1));
/// # Ok::<(), whimbrel_bounded::Error>(())
/// ```
pub fn check(input: &Input) -> Result<Report> {
    let store = if input.key_by_key { MemoryStore::new(RedisStore::AS_NEW) } else { MemoryStore::default() };
    let mut report = Report::default();
    let database = match input.plain_sql {
        true => plain::database(store, &input.schema, input.most_values, &mut report)?,
        false => created(store, &input.schema, &mut report)?,
    };
    // Behind a schema of ours that is not whole every query would be wrong; one of others is never wholly understood.
    if input.plain_sql || !report.failed() {
        let statements = input
            .queries
            .iter()
            .flat_map(|source| split(&source.text).into_iter().map(move |statement| (source, statement)));
        let statements: Vec<(&Source, Statement<'_>)> = statements.collect();
        if !input.plain_sql {
            // What a write costs depends on the indexes that all queries together need.
            statements
                .iter()
                .try_for_each(|(source, statement)| indexed(&database, source, statement, &mut report))?;
        }
        no_doubles(&statements, &mut report);
        statements
            .iter()
            .for_each(|(source, statement)| one(&database, source, statement, input, &mut report));
        if let Some(lock) = &input.lock {
            compare(lock, input, &mut report);
        }
    }
    report.findings.sort_by(|a, b| (&a.place, a.rule).cmp(&(&b.place, b.rule)));
    Ok(report)
}

/// A database in memory with this schema, made by its own statements.
fn created(store: MemoryStore, schema: &[Source], report: &mut Report) -> Result<Database> {
    let database = Database::open(store)?;
    let mut skipped = Skipped::default();
    for source in schema {
        for statement in split(&source.text) {
            match statement.opening(1).as_str() {
                "insert" | "upsert" | "update" | "delete" | "select" => skipped.add(source, &statement, 1),
                _ => {
                    if let Err(error) = database.execute(statement.text, &[]) {
                        report.wrong(Rule::InvalidSchema, source, &statement, None, error);
                    }
                }
            }
        }
    }
    skipped.tell(report);
    Ok(database)
}

/// The texts of the statements of a script.
pub(crate) fn statements(script: &str) -> Vec<&str> {
    split(script).into_iter().map(|statement| statement.text).collect()
}

/// What a statement is called.
fn name_of(statement: &Statement<'_>, place: &Place) -> String {
    let noted = statement.noted("name:").and_then(|noted| noted.split_whitespace().next());
    noted.map_or_else(|| format!("{}:{}", place.file, place.line), str::to_string)
}

/// Finds names that two queries have.
fn no_doubles(statements: &[(&Source, Statement<'_>)], report: &mut Report) {
    let mut first: BTreeMap<String, Place> = BTreeMap::new();
    for (source, statement) in statements {
        let place = source.place(statement.span.clone());
        let name = name_of(statement, &place);
        match first.get(&name) {
            Some(first) => {
                let message = format!("{}:{} has a query {name:?} already", first.file, first.line);
                report.find(Rule::DuplicateName, place, Some(name), message);
            }
            None => {
                first.insert(name, place);
            }
        }
    }
}

/// Makes the indexes that a statement needs, as `prepare` will.
fn indexed(
    database: &Database,
    source: &Source,
    statement: &Statement<'_>,
    report: &mut Report,
) -> Result<()> {
    // What is wrong with it is said later.
    let Ok(compiled) = database.compile(statement.text) else { return Ok(()) };
    let place = source.place(statement.span.clone());
    for index in needed(database, &compiled)? {
        let message = format!("{index} is made when it is prepared");
        report.find(Rule::NewIndex, place.clone(), Some(name_of(statement, &place)), message);
    }
    database.inner.make_indexes(&compiled)
}

/// The indexes that a query needs and that are not there.
fn needed(database: &Database, compiled: &Compiled) -> Result<Vec<String>> {
    let schema = database.schema();
    let indexes = compiled.plan.new_indexes.iter();
    indexes
        .map(|(table, index)| Ok(format!("create index on {}", index.describe(schema.table(table)?))))
        .collect()
}

/// Compiles one statement.
fn one(database: &Database, source: &Source, statement: &Statement<'_>, input: &Input, report: &mut Report) {
    // Nobody has said how long arrays can be.
    let open_arrays = input.plain_sql && input.most_values.is_none();
    let place = source.place(statement.span.clone());
    let name = name_of(statement, &place);
    // PostgreSQL has no words for it: there it stands in a comment.
    let mut text = statement.text.to_string();
    if let Some(most) = most_rows(statement, input) {
        text += &format!(" at most {most}");
    }
    if let Some(reason) = statement.noted("allow unbounded ") {
        text += &format!(" allow unbounded {reason}");
    }
    let compiled = match database.compile(&text) {
        Ok(compiled) => compiled,
        Err(error) => {
            let unbounded = matches!(error, Error::Unbounded(_));
            report.wrong(Rule::InvalidQuery, source, statement, Some(name), error);
            if let Some(finding) = report.findings.last_mut()
                && unbounded
                && open_arrays
                && statement.text.to_lowercase().replace(' ', "").contains("=any($")
            {
                finding.message += "; --most-values says how many values an array of = any(…) can have";
            }
            return;
        }
    };
    for index in needed(database, &compiled).unwrap_or_default() {
        let message = format!("reads more than it returns without an index: {index}");
        report.find(Rule::MissingIndex, place.clone(), Some(name.clone()), message);
    }
    if let Some(reason) = &compiled.plan.allowed {
        report.find(
            Rule::AllowedUnbounded,
            place.clone(),
            Some(name.clone()),
            format!("may run without a bound: {reason}"),
        );
    }
    let says = compiled.plan.costs();
    report.queries.push(Checked { name, place, locked: measures(&compiled), says });
}

/// The most rows that a query can ask for, if that is given with the call and was promised.
fn most_rows(statement: &Statement<'_>, input: &Input) -> Option<u64> {
    let words: Vec<&str> = statement.text.split_whitespace().collect();
    let [.., limit, given] = words.as_slice() else { return None };
    let is_given = limit.eq_ignore_ascii_case("limit") && given.starts_with(['$', '@', ':', '?']);
    let noted = || statement.noted("limit at most ").and_then(|most| most.parse().ok());
    if is_given && input.plain_sql { noted().or(input.most_rows) } else { None }
}

/// What a lock file says of a query.
fn measures(compiled: &Compiled) -> Locked {
    if let Some(reason) = &compiled.plan.allowed {
        return Locked::Unbounded(reason.clone());
    }
    let bound = &compiled.plan.bound;
    let mut measures = BTreeMap::from([
        ("requests", bound.requests),
        ("rounds", bound.rounds),
        ("tuples", bound.tuples),
        ("rows", bound.rows),
    ]);
    if let crate::bound::Bytes::AtMost(bytes) = bound.bytes {
        measures.insert("bytes", bytes);
    }
    if let Some(writes) = &compiled.plan.writes {
        measures.insert("rows", writes.rows);
        measures.insert("conditions", writes.conditions);
        measures.insert("writes", writes.writes);
        measures.insert("requests", bound.requests.saturating_add(writes.requests));
        measures.insert("rounds", bound.rounds.saturating_add(writes.rounds));
    }
    measures.retain(|_, value| *value != u64::MAX);
    Locked::Bounded(measures)
}

/// What rose and fell since the lock file was written.
fn compare(lock: &Lock, input: &Input, report: &mut Report) {
    for query in report.queries.clone() {
        let (rule, message) = match lock.difference(&query.name, &query.locked) {
            None => continue,
            Some(Difference::New) => {
                (Rule::NotLocked, format!("is not in the lock file yet: {}", query.says))
            }
            Some(Difference::Raised(what)) => (Rule::RaisedBound, format!("its bound rose: {what}")),
            Some(Difference::Lowered(what)) => (Rule::LoweredBound, format!("its bound fell: {what}")),
        };
        report.find(rule, query.place, Some(query.name), message);
    }
    let file = input.queries.first().map_or_else(String::new, |source| source.file.clone());
    let refused: Vec<&String> = report.findings.iter().filter_map(|finding| finding.query.as_ref()).collect();
    let there =
        |name: &String| refused.contains(&name) || report.queries.iter().any(|query| query.name == *name);
    let gone: Vec<String> = lock.queries.keys().filter(|name| !there(name)).cloned().collect();
    for name in gone {
        let place = Place { file: file.clone(), line: 1, column: 1, end_line: 1, end_column: 1 };
        report.find(Rule::Gone, place, Some(name), "is in the lock file and nowhere else".to_string());
    }
}

impl Report {
    fn find(&mut self, rule: Rule, place: Place, query: Option<String>, message: String) {
        self.findings.push(Finding { rule, place, query, message, detail: String::new(), fixes: vec![] });
    }

    /// A statement that failed, at the place of its text that the error is about.
    fn wrong(
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
struct Skipped(BTreeMap<String, (Place, usize)>);

impl Skipped {
    /// One more, called by its first words.
    fn add(&mut self, source: &Source, statement: &Statement<'_>, words: usize) {
        let place = source.place(statement.span.clone());
        self.0.entry(statement.opening(words)).or_insert((place, 0)).1 += 1;
    }

    fn tell(self, report: &mut Report) {
        for (what, (place, count)) in self.0 {
            let times = if count == 1 { String::new() } else { format!(", and {} more", count - 1) };
            report.find(Rule::Skipped, place, None, format!("passed over: {what} …{times}"));
        }
    }
}
