//! The sub-commands, one a file.

mod bench;
pub mod bounded;
mod completions;
mod explain;
mod program;
mod run;
mod sql;

use crate::arguments::{Arguments, Command, Script, Text};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::script::{Piece, Pieces, each_statement};
use std::fs::File;
use std::io::{BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

/// Does what the arguments say.
pub fn run(arguments: Arguments, python: Option<PathBuf>) -> Outcome {
    let Arguments { command, script, settings } = &arguments;
    if let (Some(_), Script { query: Some(_), .. } | Script { file: Some(_), .. }) = (command, script) {
        return Err(Failure::Usage("-c and -f stand after the sub-command, or without one".into()));
    }
    match command {
        None => sql::run(script.query.as_deref(), script.file.as_deref(), settings),
        Some(Command::Sql { text, as_python: true, .. }) => program::run(text, settings),
        Some(Command::Sql { text, live: true, .. }) => sql::live(text, settings),
        Some(Command::Sql { text, .. }) => sql::run(text.given(), text.script.file.as_deref(), settings),
        Some(Command::Explain { text, candidates: true, .. }) => explain::candidates(text, settings),
        Some(Command::Explain { text, analyze, .. }) => explain::run(text, *analyze, settings),
        Some(Command::Run { file, arguments }) => run::run(file, arguments, python, settings),
        Some(Command::Bench { text, runs, warmup }) => bench::run(text, *runs, *warmup, settings),
        Some(Command::Lint(lint)) => crate::lint::run(lint, settings),
        Some(Command::Bounded(bounded)) => bounded::run(bounded),
        Some(Command::Completions { shell }) => completions::run(*shell),
    }
}

/// All statements, for commands that do not read them from a person; and the name of their file.
fn whole(text: &Text) -> Outcome<(String, Option<String>)> {
    if let Some(given) = text.given() {
        return Ok((given.to_string(), None));
    }
    let mut all = String::new();
    let file = text.script.file.as_deref();
    match file.filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            all = std::fs::read_to_string(path).map_err(|error| Failure::io(path.display(), &error))?;
            return Ok((all, Some(path.display().to_string())));
        }
        None if file.is_none() && std::io::stdin().is_terminal() => {
            return Err(Failure::Usage(
                "there is no query; give it as an argument, or a file with -f".into(),
            ));
        }
        None => std::io::stdin().read_to_string(&mut all),
    }
    .map_err(|error| Failure::io("standard input", &error))?;
    Ok((all, None))
}

/// Runs what stands in a file, statements and commands; in standard input, if there is no path.
pub fn script(client: &mut Client, path: Option<&Path>) -> Outcome {
    let name = path.map(|path| path.display().to_string());
    let failed = |error: &std::io::Error| Failure::io(name.as_deref().unwrap_or("standard input"), error);
    let input: Box<dyn Read> = match path {
        Some(path) => Box::new(File::open(path).map_err(|error| failed(&error))?),
        None => {
            client.stdin.has_statements();
            Box::new(std::io::stdin())
        }
    };
    for piece in Pieces::new(BufReader::new(input)) {
        match piece.map_err(|error| failed(&error))? {
            Piece::Command(line) => {
                if crate::shell::command(client, &line)?.is_break() {
                    break;
                }
            }
            Piece::Statements { text, line } => {
                each_statement(&text, name.as_deref(), line, |sql| client.statement(sql))?;
            }
        }
    }
    Ok(())
}
