//! Canonical floats: SQL compares 0.0 and -0.0 as equal, and knows one NaN, which equals itself and is larger
//! than every number.
//!
//! Arrow compares floats by their bits: -0.0 is less than 0.0, and a NaN with a sign, as `0.0 / 0.0` is, less
//! than every number. So operands are brought into a canonical form first. A column that is compared with a
//! literal is left as it is, and the comparison is rewritten instead: sources filter by such comparisons.
//!
//! Lists and structs are ordered, and compared with `<`, by their [`sort_key`].

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, Between, Case, InList, Sort, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, GroupingSet, LogicalPlan, Operator, binary_expr, lit,
};
use whimbrel_plan::{
    canonical, canonical_not_null, has_floats, has_sort_key, have_sort_keys, is_order, sort_key,
};

/// Makes the keys and orders of a node canonical.
///
/// # Errors
/// If the node cannot be rebuilt.
pub(super) fn rewrite_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    match &plan {
        LogicalPlan::Aggregate(_) => plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(rewrite_aggregate_expr(expr, &schema)?.update_data(|expr| name.restore(expr)))
        }),
        LogicalPlan::Window(_) => plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(rewrite_calls(expr, &schema)?.update_data(|expr| name.restore(expr)))
        }),
        LogicalPlan::Sort(_) => plan.map_expressions(|expr| Ok(order_key(expr, &schema))),
        LogicalPlan::Join(join) if join.on.iter().any(|(left, _)| is_float(left, &schema)) => {
            let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
            for (left, right) in &mut join.on {
                *left = canonical_key(left.clone(), join.left.schema()).data;
                *right = canonical_key(right.clone(), join.right.schema()).data;
            }
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        _ => Ok(Transformed::no(plan)),
    }
}

