//! Regular expressions that give lists: `regexp_extract_all`, `string_split_regex`.
//!
//! ```sql
//! select regexp_extract_all('a1b22', '[0-9]+');  -- [1, 22]
//! select string_split_regex('a, b;c', '[,;] *');  -- [a, b, c]
//! ```

use super::Mapped;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ScalarUDF, Signature, TypeSignature, Volatility};
use regex::Regex;
use std::sync::Arc;

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let two = || TypeSignature::Exact(vec![DataType::Utf8, DataType::Utf8]);
    let three = TypeSignature::Exact(vec![DataType::Utf8, DataType::Utf8, DataType::Int64]);
    let texts = |_: &[DataType]| Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))));
    vec![
        Mapped::function(
            "regexp_extract_all",
            Signature::one_of(vec![two(), three], Volatility::Immutable),
            texts,
            extracted,
        ),
        Mapped::function("string_split_regex", Signature::new(two(), Volatility::Immutable), texts, |args| {
            lists(args, |pattern, text, _| Ok(pattern.split(text).map(str::to_string).collect()))
        }),
    ]
}

/// A group of every match; what the group did not match is an empty text.
fn extracted(args: &[ArrayRef]) -> Result<ArrayRef> {
    lists(args, |pattern, text, row| {
        let group = args.get(2).map_or(0, |groups| groups.as_primitive::<Int64Type>().value(row));
        let Some(group) = usize::try_from(group).ok().filter(|group| *group < pattern.captures_len()) else {
            return exec_err!("regexp_extract_all: {:?} has no group {group}", pattern.as_str());
        };
        let matched = pattern.captures_iter(text);
        Ok(matched.map(|m| m.get(group).map_or(String::new(), |found| found.as_str().to_string())).collect())
    })
}

/// The texts of each row; null if any argument is.
fn lists(args: &[ArrayRef], of: impl Fn(&Regex, &str, usize) -> Result<Vec<String>>) -> Result<ArrayRef> {
    let (texts, patterns) = (args[0].as_string::<i32>(), args[1].as_string::<i32>());
    let mut lists = ListBuilder::new(StringBuilder::new());
    let mut known: Option<Regex> = None;
    for row in 0..texts.len() {
        if args.iter().any(|column| column.is_null(row)) {
            lists.append_null();
            continue;
        }
        // A pattern is mostly the same in all rows.
        let pattern = match known.take().filter(|known| known.as_str() == patterns.value(row)) {
            Some(pattern) => pattern,
            None => compiled(patterns.value(row))?,
        };
        lists.append_value(of(&pattern, texts.value(row), row)?.into_iter().map(Some));
        known = Some(pattern);
    }
    Ok(Arc::new(lists.finish()))
}

/// A compiled regular expression.
fn compiled(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).or_else(|error| exec_err!("{pattern:?} is no regular expression: {error}"))
}
