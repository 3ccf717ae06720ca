//! `whimbrel sql`: a query, a file, standard input, or the shell.

use super::script;
use crate::arguments::{Settings, Text};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::live::NAME;
use crate::script::each_statement;
use crate::shell;
use std::io::IsTerminal;
use std::path::Path;
use whimbrel_plan::Stream;

/// Runs statements over standard input, a table that grows.
pub fn live(text: &Text, settings: &Settings) -> Outcome {
    let from_stdin = text.script.file.as_deref().is_some_and(|path| path.as_os_str() == "-");
    if from_stdin || (text.given().is_none() && text.script.file.is_none()) {
        let text = "with --live standard input has rows; give the query as an argument, or a file with -f";
        return Err(Failure::Usage(text.into()));
    }
    let (statements, name) = super::whole(text)?;
    let mut client = Client::new(settings);
    let rows = client.stdin.rows(None, None).and_then(|rows| Stream::scan(NAME, rows));
    let registered = rows.and_then(|rows| client.session.register(NAME, rows));
    registered.map_err(|error| Failure::of(&error, &statements))?;
    each_statement(&statements, name.as_deref(), 1, |sql| client.statement(sql))
}

/// Runs statements from where they are.
pub fn run(query: Option<&str>, file: Option<&Path>, settings: &Settings) -> Outcome {
    let mut client = Client::new(settings);
    if let Some(query) = query {
        return each_statement(query, None, 1, |sql| client.statement(sql));
    }
    match file {
        Some(path) if path.as_os_str() != "-" => script(&mut client, Some(path)),
        None if std::io::stdin().is_terminal() => {
            client.stdin.has_statements();
            shell::run(&mut client)
        }
        _ => script(&mut client, None),
    }
}
