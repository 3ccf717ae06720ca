//! Names and types as people read them: columns made without parsing, the nearest right name for a wrong one,
//! expressions and types in messages.
//!
//! Column names are case-sensitive and may hold any character, dots included: a name is never parsed.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DataFusionError, Result, ScalarValue, plan_datafusion_err};
use datafusion::logical_expr::Expr;

/// How many column names a message lists before it says how many more there are.
const MAX_LISTED: usize = 24;

/// How alike two names have to be (0 to 1) for one to be suggested for the other.
const MIN_SIMILARITY: f64 = 0.72;

/// The column of this very name: the name is not parsed, so `a.b` and `Item` mean what they say.
pub fn column(name: impl Into<String>) -> Expr {
    Expr::Column(Column::from_name(name))
}

/// The name of the column that this expression is, if it is nothing but an unqualified column.
///
/// ```
/// use datafusion::logical_expr::lit;
/// use whimbrel_plan::names::{column, column_name};
///
/// assert_eq!(column_name(&column("a.b")), Some("a.b"));
/// assert_eq!(column_name(&(column("a") + lit(1))), None);
/// ```
pub fn column_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(c) if c.relation.is_none() => Some(&c.name),
        _ => None,
    }
}

/// The names of a schema's columns, in order.
pub(crate) fn names(schema: &DFSchema) -> Vec<&str> {
    schema.fields().iter().map(|f| f.name().as_str()).collect()
}

/// The index of the column of this name, or an error that suggests the nearest ones.
pub(crate) fn index_of(schema: &DFSchema, name: &str) -> Result<usize> {
    schema.index_of_column_by_name(None, name).ok_or_else(|| unknown_column(name, &names(schema)))
}

/// `column "itme" not found; did you mean "item"? columns: item, user, …`
pub fn unknown_column(name: &str, columns: &[&str]) -> DataFusionError {
    let hint = match nearest(name, columns).as_slice() {
        [] => String::new(),
        near => format!("; did you mean {}?", join(near, " or ")),
    };
    plan_datafusion_err!("column {name:?} not found{hint}{} columns: {}", separator(&hint), listed(columns))
}

/// The separator between the error and the list of columns.
fn separator(hint: &str) -> &'static str {
    if hint.is_empty() { ";" } else { "" }
}

fn join(names: &[&str], glue: &str) -> String {
    names.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>().join(glue)
}

fn listed(names: &[&str]) -> String {
    match names.len() {
        0 => "(none)".to_string(),
        n if n <= MAX_LISTED => names.join(", "),
        n => format!("{}, … and {} more", names[..MAX_LISTED].join(", "), n - MAX_LISTED),
    }
}

/// The columns names that are most like this one, at most three, best first; ties in the order given.
///
/// ```
/// use whimbrel_plan::names::nearest;
///
/// assert_eq!(nearest("itme", &["item", "user"]), ["item"]);
/// ```
pub fn nearest<'a>(name: &str, columns: &[&'a str]) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let mut scored: Vec<(f64, &str)> = columns
        .iter()
        .map(|k| (similarity(&wanted, &k.to_lowercase()), *k))
        .filter(|(score, _)| *score >= MIN_SIMILARITY)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    // A near-perfect match needs no company.
    let best = scored.first().map_or(0.0, |s| s.0);
    scored.into_iter().filter(|(score, _)| *score >= best - 0.1).take(3).map(|(_, k)| k).collect()
}

/// Typing errors are transpositions and slips (Damerau-Levenshtein); forgotten parts are prefixes and
/// contained words.
fn similarity(wanted: &str, columns: &str) -> f64 {
    let slips = strsim::normalized_damerau_levenshtein(wanted, columns);
    let contained =
        wanted.len() >= 3 && (columns.contains(wanted) || wanted.contains(columns) && columns.len() >= 3);
    if contained { slips.max(0.8) } else { slips.max(strsim::jaro_winkler(wanted, columns) - 0.12) }
}

/// An expression as a message or `explain` shows it: columns and values plainly, parentheses where they
/// matter.
pub fn show(expr: &Expr) -> String {
    let readable = expr.clone().transform_up(|e| {
        Ok(match e {
            Expr::Literal(value, _) => Transformed::yes(column(show_value(&value))),
            Expr::Cast(cast) => {
                let text = format!("cast({} as {})", cast.expr, type_name(cast.field.data_type()));
                Transformed::yes(column(text))
            }
            other => Transformed::no(other),
        })
    });
    // The closure never fails; should the traversal, the expression's own display is nearly as good.
    readable.data().map_or_else(|_| expr.to_string(), |e| e.to_string())
}

/// A literal: strings in quotes, nulls as `null`.
fn show_value(value: &ScalarValue) -> String {
    match value {
        ScalarValue::Utf8(Some(s)) | ScalarValue::LargeUtf8(Some(s)) | ScalarValue::Utf8View(Some(s)) => {
            format!("{s:?}")
        }
        v if v.is_null() => "null".to_string(),
        v => v.to_string(),
    }
}

/// A type as users write it: `int64`, `timestamp(us)`, `list(string)`.
///
/// ```
/// use datafusion::arrow::datatypes::{DataType, TimeUnit};
/// use whimbrel_plan::names::type_name;
///
/// assert_eq!(type_name(&DataType::Timestamp(TimeUnit::Microsecond, None)), "timestamp(us)");
/// assert_eq!(type_name(&DataType::Utf8View), "string");
/// ```
pub fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Timestamp(unit, None) => format!("timestamp({})", unit_name(*unit)),
        DataType::Timestamp(unit, Some(zone)) => format!("timestamp({}, {zone})", unit_name(*unit)),
        DataType::List(f) | DataType::LargeList(f) => format!("list({})", type_name(f.data_type())),
        DataType::Dictionary(_, value) => format!("dictionary({})", type_name(value)),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".to_string(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".to_string(),
        DataType::Date32 | DataType::Date64 => "date".to_string(),
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => format!("decimal({digits}, {scale})"),
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|f| format!("{} {}", f.name(), type_name(f.data_type()))).collect();
            format!("struct({})", fields.join(", "))
        }
        other => other.to_string().to_lowercase(),
    }
}

/// The name of a unit of time: `s`, `ms`, `us`, `ns`.
pub(crate) fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// `1 shard`, `2 shards`.
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
