//! From nodes to steps.
//!
//! A node's columns are followed by position: a [`Scope`] says, for every column of the node, which column of
//! the step's stream it is. So a projection that only picks, orders and renames columns is no step where the
//! names were made by SQL; where names are the builder's own, every projection is one.

use super::doc::Doc;
use super::expression::Rows;
use super::steps::{Place, Step, Steps};
use super::words::in_words;
use crate::Stream;
use crate::names::{column, names};
use crate::nodes::{Node, node};
use crate::resolve::coerced;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, lit};
use std::collections::{BTreeSet, HashMap};

/// A step, and the names of a node's columns in its stream.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub step: usize,
    pub columns: Vec<String>,
}

/// What the node above would like, by the positions of columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Wants {
    /// Names for columns that have to be named.
    pub names: HashMap<usize, String>,
    /// Whether these are the names of the result, as they are; else better ones can be taken.
    pub exact: bool,
    /// The columns that are used at all; all, if it is not known.
    pub used: Option<BTreeSet<usize>>,
}

impl Wants {
    /// The name for a column, made readable if that is allowed.
    pub fn name(&self, i: usize, readable: impl FnOnce(&str) -> String) -> Option<String> {
        let name = self.names.get(&i)?;
        Some(if self.exact { name.clone() } else { readable(name) })
    }
}

/// Reads a plan.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub steps: Steps,
    known: HashMap<LogicalPlan, Scope>,
    /// The steps that stand for the tables of recursive queries, by name.
    pub work_tables: Vec<(String, usize)>,
}

/// Whether columns have names that no builder gives.
pub(super) fn qualified(schema: &DFSchema) -> bool {
    schema.iter().any(|(qualifier, _)| qualifier.is_some())
}

/// The position of a column.
pub(super) fn position(schema: &DFSchema, column: &Column) -> Result<usize> {
    schema.index_of_column(column)
}

impl Reader {
    /// The steps of a plan.
    pub fn read(&mut self, plan: &LogicalPlan, wants: &Wants) -> Result<Scope> {
        let plainly = wants.names.is_empty() && wants.used.is_none();
        if plainly && let Some(scope) = self.known.get(plan) {
            return Ok(scope.clone());
        }
        let scope = self.node(plan, wants)?;
        if plainly {
            self.known.insert(plan.clone(), scope.clone());
        }
        Ok(scope)
    }

