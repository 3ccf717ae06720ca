//! Names and values of options and settings.

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{ObjectName, Value};
use std::collections::BTreeMap;

/// Options by name, in small letters.
///
/// # Errors
/// `Plan` if an option is given twice, or is neither a text nor a number.
pub(super) fn options_map(options: Vec<(String, Value)>) -> Result<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    for (name, value) in options {
        let value = match value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text,
            Value::EscapedStringLiteral(text) | Value::Number(text, _) => text,
            Value::Boolean(value) => value.to_string(),
            other => return plan_err!("option {name}: {other} is neither a text nor a number"),
        };
        if map.insert(name.to_ascii_lowercase(), value).is_some() {
            return plan_err!("option {name} is given twice");
        }
    }
    Ok(map)
}

/// A name without quotes.
pub(super) fn text(name: &ObjectName) -> String {
    name.to_string().replace('"', "")
}

/// A value of a setting.
pub(super) fn value_text(value: &Value) -> String {
    match value {
        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
        other => other.to_string(),
    }
}
