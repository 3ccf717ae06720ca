//! What DataFusion says, in the words of people: types by the names that they have in SQL, values as they are
//! written, and no names of its rules and variants.

use crate::functions;
use whimbrel_plan::names::nearest;
use whimbrel_plan::reword_value_error;

/// A message of DataFusion's as people say it.
pub(super) fn in_sql_words(text: &str) -> String {
    let text = &reword_value_error(reason(text));
    let known = unknown_function(text).or_else(|| not_grouped(text));
    let known = known.or_else(|| arguments(text)).or_else(|| signatures(text));
    let known = known.or_else(|| unknown_syntax(text));
    known.unwrap_or_else(|| in_sql(text))
}

/// What a function says of its arguments, without what is reason around it.
fn reason(text: &str) -> &str {
    let reason = text.rsplit_once("user-defined coercion failed with: ").map_or(text, |(_, reason)| reason);
    reason.strip_prefix("Error during planning: ").unwrap_or(reason)
}

/// How the planner begins its message of a function that is missing.
pub(super) const UNKNOWN_FUNCTION: &str = "Invalid function '";

/// `there is no function "cout"; did you mean "count"?`
fn unknown_function(text: &str) -> Option<String> {
    let name = text.strip_prefix(UNKNOWN_FUNCTION)?.split('\'').next()?;
    let known = functions::names();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let near: Vec<String> = nearest(name, &known).into_iter().map(|near| format!("{near:?}")).collect();
    Some(match near.is_empty() {
        true => format!("there is no function {name:?}; show functions lists those that there are"),
        false => format!("there is no function {name:?}; did you mean {}?", near.join(" or ")),
    })
}

/// A column beside aggregates that the rows are not grouped by.
fn not_grouped(text: &str) -> Option<String> {
    let (clause, rest) = text.split_once(" must be in GROUP BY or an aggregate function: ")?;
    let clause = clause.strip_prefix("Column in ")?.to_lowercase();
    let column = rest.split_once("column \"")?.1.split_once("\" must appear")?.0;
    Some(format!(
        "{clause}: {} is not the same for all rows of a group; add it to group by, or take one of its values, \
         any_value({column})",
        in_sql(column)
    ))
}

/// What a function takes and what it got, if a text says that they do not fit.
fn arguments(text: &str) -> Option<String> {
    let (before, after) = text.split_once("' failed to match any signature")?;
    let function = before.rsplit_once("Function '")?.1;
    let takes = after.split("' requires ").skip(1).filter_map(|t| t.split(',').next());
    let mut known: Vec<&str> = Vec::new();
    takes.map(in_words).for_each(|kind| {
        if !known.contains(&kind) {
            known.push(kind)
        }
    });
    let takes = known;
    let got = after.split("(DataType: ").nth(1).and_then(|t| t.split(").").next());
    Some(match (takes.as_slice(), got) {
        ([], _) | (_, None) => format!("{function} does not take these arguments"),
        (takes, Some(got)) => {
            format!("{function} takes {}, and not {}; cast the argument", takes.join(" or "), in_words(got))
        }
    })
}

/// What a call is and what it could be, if a text lists the signatures of a function.
fn signatures(text: &str) -> Option<String> {
    let (reason, rest) = text.split_once("No function matches the given name and argument types '")?;
    let (call, rest) = rest.split_once("'. ")?;
    let (_, listed) = rest.split_once("Candidate functions:")?;
    let (name, _) = call.split_once('(')?;
    let mut known: Vec<String> = Vec::new();
    for line in listed.lines() {
        let parts = line.trim().strip_prefix(name).and_then(|line| line.strip_prefix('('));
        let Some(parameters) = parts.and_then(|line| line.strip_suffix(')')) else { continue };
        let parameters: Vec<String> = parameters.split(", ").map(parameter).collect();
        let signature = format!("{name}({})", parameters.join(", "));
        if !known.contains(&signature) {
            known.push(signature);
        }
    }
    // A function that looks at its arguments by itself says what is wrong with them.
    if known.is_empty() || listed.contains("UserDefined") {
        return Some(in_sql(reason.trim_end_matches([' ', '.'])));
    }
    Some(format!("there is no {}; there is {}", in_sql(call), known.join(", ")))
}

/// A parameter of a signature, `text: String` or `Int64/Float64`, by the type that it has in SQL.
fn parameter(shown: &str) -> String {
    let kind = shown.rsplit_once(": ").map_or(shown, |(_, kind)| kind);
    let (kind, count) = match kind.strip_suffix(')').and_then(|kind| kind.split_once('(')) {
        Some((kind @ ("String" | "Numeric" | "Comparable"), count)) => (kind, count.parse().unwrap_or(1)),
        _ => (kind, 1),
    };
    let kind = match kind.split('/').next().unwrap_or(kind) {
        "String" => "varchar".to_string(),
        "Integer" => "bigint".to_string(),
        "Float" => "double".to_string(),
        "Numeric" => "number".to_string(),
        "Comparable" | "Any" | "element" => "any".to_string(),
        "array" => "list".to_string(),
        "NullAry()" => String::new(),
        other => in_sql(other),
    };
    vec![kind; count].join(", ")
}

