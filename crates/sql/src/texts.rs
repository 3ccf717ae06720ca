//! What is right only where types are known: casts and comparisons that DataFusion does otherwise than DuckDB and PostgreSQL.
//!
//! - `t::varchar` and `t || ''` are casts by now, and DataFusion's casts write instants with a `T`, and nulls in lists as
//!   nothing; texts are read as lists and structs (`'[1, 2]'::int[]`), and as times if a date stands before them;
//! - an instant in a zone is what clocks show there where it becomes a timestamp or a time, and a day begins there;
//! - a float that is too large for four bytes is refused;
//! - DataFusion compares lengths of time field by field, and has some of their parts only.

use crate::functions::{
    self, cast_of_text, comparable, narrow, narrow_or_null, part_of_length, reads_text, text, time_of_text,
    zones,
};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast, cast, try_cast,
};
use datafusion::optimizer::AnalyzerRule;
use whimbrel_plan::canonical;

/// Puts our functions in place of such casts and comparisons.
#[derive(Debug)]
pub(crate) struct Texts;

impl AnalyzerRule for Texts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(said).data()
    }

    fn name(&self) -> &str {
        "texts"
    }
}

fn said(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let said = expr.transform_up(|expr| in_place(expr, &schema))?;
        Ok(said.update_data(|expr| name.restore(expr)))
    })
}

fn in_place(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_length = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Interval(_)));
    let is_float = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Float64 | DataType::Float32));
    let said = match &expr {
        Expr::Cast(Cast { expr: of, field }) => in_cast(of, field.data_type(), false, schema),
        Expr::TryCast(TryCast { expr: of, field }) => in_cast(of, field.data_type(), true, schema),
        Expr::ScalarFunction(call) => in_call(call, schema)?,
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(*op) && is_length(left) && is_length(right) =>
        {
            let by = |side: &Expr| Box::new(comparable().call(vec![side.clone()]));
            Some(Expr::BinaryExpr(BinaryExpr { left: by(left), op: *op, right: by(right) }))
        }
        // Where there are columns, it is said when the plan is about to run.
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(*op) && !expr.any_column_refs() && is_float(left) && is_float(right) =>
        {
            let [left, right] = [left, right].map(|side| Box::new(canonical(side.as_ref().clone())));
            Some(Expr::BinaryExpr(BinaryExpr { left, op: *op, right }))
        }
        _ => None,
    };
    Ok(said.map_or_else(|| Transformed::no(expr), Transformed::yes))
}

/// What stands for a cast.
fn in_cast(of: &Expr, to: &DataType, or_null: bool, schema: &DFSchema) -> Option<Expr> {
    use DataType::{Date32, Date64, Float32, Float64, Time32, Time64, Timestamp};
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
        (Float64, Float32) if or_null => narrow_or_null().call(vec![of.clone()]),
        (Float64, Float32) => narrow().call(vec![of.clone()]),
        (Timestamp(_, Some(_)), Timestamp(_, None) | Time32(_) | Time64(_)) => {
            cast(zones::local(of.clone()), to.clone())
        }
        (Date32 | Date64, Timestamp(unit, Some(_))) => {
            cast(cast(of.clone(), Timestamp(*unit, None)), to.clone())
        }
        _ => return None,
    })
}

/// What stands for a call.
fn in_call(call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    // Functions as arguments have no type of their own.
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
        ("age" | "date_sub", ..) if types.iter().any(is_zoned) => {
            let args = call.args.iter().zip(&types);
            let args =
                args.map(|(arg, kind)| if is_zoned(kind) { zones::local(arg.clone()) } else { arg.clone() });
            Some(call.func.call(args.collect()))
        }
        _ => None,
    })
}

fn compares(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq)
        || matches!(op, O::IsDistinctFrom | O::IsNotDistinctFrom)
}
