//! `whimbrel completions`: what makes a shell complete the arguments.

use crate::arguments::Arguments;
use crate::failure::Outcome;
use crate::output::Target;
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints a shell's script.
pub fn run(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "whimbrel", &mut script);
    Target::new(None).text(&String::from_utf8_lossy(&script))
}