/// A type of DataFusion's, or what it calls types alike, as people say it.
fn in_words(kind: &str) -> &str {
    match kind {
        "Utf8" | "LargeUtf8" | "Utf8View" | "String" => "a text",
        "Boolean" => "a condition",
        "Decimal" | "Float16" | "Float32" | "Float64" | "Integer" | "Numeric" => "a number",
        "Int8" | "Int16" | "Int32" | "Int64" | "UInt8" | "UInt16" | "UInt32" | "UInt64" => "a number",
        "Date" | "Date32" | "Date64" => "a date",
        "Timestamp" => "a timestamp",
        "Interval" | "Duration" => "an interval",
        other => other,
    }
}

/// What a text says before it shows the parser's tree.
fn unknown_syntax(text: &str) -> Option<String> {
    let tree = text.contains("Span(Location(").then(|| text.find([' ', '(']))??;
    let shown = text.find(" { ").into_iter().chain(text.find('(')).min().unwrap_or(tree);
    let reason = text[..shown].trim_end_matches(|c: char| c.is_alphanumeric()).trim_end_matches([' ', ':']);
    let node = text[..shown].rsplit(' ').next().unwrap_or_default();
    let reason = match reason.starts_with("Unsupported ast node") {
        true => "this part of a query is not there",
        false => reason,
    };
    Some(format!("{reason}: {}", node.to_lowercase()))
}

/// The engine's names of types, and the names that they have in SQL.
const TYPES: &[(&str, &str)] = &[
    ("Boolean", "boolean"),
    ("Int8", "tinyint"),
    ("Int16", "smallint"),
    ("Int32", "int"),
    ("Int64", "bigint"),
    ("UInt8", "utinyint"),
    ("UInt16", "usmallint"),
    ("UInt32", "uinteger"),
    ("UInt64", "ubigint"),
    ("Float16", "float"),
    ("Float32", "float"),
    ("Float64", "double"),
    ("Utf8", "varchar"),
    ("LargeUtf8", "varchar"),
    ("Utf8View", "varchar"),
    ("Binary", "blob"),
    ("LargeBinary", "blob"),
    ("BinaryView", "blob"),
    ("Date32", "date"),
    ("Date64", "date"),
    ("Time32", "time"),
    ("Time64", "time"),
    ("Timestamp", "timestamp"),
    ("Duration", "interval"),
    ("Interval", "interval"),
    ("List", "list"),
    ("LargeList", "list"),
    ("FixedSizeList", "list"),
    ("Struct", "struct"),
    ("Decimal32", "decimal"),
    ("Decimal64", "decimal"),
    ("Decimal128", "decimal"),
    ("Decimal256", "decimal"),
];

/// Types whose values are shown as `Int64(1)`, and mean `1`.
const OF_VALUES: &[&str] = &[
    "Boolean",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Float32",
    "Float64",
    "Utf8",
    "LargeUtf8",
    "Utf8View",
];

/// The text with the names of types, and with values, as they are written in SQL. What is in quotes stays.
fn in_sql(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' | '\'' | '`' => rest[1..].find(c).map_or(rest.len(), |end| end + 2),
            c if c.is_alphanumeric() || c == '_' => {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        let Some((_, known)) = TYPES.iter().find(|(engine, _)| *engine == word) else {
            out.push_str(word);
            continue;
        };
        let within = after.strip_prefix('(').and_then(|inside| Some((inside, closing(inside)?)));
        match within {
            Some((inside, end)) if OF_VALUES.contains(&word) => {
                out.push_str(&value(&inside[..end]));
                rest = &inside[end + 1..];
            }
            // The unit of time says nothing that SQL has a word for.
            Some((inside, end)) if matches!(*known, "timestamp" | "interval" | "time") => {
                out.push_str(known);
                rest = &inside[end + 1..];
            }
            _ => out.push_str(known),
        }
    }
    out
}

/// Where the bracket closes that was opened before.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quoted) = (1, false);
    text.char_indices().find_map(|(at, c)| {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// A value as SQL has it.
fn value(shown: &str) -> String {
    match shown.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) => format!("'{text}'"),
        None => shown.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_listed_by_types_of_sql() {
        let text = "Failed to coerce. No function matches the given name and argument types 'lpad(Int64)'. You might \
                    need to add explicit type casts.\n\tCandidate functions:\n\tlpad(String, Int64)\n\tlpad(String(2))";
        assert_eq!(
            in_sql_words(text),
            "there is no lpad(bigint); there is lpad(varchar, bigint), lpad(varchar, varchar)"
        );
        let text = "list_concat takes lists. No function matches the given name and argument types 'list_concat(Int64)'. \
                    You might need to add explicit type casts.\n\tCandidate functions:\n\tlist_concat(UserDefined)";
        assert_eq!(in_sql_words(text), "list_concat takes lists");
    }

    #[test]
    fn types_and_values_are_those_of_sql() {
        let messages = [
            (
                "Cannot cast string 'Int8' to value of Int32 type",
                "Cannot cast string 'Int8' to value of int type",
            ),
            ("count(Int64(1)) > Utf8(\"a)\")", "count(1) > 'a)'"),
            ("Timestamp(ns) and List(Float64), \"Utf8\"", "timestamp and list(double), \"Utf8\""),
            ("Boolean(NULL) and Decimal128(10, 2)", "null and decimal(10, 2)"),
        ];
        for (engine, people) in messages {
            assert_eq!(in_sql(engine), people);
        }
    }
}
