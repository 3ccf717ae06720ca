//! Recursive queries: the recursive term becomes a nested function of the program.

use super::document::Doc;
use super::reader::{Reader, Required, Scope};
use super::steps::{Body, Step, StepKind};
use super::variable_names::name_of;
use crate::names::names;
use crate::source::given_of;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::{RecursiveQuery, TableScan};

impl Reader {
    /// The step of a recursive query: `def next(rows): …` and `first.recursive(next)`.
    ///
    /// # Errors
    /// `Plan` if this is a stream or has several shards, or the columns of the step are others; those of the
    /// step.
    pub fn recursive(&mut self, query: &RecursiveQuery) -> Result<Scope> {
        let first = self.read(&query.static_term, &Required::default())?;
        let first = self.with_unique_names(first)?;
        let start = self.steps.stream(first.step).clone();
        let name = name_of(given_of(&query.name));
        let mut body = None;
        let stream = start.recursive(given_of(&query.name), query.is_distinct, |rows| {
            let parameter = self.steps.add(Step {
                inputs: vec![],
                kind: StepKind::FunctionParameter,
                doc: Doc::text(""),
                stream: rows,
                name: name.clone(),
                body: None,
            });
            self.work_tables.push((query.name.clone(), parameter));
            let next = self.read(&query.recursive_term, &Required::default())?;
            let next = self.with_unique_names(next)?;
            self.work_tables.pop();
            body = Some(Body { parameter, result: next.step });
            Ok(self.steps.stream(next.step).clone())
        })?;
        let Some(body) = body else { return internal_err!("a recursive query without a step") };
        let distinct = if query.is_distinct {
            vec![Doc::Input(1), Doc::text("distinct=True")]
        } else {
            vec![Doc::Input(1)]
        };
        let step = Step {
            inputs: vec![first.step, body.result],
            kind: StepKind::StreamMethod,
            doc: Doc::call(".recursive", distinct),
            stream,
            name: name_of(&format!("all_{name}")),
            body: Some(body),
        };
        Ok(Scope { step: self.steps.add(step), columns: first.columns })
    }

    /// The step of a work table: the parameter of the nested function.
    pub fn work_table(&mut self, scan: &TableScan) -> Result<Scope> {
        let own = scan.table_name.table();
        let Some((_, step)) = self.work_tables.iter().rev().find(|(name, _)| name == own) else {
            return plan_err!("{own} is read outside of the recursive query that it belongs to");
        };
        let all = names(self.steps.stream(*step).plan().schema());
        let columns = scan.projected_schema.fields().iter().map(|f| {
            let place = scan.source.schema().index_of(f.name())?;
            Ok(all[place].to_string())
        });
        Ok(Scope { step: *step, columns: columns.collect::<Result<_>>()? })
    }
}
