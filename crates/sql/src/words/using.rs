//! `full join … using (a)`: the column `a` is that of whichever side has a row. DataFusion's planner takes the left one, so
//! it is said: `coalesce(l.a, r.a)`. The same holds of a right join.
//!
//! Invariant: columns of subqueries are not touched; `l.a` and `r.a` stay what they are.

use super::call;
use crate::names;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, OrderByKind, Query, ReplaceSelectElement, ReplaceSelectItem,
    Select, SelectItem, SetExpr, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Says which side the columns of outer joins come from.
pub(super) fn plain(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let shared: Vec<Shared> = select.from.iter().flat_map(shared).collect();
    if shared.is_empty() {
        return;
    }
    let mut columns = Columns { shared, depth: 0 };
    if let Some(OrderByKind::Expressions(exprs)) = query.order_by.as_mut().map(|order| &mut order.kind) {
        // Where the column is selected, the order speaks of what is selected.
        let selected = |shared: &Shared| select.projection.iter().any(|item| gives(item, &shared.name));
        let shared = columns.shared.iter().filter(|shared| !selected(shared)).cloned().collect();
        let mut hidden = Columns { shared, depth: 0 };
        // The visitors never break off.
        let _: ControlFlow<()> = exprs.visit(&mut hidden);
    }
    rewritten(select, &mut columns);
}

/// A column that both sides of a join have.
#[derive(Clone)]
struct Shared {
    name: String,
    value: Expr,
}

/// The columns of right and full joins, from whichever side has them.
fn shared(from: &TableWithJoins) -> Vec<Shared> {
    let outer = from.joins.iter().filter(|join| {
        matches!(
            join.join_operator,
            JoinOperator::FullOuter(_) | JoinOperator::Right(_) | JoinOperator::RightOuter(_)
        )
    });
    let mut found: Vec<Shared> = Vec::new();
    for column in outer.flat_map(|join| using(&join.join_operator)) {
        let name = names::ident(&column);
        let others = from
            .joins
            .iter()
            .filter(|join| using(&join.join_operator).iter().any(|other| names::ident(other) == name));
        let sides = std::iter::once(&from.relation).chain(others.map(|join| &join.relation));
        let values = sides.map(|side| Some(Expr::CompoundIdentifier(vec![called(side)?, column.clone()])));
        if let (Some(values), false) =
            (values.collect::<Option<Vec<_>>>(), found.iter().any(|f| f.name == name))
        {
            found.push(Shared { name, value: call("coalesce", values) });
        }
    }
    found
}

fn using(operator: &JoinOperator) -> Vec<Ident> {
    let constraint = match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on) => on,
        JoinOperator::Right(on) | JoinOperator::RightOuter(on) | JoinOperator::FullOuter(on) => on,
        _ => return vec![],
    };
    match constraint {
        JoinConstraint::Using(columns) => {
            columns.iter().filter_map(|column| column.0.last()?.as_ident().cloned()).collect()
        }
        _ => vec![],
    }
}

/// What a relation is called.
fn called(relation: &TableFactor) -> Option<Ident> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        TableFactor::Table { name, alias: None, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

fn gives(item: &SelectItem, name: &str) -> bool {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(column)) => names::ident(column) == name,
        SelectItem::ExprWithAlias { alias, .. } => names::ident(alias) == name,
        SelectItem::Wildcard(_) => true,
        _ => false,
    }
}

fn rewritten(select: &mut Select, columns: &mut Columns) {
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                if let Some(value) = columns.value(name) {
                    *item = SelectItem::ExprWithAlias { expr: value, alias: name.clone() };
                }
            }
            SelectItem::Wildcard(options) => {
                let replace = options.opt_replace.get_or_insert(ReplaceSelectItem { items: vec![] });
                replace.items.extend(columns.shared.iter().map(|shared| {
                    let column_name = Ident::with_quote('"', &shared.name);
                    Box::new(ReplaceSelectElement {
                        expr: shared.value.clone(),
                        column_name,
                        as_keyword: true,
                    })
                }));
            }
            item => {
                let _: ControlFlow<()> = item.visit(columns);
            }
        }
    }
    let _: ControlFlow<()> = select.selection.visit(columns);
    let _: ControlFlow<()> = select.group_by.visit(columns);
    let _: ControlFlow<()> = select.having.visit(columns);
    let _: ControlFlow<()> = select.qualify.visit(columns);
}

/// Says what a column is, outside of subqueries.
struct Columns {
    shared: Vec<Shared>,
    depth: usize,
}

impl Columns {
    fn value(&self, name: &Ident) -> Option<Expr> {
        let name = names::ident(name);
        self.shared.iter().find(|shared| shared.name == name).map(|shared| shared.value.clone())
    }
}

impl VisitorMut for Columns {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let (Expr::Identifier(name), 0) = (&*expr, self.depth)
            && let Some(value) = self.value(name)
        {
            *expr = value;
        }
        ControlFlow::Continue(())
    }
}