/// A comparison of floats with the meaning of SQL; none if the expression is no such comparison.
pub(super) fn comparison(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_order(*op) && have_sort_keys(left, right, schema) =>
        {
            Some(binary_expr(sort_key(left.as_ref().clone()), *op, sort_key(right.as_ref().clone())))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(*op) && is_float(left, schema) && is_float(right, schema) =>
        {
            Some(compare(left, *op, right))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_float(expr, schema) => {
            let [expr, low, high] = [expr, low, high].map(|e| Box::new(canonical(e.as_ref().clone())));
            Some(Expr::Between(Between { expr, negated: *negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated }) if is_float(expr, schema) => {
            let list = list.iter().map(|value| canonical(value.clone())).collect();
            Some(Expr::InList(InList::new(Box::new(canonical(expr.as_ref().clone())), list, *negated)))
        }
        Expr::Case(case) => {
            let operand = case.expr.as_ref().filter(|operand| is_float(operand, schema))?;
            let operand = Some(Box::new(canonical(operand.as_ref().clone())));
            let branches = case.when_then_expr.iter();
            let branches =
                branches.map(|(when, then)| (Box::new(canonical(when.as_ref().clone())), then.clone()));
            Some(Expr::Case(Case { expr: operand, when_then_expr: branches.collect(), ..case.clone() }))
        }
        Expr::ScalarFunction(call) if matches!(call.name(), "nullif" | "greatest" | "least") => {
            let floats = call.args.iter().all(|arg| is_float(arg, schema));
            floats.then(|| call.func.call(call.args.iter().cloned().map(canonical).collect()))
        }
        _ => None,
    }
}

/// Whether an operator compares two values.
fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Compares two floats.
fn compare(left: &Expr, op: Operator, right: &Expr) -> Expr {
    let with_literal = match (left, right) {
        (Expr::Column(_), Expr::Literal(number, _)) => compare_with_literal(left, op, number),
        (Expr::Literal(number, _), Expr::Column(_)) => {
            op.swap().and_then(|op| compare_with_literal(right, op, number))
        }
        _ => None,
    };
    with_literal.unwrap_or_else(|| binary_expr(canonical(left.clone()), op, canonical(right.clone())))
}

/// Compares a column with a literal that is not NaN.
fn compare_with_literal(column: &Expr, op: Operator, number: &ScalarValue) -> Option<Expr> {
    let (minus_zero, zero, least) = match number {
        ScalarValue::Float64(Some(number)) if !number.is_nan() => {
            (lit(-0.0_f64), lit(0.0_f64), f64::NEG_INFINITY.into())
        }
        ScalarValue::Float32(Some(number)) if !number.is_nan() => {
            (lit(-0.0_f32), lit(0.0_f32), ScalarValue::from(f32::NEG_INFINITY))
        }
        _ => return None,
    };
    let is_zero = matches!(number, ScalarValue::Float64(Some(n)) if *n == 0.0)
        || matches!(number, ScalarValue::Float32(Some(n)) if *n == 0.0);
    let own = lit(number.clone());
    let (low, high) = if is_zero { (minus_zero, zero) } else { (own.clone(), own) };
    let value = || column.clone();
    let is_nan_below = value().lt(lit(least.clone()));
    let is_above = value().gt_eq(lit(least));
    Some(match op {
        Operator::Eq if is_zero => value().gt_eq(low).and(value().lt_eq(high)),
        Operator::NotEq if is_zero => value().lt(low).or(value().gt(high)),
        Operator::Eq => value().eq(low),
        Operator::NotEq => value().not_eq(low),
        Operator::Lt => value().lt(low).and(is_above),
        Operator::LtEq => value().lt_eq(high).and(is_above),
        Operator::Gt => value().gt(high).or(is_nan_below),
        Operator::GtEq => value().gt_eq(low).or(is_nan_below),
        _ => return None,
    })
}

/// Makes a key, or the arguments of a function, of an aggregate canonical.
fn rewrite_aggregate_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::GroupingSet(sets) => {
            let named = |expr: Expr| {
                let name = match &expr {
                    Expr::Column(column) => (column.relation.clone(), column.name.clone()),
                    other => (None, other.schema_name().to_string()),
                };
                let key = canonical_key(expr, schema);
                if key.transformed { key.data.alias_qualified(name.0, name.1) } else { key.data }
            };
            let all = |set: Vec<Expr>| set.into_iter().map(named).collect();
            Ok(Transformed::yes(Expr::GroupingSet(match sets {
                GroupingSet::Rollup(set) => GroupingSet::Rollup(all(set)),
                GroupingSet::Cube(set) => GroupingSet::Cube(all(set)),
                GroupingSet::GroupingSets(sets) => {
                    GroupingSet::GroupingSets(sets.into_iter().map(all).collect())
                }
            })))
        }
        expr if expr.exists(|e| Ok(matches!(e, Expr::AggregateFunction(_))))? => rewrite_calls(expr, schema),
        expr => Ok(canonical_key(expr, schema)),
    }
}

/// Makes the arguments canonical that functions compare, and their orders and partitions.
fn rewrite_calls(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let all = |exprs: &mut Vec<Expr>| {
        exprs.iter_mut().for_each(|expr| *expr = canonical_key(std::mem::take(expr), schema).data);
    };
    let sorts = |sorts: &mut Vec<Sort>| {
        sorts.iter_mut().for_each(|by| by.expr = order_key(std::mem::take(&mut by.expr), schema).data);
    };
    expr.transform_up(|expr| {
        Ok(match expr {
            Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
                if params.distinct || matches!(func.name(), "min" | "max") {
                    all(&mut params.args);
                }
                sorts(&mut params.order_by);
                Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params }))
            }
            Expr::WindowFunction(window) => {
                let WindowFunction { fun, mut params } = *window;
                if params.distinct || matches!(fun.name(), "min" | "max") {
                    all(&mut params.args);
                }
                all(&mut params.partition_by);
                sorts(&mut params.order_by);
                Transformed::yes(Expr::WindowFunction(Box::new(WindowFunction { fun, params })))
            }
            other => Transformed::no(other),
        })
    })
}

/// What an expression is ordered by: lists and structs by their keys, floats by their canonical form.
pub(super) fn order_key(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr.get_type(schema).is_ok_and(|kind| has_sort_key(&kind)) {
        true => Transformed::yes(sort_key(expr)),
        false => canonical_key(expr, schema),
    }
}

/// The canonical form of an expression, if it is of floats.
fn canonical_key(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match (is_float(&expr, schema), expr.nullable(schema)) {
        (false, _) => Transformed::no(expr),
        (true, Ok(false)) => Transformed::yes(canonical_not_null(expr)),
        (true, _) => Transformed::yes(canonical(expr)),
    }
}

/// Whether an expression is of floats, or of values that have floats in them.
fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|kind| has_floats(&kind))
}
