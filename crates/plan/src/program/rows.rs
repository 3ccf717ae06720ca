//! Projections and filters: `.select(…)`, `.with_columns(…)`, `.drop(…)` and `.where(…)`.

use super::arguments::arguments;
use super::document::Doc;
use super::literal::python_string;
use super::reader::{Reader, Required, Scope, aliased, has_qualifiers, position, unique_name};
use super::steps::StepKind;
use super::variable_names::{is_name, name_of};
use crate::names::{column, column_name, names};
use crate::nodes::join_of;
use crate::source::bare_scan;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator, Projection};
use std::collections::BTreeSet;

impl Reader {
    /// The step of a filter node.
    pub fn filter(&mut self, filter: &Filter, required: &Required) -> Result<Scope> {
        let mut below = required.clone();
        if let Some(used) = &mut below.used {
            used.extend(positions(&filter.predicate, filter.input.schema())?);
        }
        let scope = self.read(&filter.input, &below)?;
        let predicate = self.rewrite_expr(&filter.predicate, filter.input.schema(), &scope)?;
        self.where_(scope, predicate)
    }

    /// Adds a `.where(…)`.
    pub fn where_(&mut self, scope: Scope, predicate: Expr) -> Result<Scope> {
        let stream = self.steps.stream(scope.step).where_(predicate.clone())?;
        let doc = Doc::call(".where", vec![self.lambda(scope.step, &predicate)?]);
        let name = filtered_name(&predicate, self.steps.name(scope.step));
        Ok(self.add_named_step(scope, StepKind::QueryMethod, doc, stream, name))
    }

    /// The step of a projection node.
    pub fn projection(
        &mut self,
        plan: &LogicalPlan,
        projection: &Projection,
        required: &Required,
    ) -> Result<Scope> {
        if let Some(scan) = bare_scan(plan) {
            return self.read(scan, required);
        }
        if let Some((join, colocated)) = join_of(&projection.input)
            && let Some(scope) = self.built_join(projection, join, colocated)?
        {
            return Ok(scope);
        }
        if let Some(scope) = self.renamed_list(projection)? {
            return Ok(scope);
        }
        let schema = projection.input.schema();
        let renames = has_qualifiers(schema);
        let names_below = matches!(
            projection.input.as_ref(),
            LogicalPlan::Aggregate(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Values(_)
        );
        let below = match renames || names_below {
            true => required_input(projection, required)?,
            false => Required::default(),
        };
        let input = self.read(&projection.input, &below)?;
        if let Some(columns) = selected_columns(projection, &input)? {
            let all = names(self.steps.stream(input.step).plan().schema());
            let aliased = projection.expr.iter().any(|e| matches!(e, Expr::Alias(_)));
            let output = names(&projection.schema);
            if renames || columns.is_empty() || (aliased && all == columns && output == all) {
                return Ok(Scope { step: input.step, columns });
            }
        }
        let pairs = self.outputs(projection, &input, required, renames)?;
        self.select(input, pairs, renames)
    }

    /// The output columns of a projection: names and expressions over the columns of its input step.
    fn outputs(
        &self,
        projection: &Projection,
        input: &Scope,
        required: &Required,
        renames: bool,
    ) -> Result<Vec<(String, Expr)>> {
        let mut pairs: Vec<(String, Expr)> = Vec::new();
        for (i, (expr, field)) in projection.expr.iter().zip(projection.schema.fields()).enumerate() {
            let over = self.rewrite_expr(expr, projection.input.schema(), input)?;
            let name = match renames {
                false => field.name().clone(),
                true => {
                    required.name(i, |n| readable(n, &over)).unwrap_or_else(|| readable(field.name(), &over))
                }
            };
            pairs.push((unique_name(&name, |n| pairs.iter().any(|(taken, _)| taken == n)), over));
        }
        Ok(pairs)
    }

    /// Adds the shortest of `.with_columns(…)`, `.drop(…)` and `.select(…)` that gives these columns.
    pub fn select(&mut self, mut input: Scope, pairs: Vec<(String, Expr)>, renames: bool) -> Result<Scope> {
        let key = self.steps.stream(input.step).properties().key.clone();
        let changes = |(name, expr): &(String, Expr)| key.contains(name) && column_name(expr) != Some(name);
        if renames && pairs.iter().any(changes) {
            input = self.keyed(input, &[])?;
        }
        let wanted: Vec<String> = pairs.iter().map(|(name, _)| name.clone()).collect();
        let pairs = self.with_key(input.step, pairs);
        let stream = self.steps.stream(input.step).clone();
        let all: Vec<String> = names(stream.plan().schema()).into_iter().map(String::from).collect();
        let columns: Vec<String> = pairs.iter().map(|(name, _)| name.clone()).collect();
        let is_column = |(name, expr): &(String, Expr)| column_name(expr) == Some(name);
        let (doc, stream) = if !all.is_empty()
            && columns.len() >= all.len()
            && columns[..all.len()] == all
            && !pairs.iter().all(is_column)
        {
            let changed: Vec<(String, Expr)> = pairs
                .iter()
                .enumerate()
                .filter(|(i, pair)| *i >= all.len() || !is_column(pair))
                .map(|(_, pair)| pair.clone())
                .collect();
            let doc = Doc::call(".with_columns", arguments(self, input.step, &changed)?);
            (doc, stream.with_columns(aliased(&changed))?)
        } else if let Some(dropped) = all_but(&all, &pairs, &key) {
            let doc = Doc::call(".drop", dropped.iter().map(|n| Doc::Text(python_string(n))).collect());
            (doc, stream.drop(&dropped)?)
        } else {
            let doc = Doc::call(".select", arguments(self, input.step, &pairs)?);
            (doc, stream.select(aliased(&pairs))?)
        };
        Ok(Scope { columns: wanted, ..self.add_step(input, StepKind::QueryMethod, doc, stream) })
    }

    /// The columns and the missing columns of the current key, which a selection keeps in front.
    fn with_key(&self, step: usize, pairs: Vec<(String, Expr)>) -> Vec<(String, Expr)> {
        let key = &self.steps.stream(step).properties().key;
        let missing = key.iter().filter(|k| !pairs.iter().any(|(name, _)| name == *k));
        let kept: Vec<(String, Expr)> = missing.map(|k| (k.clone(), column(k))).collect();
        [kept, pairs].concat()
    }
}

/// The positions of the columns that an expression refers to.
pub(super) fn positions(expr: &Expr, schema: &DFSchema) -> Result<BTreeSet<usize>> {
    expr.column_refs().into_iter().map(|c| position(schema, c)).collect()
}

/// What a projection requires of its input.
fn required_input(projection: &Projection, required: &Required) -> Result<Required> {
    let schema = projection.input.schema();
    let mut below = Required {
        keep_names: required.keep_names || !has_qualifiers(schema),
        used: Some(BTreeSet::new()),
        ..Required::default()
    };
    for (i, expr) in projection.expr.iter().enumerate() {
        if required.used.as_ref().is_some_and(|used| !used.contains(&i)) {
            continue;
        }
        let name = if let Expr::Alias(alias) = expr { Some(&alias.name) } else { None };
        let inner = without_aliases(expr);
        // The names of the fluent builder are the user's.
        let wanted = required.names.get(&i);
        let wanted = if has_qualifiers(schema) { wanted.or(name) } else { name.or(wanted) };
        if let (Expr::Column(c), Some(name)) = (inner, wanted) {
            below.names.insert(position(schema, c)?, name.clone());
        }
        below.used.get_or_insert_default().extend(positions(expr, schema)?);
    }
    Ok(below)
}

fn without_aliases(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => without_aliases(&alias.expr),
        other => other,
    }
}

