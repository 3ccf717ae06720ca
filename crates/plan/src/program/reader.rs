//! Translates plan nodes to steps, bottom up.
//!
//! Columns are tracked by position: a [`Scope`] maps each column of a node to a column of the step's stream.
//! So a projection that only selects, reorders or renames columns needs no step if SQL made the names. In a
//! plan of the fluent builder every projection is a step.

use super::document::Doc;
use super::expression::ExprWriter;
use super::python_expressions::rewrite_for_python;
use super::steps::{Step, StepKind, Steps};
use crate::Stream;
use crate::names::{column, names};
use crate::nodes::{Node, node};
use crate::resolve::coerced;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, lit};
use std::collections::{BTreeSet, HashMap};

/// The step of a plan node.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    /// The number of the step.
    pub step: usize,
    /// For each column of the node: its name in the stream of the step.
    pub columns: Vec<String>,
}

/// What the parent node requires of its input. Columns are positions.
#[derive(Debug, Clone, Default)]
pub(super) struct Required {
    /// Preferred names.
    pub names: HashMap<usize, String>,
    /// Whether the preferred names are those of the result; otherwise readable variants may be used.
    pub keep_names: bool,
    /// The columns that are used; `None`: all of them.
    pub used: Option<BTreeSet<usize>>,
}

impl Required {
    /// The preferred name of a column, made readable unless it has to be kept.
    pub fn name(&self, i: usize, readable: impl FnOnce(&str) -> String) -> Option<String> {
        let name = self.names.get(&i)?;
        Some(if self.keep_names { name.clone() } else { readable(name) })
    }
}

/// Translates a plan to steps.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The steps so far.
    pub steps: Steps,
    /// The scopes of nodes that were read without requirements: a shared subplan is read once.
    scopes: HashMap<LogicalPlan, Scope>,
    /// The work tables of the enclosing recursive queries: names and steps, innermost last.
    pub work_tables: Vec<(String, usize)>,
}

/// Whether columns have qualifiers: a plan of SQL, not of the fluent builder.
pub(super) fn has_qualifiers(schema: &DFSchema) -> bool {
    schema.iter().any(|(qualifier, _)| qualifier.is_some())
}

/// The position of a column.
pub(super) fn position(schema: &DFSchema, column: &Column) -> Result<usize> {
    schema.index_of_column(column)
}

impl Reader {
    /// Adds the steps of a plan.
    ///
    /// # Errors
    /// `Plan` if the fluent API cannot express a node.
    pub fn read(&mut self, plan: &LogicalPlan, required: &Required) -> Result<Scope> {
        let is_unconstrained = required.names.is_empty() && required.used.is_none();
        if is_unconstrained && let Some(scope) = self.scopes.get(plan) {
            return Ok(scope.clone());
        }
        let scope = self.plan_node(plan, required)?;
        if is_unconstrained {
            self.scopes.insert(plan.clone(), scope.clone());
        }
        Ok(scope)
    }

