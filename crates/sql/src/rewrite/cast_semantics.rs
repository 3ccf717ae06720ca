//! Casts, comparisons and calls that DataFusion computes otherwise than DuckDB and PostgreSQL, by the types
//! of their operands.
//!
//! - `t::varchar` and `t || ''` are casts by now: DataFusion's casts write timestamps with a `T`, and nulls
//!   in lists as nothing; text is cast to lists and structs (`'[1, 2]'::int[]`), and to times where a date
//!   stands before the time;
//! - a timestamp with time zone becomes the local timestamp or time of its zone, and a date becomes its
//!   midnight there;
//! - a float that is too large for four bytes is refused;
//! - a text without units is an interval of seconds;
//! - `\xAB` in a text is one byte of a blob, and the other way round;
//! - a decimal is true unless it is 0, and a condition is a decimal;
//! - DataFusion compares intervals field by field, and extracts some of their parts only.

use super::expressions::rewrite_expressions;
use crate::functions::{
    self, blob_of_text, blob_of_text_or_null, cast_of_text, comparable, narrow, narrow_or_null,
    part_of_length, reads_text, text, time_of_text, with_units_of, zones,
};
use crate::tree::transform_up_with_subqueries;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast, cast, lit, try_cast,
};
use datafusion::optimizer::AnalyzerRule;
use whimbrel_plan::{canonical, have_sort_keys, is_order, sort_key};

/// Replaces such casts, comparisons and calls by functions of this crate.
#[derive(Debug)]
pub(crate) struct CastSemantics;

impl AnalyzerRule for CastSemantics {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, &mut |plan| {
            let schema = merge_schema(&plan.inputs());
            rewrite_expressions(plan, &mut |expr| rewrite_expr(expr, &schema))
        })
    }

    fn name(&self) -> &str {
        "cast_semantics"
    }
}

