//! Columns of a table of another schema than any that is read: `select s.t.x from t`. DataFusion's planner
//! would take the column of `t`.
//!
//! ```sql
//! select main.t.x from t;  -- t.x
//! select s.t.x from t;     -- refused, unless t has a column s
//! ```

use crate::syntax::names;
use crate::syntax::walk::walk;
use datafusion::common::{DataFusionError, Diagnostic, Result, Span};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, Spanned, TableAlias, TableFactor, TableWithJoins, Visitor,
};
use std::ops::ControlFlow;

/// The name of a relation, part by part; of one with an alias, the alias.
pub(super) type Name = Vec<String>;

/// The parts of names that every table has without being given them.
const DEFAULTS: [&str; 3] = ["memory", "main", "public"];

/// The names of the relations that a select reads.
pub(super) fn relations(select: &Select) -> Vec<Name> {
    let mut read = vec![];
    select.from.iter().for_each(|from| names_of(from, &mut read));
    read
}

/// Collects the names of relations.
fn names_of(from: &TableWithJoins, read: &mut Vec<Name>) {
    for relation in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
        match relation {
            TableFactor::Table { alias: Some(TableAlias { name, .. }), .. }
            | TableFactor::Derived { alias: Some(TableAlias { name, .. }), .. }
            | TableFactor::Function { alias: Some(TableAlias { name, .. }), .. }
            | TableFactor::UNNEST { alias: Some(TableAlias { name, .. }), .. }
            | TableFactor::NestedJoin { alias: Some(TableAlias { name, .. }), .. } => {
                read.push(vec![names::ident(name)]);
            }
            TableFactor::Table { name, .. } => {
                read.extend(
                    name.0.iter().map(|part| part.as_ident().map(names::ident)).collect::<Option<_>>(),
                );
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => names_of(table_with_joins, read),
            _ => {}
        }
    }
}

/// Refuses the columns of a query, without the queries inside of it, that name a table which is not read.
/// `scopes` are the relations of the queries around and, last, of this one; `is_column` says whether this one
/// reads a column of a name.
///
/// # Errors
/// `Plan`, with the place.
pub(super) fn check(query: &Query, scopes: &[Vec<Name>], is_column: &dyn Fn(&str) -> bool) -> Result<()> {
    let mut columns = Columns { scopes, is_column, queries: 0 };
    match walk(query, &mut columns) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Looks at the columns of a query.
struct Columns<'a> {
    /// The relations of the queries around, and of this one.
    scopes: &'a [Vec<Name>],
    /// Whether this one reads a column of a name.
    is_column: &'a dyn Fn(&str) -> bool,
    /// How many queries the walk is inside of.
    queries: usize,
}

impl Columns<'_> {
    /// The table that a column names, if it is not read, though one that is called so is.
    fn unread(&self, path: &[Ident]) -> Option<String> {
        let path: Vec<String> = path.iter().map(names::ident).collect();
        let (first, own) = (path.first()?, self.scopes.last()?);
        let ends = |relation: &Name, part: &String| {
            relation.last().is_some_and(|last| last.eq_ignore_ascii_case(part))
        };
        let is_read = |table: &[String]| {
            let same = |relation: &Name| is_same_table(relation, table);
            self.scopes.iter().flatten().any(same)
        };
        let alike = (2..path.len()).find(|end| own.iter().any(|relation| ends(relation, &path[end - 1])))?;
        let known = self.scopes.iter().flatten().any(|relation| ends(relation, first))
            || (2..path.len()).any(|end| is_read(&path[..end]))
            || (self.is_column)(first);
        (!known).then(|| path[..alike].join("."))
    }
}

/// Whether two names are of one table.
fn is_same_table(one: &[String], other: &[String]) -> bool {
    let bare = |name: &[String]| {
        let (last, schemas) = name.split_last()?;
        let schemas = schemas.iter().filter(|part| !DEFAULTS.contains(&part.as_str()));
        Some(schemas.chain([last]).map(|part| part.to_ascii_lowercase()).collect::<Vec<_>>())
    };
    bare(one) == bare(other)
}

impl Visitor for Columns<'_> {
    type Break = Box<DataFusionError>;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Box<DataFusionError>> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Box<DataFusionError>> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Box<DataFusionError>> {
        let (Expr::CompoundIdentifier(path), 1) = (expr, self.queries) else {
            return ControlFlow::Continue(());
        };
        let Some(table) = self.unread(path) else { return ControlFlow::Continue(()) };
        let message = format!("table {table:?} is not in from; read it there, or leave out its schema");
        let span = Span::try_from_sqlparser_span(expr.span());
        let error = DataFusionError::Plan(message.clone());
        ControlFlow::Break(Box::new(error.with_diagnostic(Diagnostic::new_error(message, span))))
    }
}
