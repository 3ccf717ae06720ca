//! Findings in SARIF 2.1.0 (OASIS), which code hosts and editors show as annotations.

use super::text::{fixes, message};
use serde_json::{Value, json};
use whimbrel_bounded::lint::{Finding, RULES, Report, Rule};

/// The JSON schema of the format.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The report.
pub(super) fn format(report: &Report) -> String {
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

/// The level of a rule in SARIF.
fn level(rule: Rule) -> &'static str {
    if rule.is_error() { "error" } else { "note" }
}

/// A rule, as the tool declares it.
fn rule(rule: Rule) -> Value {
    json!({
        "id": rule.name(),
        "shortDescription": { "text": rule.describe() },
        "defaultConfiguration": { "level": level(rule) },
    })
}

/// A finding.
fn result(finding: &Finding) -> Value {
    let place = &finding.place;
    let text = format!("{}\n{}", message(finding), fixes(finding));
    // A finding keeps its fingerprint when its query moves within a file.
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

/// A path as a relative URI reference.
fn uri(path: &str) -> String {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let path = path.strip_prefix("./").unwrap_or(path).replace('\\', "/");
    path.bytes()
        .map(|byte| if is_unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
