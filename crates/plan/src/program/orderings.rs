//! Orderings and limits: `.sort(…)` and `.limit(…)`.

use super::document::Doc;
use super::literal::python_string;
use super::reader::{Reader, Required, Scope};
use super::rows::positions;
use super::steps::StepKind;
use super::variable_names::name_of;
use crate::names::column_name;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::{FetchType, Limit, LogicalPlan, SkipType, Sort};

impl Reader {
    /// The step of a sort node; its `fetch` becomes a `.limit(…)`.
    pub fn sort(&mut self, sort: &Sort, required: &Required) -> Result<Scope> {
        let schema = sort.input.schema();
        let mut below = required.clone();
        for by in &sort.expr {
            if let Some(used) = &mut below.used {
                used.extend(positions(&by.expr, schema)?);
            }
        }
        let scope = self.read(&sort.input, &below)?;
        let mut arguments = Vec::new();
        let mut by: Vec<SortExpr> = Vec::new();
        for order in &sort.expr {
            let expr = self.rewrite_expr(&order.expr, schema, &scope)?;
            // ExprWriter that agree in a column are in no order by it.
            if by.iter().any(|before| before.expr == expr) {
                continue;
            }
            arguments.push(match column_name(&expr) {
                Some(name) => Doc::Text(python_string(name)),
                None => self.lambda(scope.step, &expr)?,
            });
            by.push(order.with_expr(expr));
        }
        arguments.extend(directions(&by));
        let stream = self.steps.stream(scope.step).sort(by)?;
        let scope = self.add_step(scope, StepKind::QueryMethod, Doc::call(".sort", arguments), stream);
        match sort.fetch {
            Some(fetch) => self.add_limit(scope, 0, Some(fetch)),
            None => Ok(scope),
        }
    }

    /// The step of a limit node.
    pub fn limit(&mut self, limit: &Limit, required: &Required) -> Result<Scope> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return plan_err!("the program has no word for a limit that is computed");
        };
        // The optimizer says of a sort how much of it is needed; it is option here.
        if let LogicalPlan::Sort(sort) = limit.input.as_ref()
            && sort.fetch.is_some()
        {
            let scope = self.sort(&Sort { fetch: None, ..sort.clone() }, required)?;
            return self.add_limit(scope, skip, fetch);
        }
        let scope = self.read(&limit.input, required)?;
        self.add_limit(scope, skip, fetch)
    }

    fn add_limit(&mut self, scope: Scope, skip: usize, fetch: Option<usize>) -> Result<Scope> {
        let stream = self.steps.stream(scope.step).limit(skip, fetch)?;
        let mut arguments = vec![Doc::Text(fetch.map_or("None".to_string(), |n| n.to_string()))];
        if skip != 0 {
            arguments.push(Doc::Text(format!("offset={skip}")));
        }
        let sorted = self.steps.all[scope.step].doc.flat().starts_with(".sort");
        let name = format!("{}_{}", if sorted { "top" } else { "first" }, self.steps.name(scope.step));
        Ok(self.add_named_step(
            scope,
            StepKind::QueryMethod,
            Doc::call(".limit", arguments),
            stream,
            name_of(&name),
        ))
    }
}

/// `descending=True, nulls_last=[False, True]`: what is not ascending with nulls last.
pub(super) fn directions(by: &[SortExpr]) -> Vec<Doc> {
    let option = |name: &str, values: Vec<bool>, default: bool| match values.as_slice() {
        all if all.iter().all(|v| *v == default) => None,
        all if all.iter().all(|v| *v != default) => Some(format!("{name}={}", python_bool(!default))),
        all => {
            let all: Vec<&str> = all.iter().map(|v| python_bool(*v)).collect();
            Some(format!("{name}=[{}]", all.join(", ")))
        }
    };
    let descending = option("descending", by.iter().map(|s| !s.asc).collect(), false);
    let nulls = option("nulls_last", by.iter().map(|s| !s.nulls_first).collect(), true);
    descending.into_iter().chain(nulls).map(Doc::Text).collect()
}

fn python_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}
