//! `whimbrel sql`: a query, a file, standard input, or the shell.

use super::script;
use crate::arguments::Settings;
use crate::client::Client;
use crate::failure::Outcome;
use crate::script::each_statement;
use crate::shell;
use std::io::IsTerminal;
use std::path::Path;

/// Runs statements from where they are.
pub fn run(query: Option<&str>, file: Option<&Path>, settings: &Settings) -> Outcome {
    let mut client = Client::new(settings);
    if let Some(query) = query {
        return each_statement(query, None, 1, |sql| client.statement(sql));
    }
    match file {
        Some(path) if path.as_os_str() != "-" => script(&mut client, Some(path)),
        None if std::io::stdin().is_terminal() => shell::run(&mut client),
        _ => script(&mut client, None),
    }
}
