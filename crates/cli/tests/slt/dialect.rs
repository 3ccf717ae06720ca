//! What other projects write into their files, as the parser of the `sqllogictest` crate wants it.
//!
//! Invariant: lines are changed and never added or taken away, so that places in the file stay right. What
//! the parser has no word for becomes a `subtest` (it ends a file, or is a loop), a comment (it does not
//! concern us), or a comment that begins with [`MESSAGE`] (the message of an error).

use std::collections::{HashMap, HashSet};
use std::iter::Peekable;
use std::str::Lines;

/// Begins a comment that is the message of the error before it.
pub const MESSAGE: &str = "!message ";
/// Begins the name of a subtest that is a directive of ours, its words between [`BETWEEN`].
pub const DIRECTIVE: &str = "\u{1}";
/// Between the words of a directive.
pub const BETWEEN: char = '\u{2}';

/// A file, put into words that the parser knows.
#[derive(Debug, Default)]
pub struct Text {
    pub text: String,
    /// The lines of queries whose answer is not given.
    pub unanswered: HashSet<u32>,
    /// The connections that the records in these lines are for, if it is not the first.
    pub connections: HashMap<u32, String>,
    /// Whether values are written as SQLite does.
    pub sqlite: bool,
    /// Records that cannot be run here.
    pub skipped: usize,
}

/// How the rows of an answer may be sorted; another word in this place is a connection.
const SORTS: &[&str] = &["nosort", "rowsort", "valuesort", "retry"];

/// What DuckDB's `require` may ask for that is there, or does not matter.
const PRESENT: &[&str] = &[
    "parquet",
    "json",
    "icu",
    "core_functions",
    "vector_size",
    "skip_reload",
    "noforcestorage",
    "nothreadsan",
    "no_alternative_verify",
    "no_vector_verification",
    "notwindows",
    "notmingw",
    "notmusl",
    "64bit",
    "longdouble",
    "block_size",
];

/// What files call us.
pub const ENGINE: &str = "whimbrel";

/// How the names of settings begin that are ours too.
const SETTINGS: &[&str] = &["shard", "default_null_order", "timezone", "datafusion."];

/// Words that begin a record or a directive, for telling where a message of an error ends.
const BEGINNINGS: &[&str] = &[
    "statement",
    "query",
    "halt",
    "include",
    "subtest",
    "sleep",
    "skipif",
    "onlyif",
    "connection",
    "system",
    "control",
    "hash-threshold",
    "let",
    "loop",
    "foreach",
    "endloop",
    "require",
    "mode",
    "load",
    "restart",
    "concurrentloop",
    "concurrentforeach",
    "require-env",
    "reconnect",
    "unzip",
    "set",
    "reset",
    "tags",
];

/// Puts a file into the parser's words.
pub fn translate(script: &str) -> Text {
    let lines = script.lines().peekable();
    let mut translation = Translation { lines, out: Text::default(), number: 0, conditions: Vec::new() };
    // SQLite's own files, and those made by its generator, say after how many values an answer is hashed.
    translation.out.sqlite = script.lines().any(|line| line.starts_with("hash-threshold"));
    while let Some(line) = translation.next() {
        translation.line(line);
    }
    translation.out
}

/// Whether a statement sets what only another engine has.
fn sets_other(sql: &str) -> bool {
    let words: Vec<String> = sql.split([' ', '=', ';']).map(str::to_ascii_lowercase).collect();
    let Some((first, rest)) = words.split_first() else { return false };
    let name = rest.iter().find(|word| !matches!(word.as_str(), "" | "global" | "session" | "local"));
    let ours = |name: &String| SETTINGS.iter().any(|setting| name.starts_with(setting));
    matches!(first.as_str(), "pragma" | "set" | "reset") && !name.is_some_and(ours)
}

/// The connection that a record is for, as DuckDB writes it: behind what is expected.
fn connection<'a>(words: &[&'a str]) -> Option<&'a str> {
    match words {
        ["statement", "ok" | "maybe", name, ..] => Some(*name).filter(|name| !name.starts_with('#')),
        ["statement", "error", name] if name.starts_with("con") => Some(*name),
        ["query", _, name, ..] => Some(*name).filter(|name| !SORTS.contains(name) && !name.starts_with('#')),
        _ => None,
    }
}

struct Translation<'a> {
    lines: Peekable<Lines<'a>>,
    out: Text,
    number: u32,
    /// The conditions of what comes next: where the line of each is in the text, and whether it holds.
    conditions: Vec<(usize, bool)>,
}

