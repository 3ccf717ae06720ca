//! The step of a join: `.join(…)`, `.where_exists(…)` or `.where_not_exists(…)`, with its arguments.

use super::arguments::dictionary;
use super::document::Doc;
use super::expression::ExprWriter;
use super::literal::python_string;
use super::reader::{Reader, Scope};
use super::steps::{Step, StepKind, Steps};
use super::variable_names::name_of;
use crate::names::{column_name, names};
use crate::stream::{JoinHow, JoinKind};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::Expr;

/// The qualifier of left columns in a join condition.
pub(super) const LEFT: &str = "left";
/// The qualifier of right columns in a join condition.
pub(super) const RIGHT: &str = "right";

impl Reader {
    /// Adds the step of a join. `on` has one pair of keys for each equality.
    pub fn join_step(
        &mut self,
        left: Scope,
        right: Scope,
        on: Vec<(Expr, Expr)>,
        how: &JoinHow,
    ) -> Result<Scope> {
        let (l, r) = (self.steps.stream(left.step).clone(), self.steps.stream(right.step).clone());
        let mut arguments = vec![Doc::Input(1)];
        if how.kind != JoinKind::Cross {
            // A co-located join names its keys, so that it does not depend on the current keys.
            let on_keys = !how.colocated;
            arguments.extend(on_arguments(self, (left.step, right.step), &on, on_keys)?);
        }
        let stream = l.join_as(&r, on, how)?;
        let is_simple = how.filter.is_none() && !how.nulls_equal && !how.null_aware && !how.colocated;
        let method = match how.kind {
            JoinKind::Semi if is_simple => ".where_exists",
            JoinKind::Anti if is_simple => ".where_not_exists",
            _ => ".join",
        };
        if method == ".join" {
            if how.kind != JoinKind::Inner {
                arguments.push(Doc::Text(format!("how={}", python_string(how.kind.name()))));
            }
            let pairs = !matches!(how.kind, JoinKind::Semi | JoinKind::Anti);
            let has_clash = names(l.plan().schema()).iter().any(|n| names(r.plan().schema()).contains(n));
            if how.suffix != "_right" && pairs && (has_clash || how.kind == JoinKind::Mark) {
                arguments.push(Doc::Text(format!("suffix={}", python_string(&how.suffix))));
            }
            if let Some(filter) = &how.filter {
                arguments.push(Doc::keyword("where", self.pair_lambda(&l, &r, filter)?));
            }
            if how.nulls_equal {
                arguments.push(Doc::text("nulls_equal=True"));
            }
            if how.null_aware {
                arguments.push(Doc::text("null_aware=True"));
            }
            if how.colocated {
                arguments.push(Doc::text("colocated=True"));
            }
        }
        let word = if how.kind == JoinKind::Anti { "without" } else { "with" };
        let name = join_name(self.steps.name(left.step), word, self.steps.name(right.step));
        let step = Step {
            inputs: vec![left.step, right.step],
            kind: StepKind::QueryMethod,
            doc: Doc::call(method, arguments),
            stream,
            name,
            body: None,
        };
        let step = self.steps.add(step);
        let columns = names(self.steps.stream(step).plan().schema()).into_iter().map(String::from).collect();
        Ok(Scope { step, columns })
    }

    /// `lambda l, r: l.price > r.price`.
    fn pair_lambda(&mut self, left: &crate::Stream, right: &crate::Stream, filter: &Expr) -> Result<Doc> {
        let schema = JoinHow::sides_schema(left, right)?;
        let Steps { functions, .. } = &mut self.steps;
        let row = |c: &Column| match c.relation.as_ref().is_some_and(|side| side.table() == RIGHT) {
            true => "r".to_string(),
            false => "l".to_string(),
        };
        let condition = ExprWriter { schema: &schema, row: &row, functions }.write(filter, 0)?;
        Ok(Doc::Group(vec![Doc::text("lambda l, r: "), condition]))
    }
}

/// The name of a join, `orders_with_customer`; a join of a join keeps the name of the first one.
fn join_name(left: &str, word: &str, right: &str) -> String {
    let base_name = |name: &str| {
        let name = name.strip_prefix("copied_").unwrap_or(name);
        name.split("_by_").next().and_then(|name| name.split("_with").next()).unwrap_or(name).to_string()
    };
    match left.contains("_with_") || left.contains("_without_") {
        true => left.to_string(),
        false => name_of(&format!("{}_{word}_{}", base_name(left), base_name(right))),
    }
}

/// `on="item"`, or `left_on=` and `right_on=`.
///
/// No argument if the current keys are the join keys and `on_keys` allows to rely on that.
pub(super) fn on_arguments(
    reader: &mut Reader,
    (left, right): (usize, usize),
    on: &[(Expr, Expr)],
    on_keys: bool,
) -> Result<Vec<Doc>> {
    let keys = (&reader.steps.stream(left).properties().key, &reader.steps.stream(right).properties().key);
    let columns: Option<Vec<(&str, &str)>> =
        on.iter().map(|(l, r)| Some((column_name(l)?, column_name(r)?))).collect();
    if let Some(columns) = &columns {
        let (l, r): (Vec<&str>, Vec<&str>) = columns.iter().copied().unzip();
        if on_keys && keys.0.iter().eq(l.iter()) && keys.1.iter().eq(r.iter()) {
            return Ok(vec![]);
        }
        if l == r {
            return Ok(vec![Doc::keyword(
                "on",
                one_or_list(l.iter().map(|n| Doc::Text(python_string(n))).collect()),
            )]);
        }
    }
    let mut sides = (Vec::new(), Vec::new());
    for (l, r) in on {
        sides.0.push(key_doc(reader, left, l)?);
        sides.1.push(key_doc(reader, right, r)?);
    }
    Ok(vec![Doc::keyword("left_on", one_or_list(sides.0)), Doc::keyword("right_on", one_or_list(sides.1))])
}

/// A join key: a column name, a lambda, or a dictionary for a named expression.
fn key_doc(reader: &mut Reader, step: usize, expr: &Expr) -> Result<Doc> {
    match expr {
        Expr::Alias(alias) => dictionary(reader, step, &[(alias.name.clone(), alias.expr.as_ref().clone())]),
        other => match column_name(other) {
            Some(name) => Ok(Doc::Text(python_string(name))),
            None => reader.lambda(step, other),
        },
    }
}

/// A single item, or a list of several.
fn one_or_list(mut docs: Vec<Doc>) -> Doc {
    if docs.len() == 1 { docs.swap_remove(0) } else { Doc::list(docs) }
}
