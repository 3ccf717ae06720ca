//! `whimbrel completions`: the completion script of a shell.

use crate::arguments::Arguments;
use crate::error::Result;
use crate::output::Target;
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints the script.
///
/// # Errors
/// `Query` if standard output cannot be written; `OutputClosed`.
pub fn run(shell: Shell) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "whimbrel", &mut script);
    Target::new(None).write_text(&String::from_utf8_lossy(&script))
}
