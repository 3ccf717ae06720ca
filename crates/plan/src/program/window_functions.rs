//! Window functions: aggregates and ranking functions over the frame of each row.
//!
//! Window nodes on top of each other that do not use each other's results become one step.

use super::arguments::keyword_argument;
use super::document::Doc;
use super::literal::python_string;
use super::reader::{Reader, Required, Scope, unique_name, without_coercion_casts};
use super::rows::{positions, readable};
use super::steps::StepKind;
use super::variable_names::name_of;
use crate::aggregate::aggregate_of;
use crate::names::names;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, NullTreatment, WindowFunction,
};
use datafusion::logical_expr::{
    Expr, LogicalPlan, Window, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use std::collections::BTreeSet;

impl Reader {
    /// The step of a window node: `.with_columns(n=wb.agg.row_number().over("item"))`.
    pub fn window_functions(&mut self, window: &Window, required: &Required) -> Result<Scope> {
        let (below, exprs) = merged_windows(window);
        let schema = below.schema();
        let width = schema.fields().len();
        let mut from_input = Required { keep_names: required.keep_names, ..Required::default() };
        from_input
            .names
            .extend(required.names.iter().filter(|(i, _)| **i < width).map(|(i, n)| (*i, n.clone())));
        if let Some(used) = &required.used {
            let mut used: BTreeSet<usize> = used.iter().copied().filter(|i| *i < width).collect();
            for expr in &exprs {
                used.extend(positions(expr, schema)?);
            }
            from_input.used = Some(used);
        }
        let mut input = self.read(below, &from_input)?;
        let stream = self.steps.stream(input.step).clone();
        let input_names = names(stream.plan().schema());
        let mut calls: Vec<(String, Expr)> = Vec::new();
        let mut arguments = Vec::new();
        for (i, expr) in exprs.into_iter().enumerate() {
            let call =
                without_coercion_casts(self.rewrite_expr(expr, schema, &input)?, stream.plan().schema())?;
            let Expr::WindowFunction(function) = &call else {
                return plan_err!("{call} is no window function");
            };
            let function_name = || name_of(function.fun.name());
            let name = required.name(width + i, |name| readable(name, &call)).unwrap_or_else(function_name);
            let name = unique_name(&name, |n| input_names.contains(&n) || calls.iter().any(|(c, _)| c == n));
            arguments.push(keyword_argument(&name, self.window_function_doc(input.step, function)?));
            calls.push((name, call));
        }
        input.columns.extend(calls.iter().map(|(name, _)| name.clone()));
        let stream = stream.with_windows(calls)?;
        Ok(self.add_step(input, StepKind::QueryMethod, Doc::call(".with_columns", arguments), stream))
    }

    /// `wb.agg.row_number().over("item", order_by="price", rows=(None, 0))`.
    fn window_function_doc(&mut self, step: usize, function: &WindowFunction) -> Result<Doc> {
        let params = &function.params;
        let call = match &function.fun {
            WindowFunctionDefinition::AggregateUDF(func) => {
                let call = AggregateFunction {
                    func: func.clone(),
                    params: AggregateFunctionParams {
                        args: params.args.clone(),
                        distinct: params.distinct,
                        filter: params.filter.clone(),
                        order_by: vec![],
                        null_treatment: params.null_treatment,
                    },
                };
                match aggregate_of(&Expr::AggregateFunction(call.clone())) {
                    Ok((_, agg)) if agg.function.name() == func.name() => self.agg(step, &agg)?,
                    _ => self.relational(step, &call)?,
                }
            }
            WindowFunctionDefinition::WindowUDF(func) => {
                let mut arguments =
                    params.args.iter().map(|a| self.argument(step, a)).collect::<Result<Vec<_>>>()?;
                if params.null_treatment == Some(NullTreatment::IgnoreNulls) {
                    arguments.push(Doc::text("ignore_nulls=True"));
                }
                Doc::call(format!("wb.agg.{}", func.name()), arguments)
            }
        };
        let mut over =
            params.partition_by.iter().map(|e| self.argument(step, e)).collect::<Result<Vec<_>>>()?;
        over.extend(self.ordering(step, &params.order_by)?);
        over.extend(frame_argument(&params.window_frame, params.order_by.is_empty())?);
        Ok(Doc::Group(vec![call, Doc::call(".over", over)]))
    }
}

/// The functions of this window node and of those directly below it, and the input of the lowest one.
///
/// A node is merged only if it does not use the results of the nodes below. The builder splits the functions
/// by their orderings again.
fn merged_windows(window: &Window) -> (&LogicalPlan, Vec<&Expr>) {
    let exprs: Vec<&Expr> = window.window_expr.iter().collect();
    let LogicalPlan::Window(lower) = window.input.as_ref() else { return (&window.input, exprs) };
    let (below, mut merged) = merged_windows(lower);
    let independent = exprs
        .iter()
        .all(|e| e.column_refs().iter().all(|c| below.schema().maybe_index_of_column(c).is_some()));
    if !independent {
        return (&window.input, exprs);
    }
    merged.extend(exprs);
    (below, merged)
}

/// The frame as an argument, `rows=(-1, 1)`; `None` for the default frame.
fn frame_argument(frame: &WindowFrame, unordered: bool) -> Result<Option<Doc>> {
    let bound = |bound: &WindowFrameBound| -> Result<String> {
        Ok(match bound {
            WindowFrameBound::CurrentRow => "0".to_string(),
            WindowFrameBound::Preceding(v) | WindowFrameBound::Following(v) if v.is_null() => {
                "None".to_string()
            }
            WindowFrameBound::Preceding(v) => frame_offset("-", v)?,
            WindowFrameBound::Following(v) => frame_offset("", v)?,
        })
    };
    let (start, end) = (bound(&frame.start_bound)?, bound(&frame.end_bound)?);
    let units = match frame.units {
        WindowFrameUnits::Rows => "rows",
        WindowFrameUnits::Range => "range",
        WindowFrameUnits::Groups => "groups",
    };
    let default = match unordered {
        true => ("rows", "None", "None"),
        false => ("range", "None", "0"),
    };
    let all_rows = unordered && (start.as_str(), end.as_str()) == ("None", "None");
    Ok(((units, start.as_str(), end.as_str()) != default && !all_rows)
        .then(|| Doc::Text(format!("{units}=({start}, {end})"))))
}

/// The offset of a frame bound as Python writes it: `-1`, `"-1h"`.
fn frame_offset(sign: &str, value: &ScalarValue) -> Result<String> {
    let text = value.cast_to(&DataType::Utf8)?;
    let Some(Some(text)) = text.try_as_str() else { return plan_err!("no distance between rows: {value}") };
    Ok(match value.data_type().is_numeric() {
        true => format!("{sign}{text}"),
        false => python_string(&format!("{sign}{text}")),
    })
}
