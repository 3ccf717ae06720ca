//! Expressions in the words that Python has: what SQL says in other ways is said in these, and what coercion
//! adds by itself (casts, types of constants) is left out where it will be added again.
//!
//! Invariant: the result, resolved over the same columns, computes what the expression computed. Over columns
//! without qualifiers, which are those of a stream that was built step by step, it is the same expression.

use super::literal::{Fit, compared, fitted, natural};
use crate::resolve::coerced;
use arrow::array::{Array, StructArray};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::core::expr_fn::{coalesce, named_struct};
use datafusion::functions::regex::expr_fn::regexp_like;
use datafusion::logical_expr::expr::{Case, InList};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Like, Operator, binary_expr, lit};

/// The expression in Python's words.
pub(super) fn in_words(expr: &Expr, schema: &DFSchema) -> Result<Expr> {
    let said = expr.clone().transform_up(|e| Ok(said(e))).data()?;
    said.transform_up(|e| {
        let short = match &e {
            Expr::BinaryExpr(binary) => short_binary(binary, schema),
            Expr::Between(between) => short_between(between, schema),
            Expr::InList(list) => short_list(list, schema),
            Expr::ScalarFunction(_) | Expr::Case(_) | Expr::Like(_) => short_parts(&e, schema),
            _ => None,
        };
        Ok(short.map_or(Transformed::no(e), Transformed::yes))
    })
    .data()
}

/// The same without negated words, tests of truth, and cases of one value.
fn said(expr: Expr) -> Transformed<Expr> {
    let not = |e: Expr| Expr::Not(Box::new(e));
    Transformed::yes(match expr {
        Expr::Alias(alias) => *alias.expr,
        Expr::Literal(ScalarValue::Struct(row), _) => match fields_of(&row) {
            Some(fields) => named_struct(fields),
            None => return Transformed::no(Expr::Literal(ScalarValue::Struct(row), None)),
        },
        Expr::IsTrue(e) => coalesce(vec![*e, lit(false)]),
        Expr::IsNotTrue(e) => not(coalesce(vec![*e, lit(false)])),
        Expr::IsFalse(e) => not(coalesce(vec![*e, lit(true)])),
        Expr::IsNotFalse(e) => coalesce(vec![*e, lit(true)]),
        Expr::IsUnknown(e) => Expr::IsNull(e),
        Expr::IsNotUnknown(e) => Expr::IsNotNull(e),
        Expr::InList(list) if list.negated => not(Expr::InList(InList { negated: false, ..list })),
        Expr::Between(between) if between.negated => {
            not(Expr::Between(Between { negated: false, ..between }))
        }
        Expr::Like(like) if like.negated => not(Expr::Like(Like { negated: false, ..like })),
        Expr::Case(Case { expr: Some(value), when_then_expr, else_expr }) => {
            let equal = |when: Box<Expr>| Box::new(binary_expr(*value.clone(), Operator::Eq, *when));
            let branches = when_then_expr.into_iter().map(|(when, then)| (equal(when), then)).collect();
            Expr::Case(Case { expr: None, when_then_expr: branches, else_expr })
        }
        Expr::BinaryExpr(binary) => turned(pattern(binary)),
        other => return Transformed::no(other),
    })
}

/// Names and values of a struct, one after the other.
fn fields_of(row: &StructArray) -> Option<Vec<Expr>> {
    let mut parts = Vec::new();
    for (name, values) in row.column_names().into_iter().zip(row.columns()) {
        parts.push(lit(name));
        parts.push(lit(ScalarValue::try_from_array(values, 0).ok()?));
    }
    row.is_valid(0).then_some(parts)
}

/// Python turns a comparison around whose left side is a constant.
fn turned(expr: Expr) -> Expr {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(op) && left.as_literal().is_some() && right.as_literal().is_none() =>
        {
            binary_expr(*right, op.swap().unwrap_or(op), *left)
        }
        other => other,
    }
}

