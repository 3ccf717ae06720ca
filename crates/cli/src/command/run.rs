//! `whimbrel run`: a plan file, SQL or Python.

use super::script;
use crate::arguments::Settings;
use crate::client::Client;
use crate::failure::{Failure, INTERRUPTED, Outcome};
use crate::interrupt::Interrupts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Runs a file by its suffix.
pub fn run(file: &Path, arguments: &[OsString], python: Option<PathBuf>, settings: &Settings) -> Outcome {
    match file.extension().and_then(|suffix| suffix.to_str()) {
        Some("sql") if arguments.is_empty() => script(&mut Client::new(settings), Some(file)),
        Some("sql") => Err(Failure::Usage("a file of statements takes no arguments".into())),
        Some("py") => program(file, arguments, python.unwrap_or_else(interpreter)),
        _ => Err(Failure::Usage(format!("{} is no plan file; its name ends in .sql or .py", file.display()))),
    }
}

/// The Python of the environment: that of the virtual one, if there is one.
fn interpreter() -> PathBuf {
    match std::env::var_os("VIRTUAL_ENV") {
        Some(environment) => PathBuf::from(environment).join("bin").join("python3"),
        None => PathBuf::from("python3"),
    }
}

fn program(file: &Path, arguments: &[OsString], python: PathBuf) -> Outcome {
    // Ctrl-C reaches the program too; it is the one to end.
    let interrupts = Interrupts::listen();
    let _watch = interrupts.watch();
    let status = Command::new(&python).arg(file).args(arguments).status();
    let status = status.map_err(|error| {
        Failure::Query(format!(
            "{} could not be started: {error}; plan files in Python need it, with the package whimbrel installed",
            python.display()
        ))
    })?;
    match code(status) {
        0 => Ok(()),
        code => Err(Failure::Program(code)),
    }
}

/// The exit code as shells have it: 128 and the signal's number, where a signal ended it.
fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(INTERRUPTED);
    }
    status.code().map_or(INTERRUPTED, |code| u8::try_from(code).unwrap_or(u8::MAX))
}
