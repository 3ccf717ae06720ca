//! Why the command ends early, and with which exit code.

use datafusion::common::DataFusionError;
use std::any::Any;
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

    /// A panic: it is our bug.
    pub fn panicked(panic: &(dyn Any + Send)) -> Failure {
        Failure::Query(format!("{}. This is a bug in Whimbrel: please report it", said(panic)))
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

/// What a panic says.
pub(crate) fn said(panic: &(dyn Any + Send)) -> String {
    let what = panic.downcast_ref::<String>().map(String::as_str);
    let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("the engine panicked: {what}")
}

/// A line on standard error.
pub(crate) fn say(text: &str) {
    // If nobody hears it there is nobody to tell that.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_panic_is_said_to_be_a_bug() {
        for panic in [catch_unwind(|| panic!("at work")), catch_unwind(|| panic!("at {}", "work"))] {
            let failure = Failure::panicked(&*panic.unwrap_err());
            let Failure::Query(text) = &failure else { panic!("{failure:?}") };
            assert_eq!(text, "the engine panicked: at work. This is a bug in Whimbrel: please report it");
            assert_eq!(failure.code(), QUERY);
        }
    }
}
