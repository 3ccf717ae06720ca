//! Floats as SQL compares them: 0.0 and -0.0 are one number, and there is one NaN, which is equal to itself and larger than
//! all others.
//!
//! Arrow compares floats by their bits: -0.0 is less than 0.0, and a NaN with a sign, which `0.0 / 0.0` is, less than
//! everything. So what is compared is brought into one form before. Columns beside numbers are left as they are, and the
//! comparison is said so that it comes to the same: sources leave rows out by such comparisons.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, Between, InList, Sort, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, GroupingSet, LogicalPlan, Operator, binary_expr, lit,
};
use whimbrel_plan::{canonical, canonical_not_null};

/// One step of a plan, whose keys and orders are in that form.
pub(super) fn of_step(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    match &plan {
        LogicalPlan::Aggregate(_) => plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(of_aggregate(expr, &schema)?.update_data(|expr| name.restore(expr)))
        }),
        LogicalPlan::Window(_) => plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(calls(expr, &schema)?.update_data(|expr| name.restore(expr)))
        }),
        LogicalPlan::Sort(_) => plan.map_expressions(|expr| Ok(key(expr, &schema))),
        LogicalPlan::Join(join) if join.on.iter().any(|(left, _)| is_float(left, &schema)) => {
            let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
            for (left, right) in &mut join.on {
                *left = key(left.clone(), join.left.schema()).data;
                *right = key(right.clone(), join.right.schema()).data;
            }
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        _ => Ok(Transformed::no(plan)),
    }
}

/// A comparison of floats that comes to what SQL says; none: the expression is no such comparison.
pub(super) fn comparison(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(*op) && is_float(left, schema) && is_float(right, schema) =>
        {
            Some(compared(left, *op, right))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_float(expr, schema) => {
            let [expr, low, high] = [expr, low, high].map(|e| Box::new(canonical(e.as_ref().clone())));
            Some(Expr::Between(Between { expr, negated: *negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated }) if is_float(expr, schema) => {
            let list = list.iter().map(|value| canonical(value.clone())).collect();
            Some(Expr::InList(InList::new(Box::new(canonical(expr.as_ref().clone())), list, *negated)))
        }
        Expr::ScalarFunction(call) if matches!(call.name(), "nullif" | "greatest" | "least") => {
            let floats = call.args.iter().all(|arg| is_float(arg, schema));
            floats.then(|| call.func.call(call.args.iter().cloned().map(canonical).collect()))
        }
        _ => None,
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn compared(left: &Expr, op: Operator, right: &Expr) -> Expr {
    let beside = match (left, right) {
        (Expr::Column(_), Expr::Literal(number, _)) => beside_number(left, op, number),
        (Expr::Literal(number, _), Expr::Column(_)) => {
            op.swap().and_then(|op| beside_number(right, op, number))
        }
        _ => None,
    };
    beside.unwrap_or_else(|| binary_expr(canonical(left.clone()), op, canonical(right.clone())))
}

/// A column beside a number that is not NaN.
fn beside_number(column: &Expr, op: Operator, number: &ScalarValue) -> Option<Expr> {
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
    let of = || column.clone();
    let is_nan_below = of().lt(lit(least.clone()));
    let is_above = of().gt_eq(lit(least));
    Some(match op {
        Operator::Eq if is_zero => of().gt_eq(low).and(of().lt_eq(high)),
        Operator::NotEq if is_zero => of().lt(low).or(of().gt(high)),
        Operator::Eq => of().eq(low),
        Operator::NotEq => of().not_eq(low),
        Operator::Lt => of().lt(low).and(is_above),
        Operator::LtEq => of().lt_eq(high).and(is_above),
        Operator::Gt => of().gt(high).or(is_nan_below),
        Operator::GtEq => of().gt_eq(low).or(is_nan_below),
        _ => return None,
    })
}

/// A key, or a call, of an aggregate.
fn of_aggregate(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::GroupingSet(sets) => {
            let named = |expr: Expr| {
                let name = match &expr {
                    Expr::Column(column) => (column.relation.clone(), column.name.clone()),
                    other => (None, other.schema_name().to_string()),
                };
                let key = key(expr, schema);
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
        expr if expr.exists(|e| Ok(matches!(e, Expr::AggregateFunction(_))))? => calls(expr, schema),
        expr => Ok(key(expr, schema)),
    }
}

/// An expression whose calls look at values in that form, where they compare them.
fn calls(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let all = |exprs: &mut Vec<Expr>| {
        exprs.iter_mut().for_each(|expr| *expr = key(std::mem::take(expr), schema).data);
    };
    let sorts = |sorts: &mut Vec<Sort>| {
        sorts.iter_mut().for_each(|by| by.expr = key(std::mem::take(&mut by.expr), schema).data);
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

/// The expression in that form, if it is of floats.
fn key(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match (is_float(&expr, schema), expr.nullable(schema)) {
        (false, _) => Transformed::no(expr),
        (true, Ok(false)) => Transformed::yes(canonical_not_null(expr)),
        (true, _) => Transformed::yes(canonical(expr)),
    }
}

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Float64 | DataType::Float32))
}
