//! Why the command ends early, with its exit code and its message.

use datafusion::common::DataFusionError;
use std::any::Any;
use std::fmt::Display;
use std::io::Write;

/// Exit code: a query failed.
pub const EXIT_QUERY: u8 = 1;
/// Exit code: the command was called in a wrong way.
pub const EXIT_USAGE: u8 = 2;
/// Exit code: Ctrl-C. Shells use 128 and the number of the signal.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Why the command ends early.
#[derive(Debug)]
pub enum Error {
    /// The command was called in a wrong way.
    Usage(String),
    /// A statement failed. The message has its place in the text.
    Query(String),
    /// Ctrl-C was pressed.
    Interrupted,
    /// The reader of the output closed it, as `head` does. This is no failure, and has no message.
    OutputClosed,
    /// `lint` found an error, and has printed it.
    Findings,
    /// A program ended with this exit code, and has printed its message.
    Program(u8),
}

/// The result of a step of the command.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of a statement, with its place in the text.
    pub fn in_statement(error: &DataFusionError, sql: &str) -> Error {
        Error::Query(whimbrel_sql::render(error, sql))
    }

    /// An error of input or output outside of any statement. `what` names the file.
    pub fn io(what: impl Display, error: &std::io::Error) -> Error {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Error::OutputClosed,
            _ => Error::Query(format!("{what}: {error}")),
        }
    }

    /// A panic, which is a bug of the engine.
    pub fn panic(payload: &(dyn Any + Send)) -> Error {
        let message = whimbrel_session::panic::message(payload);
        Error::Query(format!("{message}. This is a bug in Whimbrel: please report it"))
    }

    /// The exit code of the command.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => EXIT_USAGE,
            Error::Query(_) | Error::Findings => EXIT_QUERY,
            Error::Interrupted => EXIT_INTERRUPTED,
            Error::OutputClosed => 0,
            Error::Program(code) => *code,
        }
    }

    /// Prints the message, if there is one, to standard error.
    pub fn print(&self) {
        match self {
            Error::Usage(text) | Error::Query(text) => print_message(&format!("error: {text}")),
            Error::Interrupted => print_message("interrupted"),
            Error::OutputClosed | Error::Findings | Error::Program(_) => {}
        }
    }
}

/// Prints a line to standard error.
pub(crate) fn print_message(text: &str) {
    // If standard error is closed there is nowhere to report that.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_panic_is_reported_as_a_bug() {
        for panic in [catch_unwind(|| panic!("at work")), catch_unwind(|| panic!("at {}", "work"))] {
            let error = Error::panic(&*panic.unwrap_err());
            let Error::Query(text) = &error else { panic!("{error:?}") };
            assert_eq!(text, "the engine panicked: at work. This is a bug in Whimbrel: please report it");
            assert_eq!(error.exit_code(), EXIT_QUERY);
        }
    }
}
