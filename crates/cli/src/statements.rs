//! Splits a script into statements and meta-commands while it is read, line by line. A statement is returned
//! once its semicolon was read: a program at the other end of a pipe may wait for its rows.

use crate::error::{Error, Result};
use std::io::BufRead;
use whimbrel_sql::Session;

/// A part of a script.
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptItem {
    /// A line that begins with `\` or `.` where a statement could begin.
    MetaCommand(String),
    /// One or more complete statements.
    Statements {
        /// The text.
        text: String,
        /// The number of its first line, counted from one.
        line: usize,
    },
}

/// Reads the parts of a script.
pub struct ScriptReader<R> {
    input: R,
    lines_read: usize,
}

impl<R: BufRead> ScriptReader<R> {
    /// Reads a script from here.
    pub fn new(input: R) -> ScriptReader<R> {
        ScriptReader { input, lines_read: 0 }
    }
}

impl<R: BufRead> Iterator for ScriptReader<R> {
    type Item = std::io::Result<ScriptItem>;

    fn next(&mut self) -> Option<std::io::Result<ScriptItem>> {
        let mut text = String::new();
        let line = self.lines_read + 1;
        loop {
            let before = text.len();
            match self.input.read_line(&mut text) {
                Err(error) => return Some(Err(error)),
                Ok(0) if text.trim().is_empty() => return None,
                Ok(0) => return Some(Ok(ScriptItem::Statements { text, line })),
                Ok(_) => self.lines_read += 1,
            }
            let added = text[before..].trim();
            if is_meta_command(added) && text[..before].trim().is_empty() {
                return Some(Ok(ScriptItem::MetaCommand(added.to_string())));
            }
            if added.contains(';') && is_complete(&text) {
                return Some(Ok(ScriptItem::Statements { text, line }));
            }
        }
    }
}

/// Whether a line is a meta-command, such as `.tables` or `\d`, and not SQL.
pub fn is_meta_command(line: &str) -> bool {
    line.starts_with('\\')
        || line.starts_with('.') && line[1..].starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Whether the last statement of a text has its semicolon, or there is no statement.
pub fn is_complete(text: &str) -> bool {
    // A word after a complete text is a statement of its own, and no part of a string, a comment or a
    // statement.
    let with_word = format!("{text}\nend_of_text");
    let statements = Session::split(&with_word).unwrap_or_default();
    statements.last().is_some_and(|last| last.text == "end_of_text")
}

/// Calls `run` with each statement of a text. An error has the place of its statement if the name of the file
/// is given.
///
/// # Errors
/// `Query` if the text cannot be split; those of `run`. The statements after the error do not run.
pub fn for_each_statement(
    text: &str,
    file: Option<&str>,
    first_line: usize,
    mut run: impl FnMut(&str) -> Result,
) -> Result {
    let statements = Session::split(text)
        .map_err(|error| with_place(Error::in_statement(&error, text), file, first_line))?;
    for statement in statements {
        let line = first_line + text[..statement.span.start].matches('\n').count();
        run(statement.text).map_err(|error| with_place(error, file, line))?;
    }
    Ok(())
}

/// `file.sql:7: message`
fn with_place(error: Error, file: Option<&str>, line: usize) -> Error {
    match (error, file) {
        (Error::Query(text), Some(file)) => Error::Query(format!("{file}:{line}: {text}")),
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Vec<ScriptItem> {
        ScriptReader::new(text.as_bytes()).map(|item| item.expect("the text is in memory")).collect()
    }

    fn statements(text: &str, line: usize) -> ScriptItem {
        ScriptItem::Statements { text: text.into(), line }
    }

    #[test]
    fn a_semicolon_ends_a_statement_unless_it_is_quoted() {
        for text in ["select 1;", "select ';';", "select 1; -- one", "", "-- nothing", "select 1;\n\n", ";"] {
            assert!(is_complete(text), "{text}");
        }
        for text in ["select 1", "select ';", "select 1 -- ;", "select 1 /* ;", "select 1; select 2", "\"a;"]
        {
            assert!(!is_complete(text), "{text}");
        }
    }

    #[test]
    fn a_script_is_split_into_statements_and_meta_commands() {
        let text = "select\n  ';\n' ;\n\n.mode csv\n\\d\nselect 1; select 2;\nselect 3\n";
        let expected = [
            statements("select\n  ';\n' ;\n", 1),
            // The empty line belongs to no item.
            ScriptItem::MetaCommand(".mode csv".into()),
            ScriptItem::MetaCommand("\\d".into()),
            statements("select 1; select 2;\n", 7),
            statements("select 3\n", 8),
        ];
        assert_eq!(items(text), expected);
        assert_eq!(items("select\n.5;"), [statements("select\n.5;", 1)]);
    }

    #[test]
    fn an_error_has_the_line_of_its_statement() {
        let run = |sql: &str| match sql {
            "b" => Err(Error::Query("wrong".into())),
            _ => Ok(()),
        };
        let result = for_each_statement("a;\n\nb; c", Some("x.sql"), 5, run);
        assert!(matches!(result, Err(Error::Query(text)) if text == "x.sql:7: wrong"));
    }
}
