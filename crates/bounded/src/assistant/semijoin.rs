//! A subquery as a join: `x in (select y from …)` as `x = y`, the tables of the subquery added to the query.
//!
//! A view is made of joins and has no subqueries, so this is how a query with one can be kept in a view.
//! Every column is qualified by its relation, since two relations of the join may have columns of one name.
//!
//! Invariant: the join has the same rows as the query, unless [`SemiJoin::repeats`]: then the subquery may
//! find a value several times, and the join has a row for each of them.

use crate::schema::Schema;
use crate::syntax::Parsed;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
    TableAlias, TableFactor, Value, VisitMut,
};
use std::collections::BTreeSet;
use whimbrel_sql::walk::change_expressions;

/// A query with a join in place of a subquery.
pub(super) struct SemiJoin {
    pub parsed: Parsed,
    /// The subquery may find a value several times; a row is joined with each of them.
    pub repeats: bool,
}

/// The query with a join in place of its `in (select …)`; `None` if it has none, or several, or one that is
/// more than a search in joined tables.
pub(super) fn semijoin(mut parsed: Parsed, schema: &Schema) -> Option<SemiJoin> {
    let Statement::Query(query) = &mut parsed.statement else { return None };
    let names = output_names(query)?;
    let query = query.as_mut();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let (expr, mut inner, others) = take_subquery(select)?;
    let outer_relations = Relations::of(select, schema)?;
    rename(&mut inner, &outer_relations, schema)?;
    let value = selected(&inner)?.clone();
    let repeats = repeats(&inner, &value, schema);

    let mut outer = Selection { expr, others };
    outer_relations.qualify(&mut outer.expr);
    outer.others.iter_mut().for_each(|other| outer_relations.qualify(other));
    outer_relations.qualify(&mut select.projection);
    if let GroupByExpr::Expressions(group, _) = &mut select.group_by {
        outer_relations.qualify(group);
    }
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order.kind
    {
        let is_output = |expr: &Expr| matches!(expr, Expr::Identifier(name) if names.contains(&name.value));
        keys.iter_mut()
            .filter(|key| !is_output(&key.expr))
            .for_each(|key| outer_relations.qualify(&mut key.expr));
    }
    let mut conjuncts = outer.others;
    conjuncts.push(equals(outer.expr, value));
    conjuncts.extend(inner.selection.take());
    select.from.extend(inner.from);
    select.selection = conjuncts.into_iter().reduce(and);
    Some(SemiJoin { parsed, repeats })
}

/// The parts of a `where`: what is looked for in the subquery, and the other conjuncts.
struct Selection {
    expr: Expr,
    others: Vec<Expr>,
}

/// The relations of a `from`: what they are called, and their columns.
struct Relations(Vec<(Ident, Vec<String>)>);

impl Relations {
    /// The relations of a query, if all are tables and the joins between them are inner ones.
    fn of(select: &Select, schema: &Schema) -> Option<Relations> {
        let factors = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        let relations = factors.map(|factor| {
            let TableFactor::Table { name, alias, .. } = factor else { return None };
            let name = name.0.last()?.as_ident()?;
            let columns = schema.table(&name.value.to_lowercase()).ok()?.visible().iter();
            let called = alias.as_ref().map_or(name, |alias| &alias.name).clone();
            Some((called, columns.map(|column| column.name.clone()).collect()))
        });
        relations.collect::<Option<Vec<_>>>().map(Relations)
    }

    /// Whether a relation is called this.
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(existing, _)| existing.value.eq_ignore_ascii_case(name))
    }

    /// Writes each column with the relation that it belongs to.
    fn qualify(&self, tree: &mut impl VisitMut) {
        change_expressions(tree, |expr| {
            let Expr::Identifier(column) = expr else { return };
            let name = column.value.to_lowercase();
            if let Some((relation, _)) = self.0.iter().find(|(_, columns)| columns.contains(&name)) {
                *expr = Expr::CompoundIdentifier(vec![relation.clone(), column.clone()]);
            }
        });
    }
}

/// The names of the columns of a query, where it gives them.
fn output_names(query: &Query) -> Option<Vec<String>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let aliases = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    });
    Some(aliases.collect())
}