impl<'a> Translation<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.number += 1;
        self.lines.next().map(str::trim_end)
    }

    fn put(&mut self, line: &str) {
        self.out.text += line;
        self.out.text.push('\n');
    }

    /// A line that begins a record, or stands for itself.
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => self.put(""),
            [first, ..] if first.starts_with('#') => self.put(&format!("#{}", &line.trim_start()[1..])),
            ["statement", "ok" | "OK", ..] if self.lines.peek().is_some_and(|sql| sets_other(sql)) => {
                self.skip_block();
            }
            ["statement", "OK", ..] => self.record(&["statement", "ok"], "statement ok"),
            ["statement", "ok" | "count" | "error", ..] | ["query", ..] => self.record(&words, line),
            [word @ ("skipif" | "onlyif"), label, ..] => {
                self.conditions.push((self.out.text.len(), (*label == ENGINE) == (*word == "onlyif")));
                self.put(&format!("{word} {label}"));
            }
            ["halt" | "include" | "subtest" | "control" | "connection" | "hash-threshold", ..] => {
                let holds = self.without_conditions();
                self.put(if holds { line } else { "#" });
            }
            ["let", ..] => self.block(line),
            ["mode", "skip", ..] => self.skip_mode(),
            ["require", what, ..] if PRESENT.contains(what) => self.put("#"),
            ["require" | "require-env" | "test-env", ..] => match self.without_conditions() {
                true => self.directive(&["end"]),
                false => self.put("#"),
            },
            ["loop" | "foreach" | "concurrentloop" | "concurrentforeach" | "endloop", ..] => {
                self.directive(&words)
            }
            [
                "mode" | "load" | "restart" | "reconnect" | "set" | "reset" | "unzip" | "tags" | "sleep",
                ..,
            ] => {
                self.put("#");
            }
            _ => self.skip_block(),
        }
    }

    /// Whether all conditions hold that stand before a line that is no record. The parser keeps conditions
    /// for the next record, whatever is between; so they become comments.
    fn without_conditions(&mut self) -> bool {
        let conditions = std::mem::take(&mut self.conditions);
        if let Some((start, _)) = conditions.first() {
            let lines = self.out.text[*start..].matches('\n').count();
            self.out.text.truncate(*start);
            (0..lines).for_each(|_| self.put("#"));
        }
        conditions.iter().all(|(_, holds)| *holds)
    }

    fn directive(&mut self, words: &[&str]) {
        self.put(&format!("subtest {DIRECTIVE}{}", words.join(&BETWEEN.to_string())));
    }

    /// A statement or a query, to the empty line after it.
    fn record(&mut self, words: &[&str], line: &str) {
        self.conditions.clear();
        let line_number = self.number;
        let fails = words.get(1) == Some(&"error");
        if let Some(connection) = connection(words) {
            self.out.connections.insert(line_number, connection.to_string());
        }
        match words {
            ["query", types, ..] if !fails => {
                let kept = words.iter().skip(2).take_while(|word| !word.starts_with('#')).take(2);
                let unnamed = |word: &&str| *word != "retry" && Some(*word) != connection(words);
                let kept: Vec<&str> = kept.copied().filter(unnamed).collect();
                self.put(&format!("query {types} {}", kept.join(" ")));
            }
            ["statement", "error", label, ..] if connection(words) == Some(label) => {
                self.put("statement error")
            }
            ["statement", "ok", ..] => self.put("statement ok"),
            _ => self.put(line),
        }
        let mut answered = false;
        while let Some(line) = self.next() {
            if line.is_empty() {
                self.put("");
                break;
            }
            if line.trim() == "----" && !answered {
                answered = true;
                if fails {
                    self.put("");
                    self.message();
                    break;
                }
                self.put("----");
                continue;
            }
            self.put(line);
        }
        if words[0] == "query" && !answered && !fails {
            self.out.unanswered.insert(line_number);
        }
    }

    /// The message under a statement that fails: to an empty line, after which something else begins.
    fn message(&mut self) {
        while let Some(line) = self.next() {
            if line.is_empty() {
                self.put("#");
                let next = self.lines.peek().map_or("", |line| line.trim());
                let first = next.split_whitespace().next().unwrap_or("#");
                if first.starts_with('#') || BEGINNINGS.contains(&first) {
                    break;
                }
            } else {
                self.put(&format!("#{MESSAGE}{line}"));
            }
        }
        // Comments are one until something that is none.
    }

    fn block(&mut self, line: &str) {
        self.put(line);
        while let Some(line) = self.next() {
            self.put(line);
            if line.is_empty() {
                break;
            }
        }
    }

    /// What is not for us: programs to run, and words of projects that we do not know.
    fn skip_block(&mut self) {
        self.without_conditions();
        self.out.skipped += 1;
        self.put("#");
        while let Some(line) = self.next() {
            self.put(if line.is_empty() { "" } else { "#" });
            if line.is_empty() {
                break;
            }
        }
    }

    fn skip_mode(&mut self) {
        self.put("#");
        while let Some(line) = self.next() {
            self.put("#");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["mode", "unskip", ..] => return,
                ["statement" | "query", ..] => self.out.skipped += 1,
                _ => {}
            }
        }
    }
}
