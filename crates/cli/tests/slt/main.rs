//! SQL logic tests: files of statements and queries with their answers, run on every runtime there is.
//!
//!     cargo test --release -p whimbrel-cli --test slt                      # tests/slt, on every runtime
//!     cargo test --release -p whimbrel-cli --test slt -- FILE|FOLDER …     # any other files
//!     cargo test --release -p whimbrel-cli --test slt -- --help
//!
//! Layers, bottom up:
//! 1. `dialect`: what other projects write into their files, as the parser of the `sqllogictest` crate wants
//!    it;
//! 2. `script`: a file as records to run, loops unrolled;
//! 3. `values`: Arrow values as the text that stands in such files;
//! 4. `database`: a session, and the runtime that runs what it plans;
//! 5. `compare`: whether an answer is the expected one;
//! 6. `run`: a script on a database, and what became of each record.
//!
//! A file of another project passes if every record that is meant for us passes; its messages of errors are
//! its own, so only that there is an error is looked at. Ours have to be as they stand in the file.

mod arguments;
mod compare;
mod database;
mod dialect;
mod run;
mod script;
mod values;

use arguments::Arguments;
use run::Outcome;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => return ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let files: Vec<PathBuf> =
        match arguments.paths.iter().map(|path| files(path)).collect::<Result<Vec<_>, _>>() {
            Ok(files) => files.into_iter().flatten().collect(),
            Err(message) => {
                eprintln!("{message}");
                return ExitCode::from(2);
            }
        };
    let mut total = Outcome::default();
    for file in &files {
        total += run_file(file, &arguments);
    }
    println!("{} files: {total}", files.len());
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a file on each runtime that was asked for; prints what failed, and a line about the file.
fn run_file(file: &Path, arguments: &Arguments) -> Outcome {
    let mut total = Outcome::default();
    let script = match script::read(file) {
        Ok(script) => script,
        Err(message) => {
            println!("{}: {message}", file.display());
            total.failed += 1;
            return total;
        }
    };
    for place in &arguments.places {
        let (outcome, failures) = run::run(&script, *place, arguments.strict);
        for failure in failures.iter().take(arguments.failures_max) {
            println!("{failure}\n");
        }
        if failures.len() > arguments.failures_max {
            println!("… and {} more\n", failures.len() - arguments.failures_max);
        }
        if !arguments.quiet || outcome.failed > 0 {
            println!("{} on {place}: {outcome}", file.display());
        }
        total += outcome;
    }
    total
}

/// The file, or all of a folder and its folders, in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut inside = Vec::new();
    for entry in entries {
        inside.push(entry.map_err(|e| format!("{}: {e}", path.display()))?.path());
    }
    inside.sort();
    let mut found = Vec::new();
    for path in inside {
        let suffix = path.extension().and_then(|s| s.to_str());
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if matches!(suffix, Some("slt" | "test" | "test_slow" | "sqllogictest")) {
            found.push(path);
        }
    }
    Ok(found)
}