/// Rewrites one expression.
fn rewrite_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_length = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Interval(_)));
    let is_float = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Float64 | DataType::Float32));
    let rewritten = match &expr {
        Expr::Cast(Cast { expr: of, field }) | Expr::TryCast(TryCast { expr: of, field })
            if matches!(field.data_type(), DataType::Time32(_) | DataType::Time64(_))
                && of.get_type(schema).is_ok_and(|kind| kind.is_integer()) =>
        {
            return plan_err!("a number is no time of day; write make_time(hour, minute, second)");
        }
        Expr::Cast(Cast { expr: of, field }) => rewrite_cast(of, field.data_type(), false, schema),
        Expr::TryCast(TryCast { expr: of, field }) => rewrite_cast(of, field.data_type(), true, schema),
        Expr::ScalarFunction(call) => rewrite_call(call, schema)?,
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(*op) && is_length(left) && is_length(right) =>
        {
            let by = |side: &Expr| Box::new(comparable().call(vec![side.clone()]));
            Some(Expr::BinaryExpr(BinaryExpr { left: by(left), op: *op, right: by(right) }))
        }
        // Comparisons of columns are rewritten when the plan is lowered.
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_order(*op) && !expr.any_column_refs() && have_sort_keys(left, right, schema) =>
        {
            let [left, right] = [left, right].map(|side| Box::new(sort_key(side.as_ref().clone())));
            Some(Expr::BinaryExpr(BinaryExpr { left, op: *op, right }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(*op) && !expr.any_column_refs() && is_float(left) && is_float(right) =>
        {
            let [left, right] = [left, right].map(|side| Box::new(canonical(side.as_ref().clone())));
            Some(Expr::BinaryExpr(BinaryExpr { left, op: *op, right }))
        }
        _ => None,
    };
    Ok(rewritten.map_or_else(|| Transformed::no(expr), Transformed::yes))
}

/// The expression that a cast becomes; `None` if it stays.
fn rewrite_cast(of: &Expr, to: &DataType, or_null: bool, schema: &DFSchema) -> Option<Expr> {
    use DataType::{Binary, Boolean, Date32, Date64, Float32, Float64, Interval, Time32, Time64, Timestamp};
    let kind = of.get_type(schema).ok()?;
    Some(match (&kind, to) {
        (kind, to) if to.is_string() && functions::has_own_text(kind) => {
            let written = text().call(vec![of.clone()]);
            if *to == DataType::Utf8 { written } else { cast(written, to.clone()) }
        }
        (kind, to) if kind.is_string() && reads_text(to) => cast_of_text(to, or_null).call(vec![of.clone()]),
        (kind, Time32(_) | Time64(_)) if kind.is_string() => match or_null {
            true => try_cast(time_of_text(of)?, to.clone()),
            false => cast(time_of_text(of)?, to.clone()),
        },
        (kind, Interval(_)) if kind.is_string() => match or_null {
            true => try_cast(with_units_of(of)?, to.clone()),
            false => cast(with_units_of(of)?, to.clone()),
        },
        (kind, Binary) if kind.is_string() => {
            let read = if or_null { blob_of_text_or_null() } else { blob_of_text() };
            read.call(vec![of.clone()])
        }
        (kind, Boolean) if kind.is_decimal() => {
            let zero = ScalarValue::new_zero(kind).ok()?;
            of.clone().not_eq(lit(zero))
        }
        (Boolean, kind) if kind.is_decimal() => cast(cast(of.clone(), DataType::Int64), kind.clone()),
        (Float64, Float32) if or_null => narrow_or_null().call(vec![of.clone()]),
        (Float64, Float32) => narrow().call(vec![of.clone()]),
        (Timestamp(_, Some(_)), Timestamp(_, None) | Time32(_) | Time64(_)) => {
            cast(zones::local(of.clone()), to.clone())
        }
        (Date32 | Date64, Timestamp(unit, Some(zone))) => zones::instant(of.clone(), *unit, zone),
        (Timestamp(_, None), Timestamp(unit, Some(zone))) if zones::has_clock_changes(zone) => {
            zones::instant(of.clone(), *unit, zone)
        }
        _ => return None,
    })
}

/// The expression that a call becomes; `None` if it stays.
fn rewrite_call(call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    // Lambdas as arguments have no type of their own.
    let types = call.args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>();
    let Ok(types) = types else { return Ok(None) };
    let is_zoned = |kind: &DataType| matches!(kind, DataType::Timestamp(_, Some(_)));
    Ok(match (call.name(), call.args.as_slice(), types.as_slice()) {
        (zones::NAME, [Expr::Literal(zone, _), of], [_, kind]) => {
            let zone = zone.try_as_str().flatten().unwrap_or(zones::DEFAULT);
            let returned = Expr::ScalarFunction(call.clone()).get_type(schema)?;
            Some(zones::in_casts(zone, of.clone(), kind, &returned))
        }
        ("date_part", [part, of], [_, DataType::Interval(_)]) => {
            let returned = Expr::ScalarFunction(call.clone()).get_type(schema)?;
            Some(cast(part_of_length().call(vec![part.clone(), of.clone()]), returned))
        }
        ("date_trunc", [_, _], [_, DataType::Timestamp(unit, None)]) if *unit != TimeUnit::Nanosecond => {
            Some(functions::truncated().call(call.args.clone()))
        }
        ("round", [_, _], [DataType::Float64 | DataType::Float32, digits]) if digits.is_integer() => {
            Some(functions::round().call(call.args.clone()))
        }
        ("trunc", [_, _], [DataType::Float64 | DataType::Float32, digits]) if digits.is_integer() => {
            Some(functions::trunc().call(call.args.clone()))
        }
        ("age" | "date_sub", ..) if types.iter().any(is_zoned) => {
            let args = call.args.iter().zip(&types);
            let args =
                args.map(|(arg, kind)| if is_zoned(kind) { zones::local(arg.clone()) } else { arg.clone() });
            Some(call.func.call(args.collect()))
        }
        _ => None,
    })
}

/// Whether an operator compares its operands.
fn compares(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq)
        || matches!(op, O::IsDistinctFrom | O::IsNotDistinctFrom)
}
