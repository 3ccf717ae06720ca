//! What was found and what every query costs, for programs.

use serde_json::{Value, json};
use whimbrel_bounded::lint::{Checked, Finding, Locked, Place, Report};

pub(super) fn tell(report: &Report) -> String {
    let all = json!({
        "failed": report.failed(),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "queries": report.queries.iter().map(query).collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}

fn place(place: &Place) -> Value {
    json!({
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
    })
}

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

fn query(query: &Checked) -> Value {
    let bound = match &query.locked {
        Locked::Bounded(measures) => json!(measures),
        Locked::Unbounded(reason) => json!({ "unbounded": reason }),
    };
    json!({ "name": query.name, "place": place(&query.place), "bound": bound })
}
