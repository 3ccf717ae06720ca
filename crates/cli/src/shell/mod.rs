//! The shell: reads statements and meta-commands from a person.
//!
//! A statement may have several lines; it runs once its semicolon was read. Ctrl-C cancels the running query,
//! or the statement that is being typed, and never the shell. Ctrl-D ends the shell.

mod complete;
mod history;
mod keywords;

use crate::client::Client;
use crate::error::{Error, Result, print_message};
use crate::script::run_meta_command;
use crate::statements::{for_each_statement, is_meta_command};
use complete::{Assistant, Names};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use std::ops::ControlFlow;

/// The prompt of the first line of a statement.
const PROMPT: &str = "whimbrel> ";

/// The most entries that the history keeps.
const HISTORY_ENTRIES: usize = 10_000;

/// Reads and runs until the person ends the shell.
///
/// # Errors
/// `Query` if the terminal cannot be read. The errors of statements are printed, and the shell goes on.
pub fn run(client: &mut Client) -> Result {
    client.interactive = true;
    let mut editor = editor(client.session.sql.functions()).map_err(|error| terminal_error(&error))?;
    let history = history::path();
    if let Some(path) = &history {
        // The file does not exist before the first use.
        let _ = editor.load_history(path);
    }
    print_message(&format!(
        "whimbrel {}; a statement ends with a semicolon, .help lists commands, Ctrl-D leaves",
        env!("CARGO_PKG_VERSION")
    ));
    loop {
        if let Some(assistant) = editor.helper_mut() {
            assistant.names = Names::of(&client.session.sql);
        }
        let text = match editor.readline(PROMPT) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(terminal_error(&error)),
        };
        add_to_history(&mut editor, &text, history.as_deref());
        match run_input(client, &text) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(()),
            Err(error) => error.print(),
        }
    }
}

/// The line editor.
fn editor(functions: Vec<String>) -> rustyline::Result<Editor<Assistant, DefaultHistory>> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(HISTORY_ENTRIES)?
        .history_ignore_space(true)
        .tab_stop(4)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Assistant::new(functions)));
    Ok(editor)
}

/// The error of a terminal that cannot be read.
fn terminal_error(error: &ReadlineError) -> Error {
    Error::Query(format!("the terminal cannot be read: {error}"))
}

/// Adds what was typed to the history and to its file.
fn add_to_history(
    editor: &mut Editor<Assistant, DefaultHistory>,
    text: &str,
    path: Option<&std::path::Path>,
) {
    // The shell works without a history if the file cannot be written.
    let is_new = editor.add_history_entry(text.trim_end()).unwrap_or(false);
    if let (true, Some(path)) = (is_new, path) {
        let _ = editor.append_history(path);
    }
}

/// Runs what was typed: a meta-command, `exit`, `help`, or statements.
fn run_input(client: &mut Client, text: &str) -> Result<ControlFlow<()>> {
    let line = text.trim();
    if is_meta_command(line) {
        return run_meta_command(client, line);
    }
    if matches!(line.trim_end_matches(';').trim_end().to_ascii_lowercase().as_str(), "exit" | "quit") {
        return Ok(ControlFlow::Break(()));
    }
    if line.eq_ignore_ascii_case("help") {
        return run_meta_command(client, ".help");
    }
    for_each_statement(text, None, 1, |sql| client.statement(sql)).map(ControlFlow::Continue)
}
