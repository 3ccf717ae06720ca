//! `whimbrel lint`: reads files, lets whimbrel-bounded look at them, and tells what it found, one file a form.

mod github;
mod human;
mod json;
mod sarif;

use crate::arguments::{Form, Lint, Settings};
use crate::failure::{Failure, Outcome};
use clap::ValueEnum;
use std::io::Write;
use std::path::Path;
use whimbrel_bounded::lint::{Input, Lock, Report, Source, check};

/// The form of what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: what is wrong, drawn, and what to write instead.
    Human,
    /// SARIF 2.1.0, as code hosts and editors take it.
    Sarif,
    /// Annotations of GitHub Actions.
    Github,
    /// Everything, for programs.
    Json,
}

/// Checks the files.
pub fn run(lint: &Lint, settings: &Settings) -> Outcome {
    let mut schema = vec![read(&lint.schema)?];
    for file in &lint.limits {
        schema.push(read(file)?);
    }
    let input = Input {
        schema,
        queries: lint.queries.iter().map(|file| read(file)).collect::<Outcome<_>>()?,
        plain_sql: lint.plain_sql,
        most_values: lint.most_values,
        most_rows: lint.most_rows,
        key_by_key: lint.key_by_key,
        lock: lint.lock.as_deref().filter(|_| !lint.update).map(locked).transpose()?,
    };
    let report = check(&input).map_err(|error| Failure::Query(error.to_string()))?;
    let format = match lint.format {
        Some(Form::Findings(format)) => format,
        _ => Format::Human,
    };
    let told = match format {
        Format::Human => human::tell(&report),
        Format::Sarif => sarif::tell(&report),
        Format::Github => github::tell(&report),
        Format::Json => json::tell(&report),
    };
    match settings.output.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => write(path, &told)?,
        None => std::io::stdout()
            .lock()
            .write_all(told.as_bytes())
            .map_err(|error| Failure::io("standard output", &error))?,
    }
    match (&lint.lock, report.failed()) {
        (_, true) => Err(Failure::Found),
        (Some(lock), false) if lint.update => write(lock, &report.lock().to_string()),
        (_, false) => Ok(()),
    }
}

fn read(path: &Path) -> Outcome<Source> {
    let text = std::fs::read_to_string(path).map_err(|error| usage(path, &error))?;
    Ok(Source { file: path.display().to_string(), text })
}

fn locked(path: &Path) -> Outcome<Lock> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let said = format!("there is no lock file {}: --update writes it", path.display());
            return Err(Failure::Usage(said));
        }
        Err(error) => return Err(usage(path, &error)),
    };
    Lock::parse(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

fn write(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, text).map_err(|error| usage(path, &error))
}

fn usage(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Usage(format!("{}: {error}", path.display()))
}

/// `thought_stream: nothing limits …`
fn message(finding: &whimbrel_bounded::lint::Finding) -> String {
    match &finding.query {
        Some(query) => format!("{query}: {}", finding.message),
        None => finding.message.clone(),
    }
}

/// What to write, as one text.
fn fixes(finding: &whimbrel_bounded::lint::Finding) -> String {
    let mut out = String::new();
    for (at, fix) in finding.fixes.iter().enumerate() {
        out += &format!("\nfix {}: {}\n", at + 1, fix.title);
        fix.paste.lines().for_each(|line| out += &format!("    {}\n", line.trim_end()));
        out += &format!("    -- {}\n", fix.bound);
    }
    out
}

/// `12 queries: 10 have a bound, 1 may run without`
fn summary(report: &Report) -> String {
    use whimbrel_bounded::lint::Locked;
    let allowed = report.queries.iter().filter(|query| matches!(query.locked, Locked::Unbounded(_))).count();
    let bounded = report.queries.len() - allowed;
    let errors = report.findings.iter().filter(|finding| finding.rule.is_error()).count();
    let mut said = format!("{bounded} {} a bound", if bounded == 1 { "query has" } else { "queries have" });
    if allowed > 0 {
        said += &format!(", {allowed} may run without");
    }
    match errors {
        0 => said,
        1 => format!("{said}; 1 finding has to be mended"),
        more => format!("{said}; {more} findings have to be mended"),
    }
}
