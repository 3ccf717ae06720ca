//! A text cut into statements and commands as it is read, line by line: a statement runs once its semicolon
//! was read, so that a program at the other end of a pipe may wait for its rows.

use crate::failure::{Failure, Outcome};
use std::io::BufRead;
use whimbrel_sql::Session;

/// A piece of a script.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// A line that begins with `\` or `.` where a statement could begin.
    Command(String),
    /// Statements, and the line on which the text begins.
    Statements {
        /// The text.
        text: String,
        /// Its first line, counted from one.
        line: usize,
    },
}

/// The pieces of a script.
pub struct Pieces<R> {
    lines: R,
    line: usize,
}

impl<R: BufRead> Pieces<R> {
    /// The pieces of what is read here.
    pub fn new(lines: R) -> Pieces<R> {
        Pieces { lines, line: 0 }
    }
}

impl<R: BufRead> Iterator for Pieces<R> {
    type Item = std::io::Result<Piece>;

    fn next(&mut self) -> Option<std::io::Result<Piece>> {
        let mut text = String::new();
        let first = self.line + 1;
        loop {
            let before = text.len();
            match self.lines.read_line(&mut text) {
                Err(error) => return Some(Err(error)),
                Ok(0) if text.trim().is_empty() => return None,
                Ok(0) => return Some(Ok(Piece::Statements { text, line: first })),
                Ok(_) => self.line += 1,
            }
            let added = text[before..].trim();
            if is_command(added) && text[..before].trim().is_empty() {
                return Some(Ok(Piece::Command(added.to_string())));
            }
            if added.contains(';') && is_complete(&text) {
                return Some(Ok(Piece::Statements { text, line: first }));
            }
        }
    }
}

/// Whether a line is a command of the shell and not of SQL.
pub fn is_command(line: &str) -> bool {
    line.starts_with('\\')
        || line.starts_with('.') && line[1..].starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Whether the last statement of a text has its semicolon, or there is none at all.
pub fn is_complete(text: &str) -> bool {
    // A word behind it is a statement of its own then, and no part of a string, a comment or a statement.
    let with_word = format!("{text}\nend_of_text");
    let statements = Session::split(&with_word).unwrap_or_default();
    statements.last().is_some_and(|last| last.text == "end_of_text")
}

/// Calls back with each statement of a text. A failure says where the statement stands, if `name` is given:
/// the name of the file that the text is from.
pub fn each_statement(
    text: &str,
    name: Option<&str>,
    first_line: usize,
    mut run: impl FnMut(&str) -> Outcome,
) -> Outcome {
    let statements =
        Session::split(text).map_err(|error| placed(Failure::of(&error, text), name, first_line))?;
    for statement in statements {
        let line = first_line + text[..statement.span.start].matches('\n').count();
        run(statement.text).map_err(|failure| placed(failure, name, line))?;
    }
    Ok(())
}

fn placed(failure: Failure, name: Option<&str>, line: usize) -> Failure {
    match (failure, name) {
        (Failure::Query(text), Some(name)) => Failure::Query(format!("{name}:{line}: {text}")),
        (failure, _) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<Piece> {
        Pieces::new(text.as_bytes()).map(|piece| piece.expect("the text is in memory")).collect()
    }

    fn statements(text: &str, line: usize) -> Piece {
        Piece::Statements { text: text.into(), line }
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
    fn a_script_is_cut_into_statements_and_commands() {
        let text = "select\n  ';\n' ;\n\n.mode csv\n\\d\nselect 1; select 2;\nselect 3\n";
        let expected = [
            statements("select\n  ';\n' ;\n", 1),
            // The empty line is nobody's.
            Piece::Command(".mode csv".into()),
            Piece::Command("\\d".into()),
            statements("select 1; select 2;\n", 7),
            statements("select 3\n", 8),
        ];
        assert_eq!(pieces(text), expected);
        assert_eq!(pieces("select\n.5;"), [statements("select\n.5;", 1)]);
    }

    #[test]
    fn a_failure_says_its_line() {
        let run = |sql: &str| match sql {
            "b" => Err(Failure::Query("wrong".into())),
            _ => Ok(()),
        };
        let failed = each_statement("a;\n\nb; c", Some("x.sql"), 5, run);
        assert!(matches!(failed, Err(Failure::Query(text)) if text == "x.sql:7: wrong"));
    }
}
