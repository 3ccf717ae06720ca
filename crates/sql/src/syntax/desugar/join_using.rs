//! `join … using (a)`: the column `a` is one column.
//!
//! - In an inner and a left join it is the left column, in a right join the right one, and in a full join
//!   `coalesce(l.a, r.a)`. DataFusion's planner always takes the left one, so others are written out.
//! - Where several joins use the same column, each compares the merged column of the joins before it.
//!   DataFusion's planner finds the name ambiguous, so these joins are written with `on`.
//! - A star shows it once, where the first table has it.
//!
//! Invariant: columns of subqueries are not touched; `l.a` and `r.a` stay what they are.
//!
//! ```sql
//! select k from a full join b using (k);
//! -- select coalesce(a.k, b.k) as k from a full join b using (k)
//! ```

use super::substitute;
use crate::syntax::ast::{call, join_constraint, selects};
use crate::syntax::names;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    OrderByKind, Query, ReplaceSelectElement, ReplaceSelectItem, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

/// Merges the columns of joins with `using`. A select with natural joins waits until their columns are known.
pub(crate) fn merge_using_columns(query: &mut Query) {
    if let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), query.order_by.as_mut())
        && let OrderByKind::Expressions(exprs) = &mut order.kind
        && !select.from.iter().any(is_natural)
    {
        // If the column is selected, the order is by the selected one.
        let hidden = |shared: &Shared| !select.projection.iter().any(|item| gives(item, &shared.name));
        let shared = shared(select).into_iter().filter(|shared| shared.is_explicit && hidden(shared));
        let shared: Vec<Shared> = shared.collect();
        substitute::substitute(exprs, |name| value(&shared, name));
    }
    selects(&mut query.body, &mut |select| {
        let shared = shared(select);
        if !shared.is_empty() && !select.from.iter().any(is_natural) {
            expand_stars(select);
            let shared: Vec<Shared> = shared.into_iter().filter(|shared| shared.is_explicit).collect();
            inline_shared(select, &shared);
            select.from.iter_mut().for_each(as_on);
        }
    });
}

/// A merged column of joins.
#[derive(Clone)]
struct Shared {
    /// Its name.
    name: String,
    /// The columns that it is merged of: it is the first that is not null.
    sides: Vec<Expr>,
    /// How many joins use it.
    joins: usize,
    /// Whether it is written out; otherwise it is the left one of two, as in the planner.
    is_explicit: bool,
    /// Whether the first table has it.
    is_first: bool,
}

impl Shared {
    /// The merged column as an expression.
    fn value(&self) -> Expr {
        match self.sides.as_slice() {
            [column] => column.clone(),
            sides => call("coalesce", sides.to_vec()),
        }
    }
}

/// The merged columns of a select.
fn shared(select: &Select) -> Vec<Shared> {
    select.from.iter().flat_map(|from| merge_columns(from, |_, _| {})).collect()
}

/// The merged columns of a `from`; `each` gets the condition of each join.
fn merge_columns(from: &TableWithJoins, mut each: impl FnMut(usize, Expr)) -> Vec<Shared> {
    let mut found: Vec<Shared> = Vec::new();
    for (at, join) in from.joins.iter().enumerate() {
        for column in using(&join.join_operator) {
            let (Some(first), Some(right)) = (relation_name(&from.relation), relation_name(&join.relation))
            else {
                continue;
            };
            let name = names::ident(&column);
            let own = Expr::CompoundIdentifier(vec![right, column.clone()]);
            let at_name = found.iter().position(|shared| shared.name == name).unwrap_or_else(|| {
                let sides = vec![Expr::CompoundIdentifier(vec![first, column])];
                found.push(Shared { name, sides, joins: 0, is_explicit: false, is_first: at == 0 });
                found.len() - 1
            });
            let shared = &mut found[at_name];
            let (left, right) = (Box::new(shared.value()), Box::new(own.clone()));
            each(at, Expr::BinaryOp { left, op: BinaryOperator::Eq, right });
            shared.joins += 1;
            shared.is_explicit |= shared.joins > 1;
            match join.join_operator {
                JoinOperator::FullOuter(_) => shared.sides.push(own),
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => shared.sides = vec![own],
                _ => continue,
            }
            shared.is_explicit = true;
        }
    }
    found
}

/// Writes joins with `on` if several joins use one column.
fn as_on(from: &mut TableWithJoins) {
    let mut conditions: Vec<Option<Expr>> = vec![None; from.joins.len()];
    let found = merge_columns(from, |at, equal| {
        conditions[at] = Some(match conditions[at].take() {
            Some(others) => {
                let (left, right) = (Box::new(others), Box::new(equal));
                Expr::BinaryOp { left, op: BinaryOperator::And, right }
            }
            None => equal,
        });
    });
    if found.iter().all(|shared| shared.joins < 2) {
        return;
    }
    for (join, condition) in from.joins.iter_mut().zip(conditions) {
        if let (Some(condition), Some(constraint)) = (condition, join_constraint(&mut join.join_operator)) {
            *constraint = JoinConstraint::On(condition);
        }
    }
}

