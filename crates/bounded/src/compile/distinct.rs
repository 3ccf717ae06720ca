//! `distinct` and `distinct on`.

use super::block::substitute;
use super::{Compiler, Part, Stuck, Want, catalog, projected, substitute_order};
use crate::plan::Step;
use datafusion::logical_expr::{DistinctOn, Expr, LogicalPlan, SortExpr};

impl Compiler<'_> {
    pub(super) fn distinct(&self, input: &LogicalPlan) -> Result<Part, Stuck> {
        let part = self.part(input, &Want::default())?;
        let qualifier = self.alias("distinct");
        let mut part = projected(part, &qualifier);
        part.chain.steps.push(Step::Distinct);
        Ok(Part { ordered: false, stopped: false, ..part })
    }

    /// The first row of each group; groups come in the order of their first rows.
    pub(super) fn distinct_on(&self, on: &DistinctOn) -> Result<Part, Stuck> {
        let order = on.sort_expr.clone().unwrap_or_default();
        let mut part = self.part(&on.input, &Want { order: order.clone(), ..Want::default() })?;
        if !part.ordered {
            part.chain.steps.push(Step::Sort(substitute_order(&order, &on.input, &part.outputs)?));
        }
        let resolve = |expr: &Expr| substitute(expr, on.input.schema(), &part.outputs);
        let group = on.on_expr.iter().map(resolve).collect::<Result<Vec<_>, _>>()?;
        let first = catalog::first_value();
        let selected = on.select_expr.iter().map(|expr| Ok(first.call(vec![resolve(expr)?])));
        let selected = selected.collect::<Result<Vec<_>, Stuck>>()?;
        let columns = group.len()..group.len() + selected.len();
        let part = self.grouped(part.chain, group, selected);
        // Of what rows are ordered by, groups have what they are made by.
        let of_group = |key: &SortExpr| {
            let at = on.on_expr.iter().position(|expr| *expr == key.expr)?;
            Some(SortExpr { expr: part.outputs[at].clone(), ..key.clone() })
        };
        let order = order.iter().map_while(of_group).collect();
        Ok(Part { outputs: part.outputs[columns].to_vec(), order, ..part })
    }
}
