//! Set operations: `.distinct()` and `.union(…)`.

use super::document::Doc;
use super::reader::{Reader, Required, Scope};
use super::steps::{Step, StepKind};
use super::variable_names::name_of;
use crate::names::names;
use datafusion::common::Result;
use datafusion::logical_expr::{LogicalPlan, Union};
use std::sync::Arc;

impl Reader {
    /// The step of a distinct node.
    pub fn distinct(&mut self, input: &LogicalPlan) -> Result<Scope> {
        let scope = self.read(input, &Required::default())?;
        let scope = self.with_unique_names(scope)?;
        let stream = self.steps.stream(scope.step).distinct()?;
        Ok(self.add_step(scope, StepKind::QueryMethod, Doc::text(".distinct()"), stream))
    }

    /// The step of a union node: `.union(…)`.
    pub fn union(&mut self, union: &Union) -> Result<Scope> {
        let mut scopes = Vec::new();
        for input in branches(union) {
            let scope = self.read(input, &Required::default())?;
            scopes.push(match scopes.first() {
                None => self.with_unique_names(scope)?,
                Some(Scope { columns, .. }) => {
                    let columns = columns.clone();
                    // Columns are matched by name; their order does not matter.
                    let own = names(self.steps.stream(scope.step).plan().schema()).len();
                    match scope.columns == columns && own == columns.len() {
                        true => scope,
                        false => self.project_to(scope, &columns)?,
                    }
                }
            });
        }
        let mut stream = self.steps.stream(scopes[0].step).clone();
        let mut names = vec![self.steps.name(scopes[0].step).to_string()];
        for scope in &scopes[1..] {
            stream = stream.union(self.steps.stream(scope.step))?;
            let name = self.steps.name(scope.step).to_string();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let others = (1..scopes.len()).map(Doc::Input).collect();
        let step = Step {
            inputs: scopes.iter().map(|s| s.step).collect(),
            kind: StepKind::QueryMethod,
            doc: Doc::call(".union", others),
            stream,
            name: name_of(&names.join("_and_")),
            body: None,
        };
        Ok(Scope { step: self.steps.add(step), columns: scopes.swap_remove(0).columns })
    }
}

/// The inputs of a union, and of the one that is its first input: the builder puts one after the other.
fn branches(union: &Union) -> Vec<&Arc<LogicalPlan>> {
    let Some((first, rest)) = union.inputs.split_first() else { return vec![] };
    let mut all = match first.as_ref() {
        LogicalPlan::Union(inner) => branches(inner),
        _ => vec![first],
    };
    all.extend(rest);
    all
}