/// Operators that match patterns are functions and methods in Python.
fn pattern(BinaryExpr { left, op, right }: BinaryExpr) -> Expr {
    let not = |e: Expr| Expr::Not(Box::new(e));
    let like = |any_case| Expr::Like(Like::new(false, left.clone(), right.clone(), None, any_case));
    let regex = |flags| regexp_like(*left.clone(), *right.clone(), flags);
    match op {
        Operator::RegexMatch => regex(None),
        Operator::RegexIMatch => regex(Some(lit("i"))),
        Operator::RegexNotMatch => not(regex(None)),
        Operator::RegexNotIMatch => not(regex(Some(lit("i")))),
        Operator::LikeMatch => like(false),
        Operator::ILikeMatch => like(true),
        Operator::NotLikeMatch => not(like(false)),
        Operator::NotILikeMatch => not(like(true)),
        op => Expr::BinaryExpr(BinaryExpr { left, op, right }),
    }
}

fn kind(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    expr.get_type(schema).ok()
}

/// A constant as Python gives it where it meets a value of this type; any other expression as it is.
fn plain(expr: &Expr, other: Option<DataType>, fit: Fit) -> Expr {
    let Expr::Literal(value, _) = expr else { return expr.clone() };
    match natural(value) {
        Some((value, _)) => {
            let met = other.and_then(|other| fit(&value, &other));
            Expr::Literal(met.unwrap_or(value), None)
        }
        None => expr.clone(),
    }
}

fn without_cast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) if cast.expr.as_literal().is_none() => &cast.expr,
        other => other,
    }
}

/// Whether two expressions are the same once their types are settled.
fn same(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    match (coerced(left.clone(), schema), coerced(right.clone(), schema)) {
        (Ok(left), Ok(right)) => left == right,
        _ => false,
    }
}

fn short_binary(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let whole = Expr::BinaryExpr(binary.clone());
    let (l, r) = (binary.left.as_ref(), binary.right.as_ref());
    let pair = |l: &Expr, r: &Expr| {
        let fit = if compares(binary.op) { compared } else { fitted };
        let (left, right) = (plain(l, kind(r, schema), fit), plain(r, kind(l, schema), fit));
        // Python's `/` of whole numbers is another one.
        let exact = |e: &Expr| {
            kind(e, schema).is_some_and(|t| {
                t.is_floating() || matches!(t, DataType::Decimal128(..) | DataType::Duration(_))
            })
        };
        let means = binary.op != Operator::Divide || exact(&left) || exact(&right);
        means.then(|| binary_expr(left, binary.op, right))
    };
    let candidates =
        [pair(without_cast(l), without_cast(r)), pair(without_cast(l), r), pair(l, without_cast(r))];
    candidates.into_iter().flatten().find(|c| same(c, &whole, schema))
}

fn short_between(between: &Between, schema: &DFSchema) -> Option<Expr> {
    let whole = Expr::Between(between.clone());
    let short = |value: &Expr| {
        let met = kind(value, schema);
        let [low, high] = [&between.low, &between.high].map(|e| Box::new(plain(e, met.clone(), compared)));
        Expr::Between(Between { expr: Box::new(value.clone()), negated: false, low, high })
    };
    let candidates = [short(without_cast(&between.expr)), short(&between.expr)];
    candidates.into_iter().find(|c| same(c, &whole, schema))
}

fn short_list(list: &InList, schema: &DFSchema) -> Option<Expr> {
    let whole = Expr::InList(list.clone());
    let short = |value: &Expr| {
        let met = kind(value, schema);
        let items = list.list.iter().map(|e| plain(e, met.clone(), compared)).collect();
        Expr::InList(InList { expr: Box::new(value.clone()), list: items, negated: false })
    };
    let candidates = [short(without_cast(&list.expr)), short(&list.expr)];
    candidates.into_iter().find(|c| same(c, &whole, schema))
}

/// Constants among the parts as Python gives them, if all together they become the same again.
fn short_parts(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let short =
        expr.clone().map_children(|part| Ok(Transformed::yes(plain(&part, None, fitted)))).data().ok()?;
    same(&short, expr, schema).then_some(short)
}

/// Whether an operator compares.
pub(super) fn compares(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
    )
}
