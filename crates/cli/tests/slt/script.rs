//! A file as records to run: put into the parser's words, parsed, its includes and loops unrolled.

use crate::dialect::{BETWEEN, DIRECTIVE, MESSAGE, translate};
use sqllogictest::{
    Connection, DefaultColumnType, ExpectedError, QueryExpect, Record, StatementExpect, parse_with_name,
};
use std::path::Path;

type Parsed = Record<DefaultColumnType>;

/// The most records that loops may make of a file.
const UNROLLED_MAX: usize = 200_000;

/// Something to run.
#[derive(Debug, Clone)]
pub struct Step {
    pub record: Parsed,
    /// What the message of the error has to hold.
    pub message: Option<String>,
    /// Whether the file says what the answer is.
    pub answered: bool,
    /// The connection that it is for, if its line says one.
    pub connection: Option<String>,
}

/// A file.
#[derive(Debug)]
pub struct Script {
    pub steps: Vec<Step>,
    /// Whether values are written as SQLite does.
    pub sqlite: bool,
    /// Records that cannot be run here.
    pub skipped: usize,
}

/// Reads a file, and those that it includes.
pub fn read(path: &Path) -> Result<Script, String> {
    let mut script = Script { steps: Vec::new(), sqlite: false, skipped: 0 };
    let steps = steps(path, &mut script, 0)?;
    let mut out = Vec::new();
    unrolled(&steps, &[], &mut out)?;
    script.steps = out;
    Ok(script)
}

/// The records of a file, loops not yet unrolled.
fn steps(path: &Path, script: &mut Script, depth: usize) -> Result<Vec<Step>, String> {
    if depth > 10 {
        return Err("files include each other in a circle".to_string());
    }
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let text = translate(&String::from_utf8_lossy(&bytes));
    script.sqlite |= text.sqlite;
    script.skipped += text.skipped;
    let name = path.display().to_string();
    let records = parse_with_name::<DefaultColumnType>(&text.text, name).map_err(|e| e.to_string())?;
    let mut steps: Vec<Step> = Vec::new();
    for record in records {
        match &record {
            Record::Include { filename, .. } => {
                let included = path.parent().unwrap_or(Path::new("")).join(filename);
                steps.extend(self::steps(&included, script, depth + 1)?);
            }
            Record::Comment(lines) => {
                let message: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix(MESSAGE)).collect();
                if let (false, Some(last)) = (message.is_empty(), steps.last_mut()) {
                    last.message = Some(message.join("\n"));
                }
            }
            Record::Newline => {}
            Record::Query { loc, .. } | Record::Statement { loc, .. } => {
                let answered = !text.unanswered.contains(&loc.line());
                let connection = text.connections.get(&loc.line()).cloned();
                steps.push(Step { record, message: None, answered, connection });
            }
            _ => steps.push(Step { record, message: None, answered: true, connection: None }),
        }
    }
    Ok(steps)
}

/// Names and the values that they have in this turn of a loop.
type Variables = [(String, String)];

/// Adds the steps with loops unrolled; whether the file ends among them, after which nothing follows.
fn unrolled(steps: &[Step], variables: &Variables, out: &mut Vec<Step>) -> Result<bool, String> {
    let mut at = 0;
    while at < steps.len() {
        let step = &steps[at];
        at += 1;
        let directive = match &step.record {
            Record::Halt { .. } => return Ok(true),
            Record::Subtest { name, .. } => name.strip_prefix(DIRECTIVE),
            _ => None,
        };
        let Some(directive) = directive else {
            out.push(substituted(step, variables));
            continue;
        };
        let directive = put(directive, variables);
        let words: Vec<&str> = directive.split(BETWEEN).collect();
        match words.as_slice() {
            ["end"] => return Ok(true),
            ["loop" | "concurrentloop", name, first, last] => {
                let number = |text: &str| text.parse::<i64>().map_err(|_| format!("loop {name}: {text:?}"));
                let turns = number(first)?..number(last)?;
                let values: Vec<String> = turns.map(|turn| turn.to_string()).collect();
                let Some(length) = each(&steps[at..], variables, name, &values, out)? else {
                    return Ok(true);
                };
                at += length;
            }
            ["foreach" | "concurrentforeach", name, values @ ..] => {
                let values = without_excluded(values);
                let Some(length) = each(&steps[at..], variables, name, &values, out)? else {
                    return Ok(true);
                };
                at += length;
            }
            _ => {}
        }
    }
    Ok(false)
}

