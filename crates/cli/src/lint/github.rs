//! Findings as workflow commands of GitHub Actions, which shows them as annotations of their lines.

use super::text::{fixes, message};
use whimbrel_bounded::lint::{Finding, Report};

/// The report: a workflow command a line.
pub(super) fn format(report: &Report) -> String {
    report.findings.iter().map(command).collect()
}

/// The workflow command of a finding.
fn command(finding: &Finding) -> String {
    let place = &finding.place;
    let level = if finding.rule.is_error() { "error" } else { "notice" };
    // GitHub accepts a range of columns only within one line.
    let columns = match place.line == place.end_line {
        true => format!(",col={},endColumn={}", place.column, place.end_column),
        false => String::new(),
    };
    format!(
        "::{level} file={},line={},endLine={}{columns},title={}::{}\n",
        property(&place.file),
        place.line,
        place.end_line,
        property(&format!("whimbrel lint: {}", finding.rule.name())),
        data(format!("{}\n{}", message(finding), fixes(finding)).trim_end()),
    )
}

/// Escapes the message of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