/// The columns that a projection selects if it computes nothing.
fn selected_columns(projection: &Projection, input: &Scope) -> Result<Option<Vec<String>>> {
    let mut columns = Vec::new();
    for expr in &projection.expr {
        let Expr::Column(c) = without_aliases(expr) else { return Ok(None) };
        columns.push(input.columns[position(projection.input.schema(), c)?].clone());
    }
    Ok(Some(columns))
}

/// The columns that are dropped if all others keep their names and order.
pub(super) fn left_out<'a>(all: &'a [String], pairs: &[(String, Expr)]) -> Option<Vec<&'a str>> {
    let mut rest = pairs.iter().peekable();
    let mut dropped = Vec::new();
    for name in all {
        match rest.peek() {
            Some((kept, expr)) if kept == name && column_name(expr) == Some(name) => drop(rest.next()),
            _ => dropped.push(name.as_str()),
        }
    }
    rest.peek().is_none().then_some(dropped)
}

/// The columns to `.drop(…)` if that is shorter than a selection.
fn all_but<'a>(all: &'a [String], pairs: &[(String, Expr)], key: &[String]) -> Option<Vec<&'a str>> {
    let dropped = left_out(all, pairs)?;
    let few = !dropped.is_empty() && dropped.len() <= 2 && dropped.len() < pairs.len();
    (few && !dropped.iter().any(|d| key.iter().any(|k| k == d))).then_some(dropped)
}

/// The name of a column; a generated name of SQL is replaced by a readable one.
pub(super) fn readable(name: &str, expr: &Expr) -> String {
    match (is_name(name) && !name.starts_with("__"), column_name(expr)) {
        (true, _) => name.to_string(),
        (false, Some(own)) => own.to_string(),
        (false, None) if name.starts_with("__") => name_of(name),
        (false, None) => "value".to_string(),
    }
}

/// The input of a projection that only adds columns, and the added columns.
pub(super) fn added_columns(plan: &LogicalPlan) -> Option<(&LogicalPlan, Vec<(String, Expr)>)> {
    let LogicalPlan::Projection(projection) = plan else { return None };
    if has_qualifiers(projection.input.schema()) || bare_scan(plan).is_some() {
        return None;
    }
    let all = names(projection.input.schema());
    let (kept, added) = projection.expr.split_at_checked(all.len())?;
    if added.is_empty()
        || all.is_empty()
        || kept.iter().zip(&all).any(|(e, name)| column_name(e) != Some(name))
    {
        return None;
    }
    let added = added.iter().map(|e| match e {
        Expr::Alias(alias) => Some((alias.name.clone(), alias.expr.as_ref().clone())),
        _ => None,
    });
    Some((&projection.input, added.collect::<Option<Vec<_>>>()?))
}

/// The name of a filtered stream: `building_customer` for an equality with a word, else `filtered_customer`.
fn filtered_name(predicate: &Expr, base: &str) -> String {
    fn equal_word(predicate: &Expr) -> Option<&str> {
        match predicate {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                equal_word(left).or_else(|| equal_word(right))
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if column_name(left).is_some() => {
                let Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) =
                    right.as_ref()
                else {
                    return None;
                };
                let word = (2..=12).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphabetic());
                word.then_some(text)
            }
            _ => None,
        }
    }
    // The names of aggregates, joins and recursive queries stay.
    let is_derived =
        ["per_", "totals", "all_"].iter().any(|start| base.starts_with(start)) || base.contains("_with");
    match equal_word(predicate) {
        _ if is_derived || base.starts_with("filtered_") => base.to_string(),
        Some(word) => name_of(&format!("{word} {base}")),
        None => name_of(&format!("filtered {base}")),
    }
}