    fn node(&mut self, plan: &LogicalPlan, wants: &Wants) -> Result<Scope> {
        if let Some(ours) = node(plan) {
            return self.ours(ours, wants);
        }
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::Projection(projection) => self.projection(plan, projection, wants),
            LogicalPlan::Filter(filter) => self.filter(filter, wants),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, wants),
            LogicalPlan::Join(join) => self.join(join, false, wants),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Distinct(Distinct::All(input)) => self.distinct(input),
            LogicalPlan::Sort(sort) => self.sort(sort, wants),
            LogicalPlan::Limit(limit) => self.limit(limit, wants),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            LogicalPlan::SubqueryAlias(alias) => self.read(&alias.input, wants),
            LogicalPlan::Window(window) => self.over_windows(window, wants),
            LogicalPlan::RecursiveQuery(query) => self.recursive(query),
            LogicalPlan::Values(values) => self.values(values, wants),
            LogicalPlan::EmptyRelation(empty) => self.empty(empty, wants),
            other => plan_err!("the program has no word for this step: {}", other.display()),
        }
    }

    fn ours(&mut self, ours: Node<'_>, wants: &Wants) -> Result<Scope> {
        match ours {
            Node::Ingress(n) => self.ingress(n),
            Node::AlterLifetime(n) => self.alter_lifetime(n),
            Node::WithStart(n) => self.with_start(n),
            Node::Session(n) => self.session(n),
            Node::Chop(n) => self.chop(n),
            Node::ClipConstant(n) => self.clip_constant(n),
            Node::Clip(n) => self.clip(n),
            Node::PointAtEnd(n) => self.point_at_end(n),
            Node::Changes(n) => self.changes(n),
            // Planners put it there, on the way to the runtime.
            Node::Combine(_) => plan_err!(
                "the program has no word for a part of an aggregate; print the plan before it is cut"
            ),
            Node::ReKey(n) => self.rekey(n),
            Node::Colocated(n) => self.colocated(n, wants),
            Node::Exchange(n) => self.exchange(n),
        }
    }

    /// A step with one input, of the same columns and the same name.
    pub fn next(&mut self, scope: Scope, place: Place, doc: Doc, stream: Stream) -> Scope {
        let name = self.steps.name(scope.step).to_string();
        self.named(scope, place, doc, stream, name)
    }

    /// A step with one input, of the same columns.
    pub fn named(&mut self, scope: Scope, place: Place, doc: Doc, stream: Stream, name: String) -> Scope {
        let step = Step { inputs: vec![scope.step], place, doc, stream, name, body: None };
        Scope { step: self.steps.add(step), columns: scope.columns }
    }

    /// An expression over a node's columns as one over a step's, in Python's words.
    pub fn over(&self, expr: &Expr, schema: &DFSchema, scope: &Scope) -> Result<Expr> {
        in_words(&renamed(expr, schema, scope)?, self.steps.stream(scope.step).plan().schema())
    }

    /// Expressions over a node's columns as ones over a step's.
    pub fn all_over<'a>(
        &self,
        exprs: impl IntoIterator<Item = &'a Expr>,
        schema: &DFSchema,
        scope: &Scope,
    ) -> Result<Vec<Expr>> {
        exprs.into_iter().map(|e| self.over(e, schema, scope)).collect()
    }

    /// `lambda e: …` over a step's columns.
    pub fn lambda(&mut self, step: usize, expr: &Expr) -> Result<Doc> {
        let Steps { all, functions, .. } = &mut self.steps;
        let schema = all[step].stream.plan().schema();
        Rows { schema, row: &|_| "e".to_string(), functions }.lambda("e", expr)
    }

    /// Exactly these of a step's columns under these names.
    pub fn exactly(&mut self, scope: Scope, wanted: &[String]) -> Result<Scope> {
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
            // Rows that are only counted have a column all the same.
            let scope = self.select(scope, vec![("row".to_string(), lit(true))], false)?;
            return Ok(Scope { columns: vec![], ..scope });
        }
        let pairs = wanted.iter().cloned().zip(scope.columns.iter().map(column)).collect();
        self.select(scope, pairs, false)
    }

    /// Exactly a node's columns, under names of their own.
    pub fn whole(&mut self, scope: Scope) -> Result<Scope> {
        let mut wanted: Vec<String> = Vec::new();
        for name in &scope.columns {
            wanted.push(free(name, |n| wanted.iter().any(|w| w == n)));
        }
        self.exactly(scope, &wanted)
    }
}

/// The first of `name`, `name_2`, … that is not taken.
pub(super) fn free(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut free = name.to_string();
    let mut number = 2;
    while taken(&free) {
        free = format!("{name}_{number}");
        number += 1;
    }
    free
}

/// Expressions under their names.
pub(super) fn aliased(pairs: &[(String, Expr)]) -> Vec<Expr> {
    let named = |(name, expr): &(String, Expr)| match expr {
        Expr::Column(c) if c.name == *name => expr.clone(),
        other => other.clone().alias(name),
    };
    pairs.iter().map(named).collect()
}

/// A call of a function of several rows without the casts that coercion adds by itself.
pub(super) fn over_whole(call: Expr, schema: &DFSchema) -> Result<Expr> {
    let bare = |e: Expr| match e {
        Expr::Cast(cast) if cast.expr.as_literal().is_none() => Ok(Transformed::yes(*cast.expr)),
        other => Ok(Transformed::no(other)),
    };
    let short = call.clone().map_children(bare).data()?;
    let same = matches!(
        (coerced(short.clone(), schema), coerced(call.clone(), schema)),
        (Ok(short), Ok(call)) if short == call
    );
    Ok(if same { short } else { call })
}

/// The same expression over a step's columns.
pub(super) fn renamed(expr: &Expr, schema: &DFSchema, scope: &Scope) -> Result<Expr> {
    expr.clone()
        .transform_up(|e| match &e {
            Expr::Column(c) => Ok(Transformed::yes(column(&scope.columns[position(schema, c)?]))),
            _ => Ok(Transformed::no(e)),
        })
        .data()
}
