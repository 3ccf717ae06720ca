//! Where the statements of a sub-command are.

use clap::Args;
use std::path::PathBuf;

/// One or more statements: as an argument, in a file, or from standard input.
#[derive(Debug, Args)]
pub struct Statements {
    /// One or more statements, separated by semicolons.
    #[arg(conflicts_with_all = ["query", "file"], value_name = "QUERY")]
    pub text: Option<String>,
    /// The statements, by options.
    #[command(flatten)]
    pub script: Script,
}

/// One or more statements, by options.
#[derive(Debug, Args)]
pub struct Script {
    /// One or more statements, as other programs take them.
    #[arg(short = 'c', long = "command", value_name = "QUERY", conflicts_with = "file")]
    pub query: Option<String>,
    /// A file of statements; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

impl Statements {
    /// The statements, if they are an argument.
    pub fn inline(&self) -> Option<&str> {
        self.text.as_deref().or(self.script.query.as_deref())
    }
}
