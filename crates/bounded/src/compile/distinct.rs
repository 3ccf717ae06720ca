//! `distinct` and `distinct on`.

use super::compiler::Compiler;
use super::error::CompileError;
use super::expressions::{substitute, substitute_order};
use super::part::{Part, Required, project_outputs};
use crate::plan::Step;
use datafusion::logical_expr::{AggregateUDF, DistinctOn, Expr, LogicalPlan, SortExpr};
use std::sync::Arc;

impl Compiler<'_> {
    /// `select distinct`: duplicates are dropped after all rows are there.
    pub(super) fn distinct(&self, input: &LogicalPlan) -> Result<Part, CompileError> {
        let part = self.part(input, &Required::default())?;
        let qualifier = self.alias("distinct");
        let mut part = project_outputs(part, &qualifier);
        part.chain.steps.push(Step::Distinct);
        Ok(Part { ordered: false, stopped: false, ..part })
    }

    /// The first row of each group; groups come in the order of their first rows.
    pub(super) fn distinct_on(&self, on: &DistinctOn) -> Result<Part, CompileError> {
        let order = on.sort_expr.clone().unwrap_or_default();
        let mut part = self.part(&on.input, &Required { order: order.clone(), ..Required::default() })?;
        if !part.ordered {
            part.chain.steps.push(Step::Sort(substitute_order(&order, &on.input, &part.outputs)?));
        }
        let resolve = |expr: &Expr| substitute(expr, on.input.schema(), &part.outputs);
        let group = on.on_expr.iter().map(resolve).collect::<Result<Vec<_>, _>>()?;
        let first = first_value();
        let selected = on.select_expr.iter().map(|expr| Ok(first.call(vec![resolve(expr)?])));
        let selected = selected.collect::<Result<Vec<_>, CompileError>>()?;
        let columns = group.len()..group.len() + selected.len();
        let part = self.grouped(part.chain, group, selected);
        // Groups have only the columns that they are grouped by.
        let of_group = |key: &SortExpr| {
            let at = on.on_expr.iter().position(|expr| *expr == key.expr)?;
            Some(SortExpr { expr: part.outputs[at].clone(), ..key.clone() })
        };
        let order = order.iter().map_while(of_group).collect();
        Ok(Part { outputs: part.outputs[columns].to_vec(), order, ..part })
    }
}

/// The value in the first row of a group.
fn first_value() -> Arc<AggregateUDF> {
    datafusion::functions_aggregate::first_last::first_value_udaf()
}