/// Takes the one `in (select …)` out of a `where`: what is looked for, where, and the other conjuncts.
fn take_subquery(select: &Select) -> Option<(Expr, Select, Vec<Expr>)> {
    let mut found = None;
    let mut others = Vec::new();
    for conjunct in select.selection.iter().flat_map(conjuncts) {
        match conjunct {
            Expr::InSubquery { expr, subquery, negated: false } if found.is_none() => {
                found = Some((expr.as_ref().clone(), plain_select(subquery)?.clone()));
            }
            other if has_subquery(other) => return None,
            other => others.push(other.clone()),
        }
    }
    let (expr, inner) = found?;
    Some((expr, inner, others))
}

/// A query that is a search in joined tables and nothing more.
fn plain_select(query: &Query) -> Option<&Select> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(group, _) if group.is_empty());
    let more = query.with.is_some() || query.limit_clause.is_some() || query.fetch.is_some();
    let nested = select.selection.as_ref().is_some_and(has_subquery);
    (!grouped && !more && !nested && select.having.is_none()).then_some(select)
}

/// Whether a subquery is in an expression.
fn has_subquery(expr: &Expr) -> bool {
    let mut found = false;
    change_expressions(&mut expr.clone(), |expr| {
        found |= matches!(expr, Expr::InSubquery { .. } | Expr::Exists { .. } | Expr::Subquery(_));
    });
    found
}

/// Gives the relations of the subquery names that the query around it does not have, and qualifies its
/// columns.
fn rename(inner: &mut Select, outer: &Relations, schema: &Schema) -> Option<()> {
    let mut relations = Relations::of(inner, schema)?;
    let old: Vec<Ident> = relations.0.iter().map(|(name, _)| name.clone()).collect();
    let mut taken: BTreeSet<String> =
        outer.0.iter().chain(&relations.0).map(|(name, _)| name.value.to_lowercase()).collect();
    for (name, _) in relations.0.iter_mut().filter(|(name, _)| outer.has(&name.value)) {
        let mut names = (2..).map(|n| format!("{}_{n}", name.value));
        *name = Ident::new(names.find(|name| taken.insert(name.to_lowercase()))?);
    }
    let renamed = |name: &Ident| {
        let at = old.iter().position(|existing| existing.value.eq_ignore_ascii_case(&name.value))?;
        Some(relations.0[at].0.clone())
    };
    change_expressions(inner, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [relation, _] = parts.as_mut_slice()
            && let Some(name) = renamed(relation)
        {
            *relation = name;
        }
    });
    let factors = inner.from.iter_mut().flat_map(|from| {
        std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|join| &mut join.relation))
    });
    for (factor, (name, _)) in factors.zip(&relations.0) {
        let TableFactor::Table { name: table, alias, .. } = factor else { return None };
        let own = table.0.last().and_then(|part| part.as_ident());
        *alias = (own != Some(name)).then(|| TableAlias {
            explicit: true,
            name: name.clone(),
            columns: vec![],
            at: None,
        });
    }
    relations.qualify(inner);
    Some(())
}

/// What the subquery selects.
fn selected(inner: &Select) -> Option<&Expr> {
    match inner.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] => Some(expr),
        _ => None,
    }
}

/// Whether a value can be found several times: it cannot if the subquery names a unique key of one table.
fn repeats(inner: &Select, value: &Expr, schema: &Schema) -> bool {
    let [from] = inner.from.as_slice() else { return true };
    let TableFactor::Table { name, .. } = &from.relation else { return true };
    let Some(table) = name.0.last().and_then(|part| schema.table(&part.to_string().to_lowercase()).ok())
    else {
        return true;
    };
    let column = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(parts) => table.column(&parts.last()?.value.to_lowercase()).ok(),
        _ => None,
    };
    let is_given = |expr: &Expr| matches!(expr, Expr::Value(value) if value.value != Value::Null);
    let equal = inner.selection.iter().flat_map(conjuncts).filter_map(|conjunct| match conjunct {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } if is_given(right) => column(left),
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } if is_given(left) => column(right),
        _ => None,
    });
    let existing: Vec<usize> = equal.chain(column(value)).collect();
    !from.joins.is_empty() || table.max_rows_with(&existing) != Some(1)
}

/// The predicates that `and` joins.
pub(super) fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            [conjuncts(left), conjuncts(right)].concat()
        }
        Expr::Nested(inner) => conjuncts(inner),
        other => vec![other],
    }
}

/// `left = right`
fn equals(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Eq, right: Box::new(right) }
}

/// `left and right`
fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}
