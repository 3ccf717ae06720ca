//! What was found, as the workflow commands of GitHub Actions: each becomes an annotation at its line.

use super::{fixes, message};
use whimbrel_bounded::lint::{Finding, Report};

pub(super) fn tell(report: &Report) -> String {
    report.findings.iter().map(one).collect()
}

fn one(finding: &Finding) -> String {
    let place = &finding.place;
    let level = if finding.rule.is_error() { "error" } else { "notice" };
    // A column range is taken only within one line.
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

/// The text of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
