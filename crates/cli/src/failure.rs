//! Why the command ends early, and with which exit code.

use datafusion::common::DataFusionError;
use std::fmt::Display;
use std::io::Write;

/// The query failed: exit code.
pub const QUERY: u8 = 1;
/// The command was called in a wrong way: exit code.
pub const USAGE: u8 = 2;
/// Ctrl-C: exit code, 128 and the signal's number, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Why the command ends early.
#[derive(Debug)]
pub enum Failure {
    /// It was called in a wrong way.
    Usage(String),
    /// A statement failed: what, and where.
    Query(String),
    /// Somebody pressed Ctrl-C.
    Interrupted,
    /// Whoever read the output went away, as `head` does: nobody has to be told.
    Closed,
    /// What was checked has to be mended, and that was said.
    Found,
    /// A program that was run ended with this code, and has said why.
    Program(u8),
}

/// A result, or why there is none.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// An error of a statement, with its place in the text.
    pub fn of(error: &DataFusionError, sql: &str) -> Failure {
        Failure::Query(whimbrel_sql::render(error, sql))
    }

    /// What happened outside of any statement.
    pub fn io(what: impl Display, error: &std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::Query(format!("{what}: {error}")),
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => USAGE,
            Failure::Query(_) | Failure::Found => QUERY,
            Failure::Interrupted => INTERRUPTED,
            Failure::Closed => 0,
            Failure::Program(code) => *code,
        }
    }

    /// Says it on standard error.
    pub fn tell(&self) {
        match self {
            Failure::Usage(text) | Failure::Query(text) => say(&format!("error: {text}")),
            Failure::Interrupted => say("interrupted"),
            Failure::Closed | Failure::Found | Failure::Program(_) => {}
        }
    }
}

/// A line on standard error.
pub(crate) fn say(text: &str) {
    // If nobody hears it there is nobody to tell that.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
