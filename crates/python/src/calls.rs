//! Calls of aggregates and window functions of DataFusion, by name.
//!
//! These are calls as SQL has them: with `distinct`, a filter, an order, a frame. The aggregates that a timed
//! stream maintains are others; the builder resolves their names.

use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment, WindowFunction};
use datafusion::logical_expr::{
    AggregateUDF, Expr, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
    WindowUDF,
};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use whimbrel_plan::{avg_udaf, single_value};

use crate::error::OrRaise;
use crate::expr::{NativeExpr, exprs};

/// The aggregates, by name.
static AGGREGATES: LazyLock<BTreeMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    let all = SessionStateDefaults::default_aggregate_functions();
    let all = all.into_iter().chain([single_value(), avg_udaf()]);
    all.map(|function| (function.name().to_string(), function)).collect()
});

/// The window functions, by name.
static WINDOWS: LazyLock<BTreeMap<String, Arc<WindowUDF>>> = LazyLock::new(|| {
    let all = SessionStateDefaults::default_window_functions();
    all.into_iter().map(|function| (function.name().to_string(), function)).collect()
});

/// An order: expressions, whether each ascends, whether its nulls come first.
type Order = Vec<(NativeExpr, bool, bool)>;

/// A frame: `rows`, `range` or `groups`, its start and its end. Without a start or an end it is unbounded
/// there.
type Frame = (String, Option<String>, Option<String>);

/// The names of all aggregates and window functions.
#[pyfunction]
pub fn call_names() -> Vec<String> {
    let mut names: Vec<String> = AGGREGATES.keys().chain(WINDOWS.keys()).cloned().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A call of an aggregate, over all rows of a group.
///
/// # Errors
/// `InvalidError` if there is no such aggregate, or the call is too deep.
#[pyfunction]
pub fn aggregate_call(
    name: &str,
    args: Vec<NativeExpr>,
    distinct: bool,
    filter: Option<NativeExpr>,
    order_by: Order,
    ignore_nulls: bool,
) -> PyResult<NativeExpr> {
    let schema = args.iter().find_map(|a| a.schema.clone());
    let function = aggregate(name).or_raise()?;
    let filter = filter.map(|f| Box::new(f.expr()));
    let call = AggregateFunction::new_udf(
        function,
        exprs(args),
        distinct,
        filter,
        orders(order_by),
        nulls(ignore_nulls),
    );
    NativeExpr::new(Expr::AggregateFunction(call), schema)
}

/// A call of an aggregate or a window function over the rows around each row.
///
/// # Errors
/// `InvalidError` if there is no such function, the frame is wrong, or the call is too deep.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the parts of one call, each with a name in Python")]
pub fn window_call(
    name: &str,
    args: Vec<NativeExpr>,
    distinct: bool,
    filter: Option<NativeExpr>,
    ignore_nulls: bool,
    partition_by: Vec<NativeExpr>,
    order_by: Order,
    frame: Option<Frame>,
) -> PyResult<NativeExpr> {
    let schema = args.iter().chain(&partition_by).find_map(|a| a.schema.clone());
    let mut call = WindowFunction::new(function(name).or_raise()?, exprs(args));
    let ordered = (!order_by.is_empty()).then_some(false);
    call.params.window_frame = match frame {
        Some(frame) => window_frame(&frame).or_raise()?,
        None => WindowFrame::new(ordered),
    };
    call.params.distinct = distinct;
    call.params.filter = filter.map(|f| Box::new(f.expr()));
    call.params.null_treatment = nulls(ignore_nulls);
    call.params.partition_by = exprs(partition_by);
    call.params.order_by = orders(order_by);
    NativeExpr::new(Expr::WindowFunction(Box::new(call)), schema)
}

/// The order as expressions of DataFusion.
fn orders(order_by: Order) -> Vec<SortExpr> {
    order_by
        .into_iter()
        .map(|(by, ascending, nulls_first)| SortExpr::new(by.expr(), ascending, nulls_first))
        .collect()
}

/// Whether a window function skips nulls.
fn nulls(ignore: bool) -> Option<NullTreatment> {
    ignore.then_some(NullTreatment::IgnoreNulls)
}

/// An aggregate, by its name.
///
/// # Errors
/// `Plan` if there is none; its message has the most similar name.
fn aggregate(name: &str) -> Result<Arc<AggregateUDF>> {
    match AGGREGATES.get(name) {
        Some(function) => Ok(Arc::clone(function)),
        None if WINDOWS.contains_key(name) => {
            plan_err!("{name} is a window function: say over what, .over(…), in with_columns")
        }
        None => Err(unknown(name)),
    }
}

/// A window function or an aggregate, by its name.
fn function(name: &str) -> Result<WindowFunctionDefinition> {
    match (WINDOWS.get(name), AGGREGATES.get(name)) {
        (Some(window), _) => Ok(WindowFunctionDefinition::WindowUDF(Arc::clone(window))),
        (None, Some(aggregate)) => Ok(WindowFunctionDefinition::AggregateUDF(Arc::clone(aggregate))),
        (None, None) => Err(unknown(name)),
    }
}

/// The error for a name that is not there.
fn unknown(name: &str) -> DataFusionError {
    let names = AGGREGATES.keys().chain(WINDOWS.keys());
    let nearest = names.max_by_key(|other| (strsim::jaro_winkler(name, other) * 1e6) as u64);
    let nearest = nearest.map(String::as_str).unwrap_or_default();
    DataFusionError::Plan(format!(
        "there is no function of several rows \"{name}\"; did you mean \"{nearest}\"? dir(wb.agg) lists them all"
    ))
}

/// The frame as DataFusion has it.
fn window_frame((units, start, end): &Frame) -> Result<WindowFrame> {
    let units = match units.as_str() {
        "rows" => WindowFrameUnits::Rows,
        "groups" => WindowFrameUnits::Groups,
        _ => WindowFrameUnits::Range,
    };
    let start = start.as_deref().map_or(WindowFrameBound::Preceding(ScalarValue::UInt64(None)), bound);
    let end = end.as_deref().map_or(WindowFrameBound::Following(ScalarValue::UInt64(None)), bound);
    Ok(WindowFrame::new_bounds(units, start, end))
}

/// A bound of a frame: `-2`, `2`, `-1 day`, `1 day`. The type of the order decides how the text is read.
fn bound(text: &str) -> WindowFrameBound {
    match (text, text.strip_prefix('-')) {
        ("0", _) => WindowFrameBound::CurrentRow,
        (_, Some(before)) => WindowFrameBound::Preceding(ScalarValue::Utf8(Some(before.to_string()))),
        (after, None) => WindowFrameBound::Following(ScalarValue::Utf8(Some(after.to_string()))),
    }
}
