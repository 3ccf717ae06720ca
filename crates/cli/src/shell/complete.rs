//! Completion of keywords, functions, tables, columns, files and meta-commands, and the rule that a statement
//! goes on until its semicolon.

use super::keywords::KEYWORDS;
use crate::meta_commands;
use crate::statements::{is_complete, is_meta_command};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use std::collections::BTreeMap;
use whimbrel_sql::Session;

/// The tables of a session and their columns.
#[derive(Default)]
pub struct Names {
    /// The columns of each table, by its name.
    tables: BTreeMap<String, Vec<String>>,
}

impl Names {
    /// The names of a session.
    pub fn of(session: &Session) -> Names {
        let columns = |stream: &whimbrel_plan::Stream| {
            stream.schema().fields().iter().map(|field| field.name().clone()).collect()
        };
        let tables = session.tables().into_iter().map(|(name, stream)| (name, columns(&stream)));
        Names { tables: tables.collect() }
    }
}

/// The helper of the line editor: completes words, and decides when a statement is complete.
#[derive(Default)]
pub struct Assistant {
    /// The tables and columns.
    pub names: Names,
    /// The names of the functions.
    functions: Vec<String>,
    files: FilenameCompleter,
}

impl Assistant {
    /// Completes these functions, and no table yet.
    pub fn new(functions: Vec<String>) -> Assistant {
        Assistant { functions, ..Assistant::default() }
    }

    /// The completions of a word that begins with `start`, in a line that has `before` in front of it.
    fn words(&self, before: &str, start: &str) -> Vec<Pair> {
        if let Some(table) = before.strip_suffix('.') {
            return self.columns_of(last_word(table), start);
        }
        let columns = self.names.tables.values().flatten().map(String::as_str);
        let tables = self.names.tables.keys().map(String::as_str);
        let names = tables.chain(columns).filter(|name| starts_with(name, start)).map(quote_identifier);
        let functions = self.functions.iter().filter(|name| starts_with(name, start));
        let functions = functions.map(|name| in_case_of(start, &format!("{name}(")));
        let keywords = KEYWORDS.iter().filter(|word| starts_with(word, start));
        let keywords = keywords.map(|word| in_case_of(start, word));
        let mut all: Vec<String> = names.chain(keywords).chain(functions).collect();
        let mut seen = std::collections::HashSet::new();
        all.retain(|word| seen.insert(word.clone()));
        pairs(all)
    }

    /// The columns of a table; of all tables, if the name is an alias.
    fn columns_of(&self, table: &str, start: &str) -> Vec<Pair> {
        let all = || self.names.tables.values().flatten().collect::<Vec<_>>();
        let columns = self.names.tables.get(table).map_or_else(all, |columns| columns.iter().collect());
        let mut columns: Vec<String> = columns
            .into_iter()
            .filter(|name| starts_with(name, start))
            .map(|name| quote_identifier(name))
            .collect();
        columns.sort();
        columns.dedup();
        pairs(columns)
    }

    /// The completions of a meta-command or of its argument.
    fn complete_meta_command(&self, line: &str, position: usize) -> rustyline::Result<(usize, Vec<Pair>)> {
        let Some(space) = line[..position].rfind(' ') else {
            let names = meta_commands::names().filter(|name| name.starts_with(&line[..position]));
            return Ok((0, pairs(names.map(str::to_string).collect())));
        };
        match meta_commands::argument_of(&line[..space]) {
            meta_commands::Argument::File => self.files.complete_path(line, position),
            meta_commands::Argument::Table => {
                let start = &line[space + 1..position];
                let tables = self.names.tables.keys().filter(|name| starts_with(name, start));
                Ok((space + 1, pairs(tables.cloned().collect())))
            }
            meta_commands::Argument::OneOf(words) => {
                let start = &line[space + 1..position];
                let words = words.iter().filter(|word| starts_with(word, start));
                Ok((space + 1, pairs(words.map(|word| word.to_string()).collect())))
            }
            meta_commands::Argument::Other => Ok((position, Vec::new())),
        }
    }
}

/// Words as completions.
fn pairs(words: Vec<String>) -> Vec<Pair> {
    words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()
}

/// Whether a word starts so, in upper or lower case.
fn starts_with(word: &str, start: &str) -> bool {
    word.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// The word in upper case, if its start was typed in upper case.
fn in_case_of(start: &str, word: &str) -> String {
    let is_upper =
        start.chars().any(|c| c.is_ascii_uppercase()) && !start.chars().any(|c| c.is_ascii_lowercase());
    if is_upper { word.to_ascii_uppercase() } else { word.to_string() }
}

/// A name as SQL reads it: in quotes where it needs them.
fn quote_identifier(name: &str) -> String {
    let is_identifier = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if is_identifier { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The word at the end of a text.
fn last_word(text: &str) -> &str {
    let at = text.rfind(|c: char| !c.is_alphanumeric() && c != '_');
    at.map_or(text, |at| text[at..].trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_'))
}

/// The place of the quote of the string that the text ends in.
fn open_string(before: &str) -> Option<usize> {
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
        if is_meta_command(line) || line == "." {
            return self.complete_meta_command(line, position);
        }
        if let Some(quote) = open_string(before) {
            let (start, files) = self.files.complete_path(&line[quote..], position - quote)?;
            return Ok((quote + start, files));
        }
        let word = typed_word(before);
        let start = position - word.len();
        if word.is_empty() && !before.ends_with('.') {
            return Ok((position, Vec::new()));
        }
        Ok((start, self.words(&before[..start], word)))
    }
}

/// The start of the word that is being typed.
fn typed_word(before: &str) -> &str {
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
        let is_word = matches!(text.to_ascii_lowercase().as_str(), "exit" | "quit" | "help");
        match is_word || is_meta_command(text) || is_complete(text) {
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
    fn upper_case_stays() {
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
    fn meta_commands_complete_their_arguments() {
        assert_eq!(completed(".ti"), (0, vec![".timer".into()]));
        assert_eq!(completed("\\d fl"), (3, vec!["flights".into()]));
        assert_eq!(completed(".timer o"), (7, vec!["on".into(), "off".into()]));
        assert_eq!(completed(".read Cargo.t").1, ["Cargo.toml"]);
    }
}
