//! Which part of the rows satisfies a condition.
//!
//! The terms of a conjunction are taken one after the other, and each narrows the ranges of its columns: so
//! `a >= 1 and a < 3` is the part between, not the product of two parts.

use super::Estimate;
use super::column::number;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Like, Operator};

/// Of a comparison of which nothing is known.
const COMPARED: f64 = 1.0 / 3.0;
/// Of a pattern with something before and after it.
const LIKE: f64 = 0.08;
/// How many times fewer groups than rows satisfy a condition of which nothing is known.
const EXCEPTION: f64 = 0.1;
/// Of a condition of which nothing is known.
const UNKNOWN: f64 = 0.25;

/// The groups that satisfy a condition on what was aggregated. Who asks for it wants the exceptions: few.
pub(super) fn having(input: Estimate, predicate: &Expr, schema: &DFSchema) -> Estimate {
    let unclear = |term: &&Expr| {
        let columns = term.column_refs();
        columns
            .into_iter()
            .filter_map(|c| schema.maybe_index_of_column(c))
            .any(|c| input.columns[c].range.is_none())
    };
    let exceptions = split_conjunction(predicate).into_iter().filter(unclear).count();
    let found = filtered(input, predicate, schema);
    let rows = found.rows * EXCEPTION.powi(exceptions.min(2) as i32);
    found.with_rows(rows)
}

/// The rows that satisfy the condition.
pub(super) fn filtered(mut input: Estimate, predicate: &Expr, schema: &DFSchema) -> Estimate {
    let mut rows = input.rows;
    for term in split_conjunction(predicate) {
        rows *= selectivity(&mut input, term, schema).clamp(0.0, 1.0);
    }
    // A guess of nothing would make everything above it cost nothing.
    let rows = if input.rows > 0.0 { rows.max(1.0_f64.min(input.rows)) } else { 0.0 };
    input.with_rows(rows)
}

/// The part that satisfies a term; its columns' ranges are narrowed.
fn selectivity(input: &mut Estimate, term: &Expr, schema: &DFSchema) -> f64 {
    match term {
        Expr::Literal(ScalarValue::Boolean(truth), _) => f64::from(u8::from(truth.unwrap_or(false))),
        Expr::BinaryExpr(binary) => of_binary(input, binary, schema),
        Expr::Not(inner) => 1.0 - selectivity(&mut input.clone(), inner, schema),
        Expr::IsNull(inner) => nulls(input, inner, schema),
        Expr::IsNotNull(inner) => 1.0 - nulls(input, inner, schema),
        Expr::InList(list) => {
            let one = place(&list.expr, schema).map_or(0.05, |c| 1.0 / input.columns[c].distinct);
            let some = (list.list.len() as f64 * one).min(1.0);
            match (list.negated, place(&list.expr, schema)) {
                (true, _) => 1.0 - some,
                (false, Some(c)) => {
                    input.columns[c].distinct =
                        input.columns[c].distinct.min(list.list.len() as f64).max(1.0);
                    some
                }
                (false, None) => some,
            }
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let mut within = input.clone();
            let at_least = compared(&mut within, expr, Operator::GtEq, low, schema);
            let part = at_least * compared(&mut within, expr, Operator::LtEq, high, schema);
            match negated {
                true => 1.0 - part,
                false => {
                    *input = within;
                    part
                }
            }
        }
        Expr::Like(like) => of_like(like),
        Expr::Column(_) => 0.5,
        _ => UNKNOWN,
    }
}

fn of_like(like: &Like) -> f64 {
    let begins = match like.pattern.as_ref() {
        Expr::Literal(value, _) => value.try_as_str().flatten().is_some_and(|p| !p.starts_with(['%', '_'])),
        _ => false,
    };
    let part = if begins { LIKE / 2.0 } else { LIKE };
    if like.negated { 1.0 - part } else { part }
}

fn of_binary(input: &mut Estimate, binary: &BinaryExpr, schema: &DFSchema) -> f64 {
    match binary.op {
        Operator::And => {
            let left = selectivity(input, &binary.left, schema);
            left * selectivity(input, &binary.right, schema)
        }
        Operator::Or => {
            let left = selectivity(&mut input.clone(), &binary.left, schema);
            let right = selectivity(&mut input.clone(), &binary.right, schema);
            left + right - left * right
        }
        op if op.is_numerical_operators() => UNKNOWN,
        op => match (place(&binary.left, schema), place(&binary.right, schema)) {
            (Some(l), Some(r)) => {
                let values = input.columns[l].distinct.max(input.columns[r].distinct);
                match op {
                    Operator::Eq | Operator::IsNotDistinctFrom => 1.0 / values,
                    Operator::NotEq | Operator::IsDistinctFrom => 1.0 - 1.0 / values,
                    _ => COMPARED,
                }
            }
            (None, Some(_)) => match op.swap() {
                Some(op) => compared(input, &binary.right, op, &binary.left, schema),
                None => UNKNOWN,
            },
            _ => compared(input, &binary.left, op, &binary.right, schema),
        },
    }
}

/// The part whose `expr` is so to a value.
fn compared(input: &mut Estimate, expr: &Expr, op: Operator, value: &Expr, schema: &DFSchema) -> f64 {
    let Some(place) = place(expr, schema) else {
        return match op {
            Operator::Eq => 0.1,
            Operator::NotEq => 0.9,
            _ => COMPARED,
        };
    };
    let column = &mut input.columns[place];
    let value = match value {
        Expr::Literal(value, _) => number(value),
        _ => None,
    };
    match op {
        Operator::Eq | Operator::IsNotDistinctFrom => {
            let part = match (value, column.range) {
                (Some(value), Some((min, max))) if value < min || value > max => 0.0,
                _ => 1.0 / column.distinct,
            };
            column.distinct = 1.0;
            column.range = value.map(|value| (value, value)).or(column.range);
            part
        }
        Operator::NotEq | Operator::IsDistinctFrom => 1.0 - 1.0 / column.distinct,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
            let (Some(value), Some((min, max))) = (value, column.range) else { return COMPARED };
            let below = matches!(op, Operator::Lt | Operator::LtEq);
            let rest = if below { (min, value.min(max)) } else { (value.max(min), max) };
            let (length, all) = (rest.1 - rest.0, max - min);
            if length < 0.0 {
                return 0.0;
            }
            let part = if all > 0.0 { length / all } else { 1.0 };
            // One value is there, if any is.
            let part = part.max(1.0 / column.distinct).min(1.0);
            column.range = Some(rest);
            column.distinct = (column.distinct * part).max(1.0);
            part
        }
        Operator::LikeMatch | Operator::ILikeMatch => LIKE,
        _ => UNKNOWN,
    }
}

fn nulls(input: &Estimate, expr: &Expr, schema: &DFSchema) -> f64 {
    place(expr, schema).map_or(0.05, |c| input.columns[c].nulls)
}

/// The column that an expression is, whatever it is cast to.
pub(super) fn place(expr: &Expr, schema: &DFSchema) -> Option<usize> {
    match expr {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        Expr::Alias(alias) => place(&alias.expr, schema),
        Expr::Cast(cast) => place(&cast.expr, schema),
        Expr::TryCast(cast) => place(&cast.expr, schema),
        _ => None,
    }
}
