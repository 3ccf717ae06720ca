//! Forecasts and bills as text for people.

use super::{Forecast, StageForecast};
use crate::bill::{AttemptKind, AttemptOutcome, Bill};

/// What a query is expected to take: a line for each stage, and one for all of them. With a bill, what has
/// happened is beside it.
pub fn forecast_text(forecast: &Forecast, bill: Option<&Bill>) -> String {
    let mut text = String::from("on functions");
    if let Some(memory) = forecast.memory {
        text.push_str(&format!(" of {memory} MB"));
    }
    if forecast.runs_here {
        text.push_str(": it reads so little that it runs in this process");
    }
    text.push('\n');
    for (number, stage) in forecast.stages.iter().enumerate() {
        text.push_str(&stage_text(number, stage));
        if let Some((start, end)) = bill.and_then(|bill| span(bill, number)) {
            text.push_str(&format!(" | was {start:.2} to {end:.2} s"));
        }
        text.push('\n');
    }
    let Forecast { seconds, dollars, usage, .. } = forecast;
    text.push_str(&format!(
        "  expected: {seconds:.2} s, ${dollars:.6}, {} invocations, {} GETs, {} PUTs, {:.2} GB-s\n",
        usage.invocations, usage.gets, usage.puts, usage.gb_seconds
    ));
    for (pool, seconds, dollars) in &forecast.alone {
        text.push_str(&format!("  {} pool alone: {seconds:.2} s, ${dollars:.6}\n", pool.name()));
    }
    if let Some(bill) = bill {
        text.push_str(&format!("  happened: {:.2} s, {bill}\n", bill.elapsed.as_secs_f64()));
    }
    text
}

fn stage_text(number: usize, stage: &StageForecast) -> String {
    let StageForecast { tasks, combines, bytes: [source, input, output], objects, usage, span, .. } = stage;
    let combining = if *combines > 0 { format!(" + {combines} that combine") } else { String::new() };
    format!(
        "  stage {number}: {tasks} tasks{combining}, {objects:.0} objects, reads {}, hands out {}, {} GETs, \
         {} PUTs, {:.2} to {:.2} s",
        bytes_text(source + input),
        bytes_text(*output),
        usage.gets,
        usage.puts,
        span.0,
        span.1
    )
}

/// When the tasks of a stage ran that ended, in seconds.
fn span(bill: &Bill, stage: usize) -> Option<(f64, f64)> {
    let attempts = bill.finished.attempts.iter().filter(|attempt| {
        attempt.stage == stage
            && attempt.kind == AttemptKind::Task
            && attempt.outcome == AttemptOutcome::Ended
    });
    let spans = attempts.map(|attempt| (attempt.start.as_secs_f64(), attempt.end.as_secs_f64()));
    spans.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
}

fn bytes_text(mut count: f64) -> String {
    for unit in ["bytes", "kB", "MB", "GB"] {
        if count < 1000.0 {
            return format!("{count:.0} {unit}");
        }
        count /= 1000.0;
    }
    format!("{count:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::bytes_text;

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes_text(999.0), "999 bytes");
        assert_eq!(bytes_text(1.5e6), "2 MB");
        assert_eq!(bytes_text(2.25e12), "2.2 TB");
    }
}
