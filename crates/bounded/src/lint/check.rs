//! Every query of an application compiled over its schema, and compared with the lock file.

use super::lock::{Difference, Lock, Locked};
use super::postgres;
use super::report::{Checked, Input, Report, Rule, Skipped};
use crate::database::{Compiled, Database};
use crate::error::{Error, Result};
use crate::store::{MemoryStore, RedisStore};
use crate::syntax::{Place, Source, Statement, split};
use std::collections::BTreeMap;

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
        true => postgres::database(store, &input.schema, input.most_values, &mut report)?,
        false => whimbrel_database(store, &input.schema, &mut report)?,
    };
    // Behind a schema of ours that is not whole every query would be wrong; one of others is never wholly
    // understood.
    if input.plain_sql || !report.failed() {
        let statements = input
            .queries
            .iter()
            .flat_map(|source| split(&source.text).into_iter().map(move |statement| (source, statement)));
        let statements: Vec<(&Source, Statement<'_>)> = statements.collect();
        if !input.plain_sql {
            // What a write costs depends on the indexes that all queries together need.
            statements.iter().try_for_each(|(source, statement)| {
                make_indexes(&database, source, statement, &mut report)
            })?;
        }
        check_names(&statements, &mut report);
        statements
            .iter()
            .for_each(|(source, statement)| check_query(&database, source, statement, input, &mut report));
        if let Some(lock) = &input.lock {
            compare(lock, input, &mut report);
        }
    }
    report.findings.sort_by(|a, b| (&a.place, a.rule).cmp(&(&b.place, b.rule)));
    Ok(report)
}

/// A database in memory with this schema, made by its own statements.
fn whimbrel_database(store: MemoryStore, schema: &[Source], report: &mut Report) -> Result<Database> {
    let database = Database::open(store)?;
    let mut skipped = Skipped::default();
    for source in schema {
        for statement in split(&source.text) {
            match statement.first_words(1).as_str() {
                "insert" | "upsert" | "update" | "delete" | "select" => skipped.add(source, &statement, 1),
                _ => {
                    if let Err(error) = database.execute(statement.text, &[]) {
                        report.add_error(Rule::InvalidSchema, source, &statement, None, error);
                    }
                }
            }
        }
    }
    skipped.report(report);
    Ok(database)
}

/// What a statement is called.
fn name_of(statement: &Statement<'_>, place: &Place) -> String {
    let noted = statement.annotation("name:").and_then(|noted| noted.split_whitespace().next());
    noted.map_or_else(|| format!("{}:{}", place.file, place.line), str::to_string)
}

/// Finds names that two queries have.
fn check_names(statements: &[(&Source, Statement<'_>)], report: &mut Report) {
    let mut first: BTreeMap<String, Place> = BTreeMap::new();
    for (source, statement) in statements {
        let place = source.place(statement.span.clone());
        let name = name_of(statement, &place);
        match first.get(&name) {
            Some(first) => {
                let message = format!("{}:{} has a query {name:?} already", first.file, first.line);
                report.add(Rule::DuplicateName, place, Some(name), message);
            }
            None => {
                first.insert(name, place);
            }
        }
    }
}

/// Makes the indexes that a statement needs, as `prepare` will.
fn make_indexes(
    database: &Database,
    source: &Source,
    statement: &Statement<'_>,
    report: &mut Report,
) -> Result<()> {
    // What is wrong with it is said later.
    let Ok(compiled) = database.compile(statement.text) else { return Ok(()) };
    let place = source.place(statement.span.clone());
    for index in missing_indexes(database, &compiled)? {
        let message = format!("{index} is made when it is prepared");
        report.add(Rule::NewIndex, place.clone(), Some(name_of(statement, &place)), message);
    }
    database.engine.make_indexes(&compiled)
}

/// The indexes that a query needs and that are not there.
fn missing_indexes(database: &Database, compiled: &Compiled) -> Result<Vec<String>> {
    let schema = database.schema();
    let indexes = compiled.plan.new_indexes.iter();
    indexes
        .map(|(table, index)| Ok(format!("create index on {}", index.describe(schema.table(table)?))))
        .collect()
}

/// Compiles one statement.
fn check_query(
    database: &Database,
    source: &Source,
    statement: &Statement<'_>,
    input: &Input,
    report: &mut Report,
) {
    // Nobody has said how long arrays can be.
    let open_arrays = input.plain_sql && input.most_values.is_none();
    let place = source.place(statement.span.clone());
    let name = name_of(statement, &place);
    // PostgreSQL has no words for it: there it stands in a comment.
    let mut text = statement.text.to_string();
    if let Some(reason) = statement.annotation("allow unbounded ") {
        text += &format!(" allow unbounded {reason}");
    }
    if let Some(most) = most_rows(statement, input) {
        text += &format!(" at most {most}");
    }
    let compiled = match database.compile(&text) {
        Ok(compiled) => compiled,
        Err(error) => {
            let unbounded = matches!(error, Error::Unbounded(_));
            report.add_error(Rule::InvalidQuery, source, statement, Some(name), error);
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
    for index in missing_indexes(database, &compiled).unwrap_or_default() {
        let message = format!("reads more than it returns without an index: {index}");
        report.add(Rule::MissingIndex, place.clone(), Some(name.clone()), message);
    }
    if let Some(reason) = &compiled.plan.allowed {
        report.add(
            Rule::AllowedUnbounded,
            place.clone(),
            Some(name.clone()),
            format!("may run without a bound: {reason}"),
        );
    }
    let says = compiled.plan.costs();
    report.queries.push(Checked { name, place, locked: measures(&compiled), says });
}

/// The most rows that a query can ask for where it takes their number with the call, if that was promised.
fn most_rows(statement: &Statement<'_>, input: &Input) -> Option<u64> {
    let noted = statement.annotation("limit at most ");
    let noted = noted.and_then(|most| most.trim_end_matches(';').trim_end().parse().ok());
    noted.or(input.most_rows).filter(|_| input.plain_sql)
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
        report.add(rule, query.place, Some(query.name), message);
    }
    let file = input.queries.first().map_or_else(String::new, |source| source.file.clone());
    let refused: Vec<&String> = report.findings.iter().filter_map(|finding| finding.query.as_ref()).collect();
    let there =
        |name: &String| refused.contains(&name) || report.queries.iter().any(|query| query.name == *name);
    let gone: Vec<String> = lock.queries.keys().filter(|name| !there(name)).cloned().collect();
    for name in gone {
        let place = Place { file: file.clone(), line: 1, column: 1, end_line: 1, end_column: 1 };
        report.add(Rule::Gone, place, Some(name), "is in the lock file and nowhere else".to_string());
    }
}
