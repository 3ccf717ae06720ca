//! What was found, in SARIF 2.1.0 (OASIS), the format that code hosts and editors show as annotations.

use super::{fixes, message};
use serde_json::{Value, json};
use whimbrel_bounded::lint::{Finding, RULES, Report, Rule};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

pub(super) fn tell(report: &Report) -> String {
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "whimbrel lint",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": RULES.map(rule),
            }},
            "columnKind": "unicodeCodePoints",
            "results": report.findings.iter().map(result).collect::<Vec<_>>(),
        }],
    });
    format!("{log:#}\n")
}

fn level(rule: Rule) -> &'static str {
    if rule.is_error() { "error" } else { "note" }
}

fn rule(rule: Rule) -> Value {
    json!({
        "id": rule.name(),
        "shortDescription": { "text": rule.describe() },
        "defaultConfiguration": { "level": level(rule) },
    })
}

fn result(finding: &Finding) -> Value {
    let place = &finding.place;
    let text = format!("{}\n{}", message(finding), fixes(finding));
    // The same query is the same finding, wherever it has moved to.
    let identity = format!("{}:{}", finding.rule.name(), finding.query.as_deref().unwrap_or(&place.file));
    json!({
        "ruleId": finding.rule.name(),
        "ruleIndex": RULES.iter().position(|rule| *rule == finding.rule),
        "level": level(finding.rule),
        "message": { "text": text.trim_end() },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": uri(&place.file) },
            "region": {
                "startLine": place.line,
                "startColumn": place.column,
                "endLine": place.end_line,
                "endColumn": place.end_column,
            },
        }}],
        "partialFingerprints": { "whimbrelQuery/v1": identity },
    })
}

/// A path as a relative reference.
fn uri(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let path = path.strip_prefix("./").unwrap_or(path).replace('\\', "/");
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
