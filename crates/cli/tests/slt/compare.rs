//! Whether an answer is the expected one.
//!
//! Expected answers have a line a row, values between tabs or blanks, or (SQLite's manner, and often
//! DuckDB's) a line a value. What is a matter of taste differs in no answer: blanks, `1` for `true`, `1.0`
//! for `1`, the `T` between a date and a time and the `Z` behind it, the last digits of a float.
//! `<slt:ignore>` is anything.

/// An answer: its rows, how many columns it has, and whether their order says nothing.
pub struct Answer<'a> {
    pub rows: &'a [Vec<String>],
    pub columns: usize,
    pub sorted: bool,
}

/// How many rounded digits may differ: SQLite's files have three digits after the point.
const ROUNDED: f64 = 0.001;
/// What the order of a sum may change of a float.
const RELATIVE: f64 = 1e-12;
/// From so many digits behind the point on a number was rounded to them.
const DIGITS: usize = 11;
/// What stands for any text.
const ANYTHING: &str = "<slt:ignore>";

/// Whether these lines say the same as the answer.
pub fn same(expected: &[String], answer: &Answer<'_>, rounded: bool) -> bool {
    let values = answer.rows.len() * answer.columns;
    if answer.columns > 1 && expected.len() == values && expected.len() != answer.rows.len() {
        return by_value(expected, answer, rounded);
    }
    if expected.len() == answer.rows.len() && by_row(expected, answer, rounded) {
        return true;
    }
    // A value of several lines, as plans have them.
    answer.rows.iter().flatten().any(|value| value.contains('\n'))
        && words(&expected.join("\n")) == words(&joined(answer.rows).join("\n"))
}

fn by_row(expected: &[String], answer: &Answer<'_>, rounded: bool) -> bool {
    let rows = answer.rows.iter().map(Vec::as_slice);
    if !answer.sorted {
        return expected.iter().zip(rows).all(|(line, row)| same_row(line, row, rounded));
    }
    let mut lines: Vec<&String> = expected.iter().collect();
    lines.sort_by_key(|line| words(line));
    let mut rows: Vec<&[String]> = rows.collect();
    rows.sort_by_key(|row| words(&row.join(" ")));
    lines.iter().zip(rows).all(|(line, row)| same_row(line, row, rounded))
}

fn by_value(expected: &[String], answer: &Answer<'_>, rounded: bool) -> bool {
    let mut lines: Vec<&[String]> = expected.chunks(answer.columns).collect();
    let mut rows: Vec<&[String]> = answer.rows.iter().map(Vec::as_slice).collect();
    if answer.sorted {
        lines.sort();
        rows.sort();
    }
    lines.iter().zip(rows).all(|(line, row)| line.iter().zip(row).all(|(e, a)| same_value(e, a, rounded)))
}

fn same_row(line: &str, row: &[String], rounded: bool) -> bool {
    let joined = row.join(" ");
    let (expected, actual) = (words(line), words(&joined));
    if expected == actual || line.contains(ANYTHING) && matches(line, &joined) {
        return true;
    }
    // Values that are divided by blanks and have some themselves, as lists do.
    let alike = |(e, a): (&String, &String)| same_value(e, a, rounded);
    if expected.len() == actual.len() && expected.iter().zip(&actual).all(alike) {
        return true;
    }
    let tabbed: Vec<&str> = line.split('\t').collect();
    let spaced: Vec<&str> = line.split_whitespace().collect();
    let one_value = [line];
    let parts =
        [tabbed.as_slice(), spaced.as_slice(), &one_value].into_iter().find(|parts| parts.len() == row.len());
    parts.is_some_and(|parts| parts.iter().zip(row).all(|(e, a)| same_value(e, a, rounded)))
}

/// Whether the parts between `<slt:ignore>` stand in a row, in their order.
fn matches(line: &str, row: &str) -> bool {
    let mut rest = row;
    line.split(ANYTHING).all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

fn same_value(expected: &str, actual: &str, rounded: bool) -> bool {
    let (expected, actual) = (expected.trim(), actual.trim());
    if expected == actual || words(expected) == words(actual) {
        return true;
    }
    match (expected, actual) {
        ("1" | "t" | "True" | "TRUE", "true") | ("0" | "f" | "False" | "FALSE", "false") => return true,
        ("(empty)", "") | ("", "(empty)") => return true,
        _ => {}
    }
    same_number(expected, actual, rounded) || normalized(expected) == normalized(actual)
}

/// Floats that differ no more than they may. Whole numbers do not differ at all.
fn same_number(expected: &str, actual: &str, rounded: bool) -> bool {
    let float = |text: &str| text.contains(['.', 'e', 'E']) || text.chars().all(|c| !c.is_ascii_digit());
    let (Ok(e), Ok(a)) = (expected.parse::<f64>(), actual.parse::<f64>()) else { return false };
    if !float(expected) && !float(actual) {
        return false;
    }
    let digits = expected.split_once('.').map_or(0, |(_, digits)| digits.len());
    let last = if digits >= DIGITS { 0.1_f64.powi(digits as i32) } else { 0.0 };
    let allowed = if rounded { ROUNDED } else { last.max(RELATIVE * e.abs().max(a.abs())) };
    e == a || (e.is_nan() && a.is_nan()) || (e - a).abs() <= allowed
}

/// A value without what is a matter of taste: quotes inside of structs, the `T` of timestamps, zeros at the
/// end of fractions of seconds.
fn normalized(value: &str) -> String {
    let instant = value.len() >= 19 && value.as_bytes().get(4) == Some(&b'-');
    let value = if instant { value.replacen('T', " ", 1) } else { value.replace('\'', "") };
    match value.split_once('.') {
        Some((seconds, digits)) if instant && digits.bytes().all(|b| b == b'0') => seconds.to_string(),
        Some(_) if instant => value.trim_end_matches('0').to_string(),
        _ => value,
    }
}

/// The words of a text: what stands between blanks, instants with a blank between date and time.
fn words(text: &str) -> Vec<String> {
    let parts = text.split_whitespace().flat_map(|word| match word.find('T') {
        Some(at) if is_date(&word[..at]) => vec![word[..at].to_string(), in_utc(&word[at + 1..])],
        _ => vec![in_utc(word)],
    });
    parts.collect()
}

/// Whether this ends with a date, as in `[2024-01-31`.
fn is_date(text: &str) -> bool {
    let Some(date) = text.len().checked_sub(10).and_then(|at| text.get(at..)) else { return false };
    date.bytes()
        .enumerate()
        .all(|(i, byte)| if i == 4 || i == 7 { byte == b'-' } else { byte.is_ascii_digit() })
}

/// A time of day with its zone in numbers: `Z` is `+00:00`.
fn in_utc(time: &str) -> String {
    let end = time.trim_end_matches([',', ']', '}']);
    match end.strip_suffix('Z') {
        Some(clock) if clock.contains(':') => format!("{clock}+00:00{}", &time[end.len()..]),
        _ => time.to_string(),
    }
}

/// Rows as lines.
pub fn joined(rows: &[Vec<String>]) -> Vec<String> {
    rows.iter().map(|row| row.join("\t")).collect()
}
