//! The report as JSON: the findings, and the bound of every query.

use serde_json::{Value, json};
use whimbrel_bounded::lint::{Checked, Finding, Locked, Place, Report};

/// The report.
pub(super) fn format(report: &Report) -> String {
    let report = json!({
        "failed": report.failed(),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "queries": report.queries.iter().map(query).collect::<Vec<_>>(),
    });
    format!("{report:#}\n")
}

/// The place of a finding or of a query.
fn place(place: &Place) -> Value {
    json!({
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
    })
}

/// A finding with its fixes.
fn finding(finding: &Finding) -> Value {
    let fixes = finding.fixes.iter().map(|fix| {
        json!({
            "title": fix.title,
            "paste": fix.paste,
            "changes_schema": fix.changes_schema,
            "bound": fix.bound.to_string(),
        })
    });
    json!({
        "rule": finding.rule.name(),
        "error": finding.rule.is_error(),
        "place": place(&finding.place),
        "query": finding.query,
        "message": finding.message,
        "detail": finding.detail,
        "fixes": fixes.collect::<Vec<_>>(),
    })
}

/// A query with its bound, or the reason why it may run without.
fn query(query: &Checked) -> Value {
    let bound = match &query.locked {
        Locked::Bounded(measures) => json!(measures),
        Locked::Unbounded(reason) => json!({ "unbounded": reason }),
    };
    json!({ "name": query.name, "place": place(&query.place), "bound": bound })
}