/// Adds the body of a loop for each value; how many steps the loop has, none if the file ends in it.
fn each(
    steps: &[Step],
    variables: &Variables,
    name: &str,
    values: &[String],
    out: &mut Vec<Step>,
) -> Result<Option<usize>, String> {
    let end = loop_end(steps)?;
    let names: Vec<&str> = name.split(',').collect();
    for value in values {
        let parts: Vec<&str> = if names.len() > 1 { value.split(',').collect() } else { vec![value] };
        if parts.len() != names.len() {
            return Err(format!("foreach {name}: {value:?} is not {} values", names.len()));
        }
        let mut inner = variables.to_vec();
        inner.extend(names.iter().zip(parts).map(|(name, value)| (name.to_string(), value.to_string())));
        if unrolled(&steps[..end], &inner, out)? {
            return Ok(None);
        }
        if out.len() > UNROLLED_MAX {
            return Err(format!("loops make more than {UNROLLED_MAX} records of it"));
        }
    }
    Ok(Some(end + 1))
}

fn loop_end(steps: &[Step]) -> Result<usize, String> {
    let mut depth = 0;
    for (i, step) in steps.iter().enumerate() {
        let Record::Subtest { name, .. } = &step.record else { continue };
        let word = name.strip_prefix(DIRECTIVE).and_then(|words| words.split(BETWEEN).next());
        match word {
            Some("endloop") if depth == 0 => return Ok(i),
            Some("endloop") => depth -= 1,
            Some("loop" | "foreach" | "concurrentloop" | "concurrentforeach") => depth += 1,
            _ => {}
        }
    }
    Err("a loop has no endloop".to_string())
}

/// The values of a `foreach`, without those that an exclamation mark takes out.
fn without_excluded(values: &[&str]) -> Vec<String> {
    let excluded: Vec<String> =
        values.iter().filter_map(|value| value.strip_prefix('!')).flat_map(group).collect();
    let kept = values.iter().filter(|value| !value.starts_with('!')).flat_map(|value| group(value));
    kept.filter(|value| !excluded.contains(value)).collect()
}

/// DuckDB's names for many types at once.
fn group(value: &str) -> Vec<String> {
    let types: &[&str] = match value {
        "<compression>" => &["none"],
        "<signed>" => &["tinyint", "smallint", "integer", "bigint"],
        "<unsigned>" => &["utinyint", "usmallint", "uinteger", "ubigint"],
        "<integral>" => {
            &["tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint"]
        }
        "<numeric>" => &["tinyint", "smallint", "integer", "bigint", "float", "double"],
        "<alltypes>" => &["bool", "tinyint", "smallint", "integer", "bigint", "float", "double", "varchar"],
        value => return vec![value.to_string()],
    };
    types.iter().map(|name| name.to_string()).collect()
}

/// A text with the values of variables, written `${name}` or `{name}`.
fn put(text: &str, variables: &Variables) -> String {
    let mut text = text.to_string();
    for (name, value) in variables {
        text = text.replace(&format!("${{{name}}}"), value).replace(&format!("{{{name}}}"), value);
    }
    text
}

fn substituted(step: &Step, variables: &Variables) -> Step {
    let mut step = step.clone();
    let put = |text: &mut String| *text = self::put(text, variables);
    step.message.iter_mut().for_each(put);
    step.connection.iter_mut().for_each(put);
    match &mut step.record {
        Record::Statement { sql, .. } => put(sql),
        Record::Query { sql, expected, .. } => {
            put(sql);
            if let QueryExpect::Results { results, .. } = expected {
                results.iter_mut().for_each(put);
            }
        }
        _ => {}
    }
    step
}

impl Step {
    /// What is to be run: for its connection, and with the folder where it may write.
    pub fn record(&self, scratch: &str) -> Parsed {
        let mut record = self.record.clone();
        let here = |text: &mut String| {
            *text = text.replace("__TEST_DIR__", scratch).replace("{TEST_DIR}", scratch);
        };
        match &mut record {
            Record::Statement { sql, connection, .. } | Record::Query { sql, connection, .. } => {
                here(sql);
                if let Some(name) = &self.connection {
                    *connection = Connection::Named(name.clone());
                }
            }
            _ => {}
        }
        record
    }

    /// Whether it has to fail, and with what.
    pub fn error(&self) -> Option<&ExpectedError> {
        match &self.record {
            Record::Statement { expected: StatementExpect::Error(error), .. }
            | Record::Query { expected: QueryExpect::Error(error), .. } => Some(error),
            _ => None,
        }
    }
}
