//! `whimbrel lint`: reads files, checks them with whimbrel-bounded, and prints the findings, one file a
//! format.
//!
//! Layers, lowest first: `text`, the parts of all formats; `github`, `human`, `json` and `sarif`, the
//! formats.

mod github;
mod human;
mod json;
mod sarif;
mod text;

use crate::arguments::{FindingFormat, Lint, OutputFormat, Settings};
use crate::error::{Error, Result};
use std::io::Write;
use std::path::Path;
use whimbrel_bounded::lint::{Input, Lock, Source, check};

/// Checks the files and prints the findings.
///
/// # Errors
/// `Findings` if one of them is an error; `Usage` if a file cannot be read or written; `Query` if the schema
/// is wrong.
pub fn run(lint: &Lint, settings: &Settings) -> Result {
    let mut schema = vec![read(&lint.schema)?];
    for file in &lint.limits {
        schema.push(read(file)?);
    }
    let input = Input {
        schema,
        queries: lint.queries.iter().map(|file| read(file)).collect::<Result<_>>()?,
        plain_sql: lint.plain_sql,
        most_values: lint.most_values,
        most_rows: lint.most_rows,
        key_by_key: lint.key_by_key,
        lock: lint.lock.as_deref().filter(|_| !lint.update).map(read_lock).transpose()?,
    };
    let report = check(&input).map_err(|error| Error::Query(error.to_string()))?;
    let format = match lint.format {
        Some(OutputFormat::Findings(format)) => format,
        _ => FindingFormat::Human,
    };
    let text = match format {
        FindingFormat::Human => human::format(&report),
        FindingFormat::Sarif => sarif::format(&report),
        FindingFormat::Github => github::format(&report),
        FindingFormat::Json => json::format(&report),
    };
    match settings.output.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => write(path, &text)?,
        None => std::io::stdout()
            .lock()
            .write_all(text.as_bytes())
            .map_err(|error| Error::io("standard output", &error))?,
    }
    match (&lint.lock, report.failed()) {
        (_, true) => Err(Error::Findings),
        (Some(lock), false) if lint.update => write(lock, &report.lock().to_string()),
        (_, false) => Ok(()),
    }
}

/// Reads a file of statements.
fn read(path: &Path) -> Result<Source> {
    let text = std::fs::read_to_string(path).map_err(|error| file_error(path, &error))?;
    Ok(Source { file: path.display().to_string(), text })
}

/// Reads the lock file.
fn read_lock(path: &Path) -> Result<Lock> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("there is no lock file {}: --update writes it", path.display());
            return Err(Error::Usage(message));
        }
        Err(error) => return Err(file_error(path, &error)),
    };
    Lock::parse(&text).map_err(|error| Error::Usage(format!("{}: {error}", path.display())))
}

/// Writes a file.
fn write(path: &Path, text: &str) -> Result {
    std::fs::write(path, text).map_err(|error| file_error(path, &error))
}

/// The error of a file, which is one of usage: the arguments name it.
fn file_error(path: &Path, error: &std::io::Error) -> Error {
    Error::Usage(format!("{}: {error}", path.display()))
}
