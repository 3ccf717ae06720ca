//! `whimbrel run`: a plan file: SQL, Python, or a plan in bytes.

use crate::arguments::{Job, Settings};
use crate::client::Client;
use crate::error::{EXIT_INTERRUPTED, Error, Result};
use crate::interrupt::Interrupts;
use crate::script::run_script;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use whimbrel_plan::{References, Stream};
use whimbrel_session::PlanReferences;
use whimbrel_sql::Planned;

/// Runs a file, as its suffix says.
///
/// # Errors
/// `Usage` if the suffix is none of `.sql`, `.py` and `.plan`, or a program is to be a job; `Program`
/// with the exit code of a Python program; those of [`run_script`].
pub fn run(
    job: &Job,
    file: &Path,
    arguments: &[OsString],
    python: Option<PathBuf>,
    settings: &Settings,
) -> Result {
    let client = || Ok(Client { job: job.settings()?, ..Client::new(settings)? });
    match file.extension().and_then(|suffix| suffix.to_str()) {
        Some("sql") if arguments.is_empty() => run_script(&mut client()?, Some(file)),
        Some("sql") => Err(Error::Usage("a file of statements takes no arguments".into())),
        Some("plan") if arguments.is_empty() => run_plan(file, &mut client()?),
        Some("plan") => Err(Error::Usage("a plan takes no arguments".into())),
        Some("py") if job.checkpoint.is_some() => Err(Error::Usage(
            "a program says itself where its state is kept: stream.run_forever(…, checkpoint=…)".into(),
        )),
        Some("py") => run_program(file, arguments, python.unwrap_or_else(interpreter)),
        _ => Err(Error::Usage(format!(
            "{} is no plan file; its name ends in .sql, .py or .plan",
            file.display()
        ))),
    }
}

/// Runs a plan that `to_bytes` wrote.
fn run_plan(file: &Path, client: &mut Client) -> Result {
    let failed = |error: &dyn std::fmt::Display| Error::Query(format!("{}: {error}", file.display()));
    let bytes = std::fs::read(file).map_err(|error| failed(&error))?;
    let references: Arc<dyn References> = Arc::new(PlanReferences);
    let stream =
        Stream::from_bytes(&bytes, &references).map_err(|error| failed(&whimbrel_sql::render(&error, "")))?;
    client.execute(Planned::Query(stream).into(), "")
}

/// The Python interpreter of the virtual environment, if there is one, else that of the search path.
fn interpreter() -> PathBuf {
    match std::env::var_os("VIRTUAL_ENV") {
        Some(environment) => PathBuf::from(environment).join("bin").join("python3"),
        None => PathBuf::from("python3"),
    }
}

/// Runs a Python program, and passes its exit code on.
fn run_program(file: &Path, arguments: &[OsString], python: PathBuf) -> Result {
    // Ctrl-C reaches the program too, which decides whether to end.
    let interrupts = Interrupts::install();
    let _watch = interrupts.watch();
    let status = Command::new(&python).arg(file).args(arguments).status();
    let status = status.map_err(|error| {
        Error::Query(format!(
            "{} could not be started: {error}; plan files in Python need it, with the package whimbrel installed",
            python.display()
        ))
    })?;
    match exit_code(status) {
        0 => Ok(()),
        code => Err(Error::Program(code)),
    }
}

/// The exit code as shells have it: 128 and the number of the signal that ended the program.
fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(EXIT_INTERRUPTED);
    }
    status.code().map_or(EXIT_INTERRUPTED, |code| u8::try_from(code).unwrap_or(u8::MAX))
}
