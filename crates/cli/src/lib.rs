//! The `whimbrel` command: from arguments and statements to rows on a terminal or in a file. Wiring only: SQL is
//! planned by whimbrel-sql and run by whimbrel-sharded; bounds are found by whimbrel-bounded.
//!
//! Layers, bottom up:
//! 1. [`allocator`]; [`failure`]: why it ends, and with which exit code; `interrupt`: Ctrl-C and SIGTERM;
//! 2. `output`: rows as a table, CSV, JSON and so on, and where they go;
//! 3. `files`: opens what a statement names; `live`: standard input as a table; `query`: runs one plan, with
//!    `progress`;
//! 4. `client`: a session, and statements one by one; `script`: a text cut into them;
//! 5. `shell`: reads them from a person;
//! 6. `lint`: what the compiler of bounded queries finds in files, in the forms of people and of machines;
//! 7. `arguments` and `command`: one file a sub-command.
//!
//! Start at [`run`].
//!
//! It is a library because the Python package brings the command too: both call [`run`].

pub mod allocator;
mod arguments;
mod client;
mod command;
pub mod failure;
pub mod files;
mod interrupt;
mod lint;
mod live;
pub mod output;
pub mod progress;
mod query;
mod script;
mod shell;

use arguments::Arguments;
use clap::Parser;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use whimbrel_sharded::action::remove_partial_files;

/// Runs the command with these arguments, the program's name first; the exit code. `python` is the interpreter
/// for plan files, if not the one of the environment.
pub fn run(arguments: impl IntoIterator<Item = OsString>, python: Option<PathBuf>) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // There is nobody to tell if the terminal is gone.
            let _ = error.print();
            return if error.use_stderr() { failure::USAGE } else { 0 };
        }
    };
    // What a panic left half done is not looked at any more: the command ends.
    let ran = catch_unwind(AssertUnwindSafe(|| command::run(arguments, python)));
    // A query that was stopped may still write on a thread that nobody waits for.
    remove_partial_files();
    match ran.unwrap_or_else(|panic| Err(failure::Failure::panicked(&*panic))) {
        Ok(()) => 0,
        Err(failure) => {
            failure.tell();
            failure.code()
        }
    }
}
