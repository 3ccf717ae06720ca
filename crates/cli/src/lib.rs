//! The command `whimbrel`: from arguments and statements to rows on a terminal or in a file. It connects
//! other crates: SQL is planned in whimbrel-sql, plans are run in whimbrel-sharded, bounds are proven in
//! whimbrel-bounded.
//!
//! Layers, lowest first:
//! 1. [`error`]: why the command ends early, and its exit codes;
//! 2. `interrupt`: Ctrl-C and SIGTERM; [`output`]: rows as a table, CSV, JSON and so on, and where they go;
//! 3. `arguments`: what the command line says; `runner`: runs one plan;
//! 4. `statements`: splits a text into statements; `client`: runs them one by one;
//! 5. `meta_commands`: lines that are not SQL, such as `.tables`;
//! 6. `script`: files of statements and meta-commands;
//! 7. `shell`: statements from a person; `lint`: the report on the bounds of an application;
//! 8. `subcommand`: the sub-commands, one a file.
//!
//! Start at [`run`]. It is a library because the Python package brings the command too: both call [`run`].

mod arguments;
mod client;
pub mod error;
mod interrupt;
mod lint;
mod meta_commands;
pub mod output;
mod runner;
mod script;
mod shell;
mod statements;
mod subcommand;

use arguments::Arguments;
use clap::Parser;
use error::{EXIT_USAGE, Error};
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use whimbrel_session::functions::wait_for_clean_up;
use whimbrel_sharded::action::remove_partial_files;

/// Runs the command with these arguments, the name of the program first, and returns its exit code. `python`
/// is the interpreter for plan files, if not the one of the environment.
///
/// ```
/// let arguments = ["whimbrel", "sql", "select 6 * 7 as answer"].map(Into::into);
/// assert_eq!(whimbrel_cli::run(arguments, None), 0);
/// ```
pub fn run(arguments: impl IntoIterator<Item = OsString>, python: Option<PathBuf>) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // If the output is closed there is nowhere to report that.
            let _ = error.print();
            return if error.use_stderr() { EXIT_USAGE } else { 0 };
        }
    };
    // The state that a panic left inconsistent is not used again: the command ends.
    let result = catch_unwind(AssertUnwindSafe(|| subcommand::run(arguments, python)));
    // A query that was cancelled may still write on a thread that nobody waits for.
    remove_partial_files();
    wait_for_clean_up();
    match result.unwrap_or_else(|payload| Err(Error::panic(&*payload))) {
        Ok(()) => 0,
        Err(error) => {
            error.print();
            error.exit_code()
        }
    }
}
