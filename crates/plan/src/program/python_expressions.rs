//! Expressions are rewritten to what the Python API can express, before [`expression`](super::expression)
//! prints them.
//!
//! Two passes. The first replaces SQL operators that Python does not have: `NOT IN`, `IS TRUE`, `CASE x
//! WHEN`. The second removes what type coercion will add again when the program runs: casts, and types of
//! constants.
//!
//! Invariant: the rewritten expression, resolved against the same schema, computes the same values. Over
//! unqualified columns (a plan of the fluent builder) it resolves to the very same expression.

use super::literal::{CastLiteral, literal_for_comparison, literal_for_operand, python_value};
use crate::resolve::coerced;
use arrow::array::{Array, StructArray};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::core::expr_fn::{coalesce, named_struct};
use datafusion::functions::regex::expr_fn::regexp_like;
use datafusion::logical_expr::expr::{Case, InList};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Like, Operator, binary_expr, lit};

/// Rewrites an expression over `schema` to one that the Python API can express.
pub(super) fn rewrite_for_python(expr: &Expr, schema: &DFSchema) -> Result<Expr> {
    let expr = expr.clone().transform_up(|e| Ok(replace_sql_operators(e))).data()?;
    expr.transform_up(|e| {
        let short = match &e {
            Expr::BinaryExpr(binary) => uncoerced_binary(binary, schema),
            Expr::Between(between) => uncoerced_between(between, schema),
            Expr::InList(list) => uncoerced_list(list, schema),
            Expr::ScalarFunction(_) | Expr::Case(_) | Expr::Like(_) => uncoerced_children(&e, schema),
            _ => None,
        };
        Ok(short.map_or(Transformed::no(e), Transformed::yes))
    })
    .data()
}

/// Replaces negated operators, `IS TRUE` and its like, and `CASE` with an operand.
fn replace_sql_operators(expr: Expr) -> Transformed<Expr> {
    let not = |e: Expr| Expr::Not(Box::new(e));
    Transformed::yes(match expr {
        Expr::Alias(alias) => *alias.expr,
        Expr::Literal(ScalarValue::Struct(row), _) => match struct_arguments(&row) {
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
        Expr::BinaryExpr(binary) => constant_on_the_right(pattern_function(binary)),
        other => return Transformed::no(other),
    })
}

/// The arguments of `named_struct`: names and values in turn. `None` for a null struct.
fn struct_arguments(row: &StructArray) -> Option<Vec<Expr>> {
    let mut parts = Vec::new();
    for (name, values) in row.column_names().into_iter().zip(row.columns()) {
        parts.push(lit(name));
        parts.push(lit(ScalarValue::try_from_array(values, 0).ok()?));
    }
    row.is_valid(0).then_some(parts)
}

/// A comparison with its constant on the right: Python evaluates `1 < x` as `x > 1`.
fn constant_on_the_right(expr: Expr) -> Expr {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op) && left.as_literal().is_some() && right.as_literal().is_none() =>
        {
            binary_expr(*right, op.swap().unwrap_or(op), *left)
        }
        other => other,
    }
}

/// Pattern matching operators become function calls: Python has no operators for them.
fn pattern_function(BinaryExpr { left, op, right }: BinaryExpr) -> Expr {
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

fn data_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    expr.get_type(schema).ok()
}

/// A constant with the type that Python gives it opposite an operand of this type.
///
/// Any other expression is returned unchanged.
fn python_constant(expr: &Expr, operand_type: Option<DataType>, cast_literal: CastLiteral) -> Expr {
    let Expr::Literal(value, _) = expr else { return expr.clone() };
    match python_value(value) {
        Some((value, _)) => {
            let cast = operand_type.and_then(|operand_type| cast_literal(&value, &operand_type));
            Expr::Literal(cast.unwrap_or(value), None)
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

/// Whether type coercion turns both expressions into the same one.
fn coerce_alike(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    match (coerced(left.clone(), schema), coerced(right.clone(), schema)) {
        (Ok(left), Ok(right)) => left == right,
        _ => false,
    }
}

/// A binary expression without the casts that coercion adds, or `None` if each cast is needed.
fn uncoerced_binary(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let original = Expr::BinaryExpr(binary.clone());
    let (l, r) = (binary.left.as_ref(), binary.right.as_ref());
    let pair = |l: &Expr, r: &Expr| {
        let cast_literal =
            if is_comparison(binary.op) { literal_for_comparison } else { literal_for_operand };
        let (left, right) = (
            python_constant(l, data_type(r, schema), cast_literal),
            python_constant(r, data_type(l, schema), cast_literal),
        );
        // Python's `/` of original numbers is another one.
        let divides_as_written = |e: &Expr| {
            data_type(e, schema).is_some_and(|t| {
                t.is_floating() || matches!(t, DataType::Decimal128(..) | DataType::Duration(_))
            })
        };
        let keeps_operator =
            binary.op != Operator::Divide || divides_as_written(&left) || divides_as_written(&right);
        keeps_operator.then(|| binary_expr(left, binary.op, right))
    };
    let candidates =
        [pair(without_cast(l), without_cast(r)), pair(without_cast(l), r), pair(l, without_cast(r))];
    candidates.into_iter().flatten().find(|c| coerce_alike(c, &original, schema))
}

/// A range test without the casts that coercion adds, or `None` if each cast is needed.
fn uncoerced_between(between: &Between, schema: &DFSchema) -> Option<Expr> {
    let original = Expr::Between(between.clone());
    let short = |value: &Expr| {
        let operand_type = data_type(value, schema);
        let [low, high] = [&between.low, &between.high]
            .map(|e| Box::new(python_constant(e, operand_type.clone(), literal_for_comparison)));
        Expr::Between(Between { expr: Box::new(value.clone()), negated: false, low, high })
    };
    let candidates = [short(without_cast(&between.expr)), short(&between.expr)];
    candidates.into_iter().find(|c| coerce_alike(c, &original, schema))
}

/// A membership test without the casts that coercion adds, or `None` if each cast is needed.
fn uncoerced_list(list: &InList, schema: &DFSchema) -> Option<Expr> {
    let original = Expr::InList(list.clone());
    let short = |value: &Expr| {
        let operand_type = data_type(value, schema);
        let items = list
            .list
            .iter()
            .map(|e| python_constant(e, operand_type.clone(), literal_for_comparison))
            .collect();
        Expr::InList(InList { expr: Box::new(value.clone()), list: items, negated: false })
    };
    let candidates = [short(without_cast(&list.expr)), short(&list.expr)];
    candidates.into_iter().find(|c| coerce_alike(c, &original, schema))
}

/// Child constants with the types that Python gives them, if coercion restores the original types.
fn uncoerced_children(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let short = expr
        .clone()
        .map_children(|part| Ok(Transformed::yes(python_constant(&part, None, literal_for_operand))))
        .data()
        .ok()?;
    coerce_alike(&short, expr, schema).then_some(short)
}

/// Whether an operator is one of the six comparisons.
pub(super) fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
    )
}