    fn plan_node(&mut self, plan: &LogicalPlan, required: &Required) -> Result<Scope> {
        if let Some(extension) = node(plan) {
            return self.extension_node(extension, required);
        }
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::Projection(projection) => self.projection(plan, projection, required),
            LogicalPlan::Filter(filter) => self.filter(filter, required),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, required),
            LogicalPlan::Join(join) => self.join(join, false, required),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Distinct(Distinct::All(input)) => self.distinct(input),
            LogicalPlan::Sort(sort) => self.sort(sort, required),
            LogicalPlan::Limit(limit) => self.limit(limit, required),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            LogicalPlan::SubqueryAlias(alias) => self.read(&alias.input, required),
            LogicalPlan::Window(window) => self.window_functions(window, required),
            LogicalPlan::RecursiveQuery(query) => self.recursive(query),
            LogicalPlan::Values(values) => self.values(values, required),
            LogicalPlan::EmptyRelation(empty) => self.empty(empty, required),
            other => plan_err!("the program has no word for this step: {}", other.display()),
        }
    }

    fn extension_node(&mut self, node: Node<'_>, required: &Required) -> Result<Scope> {
        match node {
            Node::Ingress(n) => self.ingress(n),
            Node::AlterLifetime(n) => self.alter_lifetime(n),
            Node::WithStart(n) => self.with_start(n),
            Node::Session(n) => self.session(n),
            Node::ChangeLifetimes(n) => self.change_lifetimes(n),
            Node::Clip(n) => self.clip(n),
            Node::Detect(_) => plan_err!("the program has no word for a pattern of events"),
            Node::MatchRecognize(_) => {
                plan_err!("the program has no word for a pattern of rows: keep the query in SQL")
            }
            Node::Process(n) => plan_err!(
                "the program has no word for an operator of your own: {} is where it was written",
                n.operator.0.name()
            ),
            Node::FillGaps(n) => self.fill_gaps(n),
            Node::Changes(n) => self.changes(n),
            Node::Accumulate(_) => {
                plan_err!(
                    "the program has no word for early results; print the plan before they are asked for"
                )
            }
            Node::AllowedLateness(n) => self.allow_lateness(n),
            // The physical planner inserts it.
            Node::Combine(_) => plan_err!(
                "the program has no word for a part of an aggregate; print the plan before it is cut"
            ),
            Node::ReKey(n) => self.rekey(n),
            Node::Require(n) => self.require(n),
            Node::Colocated(n) => self.colocated(n, required),
            Node::Exchange(n) => self.exchange(n, required),
        }
    }

    /// Adds a step with one input, and with the columns and the name of that input.
    pub fn add_step(&mut self, scope: Scope, kind: StepKind, doc: Doc, stream: Stream) -> Scope {
        let name = self.steps.name(scope.step).to_string();
        self.add_named_step(scope, kind, doc, stream, name)
    }

    /// Adds a step with one input and the columns of that input, under another name.
    pub fn add_named_step(
        &mut self,
        scope: Scope,
        kind: StepKind,
        doc: Doc,
        stream: Stream,
        name: String,
    ) -> Scope {
        let step = Step { inputs: vec![scope.step], kind, doc, stream, name, body: None };
        Scope { step: self.steps.add(step), columns: scope.columns }
    }

    /// Rewrites an expression over the columns of a node to the columns of its step, for Python.
    pub fn rewrite_expr(&self, expr: &Expr, schema: &DFSchema, scope: &Scope) -> Result<Expr> {
        rewrite_for_python(
            &with_renamed_columns(expr, schema, scope)?,
            self.steps.stream(scope.step).plan().schema(),
        )
    }

    /// Rewrites several expressions, see [`Reader::rewrite_expr`].
    pub fn rewrite_exprs<'a>(
        &self,
        exprs: impl IntoIterator<Item = &'a Expr>,
        schema: &DFSchema,
        scope: &Scope,
    ) -> Result<Vec<Expr>> {
        exprs.into_iter().map(|e| self.rewrite_expr(e, schema, scope)).collect()
    }

    /// `lambda e: …` over the columns of a step.
    pub fn lambda(&mut self, step: usize, expr: &Expr) -> Result<Doc> {
        let Steps { all, functions, .. } = &mut self.steps;
        let schema = all[step].stream.plan().schema();
        ExprWriter { schema, row: &|_| "e".to_string(), functions }.lambda("e", expr)
    }

    /// Projects a scope to its columns under these names, unless the stream has just these.
    pub fn project_to(&mut self, scope: Scope, wanted: &[String]) -> Result<Scope> {
        let stream = self.steps.stream(scope.step).clone();
        if !wanted.is_empty() && names(stream.plan().schema()) == *wanted && scope.columns == wanted {
            return Ok(scope);
        }
        let kept = |key: &String| scope.columns.iter().zip(wanted).any(|(from, to)| from == key && to == key);
        let scope = match stream.properties().key.iter().all(kept) {
            true => scope,
            false => self.keyed(scope, &[])?,
        };
        if wanted.is_empty() {
            // ExprWriter that are only counted have a column all the same.
            let scope = self.select(scope, vec![("row".to_string(), lit(true))], false)?;
            return Ok(Scope { columns: vec![], ..scope });
        }
        let pairs = wanted.iter().cloned().zip(scope.columns.iter().map(column)).collect();
        self.select(scope, pairs, false)
    }

    /// Projects a scope to the columns of its node, under unique names.
    pub fn with_unique_names(&mut self, scope: Scope) -> Result<Scope> {
        let mut wanted: Vec<String> = Vec::new();
        for name in &scope.columns {
            wanted.push(unique_name(name, |n| wanted.iter().any(|w| w == n)));
        }
        self.project_to(scope, &wanted)
    }
}

/// The first of `name`, `name_2`, … for which `taken` is false.
pub(super) fn unique_name(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut unique = name.to_string();
    let mut number = 2;
    while taken(&unique) {
        unique = format!("{name}_{number}");
        number += 1;
    }
    unique
}

/// Aliased expressions; a column under its own name needs no alias.
pub(super) fn aliased(pairs: &[(String, Expr)]) -> Vec<Expr> {
    let named = |(name, expr): &(String, Expr)| match expr {
        Expr::Column(c) if c.name == *name => expr.clone(),
        other => other.clone().alias(name),
    };
    pairs.iter().map(named).collect()
}

/// An aggregate or window function call without the casts that coercion adds to its arguments.
pub(super) fn without_coercion_casts(call: Expr, schema: &DFSchema) -> Result<Expr> {
    let without_cast = |e: Expr| match e {
        Expr::Cast(cast) if cast.expr.as_literal().is_none() => Ok(Transformed::yes(*cast.expr)),
        other => Ok(Transformed::no(other)),
    };
    let short = call.clone().map_children(without_cast).data()?;
    let coerces_alike = matches!(
        (coerced(short.clone(), schema), coerced(call.clone(), schema)),
        (Ok(short), Ok(call)) if short == call
    );
    Ok(if coerces_alike { short } else { call })
}

/// The expression over the columns of a step instead of those of its node.
pub(super) fn with_renamed_columns(expr: &Expr, schema: &DFSchema, scope: &Scope) -> Result<Expr> {
    expr.clone()
        .transform_up(|e| match &e {
            Expr::Column(c) => Ok(Transformed::yes(column(&scope.columns[position(schema, c)?]))),
            _ => Ok(Transformed::no(e)),
        })
        .data()
}
