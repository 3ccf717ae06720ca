//! The engine's messages about values that it cannot compute or read, in plain words.

/// What to do about a number that is too large.
const LARGER: &str = "is too large for its type; cast its parts to a larger one, such as decimal(38, 0)";

/// The prefixes by which the engine tells the kinds of its errors apart.
const KINDS: [&str; 6] = [
    "Arrow error: ",
    "Arithmetic overflow: ",
    "Cast error: ",
    "Compute error: ",
    "Invalid argument error: ",
    "Parser error: ",
];

/// Rewords a message about a value. The names of types stay as they are.
pub fn reword_value_error(message: &str) -> String {
    let plain = KINDS.iter().fold(message.to_string(), |text, kind| text.replace(kind, ""));
    too_large(&plain).or_else(|| unreadable(&plain)).unwrap_or(plain)
}

/// Numbers outside of the range of their type.
fn too_large(text: &str) -> Option<String> {
    if let Some((before, call)) = text.split_once("Overflow happened on") {
        return Some(format!("{before}{} {LARGER}", call.trim_start_matches([':', ' '])));
    }
    if let Some((array, call)) = text.split_once("Array overflow on ") {
        let before = array.rsplit_once(' ').map_or("", |(before, _)| before);
        return Some(format!("{before}{call} {LARGER}"));
    }
    if let Some((before, rest)) = text.split_once("Can't cast value ") {
        let (value, kind) = rest.rsplit_once(" to type ")?;
        return Some(format!("{before}{value} is not in the range of {kind}"));
    }
    if let Some((before, rest)) = text.split_once("value of ")
        && let Some((value, kind)) = rest.rsplit_once(" is out of range ")
    {
        return Some(format!("{before}{value} is not in the range of {kind}"));
    }
    // These two messages show decimals without their point.
    if let Some((_, rest)) = text.split_once(" to store in a Decimal") {
        let (_, rest) = rest.split_once(" of precision ")?;
        let digits = rest.split('.').next()?;
        return Some(format!("a number is too large for a decimal of {digits} digits"));
    }
    if let Some((before, rest)) = text.split_once("Cannot cast to ")
        && let Some((kind, _)) = rest.split_once(". ")
        && rest.to_lowercase().contains("overflow")
    {
        return Some(format!("{before}a number is too large for {kind}"));
    }
    text.contains("Divide by zero error").then(|| text.replace("Divide by zero error", "division by zero"))
}

/// Texts that cannot be read as a value of a type.
fn unreadable(text: &str) -> Option<String> {
    for start in ["Cannot cast string ", "Cannot cast value "] {
        if let Some((before, rest)) = text.split_once(start)
            && let Some((value, kind)) = rest.rsplit_once(" to value of ")
        {
            let kind = kind.strip_suffix(" type").unwrap_or(kind);
            return Some(format!("{before}{value} cannot be read as {kind}"));
        }
    }
    let (before, rest) = text.split_once("Error parsing timestamp from ")?;
    let (value, _) = rest.rsplit_once("': ")?;
    Some(format!("{before}{value}' cannot be read as Timestamp"))
}

#[cfg(test)]
mod tests {
    use super::reword_value_error;

    #[test]
    fn values_are_shown_without_the_words_of_the_engine() {
        let large = |of: &str| format!("{of} {}", super::LARGER);
        let cases = [
            ("Arithmetic overflow: Overflow happened on: 5 + -1", large("5 + -1")),
            ("Overflow happened on FACTORIAL(30)", large("FACTORIAL(30)")),
            ("Compute error: Int64Array overflow on abs(-128)", large("abs(-128)")),
            ("Cast error: Can't cast value 300 to type Int8", "300 is not in the range of Int8".to_string()),
            (
                "line 3: Cast error: column \"n\": Cannot cast string '2.5' to value of Int64 type",
                "line 3: column \"n\": '2.5' cannot be read as Int64".to_string(),
            ),
            (
                "Cast error: Cannot cast value 'to value of ' to value of Boolean type",
                "'to value of ' cannot be read as Boolean".to_string(),
            ),
            (
                "Parser error: Error parsing timestamp from 'x: y': error parsing date",
                "'x: y' cannot be read as Timestamp".to_string(),
            ),
            (
                "Invalid argument error: 12345 is too large to store in a Decimal128 of precision 3. Max is 999",
                "a number is too large for a decimal of 3 digits".to_string(),
            ),
            (
                "Cast error: Cannot cast to Decimal128(3, 1). Overflowing on 12345",
                "a number is too large for Decimal128(3, 1)".to_string(),
            ),
            (
                "Cast error: Cannot cast to Interval(MonthDayNano). Overflowing on 17280000000",
                "a number is too large for Interval(MonthDayNano)".to_string(),
            ),
            ("Divide by zero error", "division by zero".to_string()),
            ("the column \"a\" is not there", "the column \"a\" is not there".to_string()),
        ];
        for (engine, people) in cases {
            assert_eq!(reword_value_error(engine), people);
        }
    }
}
