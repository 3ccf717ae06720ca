//! Lengths of time as SQL writes them: `5 seconds`.

use whimbrel_plan::Duration;

/// `5 seconds`, `5s`, or on a logical clock `5`.
pub(crate) fn duration(text: &str) -> Duration {
    match text.trim().parse() {
        Ok(ticks) => Duration::Ticks(ticks),
        Err(_) => Duration::Text(short(text)),
    }
}

/// `5 seconds` as `5s`: the plan's durations have short units.
fn short(text: &str) -> String {
    /// The units of SQL and those of durations.
    const UNITS: [(&str, &str); 22] = [
        ("nanoseconds", "ns"),
        ("nanosecond", "ns"),
        ("microseconds", "us"),
        ("microsecond", "us"),
        ("milliseconds", "ms"),
        ("millisecond", "ms"),
        ("seconds", "s"),
        ("second", "s"),
        ("minutes", "m"),
        ("minute", "m"),
        ("hours", "h"),
        ("hour", "h"),
        ("days", "d"),
        ("day", "d"),
        ("weeks", "w"),
        ("week", "w"),
        ("months", "mo"),
        ("month", "mo"),
        ("quarters", "q"),
        ("quarter", "q"),
        ("years", "y"),
        ("year", "y"),
    ];
    let words = text.split_whitespace().map(|word| {
        UNITS.iter().find(|(long, _)| word.eq_ignore_ascii_case(long)).map_or(word, |(_, short)| short)
    });
    words.collect()
}
