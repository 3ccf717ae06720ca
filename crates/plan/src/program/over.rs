//! Window functions: aggregates and `row_number` and its like, over the rows around each row.

use super::doc::Doc;
use super::literal::quoted;
use super::naming::name_of;
use super::read::{Reader, Scope, Wants, free, over_whole};
use super::rows::{named, positions, readable};
use super::steps::Place;
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
    pub fn over_windows(&mut self, window: &Window, wants: &Wants) -> Result<Scope> {
        let (below, exprs) = together(window);
        let schema = below.schema();
        let width = schema.fields().len();
        let mut wanted = Wants { exact: wants.exact, ..Wants::default() };
        wanted.names.extend(wants.names.iter().filter(|(i, _)| **i < width).map(|(i, n)| (*i, n.clone())));
        if let Some(used) = &wants.used {
            let mut used: BTreeSet<usize> = used.iter().copied().filter(|i| *i < width).collect();
            for expr in &exprs {
                used.extend(positions(expr, schema)?);
            }
            wanted.used = Some(used);
        }
        let mut input = self.read(below, &wanted)?;
        let stream = self.steps.stream(input.step).clone();
        let all = names(stream.plan().schema());
        let mut calls: Vec<(String, Expr)> = Vec::new();
        let mut arguments = Vec::new();
        for (i, expr) in exprs.into_iter().enumerate() {
            let call = over_whole(self.over(expr, schema, &input)?, stream.plan().schema())?;
            let Expr::WindowFunction(function) = &call else {
                return plan_err!("{call} is no window function");
            };
            let own = || name_of(function.fun.name());
            let name = wants.name(width + i, |name| readable(name, &call)).unwrap_or_else(own);
            let name = free(&name, |n| all.contains(&n) || calls.iter().any(|(c, _)| c == n));
            arguments.push(named(&name, self.over_doc(input.step, function)?));
            calls.push((name, call));
        }
        input.columns.extend(calls.iter().map(|(name, _)| name.clone()));
        let stream = stream.with_windows(calls)?;
        Ok(self.next(input, Place::Query, Doc::call(".with_columns", arguments), stream))
    }

    /// `wb.agg.row_number().over("item", order_by="price", rows=(None, 0))`.
    fn over_doc(&mut self, step: usize, function: &WindowFunction) -> Result<Doc> {
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
        over.extend(frame(&params.window_frame, params.order_by.is_empty())?);
        Ok(Doc::Group(vec![call, Doc::call(".over", over)]))
    }
}

/// The windows right below each other, none of which looks at what another gives, and what is below them: one
/// step, which the builder takes apart by their orders.
fn together(window: &Window) -> (&LogicalPlan, Vec<&Expr>) {
    let own: Vec<&Expr> = window.window_expr.iter().collect();
    let LogicalPlan::Window(lower) = window.input.as_ref() else { return (&window.input, own) };
    let (below, mut exprs) = together(lower);
    let independent =
        own.iter().all(|e| e.column_refs().iter().all(|c| below.schema().maybe_index_of_column(c).is_some()));
    if !independent {
        return (&window.input, own);
    }
    exprs.extend(own);
    (below, exprs)
}

/// `rows=(-1, 1)`; nothing, if it is what holds without.
fn frame(frame: &WindowFrame, unordered: bool) -> Result<Option<Doc>> {
    let bound = |bound: &WindowFrameBound| -> Result<String> {
        Ok(match bound {
            WindowFrameBound::CurrentRow => "0".to_string(),
            WindowFrameBound::Preceding(v) | WindowFrameBound::Following(v) if v.is_null() => {
                "None".to_string()
            }
            WindowFrameBound::Preceding(v) => distance("-", v)?,
            WindowFrameBound::Following(v) => distance("", v)?,
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
    let whole = unordered && (start.as_str(), end.as_str()) == ("None", "None");
    Ok(((units, start.as_str(), end.as_str()) != default && !whole)
        .then(|| Doc::Text(format!("{units}=({start}, {end})"))))
}

fn distance(sign: &str, value: &ScalarValue) -> Result<String> {
    let text = value.cast_to(&DataType::Utf8)?;
    let Some(Some(text)) = text.try_as_str() else { return plan_err!("no distance between rows: {value}") };
    Ok(match value.data_type().is_numeric() {
        true => format!("{sign}{text}"),
        false => quoted(&format!("{sign}{text}")),
    })
}