/// The columns that a join names.
fn using(operator: &JoinOperator) -> Vec<Ident> {
    let mut operator = operator.clone();
    match join_constraint(&mut operator) {
        Some(JoinConstraint::Using(columns)) => {
            columns.iter().filter_map(|column| column.0.last()?.as_ident().cloned()).collect()
        }
        _ => vec![],
    }
}

/// Expands a star table by table: the planner would show a merged column at the table whose name sorts first.
fn expand_stars(select: &mut Select) {
    let Some(tables) = select.from.iter().map(tables).collect::<Option<Vec<_>>>() else {
        return;
    };
    let tables: Vec<SelectItem> = tables.into_iter().flatten().collect();
    let is_bare_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default());
    let items = std::mem::take(&mut select.projection).into_iter();
    select.projection =
        items.flat_map(|item| if is_bare_star(&item) { tables.clone() } else { vec![item] }).collect();
}

/// A star for each table: the first has the merged columns, the others do not. `None` if a table has no name,
/// or it is not known which table has them.
fn tables(from: &TableWithJoins) -> Option<Vec<SelectItem>> {
    let own = merge_columns(from, |_, _| {});
    if own.iter().any(|shared| shared.is_explicit && !shared.is_first) {
        return None;
    }
    let replaced = own.iter().filter(|shared| shared.is_explicit).map(element).collect::<Vec<_>>();
    let mut first = WildcardAdditionalOptions::default();
    if !replaced.is_empty() {
        first.opt_replace = Some(ReplaceSelectItem { items: replaced });
    }
    let mut tables = vec![star(relation_name(&from.relation)?, first)];
    for Join { relation, join_operator, .. } in &from.joins {
        match join_operator {
            JoinOperator::LeftSemi(_) | JoinOperator::LeftAnti(_) => continue,
            JoinOperator::CrossJoin(_) => {}
            // A join of another kind may add columns.
            operator => drop(join_constraint(&mut operator.clone())?),
        }
        let columns = using(join_operator);
        let mut options = WildcardAdditionalOptions::default();
        if !columns.is_empty() {
            let columns = columns.into_iter().map(|column| ObjectName::from(vec![column])).collect();
            options.opt_exclude = Some(ExcludeSelectItem::Multiple(columns));
        }
        tables.push(star(relation_name(relation)?, options));
    }
    Some(tables)
}

/// `table.*` with options.
fn star(table: Ident, options: WildcardAdditionalOptions) -> SelectItem {
    let kind = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![table]));
    SelectItem::QualifiedWildcard(kind, options)
}

/// A merged column in `replace`.
fn element(shared: &Shared) -> Box<ReplaceSelectElement> {
    let column_name = Ident::with_quote('"', &shared.name);
    Box::new(ReplaceSelectElement { expr: shared.value(), column_name, as_keyword: true })
}

/// What a relation is called.
fn relation_name(relation: &TableFactor) -> Option<Ident> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        TableFactor::Table { name, alias: None, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

/// Whether an item of a select list has this name.
fn gives(item: &SelectItem, name: &str) -> bool {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(column)) => names::ident(column) == name,
        SelectItem::ExprWithAlias { alias, .. } => names::ident(alias) == name,
        SelectItem::Wildcard(_) => true,
        _ => false,
    }
}

/// Replaces merged columns by their expressions in all clauses of a select.
fn inline_shared(select: &mut Select, columns: &[Shared]) {
    let value = |name: &Ident| value(columns, name);
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                if let Some(expr) = value(name) {
                    *item = SelectItem::ExprWithAlias { expr, alias: name.clone() };
                }
            }
            SelectItem::Wildcard(options) => {
                let replace = options.opt_replace.get_or_insert(ReplaceSelectItem { items: vec![] });
                let replaced = |shared: &&Shared| {
                    replace.items.iter().any(|item| item.column_name.value.eq_ignore_ascii_case(&shared.name))
                };
                let others: Vec<_> = columns.iter().filter(|shared| !replaced(shared)).map(element).collect();
                replace.items.extend(others);
            }
            item => substitute::substitute(item, value),
        }
    }
    substitute::substitute(&mut select.selection, value);
    substitute::substitute(&mut select.group_by, value);
    substitute::substitute(&mut select.having, value);
    substitute::substitute(&mut select.qualify, value);
}

/// What a column is that joins share.
fn value(columns: &[Shared], name: &Ident) -> Option<Expr> {
    let name = names::ident(name);
    columns.iter().find(|shared| shared.name == name).map(Shared::value)
}

/// The constraint of a join that may be natural: a semi or an anti join too.
pub(crate) fn natural_constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Semi(on)
        | JoinOperator::LeftSemi(on)
        | JoinOperator::RightSemi(on)
        | JoinOperator::Anti(on)
        | JoinOperator::LeftAnti(on)
        | JoinOperator::RightAnti(on) => Some(on),
        other => join_constraint(other),
    }
}

/// Whether there is a natural join.
pub(crate) fn is_natural(from: &TableWithJoins) -> bool {
    let natural = |join: &Join| {
        natural_constraint(&mut join.join_operator.clone()).is_some_and(|on| *on == JoinConstraint::Natural)
    };
    from.joins.iter().any(natural)
}
