//! `whimbrel sql`: a query, a file, standard input, or the shell.

use super::input;
use crate::arguments::{Settings, Statements};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::script::run_script;
use crate::shell;
use crate::statements::for_each_statement;
use std::io::IsTerminal;
use std::path::Path;
use whimbrel_plan::Stream;
use whimbrel_session::stdin::NAME;

/// Runs statements over standard input, a table that grows.
///
/// # Errors
/// `Usage` if the statements are to come from standard input too; those of [`Client::statement`].
pub fn run_live(statements: &Statements, settings: &Settings) -> Result {
    let file = statements.script.file.as_deref();
    let from_stdin = file.is_some_and(|path| path.as_os_str() == "-");
    if from_stdin || (statements.inline().is_none() && file.is_none()) {
        let message = "with --live standard input has rows; give the query as an argument, or a file with -f";
        return Err(Error::Usage(message.into()));
    }
    let (text, file) = input::read(statements)?;
    let mut client = Client::new(settings)?;
    let rows = client.stdin.open(None, None).and_then(|rows| Stream::scan(NAME, rows));
    let registered = rows.and_then(|rows| client.session.sql.register(NAME, rows));
    registered.map_err(|error| Error::in_statement(&error, &text))?;
    for_each_statement(&text, file.as_deref(), 1, |sql| client.statement(sql))
}

/// Runs a query, a file, or standard input. A terminal gets the shell.
///
/// # Errors
/// Those of [`Client::statement`]; `Query` if the file cannot be read.
pub fn run(query: Option<&str>, file: Option<&Path>, settings: &Settings) -> Result {
    let mut client = Client::new(settings)?;
    if let Some(query) = query {
        return for_each_statement(query, None, 1, |sql| client.statement(sql));
    }
    match file {
        Some(path) if path.as_os_str() != "-" => run_script(&mut client, Some(path)),
        None if std::io::stdin().is_terminal() => {
            client.stdin.reserve_for_script();
            shell::run(&mut client)
        }
        _ => run_script(&mut client, None),
    }
}
