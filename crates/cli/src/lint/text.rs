//! The parts of a report that several formats have: messages, fixes and the summary.

use whimbrel_bounded::lint::{Finding, Locked, Report};

/// `thought_stream: nothing limits …`
pub(super) fn message(finding: &Finding) -> String {
    match &finding.query {
        Some(query) => format!("{query}: {}", finding.message),
        None => finding.message.clone(),
    }
}

/// The fixes of a finding as one text.
pub(super) fn fixes(finding: &Finding) -> String {
    let mut out = String::new();
    for (at, fix) in finding.fixes.iter().enumerate() {
        out += &format!("\nfix {}: {}\n", at + 1, fix.title);
        fix.paste.lines().for_each(|line| out += &format!("    {}\n", line.trim_end()));
        out += &format!("    -- {}\n", fix.bound);
    }
    out
}

/// `10 queries have a bound, 1 may run without; 2 findings have to be mended`
pub(super) fn summary(report: &Report) -> String {
    let unbounded =
        report.queries.iter().filter(|query| matches!(query.locked, Locked::Unbounded(_))).count();
    let bounded = report.queries.len() - unbounded;
    let errors = report.findings.iter().filter(|finding| finding.rule.is_error()).count();
    let noun = if bounded == 1 { "query has" } else { "queries have" };
    let mut text = format!("{bounded} {noun} a bound");
    if unbounded > 0 {
        text += &format!(", {unbounded} may run without");
    }
    match errors {
        0 => text,
        1 => format!("{text}; 1 finding has to be mended"),
        errors => format!("{text}; {errors} findings have to be mended"),
    }
}
