//! What was found, for people: findings with their drawings and fixes, then the bounds of all that have one.

use super::{fixes, message, summary};
use std::fmt::Write;
use whimbrel_bounded::lint::{Finding, Report};

pub(super) fn tell(report: &Report) -> String {
    let mut out = String::new();
    report.findings.iter().for_each(|finding| one(finding, &mut out));
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

fn one(finding: &Finding, out: &mut String) {
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
