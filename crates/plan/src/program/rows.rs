//! What is done to rows one by one, and to relations as a whole.

use super::document::Doc;
use super::literal::python_string;
use super::reader::{Reader, Required, Scope, aliased, has_qualifiers, position, unique_name};
use super::steps::{Step, StepKind};
use super::variable_names::{is_name, name_of};
use crate::names::{column, column_name, names};
use crate::nodes::join_of;
use crate::source::bare_scan;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::{
    BinaryExpr, Expr, FetchType, Filter, Limit, LogicalPlan, Operator, Projection, SkipType, Sort, Union,
    Unnest,
};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Reader {
    pub fn filter(&mut self, filter: &Filter, required: &Required) -> Result<Scope> {
        let mut below = required.clone();
        if let Some(used) = &mut below.used {
            used.extend(positions(&filter.predicate, filter.input.schema())?);
        }
        let scope = self.read(&filter.input, &below)?;
        let predicate = self.rewrite_expr(&filter.predicate, filter.input.schema(), &scope)?;
        self.where_(scope, predicate)
    }

    /// The rows for which this is true.
    pub fn where_(&mut self, scope: Scope, predicate: Expr) -> Result<Scope> {
        let stream = self.steps.stream(scope.step).where_(predicate.clone())?;
        let doc = Doc::call(".where", vec![self.lambda(scope.step, &predicate)?]);
        let name = chosen(&predicate, self.steps.name(scope.step));
        Ok(self.add_named_step(scope, StepKind::QueryMethod, doc, stream, name))
    }

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
        if let Some(scope) = self.replaced_list(projection)? {
            return Ok(scope);
        }
        let schema = projection.input.schema();
        let loose = has_qualifiers(schema);
        let names_below = matches!(
            projection.input.as_ref(),
            LogicalPlan::Aggregate(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Values(_)
        );
        let below = match loose || names_below {
            true => below(projection, required)?,
            false => Required::default(),
        };
        let input = self.read(&projection.input, &below)?;
        if let Some(columns) = picked(projection, &input)? {
            let all = names(self.steps.stream(input.step).plan().schema());
            let aliased = projection.expr.iter().any(|e| matches!(e, Expr::Alias(_)));
            let output = names(&projection.schema);
            if loose || columns.is_empty() || (aliased && all == columns && output == all) {
                return Ok(Scope { step: input.step, columns });
            }
        }
        let pairs = self.outputs(projection, &input, required, loose)?;
        self.select(input, pairs, loose)
    }

    /// What a projection gives, over a step's columns.
    fn outputs(
        &self,
        projection: &Projection,
        input: &Scope,
        required: &Required,
        loose: bool,
    ) -> Result<Vec<(String, Expr)>> {
        let mut pairs: Vec<(String, Expr)> = Vec::new();
        for (i, (expr, field)) in projection.expr.iter().zip(projection.schema.fields()).enumerate() {
            let over = self.rewrite_expr(expr, projection.input.schema(), input)?;
            let name = match loose {
                false => field.name().clone(),
                true => {
                    required.name(i, |n| readable(n, &over)).unwrap_or_else(|| readable(field.name(), &over))
                }
            };
            pairs.push((unique_name(&name, |n| pairs.iter().any(|(taken, _)| taken == n)), over));
        }
        Ok(pairs)
    }

    /// The step that gives these: all columns and some, all but some, or these alone.
    pub fn select(&mut self, mut input: Scope, pairs: Vec<(String, Expr)>, loose: bool) -> Result<Scope> {
        let key = self.steps.stream(input.step).properties().key.clone();
        let changes = |(name, expr): &(String, Expr)| key.contains(name) && column_name(expr) != Some(name);
        if loose && pairs.iter().any(changes) {
            input = self.keyed(input, &[])?;
        }
        let wanted: Vec<String> = pairs.iter().map(|(name, _)| name.clone()).collect();
        let pairs = self.with_key(input.step, pairs);
        let stream = self.steps.stream(input.step).clone();
        let all: Vec<String> = names(stream.plan().schema()).into_iter().map(String::from).collect();
        let columns: Vec<String> = pairs.iter().map(|(name, _)| name.clone()).collect();
        let same = |(name, expr): &(String, Expr)| column_name(expr) == Some(name);
        let (doc, made) = if !all.is_empty()
            && columns.len() >= all.len()
            && columns[..all.len()] == all
            && !pairs.iter().all(same)
        {
            let changed: Vec<(String, Expr)> = pairs
                .iter()
                .enumerate()
                .filter(|(i, pair)| *i >= all.len() || !same(pair))
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
        Ok(Scope { columns: wanted, ..self.add_step(input, StepKind::QueryMethod, doc, made) })
    }

    /// The current key's columns stay, and stand in front: the program says so.
    fn with_key(&self, step: usize, pairs: Vec<(String, Expr)>) -> Vec<(String, Expr)> {
        let key = &self.steps.stream(step).properties().key;
        let missing = key.iter().filter(|k| !pairs.iter().any(|(name, _)| name == *k));
        let kept: Vec<(String, Expr)> = missing.map(|k| (k.clone(), column(k))).collect();
        [kept, pairs].concat()
    }

    pub fn distinct(&mut self, input: &LogicalPlan) -> Result<Scope> {
        let scope = self.read(input, &Required::default())?;
        let scope = self.with_unique_names(scope)?;
        let stream = self.steps.stream(scope.step).distinct()?;
        Ok(self.add_step(scope, StepKind::QueryMethod, Doc::text(".distinct()"), stream))
    }

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
            Some(fetch) => self.first(scope, 0, Some(fetch)),
            None => Ok(scope),
        }
    }

    pub fn limit(&mut self, limit: &Limit, required: &Required) -> Result<Scope> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return plan_err!("the program has no word for a limit that is computed");
        };
        // The optimizer says of a sort how much of it is needed; it is said here.
        if let LogicalPlan::Sort(sort) = limit.input.as_ref()
            && sort.fetch.is_some()
        {
            let scope = self.sort(&Sort { fetch: None, ..sort.clone() }, required)?;
            return self.first(scope, skip, fetch);
        }
        let scope = self.read(&limit.input, required)?;
        self.first(scope, skip, fetch)
    }

    fn first(&mut self, scope: Scope, skip: usize, fetch: Option<usize>) -> Result<Scope> {
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

    pub fn unnest(&mut self, unnest: &Unnest) -> Result<Scope> {
        let ([list], [(_, depth)], []) = (
            unnest.exec_columns.as_slice(),
            unnest.list_type_columns.as_slice(),
            unnest.struct_type_columns.as_slice(),
        ) else {
            return plan_err!("the program has no word for unnesting several columns at once, or a struct");
        };
        if depth.depth != 1 {
            return plan_err!("the program has no word for unnesting a list of lists at once");
        }
        let nulls = unnest.options.preserve_nulls();
        let place = position(unnest.input.schema(), list)?;
        let computed = match unnest.input.as_ref() {
            LogicalPlan::Projection(projection) if !has_qualifiers(projection.input.schema()) => {
                list_of(projection, place).map(|expr| (projection, expr))
            }
            _ => None,
        };
        let Some((projection, expr)) = computed else {
            let scope = self.read(&unnest.input, &Required::default())?;
            let name = scope.columns[place].clone();
            return self.select_many(scope, column(&name), &name, false, nulls);
        };
        let mut scope = self.read(&projection.input, &Required::default())?;
        let expr = self.rewrite_expr(expr, projection.input.schema(), &scope)?;
        if place == scope.columns.len() {
            scope.columns.push(list.name.clone());
        }
        self.select_many(scope, expr, &list.name, false, nulls)
    }

    /// A list's elements under another name, and without the list.
    fn replaced_list(&mut self, projection: &Projection) -> Result<Option<Scope>> {
        let LogicalPlan::Unnest(unnest) = projection.input.as_ref() else { return Ok(None) };
        let all = names(projection.input.schema());
        let pairs: Vec<(String, Expr)> = projection
            .schema
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .zip(projection.expr.clone())
            .collect();
        let owned: Vec<String> = all.iter().map(|n| n.to_string()).collect();
        let Some(dropped) = left_out(&owned, &pairs) else { return Ok(None) };
        let (LogicalPlan::Projection(listed), [dropped], [list]) =
            (unnest.input.as_ref(), dropped.as_slice(), unnest.exec_columns.as_slice())
        else {
            return Ok(None);
        };
        let place = position(unnest.input.schema(), list)?;
        if list_of(listed, place).and_then(column_name) != Some(dropped)
            || has_qualifiers(listed.input.schema())
        {
            return Ok(None);
        }
        let mut scope = self.read(&listed.input, &Required::default())?;
        scope.columns.push(list.name.clone());
        let nulls = unnest.options.preserve_nulls();
        let scope = self.select_many(scope, column(*dropped), &list.name, true, nulls)?;
        Ok(Some(scope))
    }

    /// `replaces`: the list itself is left out. `nulls`: a null list gives a row.
    fn select_many(
        &mut self,
        mut scope: Scope,
        list: Expr,
        name: &str,
        replaces: bool,
        nulls: bool,
    ) -> Result<Scope> {
        let stream = self.steps.stream(scope.step);
        let mut stream = match nulls {
            true => stream.select_many_or_null(list.clone(), name)?,
            false => stream.select_many(list.clone(), name)?,
        };
        let mut arguments = match column_name(&list) {
            Some(own) if own == name => vec![Doc::Text(python_string(name))],
            Some(own) if replaces => {
                stream = stream.drop(&[own])?;
                scope.columns.retain(|c| c != own);
                vec![Doc::Text(python_string(own)), Doc::Text(python_string(name))]
            }
            // Python would leave a list out that has a name of its own.
            Some(_) => {
                let lambda = self.lambda(scope.step, &list)?;
                vec![
                    Doc::Group(vec![lambda, Doc::Text(format!(".alias({})", python_string(name)))]),
                    Doc::Text(python_string(name)),
                ]
            }
            None => vec![self.lambda(scope.step, &list)?, Doc::Text(python_string(name))],
        };
        if nulls {
            arguments.push(Doc::text("nulls=True"));
        }
        Ok(self.add_step(scope, StepKind::QueryMethod, Doc::call(".select_many", arguments), stream))
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

/// `descending=True, nulls_last=[False, True]`: what is not ascending with nulls last.
pub(super) fn directions(by: &[SortExpr]) -> Vec<Doc> {
    let said = |name: &str, values: Vec<bool>, default: bool| match values.as_slice() {
        all if all.iter().all(|v| *v == default) => None,
        all if all.iter().all(|v| *v != default) => Some(format!("{name}={}", truth(!default))),
        all => {
            let all: Vec<&str> = all.iter().map(|v| truth(*v)).collect();
            Some(format!("{name}=[{}]", all.join(", ")))
        }
    };
    let descending = said("descending", by.iter().map(|s| !s.asc).collect(), false);
    let nulls = said("nulls_last", by.iter().map(|s| !s.nulls_first).collect(), true);
    descending.into_iter().chain(nulls).map(Doc::Text).collect()
}

fn truth(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// What the projection under an unnest says of the list, if it changes no other column.
fn list_of(projection: &Projection, place: usize) -> Option<&Expr> {
    let all = names(projection.input.schema());
    let mut others = projection.expr.iter().enumerate().filter(|(i, _)| *i != place);
    let kept = others.all(|(i, e)| all.get(i).is_some_and(|n| column_name(e) == Some(n)));
    let expr = projection.expr.get(place)?;
    let expr = if let Expr::Alias(alias) = expr { alias.expr.as_ref() } else { expr };
    (kept && place <= all.len()).then_some(expr)
}

/// The columns of a node that an expression speaks of.
pub(super) fn positions(expr: &Expr, schema: &DFSchema) -> Result<BTreeSet<usize>> {
    expr.column_refs().into_iter().map(|c| position(schema, c)).collect()
}

/// What a projection would like of its input.
fn below(projection: &Projection, required: &Required) -> Result<Required> {
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
        // A builder's own names are meant.
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

/// The columns that a projection picks, if it does nothing else.
fn picked(projection: &Projection, input: &Scope) -> Result<Option<Vec<String>>> {
    let mut columns = Vec::new();
    for expr in &projection.expr {
        let Expr::Column(c) = without_aliases(expr) else { return Ok(None) };
        columns.push(input.columns[position(projection.input.schema(), c)?].clone());
    }
    Ok(Some(columns))
}

/// What is left out, if all else stays as it is.
fn left_out<'a>(all: &'a [String], pairs: &[(String, Expr)]) -> Option<Vec<&'a str>> {
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

/// What is left out, if that is the shorter way to say it.
fn all_but<'a>(all: &'a [String], pairs: &[(String, Expr)], key: &[String]) -> Option<Vec<&'a str>> {
    let dropped = left_out(all, pairs)?;
    let few = !dropped.is_empty() && dropped.len() <= 2 && dropped.len() < pairs.len();
    (few && !dropped.iter().any(|d| key.iter().any(|k| k == d))).then_some(dropped)
}

/// A name for a column that SQL has none for.
pub(super) fn readable(name: &str, expr: &Expr) -> String {
    match (is_name(name) && !name.starts_with("__"), column_name(expr)) {
        (true, _) => name.to_string(),
        (false, Some(own)) => own.to_string(),
        (false, None) if name.starts_with("__") => name_of(name),
        (false, None) => "value".to_string(),
    }
}

/// A plan that adds columns to another, and which.
pub(super) fn reads_as_added(plan: &LogicalPlan) -> Option<(&LogicalPlan, Vec<(String, Expr)>)> {
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

/// `lambda e: {"bucket": e.user % 10}`.
pub(super) fn dictionary(reader: &mut Reader, step: usize, pairs: &[(String, Expr)]) -> Result<Doc> {
    let mut parts = Vec::new();
    for (name, expr) in pairs {
        let value = reader.lambda(step, expr)?;
        if !expr.any_column_refs() && pairs.len() == 1 {
            return Ok(Doc::Group(vec![value, Doc::Text(format!(".alias({})", python_string(name)))]));
        }
        let value = match value {
            Doc::Group(mut docs) if expr.any_column_refs() => Doc::Group(docs.split_off(1)),
            value => value,
        };
        if !parts.is_empty() {
            parts.extend([Doc::text(","), Doc::Break(" ")]);
        }
        parts.push(Doc::Group(vec![Doc::Text(format!("{}: ", python_string(name))), value]));
    }
    Ok(Doc::Group([vec![Doc::text("lambda e: {")], parts, vec![Doc::text("}")]].concat()))
}

/// The arguments of `select` and `with_columns`.
pub(super) fn arguments(reader: &mut Reader, step: usize, pairs: &[(String, Expr)]) -> Result<Vec<Doc>> {
    // These are the methods' own.
    if pairs
        .iter()
        .any(|(name, expr)| ["self", "returns"].contains(&name.as_str()) && column_name(expr) != Some(name))
    {
        return Ok(vec![dictionary(reader, step, pairs)?]);
    }
    let plain = |(name, expr): &(String, Expr)| column_name(expr) == Some(name);
    let first = pairs.iter().take_while(|pair| plain(pair)).count();
    let mut arguments: Vec<Doc> =
        pairs[..first].iter().map(|(name, _)| Doc::Text(python_string(name))).collect();
    for (name, expr) in &pairs[first..] {
        let value = match column_name(expr) {
            Some(column) => Doc::Text(python_string(column)),
            None => reader.lambda(step, expr)?,
        };
        arguments.push(named(name, value));
    }
    Ok(arguments)
}

/// An argument by name, whatever its name is.
pub(super) fn named(name: &str, value: Doc) -> Doc {
    match is_name(name) {
        true => Doc::keyword(name, value),
        false => Doc::Group(vec![Doc::Text(format!("**{{{}: ", python_string(name))), value, Doc::text("}")]),
    }
}

/// `building_customer`, where the condition says so; else `filtered_customer`.
fn chosen(predicate: &Expr, base: &str) -> String {
    fn said(predicate: &Expr) -> Option<&str> {
        match predicate {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                said(left).or_else(|| said(right))
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
    // Of what was put together by a step before, only the step's own name says what it holds.
    let made =
        ["per_", "totals", "all_"].iter().any(|start| base.starts_with(start)) || base.contains("_with");
    match said(predicate) {
        _ if made || base.starts_with("filtered_") => base.to_string(),
        Some(word) => name_of(&format!("{word} {base}")),
        None => name_of(&format!("filtered {base}")),
    }
}
