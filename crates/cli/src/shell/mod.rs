//! The shell: reads statements and commands from a person until they leave.
//!
//! A statement may have several lines; it runs when its semicolon was read. Ctrl-C cancels the running query,
//! or what is being typed, and never the shell; Ctrl-D leaves.

mod commands;
mod complete;
mod history;
mod words;

pub use commands::command;

use crate::client::Client;
use crate::failure::{Failure, Outcome, say};
use crate::script::{each_statement, is_command};
use complete::{Assistant, Names};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use std::ops::ControlFlow;

const PROMPT: &str = "whimbrel> ";

/// Reads and runs until the person leaves.
pub fn run(client: &mut Client) -> Outcome {
    client.chatty = true;
    let mut editor = editor(client.session.functions()).map_err(|error| broken(&error))?;
    let history = history::path();
    if let Some(path) = &history {
        // There is none before the first time.
        let _ = editor.load_history(path);
    }
    say(&format!(
        "whimbrel {}; a statement ends with a semicolon, .help lists commands, Ctrl-D leaves",
        env!("CARGO_PKG_VERSION")
    ));
    loop {
        if let Some(assistant) = editor.helper_mut() {
            assistant.names = Names::of(&client.session);
        }
        let text = match editor.readline(PROMPT) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(broken(&error)),
        };
        remember(&mut editor, &text, history.as_deref());
        match react(client, &text) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(()),
            Err(failure) => failure.tell(),
        }
    }
}

fn editor(functions: Vec<String>) -> rustyline::Result<Editor<Assistant, DefaultHistory>> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(10_000)?
        .history_ignore_space(true)
        .tab_stop(4)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Assistant::new(functions)));
    Ok(editor)
}

fn broken(error: &ReadlineError) -> Failure {
    Failure::Query(format!("the terminal cannot be read: {error}"))
}

fn remember(editor: &mut Editor<Assistant, DefaultHistory>, text: &str, path: Option<&std::path::Path>) {
    let text = text.trim_end();
    // A history that cannot be kept is no reason to stop working.
    let kept = editor.add_history_entry(text).unwrap_or(false);
    if let (true, Some(path)) = (kept, path) {
        let _ = editor.append_history(path);
    }
}

/// Does what was typed.
fn react(client: &mut Client, text: &str) -> Outcome<ControlFlow<()>> {
    let line = text.trim();
    if is_command(line) {
        return command(client, line);
    }
    if matches!(line.trim_end_matches(';').trim_end().to_ascii_lowercase().as_str(), "exit" | "quit") {
        return Ok(ControlFlow::Break(()));
    }
    if line.eq_ignore_ascii_case("help") {
        return command(client, ".help");
    }
    each_statement(text, None, 1, |sql| client.statement(sql)).map(ControlFlow::Continue)
}
