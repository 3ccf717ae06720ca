//! The report for people: the findings with drawings and fixes, then the bounds of all queries that have one.

use super::text::{fixes, message, summary};
use std::fmt::Write;
use whimbrel_bounded::lint::{Finding, Report};

/// The report.
pub(super) fn format(report: &Report) -> String {
    let mut out = String::new();
    report.findings.iter().for_each(|finding| write_finding(finding, &mut out));
    if !report.queries.is_empty() {
        out.push('\n');
    }
    let width = report.queries.iter().map(|query| query.name.chars().count()).max().unwrap_or(0);
    for query in &report.queries {
        // Writing into a string does not fail.
        let _ = writeln!(out, "{:width$}  {}", query.name, query.says);
    }
    let _ = writeln!(out, "\n{}", summary(report));
    out.trim_start_matches('\n').to_string()
}

/// A finding with its drawing and its fixes.
fn write_finding(finding: &Finding, out: &mut String) {
    let place = &finding.place;
    let level = if finding.rule.is_error() { "error" } else { "note" };
    let (file, line, column) = (&place.file, place.line, place.column);
    let _ = writeln!(out, "{file}:{line}:{column}: {level}: {} [{}]", message(finding), finding.rule.name());
    if !finding.detail.is_empty() {
        out.push('\n');
        finding.detail.lines().for_each(|line| *out += &format!("    {line}\n"));
    }
    *out += &fixes(finding);
    if !finding.detail.is_empty() || !finding.fixes.is_empty() {
        out.push('\n');
    }
}
