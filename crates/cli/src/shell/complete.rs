//! What helps while one types: completion of keywords, functions, tables, columns, files and commands, and
//! lines that go on until the semicolon.

use super::commands;
use super::words::KEYWORDS;
use crate::script::{is_command, is_complete};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use std::collections::BTreeMap;
use whimbrel_sql::Session;

/// The names that a session knows.
#[derive(Default)]
pub struct Names {
    /// The columns of each table.
    tables: BTreeMap<String, Vec<String>>,
}

impl Names {
    /// Those of this session.
    pub fn of(session: &Session) -> Names {
        let columns = |stream: &whimbrel_plan::Stream| {
            stream.schema().fields().iter().map(|field| field.name().clone()).collect()
        };
        let tables = session.tables().into_iter().map(|(name, stream)| (name, columns(&stream)));
        Names { tables: tables.collect() }
    }
}

/// Completes, and knows when a statement has ended.
#[derive(Default)]
pub struct Assistant {
    /// The names that may be completed.
    pub names: Names,
    /// The functions that may be called.
    functions: Vec<String>,
    files: FilenameCompleter,
}

impl Assistant {
    /// Completes these functions, and no name yet.
    pub fn new(functions: Vec<String>) -> Assistant {
        Assistant { functions, ..Assistant::default() }
    }

    /// What a word that begins like this may become.
    fn words(&self, before: &str, start: &str) -> Vec<Pair> {
        if let Some(table) = before.strip_suffix('.') {
            return self.columns_of(last_word(table), start);
        }
        let columns = self.names.tables.values().flatten().map(String::as_str);
        let tables = self.names.tables.keys().map(String::as_str);
        let names = tables.chain(columns).filter(|name| begins(name, start)).map(quoted);
        let functions = self.functions.iter().filter(|name| begins(name, start));
        let functions = functions.map(|name| like(start, &format!("{name}(")));
        let keywords = KEYWORDS.iter().filter(|word| begins(word, start)).map(|word| like(start, word));
        let mut all: Vec<String> = names.chain(keywords).chain(functions).collect();
        let mut seen = std::collections::HashSet::new();
        all.retain(|word| seen.insert(word.clone()));
        pairs(all)
    }

    /// The columns of this table; of all, if it is another name for one of them.
    fn columns_of(&self, table: &str, start: &str) -> Vec<Pair> {
        let all = || self.names.tables.values().flatten().collect::<Vec<_>>();
        let columns = self.names.tables.get(table).map_or_else(all, |columns| columns.iter().collect());
        let mut columns: Vec<String> =
            columns.into_iter().filter(|name| begins(name, start)).map(|name| quoted(name)).collect();
        columns.sort();
        columns.dedup();
        pairs(columns)
    }

    /// The arguments of a command, or the command itself.
    fn of_command(&self, line: &str, position: usize) -> rustyline::Result<(usize, Vec<Pair>)> {
        let Some(space) = line[..position].rfind(' ') else {
            let known = commands::names().filter(|name| name.starts_with(&line[..position]));
            return Ok((0, pairs(known.map(str::to_string).collect())));
        };
        match commands::takes(&line[..space]) {
            commands::Argument::File => self.files.complete_path(line, position),
            commands::Argument::Table => {
                let start = &line[space + 1..position];
                let tables = self.names.tables.keys().filter(|name| begins(name, start));
                Ok((space + 1, pairs(tables.cloned().collect())))
            }
            commands::Argument::OneOf(words) => {
                let start = &line[space + 1..position];
                let words = words.iter().filter(|word| begins(word, start));
                Ok((space + 1, pairs(words.map(|word| word.to_string()).collect())))
            }
            commands::Argument::Other => Ok((position, Vec::new())),
        }
    }
}

fn pairs(words: Vec<String>) -> Vec<Pair> {
    words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()
}

fn begins(word: &str, start: &str) -> bool {
    word.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// The word in capital letters, if its start was typed so.
fn like(start: &str, word: &str) -> String {
    let capital =
        start.chars().any(|c| c.is_ascii_uppercase()) && !start.chars().any(|c| c.is_ascii_lowercase());
    if capital { word.to_ascii_uppercase() } else { word.to_string() }
}

/// A name as SQL reads it.
fn quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn last_word(text: &str) -> &str {
    let at = text.rfind(|c: char| !c.is_alphanumeric() && c != '_');
    at.map_or(text, |at| text[at..].trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_'))
}

/// Where the string that the cursor is in begins.
fn in_string(before: &str) -> Option<usize> {
    (before.matches('\'').count() % 2 == 1).then(|| before.rfind('\'')).flatten()
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..position];
        if is_command(line) || line == "." {
            return self.of_command(line, position);
        }
        if let Some(quote) = in_string(before) {
            let (start, files) = self.files.complete_path(&line[quote..], position - quote)?;
            return Ok((quote + start, files));
        }
        let word = last_word_before(before);
        let start = position - word.len();
        if word.is_empty() && !before.ends_with('.') {
            return Ok((position, Vec::new()));
        }
        Ok((start, self.words(&before[..start], word)))
    }
}

/// The word that ends at the cursor.
fn last_word_before(before: &str) -> &str {
    let begin = before.rfind(|c: char| !c.is_alphanumeric() && c != '_');
    begin.map_or(before, |at| {
        // A character may have several bytes.
        let after = before[at..].chars().next().map_or(0, char::len_utf8);
        &before[at + after..]
    })
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        let text = context.input().trim();
        let word = matches!(text.to_ascii_lowercase().as_str(), "exit" | "quit" | "help");
        match word || is_command(text) || is_complete(text) {
            true => Ok(ValidationResult::Valid(None)),
            false => Ok(ValidationResult::Incomplete),
        }
    }
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {}

impl Helper for Assistant {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustyline::history::DefaultHistory;

    fn completed(line: &str) -> (usize, Vec<String>) {
        let columns = ["carrier", "dep delay"].map(str::to_string).to_vec();
        let names = Names { tables: BTreeMap::from([("flights".to_string(), columns)]) };
        let functions = vec!["floor".to_string()];
        let assistant = Assistant { names, ..Assistant::new(functions) };
        let history = DefaultHistory::new();
        let (start, pairs) = assistant
            .complete(line, line.len(), &Context::new(&history))
            .expect("nothing but folders can fail to be read");
        (start, pairs.into_iter().map(|pair| pair.replacement).collect())
    }

    #[test]
    fn names_come_before_keywords_and_functions() {
        let (start, words) = completed("select fl");
        assert_eq!(start, 7);
        assert_eq!(words[..2], ["flights", "float"]);
        assert!(words.contains(&"floor(".to_string()), "{words:?}");
    }

    #[test]
    fn capital_letters_stay() {
        assert_eq!(completed("SELEC").1, ["SELECT"]);
    }

    #[test]
    fn columns_follow_a_point() {
        assert_eq!(completed("select flights.ca"), (15, vec!["carrier".into()]));
        assert_eq!(completed("select f."), (9, vec!["\"dep delay\"".into(), "carrier".into()]));
    }

    #[test]
    fn strings_are_files() {
        let (start, files) = completed("select * from 'Cargo.t");
        assert_eq!((start, files), (15, vec!["Cargo.toml".into()]));
    }

    #[test]
    fn commands_know_their_arguments() {
        assert_eq!(completed(".ti"), (0, vec![".timer".into()]));
        assert_eq!(completed("\\d fl"), (3, vec!["flights".into()]));
        assert_eq!(completed(".timer o"), (7, vec!["on".into(), "off".into()]));
        assert_eq!(completed(".read Cargo.t").1, ["Cargo.toml"]);
    }
}
