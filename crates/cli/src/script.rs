//! Runs scripts: files of statements and meta-commands, and meta-commands one by one.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::meta_commands::{self, Next};
use crate::statements::{ScriptItem, ScriptReader, for_each_statement};
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

/// Runs a file, or standard input if there is no path. The first error ends the script, and so does `.quit`.
///
/// # Errors
/// `Query` if the file cannot be read; those of [`Client::statement`].
pub fn run_script(client: &mut Client, path: Option<&Path>) -> Result {
    let name = path.map(|path| path.display().to_string());
    let failed = |error: &std::io::Error| Error::io(name.as_deref().unwrap_or("standard input"), error);
    let input: Box<dyn Read> = match path {
        Some(path) => Box::new(File::open(path).map_err(|error| failed(&error))?),
        None => {
            client.stdin.reserve_for_script();
            Box::new(std::io::stdin())
        }
    };
    for item in ScriptReader::new(BufReader::new(input)) {
        match item.map_err(|error| failed(&error))? {
            ScriptItem::MetaCommand(line) => {
                if run_meta_command(client, &line)?.is_break() {
                    break;
                }
            }
            ScriptItem::Statements { text, line } => {
                for_each_statement(&text, name.as_deref(), line, |sql| client.statement(sql))?;
            }
        }
    }
    Ok(())
}

/// Runs a meta-command; `Break` ends the shell or the script.
///
/// # Errors
/// `Query` if there is no such command; those of the statements that it runs.
pub fn run_meta_command(client: &mut Client, line: &str) -> Result<ControlFlow<()>> {
    match meta_commands::run(client, line)? {
        Next::Continue => Ok(ControlFlow::Continue(())),
        Next::Quit => Ok(ControlFlow::Break(())),
        Next::ReadScript(path) => run_script(client, Some(&path)).map(ControlFlow::Continue),
    }
}
