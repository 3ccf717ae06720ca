//! JSON is text here, so an expression is JSON by its syntax: a call of a function that returns JSON, `->`,
//! or a cast.
//!
//! - `j -> 'a'` becomes `json_extract(j, 'a')`, `j ->> 'a'` becomes `json_extract_string(j, 'a')`;
//! - `cast(x as json)` becomes a function that checks the text; a cast of JSON to a number becomes one of its
//!   text without quotes;
//! - `json_object`, `json_array` and their aggregates take JSON only: `to_json` makes it of other values.

use super::list_reductions::of_list;
use crate::functions::json::{CAST, EVERY, EVERY_STRING, LIST, MERGED, Path, TRY_CAST};
use crate::syntax::ast::{arguments, call, quote, string_literal};
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident,
};

/// Functions that return JSON.
const JSON_FUNCTIONS: &[&str] =
    &["json", "json_array", "json_extract", "json_object", "to_json", CAST, TRY_CAST, LIST, MERGED];

/// Other names of functions.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("array_to_json", "to_json"),
    ("json_extract_path", "json_extract"),
    ("json_extract_path_text", "json_extract_string"),
    ("json_quote", "to_json"),
    ("row_to_json", "to_json"),
];

/// Binds arrows stronger than comparisons and `||`, as PostgreSQL does and the parser does not:
/// `x = j ->> 'a' || 'b'` is `x = ((j ->> 'a') || 'b')`. Called from the outside in.
pub(super) fn rebind_arrows(expr: &mut Expr) {
    if !matches!(expr, Expr::BinaryOp { op: BinaryOperator::Arrow | BinaryOperator::LongArrow, .. }) {
        return;
    }
    let Expr::BinaryOp { mut left, op, mut right } = take(expr) else { return };
    rebind_arrows(&mut left);
    if right_side(&mut left).is_some() {
        at_end(&mut left, right_side, |operand| {
            *operand = Expr::BinaryOp { left: Box::new(take(operand)), op, right };
            rebind_arrows(operand);
        });
        *expr = *left;
    } else if left_side(&mut right).is_some() {
        at_end(&mut right, left_side, |operand| {
            *operand = Expr::BinaryOp { left, op, right: Box::new(take(operand)) };
        });
        *expr = *right;
    } else {
        *expr = Expr::BinaryOp { left, op, right };
    }
}

/// Rewrites the operand at one end of a tree.
fn at_end(expr: &mut Expr, side: fn(&mut Expr) -> Option<&mut Expr>, rewrite: impl FnOnce(&mut Expr)) {
    match side(expr) {
        Some(operand) => at_end(operand, side, rewrite),
        None => rewrite(expr),
    }
}

/// Takes an expression out of its place.
fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Identifier(Ident::new("")))
}

/// Whether an operator has to bind weaker than an arrow, and does not in the parser.
fn binds_weaker(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(op, B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq | B::StringConcat | B::PGRegexMatch)
}

/// The left operand of an operator that binds weaker than an arrow.
fn left_side(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::BinaryOp { left, op, .. } if binds_weaker(op) => Some(left),
        Expr::IsNull(side)
        | Expr::IsNotNull(side)
        | Expr::IsDistinctFrom(side, _)
        | Expr::IsNotDistinctFrom(side, _)
        | Expr::Between { expr: side, .. }
        | Expr::InList { expr: side, .. }
        | Expr::InSubquery { expr: side, .. }
        | Expr::Like { expr: side, .. }
        | Expr::ILike { expr: side, .. }
        | Expr::SimilarTo { expr: side, .. } => Some(side),
        _ => None,
    }
}

/// The right operand of such an operator.
fn right_side(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::BinaryOp { right, op, .. } if binds_weaker(op) => Some(right),
        Expr::IsDistinctFrom(_, side) | Expr::IsNotDistinctFrom(_, side) => Some(side),
        _ => None,
    }
}

/// `j -> 'a'`, which is no lambda.
pub(super) fn arrow(expr: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expr else { return };
    let function = match op {
        BinaryOperator::Arrow => "json_extract",
        BinaryOperator::LongArrow => "json_extract_string",
        _ => return,
    };
    *expr = extract(function, left.as_ref().clone(), right.as_ref().clone());
}

/// `cast(x as json)`, and `cast(j -> 'a' as int)`.
pub(super) fn cast(expr: &mut Expr) {
    let Expr::Cast { kind, expr: value, data_type, .. } = expr else { return };
    match data_type {
        DataType::JSON | DataType::JSONB => {
            let function = match kind {
                CastKind::TryCast | CastKind::SafeCast => TRY_CAST,
                CastKind::Cast | CastKind::DoubleColon => CAST,
            };
            *expr = call(function, vec![value.as_ref().clone()]);
        }
        DataType::Text | DataType::Varchar(_) | DataType::String(_) => {}
        _ if is_json(value) => {
            let root = quote("$");
            **value = call("json_extract_string", vec![value.as_ref().clone(), root]);
        }
        _ => {}
    }
}

/// Calls of functions of JSON.
pub(super) fn desugar(name: &str, function: &mut Function) -> Option<Expr> {
    let args = arguments(function)?;
    match (name, args.as_slice()) {
        ("json_extract" | "json_extract_string", [json, path]) => {
            Some(extract(name, json.clone(), path.clone()))
        }
        ("to_json", [json]) if is_json(json) => Some(json.clone()),
        ("json_array", _) => Some(call(name, args.into_iter().map(as_json).collect())),
        ("json_object", _) => Some(object(args)),
        ("json_group_array", [value]) => {
            set_argument(function, as_json(value.clone()));
            of_list(LIST, function)
        }
        ("json_group_object", [name, value]) => {
            set_argument(function, object(vec![name.clone(), value.clone()]));
            of_list(MERGED, function)
        }
        _ => None,
    }
}

/// A call that extracts a path; a list of paths gives a list, and so does a path with `*`.
fn extract(function: &str, json: Expr, path: Expr) -> Expr {
    if let Expr::Array(Array { elem, .. }) = &path {
        let each = elem.iter().map(|path| extract(function, json.clone(), path.clone()));
        return call("make_array", each.collect());
    }
    let many =
        string_literal(&path).and_then(|path| Path::read(path).ok()).is_some_and(|path| path.is_many());
    let function = match function {
        "json_extract" if many => EVERY,
        _ if many => EVERY_STRING,
        one => one,
    };
    call(function, vec![json, path])
}

/// A value as JSON.
fn as_json(value: Expr) -> Expr {
    if is_json(&value) { value } else { call("to_json", vec![value]) }
}

/// Every second argument is a value.
fn object(args: Vec<Expr>) -> Expr {
    let args = args.into_iter().enumerate().map(|(at, arg)| if at % 2 == 0 { arg } else { as_json(arg) });
    call("json_object", args.collect())
}

/// Replaces the arguments of an aggregate by one value.
fn set_argument(function: &mut Function, value: Expr) {
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(value))];
    }
}

/// Whether an expression is JSON by its syntax.
fn is_json(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_json(inner),
        Expr::Function(function) => {
            let name = function.name.to_string().to_ascii_lowercase();
            JSON_FUNCTIONS.contains(&name.as_str())
        }
        Expr::BinaryOp { op: BinaryOperator::Arrow, .. } => true,
        _ => false,
    }
}
