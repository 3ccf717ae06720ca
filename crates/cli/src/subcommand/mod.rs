//! The sub-commands, one a file. `lint` has a folder of its own beside this one.

mod as_python;
mod bench;
mod bounded;
mod cluster;
mod completions;
mod explain;
mod input;
mod run;
mod sql;
mod worker;

use crate::arguments::{Arguments, Command, Script};
use crate::error::{Error, Result};
use std::path::PathBuf;

/// Runs the sub-command. `python` is the interpreter for plan files, if not the one of the environment.
///
/// # Errors
/// `Usage` if the arguments do not fit together; those of the sub-command.
pub fn run(arguments: Arguments, python: Option<PathBuf>) -> Result {
    let Arguments { command, script, settings } = &arguments;
    if let (Some(_), Script { query: Some(_), .. } | Script { file: Some(_), .. }) = (command, script) {
        return Err(Error::Usage("-c and -f stand after the sub-command, or without one".into()));
    }
    match command {
        None => sql::run(script.query.as_deref(), script.file.as_deref(), settings),
        Some(Command::Sql { statements, as_python: true, .. }) => as_python::run(statements, settings),
        Some(Command::Sql { statements, live: true, .. }) => sql::run_live(statements, settings),
        Some(Command::Sql { statements, .. }) => {
            sql::run(statements.inline(), statements.script.file.as_deref(), settings)
        }
        Some(Command::Explain { statements, candidates: true, .. }) => {
            explain::candidates(statements, settings)
        }
        Some(Command::Explain { statements, analyze, .. }) => explain::run(statements, *analyze, settings),
        Some(Command::Run { job, file, arguments }) => run::run(job, file, arguments, python, settings),
        Some(Command::Bench { statements, runs, warmup }) => bench::run(statements, *runs, *warmup, settings),
        Some(Command::Lint(lint)) => crate::lint::run(lint, settings),
        Some(Command::Bounded(bounded)) => bounded::run(bounded),
        Some(Command::Worker(worker)) => worker::run(worker, settings),
        Some(Command::Function) => match whimbrel_session::functions::serve() {
            Ok(never) => match never {},
            Err(error) => Err(Error::Query(error.message().into_owned())),
        },
        Some(Command::Cluster(cluster)) => cluster::run(cluster),
        Some(Command::Completions { shell }) => completions::run(*shell),
    }
}
