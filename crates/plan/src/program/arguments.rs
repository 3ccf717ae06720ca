//! Arguments of methods: keyword arguments, dictionaries, and lambdas over the columns of a step.

use super::document::Doc;
use super::literal::python_string;
use super::reader::Reader;
use super::variable_names::is_name;
use crate::names::column_name;
use datafusion::common::Result;
use datafusion::logical_expr::Expr;

/// `lambda e: {"bucket": e.user % 10}`.
pub(super) fn dictionary(reader: &mut Reader, step: usize, pairs: &[(String, Expr)]) -> Result<Doc> {
    let mut parts = Vec::new();
    for (name, expr) in pairs {
        let value = reader.lambda(step, expr)?;
        if !expr.any_column_refs() && pairs.len() == 1 {
            return Ok(Doc::Group(vec![value, Doc::Text(format!(".alias({})", python_string(name)))]));
        }
        let value = match value {
            Doc::Group(mut docs) if expr.any_column_refs() => Doc::Group(docs.split_off(1)),
            value => value,
        };
        if !parts.is_empty() {
            parts.extend([Doc::text(","), Doc::Break(" ")]);
        }
        parts.push(Doc::Group(vec![Doc::Text(format!("{}: ", python_string(name))), value]));
    }
    Ok(Doc::Group([vec![Doc::text("lambda e: {")], parts, vec![Doc::text("}")]].concat()))
}

/// The arguments of `select` and `with_columns`.
pub(super) fn arguments(reader: &mut Reader, step: usize, pairs: &[(String, Expr)]) -> Result<Vec<Doc>> {
    // These are the methods' own.
    if pairs
        .iter()
        .any(|(name, expr)| ["self", "returns"].contains(&name.as_str()) && column_name(expr) != Some(name))
    {
        return Ok(vec![dictionary(reader, step, pairs)?]);
    }
    let is_column = |(name, expr): &(String, Expr)| column_name(expr) == Some(name);
    let first = pairs.iter().take_while(|pair| is_column(pair)).count();
    let mut arguments: Vec<Doc> =
        pairs[..first].iter().map(|(name, _)| Doc::Text(python_string(name))).collect();
    for (name, expr) in &pairs[first..] {
        let value = match column_name(expr) {
            Some(column) => Doc::Text(python_string(column)),
            None => reader.lambda(step, expr)?,
        };
        arguments.push(keyword_argument(name, value));
    }
    Ok(arguments)
}

/// An argument by name, whatever its name is.
pub(super) fn keyword_argument(name: &str, value: Doc) -> Doc {
    match is_name(name) {
        true => Doc::keyword(name, value),
        false => Doc::Group(vec![Doc::Text(format!("**{{{}: ", python_string(name))), value, Doc::text("}")]),
    }
}
