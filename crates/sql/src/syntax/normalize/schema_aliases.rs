//! Tables of one name in two schemas: `from t, s.t`. DataFusion takes a column of `t` for one of any `t`, in
//! any schema. So where both are read, `s.t` gets the alias `"t of s"`.
//!
//! Its star is written with the schema: DataFusion's planner does not know `t.*` of `s.t`.
//!
//! ```sql
//! select t.x, s.t.x from t, s.t;
//! -- select t.x, "t of s".x from t, s.t as "t of s"
//! select t.* from s.t;
//! -- select s.t.* from s.t
//! ```

use crate::syntax::ast;
use crate::syntax::names;
use crate::syntax::walk::walk_mut;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, TableAlias,
    TableFactor, TableWithJoins, VisitorMut,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Gives such tables of a query an alias.
pub(super) fn disambiguate(query: &mut Query) {
    let mut found = BTreeSet::new();
    ast::selects(&mut query.body, &mut |select| {
        let mut read = Vec::new();
        select.from.iter().for_each(|from| names_read(from, &mut read));
        select.projection.iter_mut().for_each(|item| qualify_star(item, &read));
        let twice = |name: &Vec<String>| {
            read.iter().any(|other| {
                other.last() == name.last() && without_default_schema(other) != without_default_schema(name)
            })
        };
        found.extend(read.iter().filter(|name| name.len() > 1 && twice(name)).cloned());
    });
    if !found.is_empty() {
        // The visitor never breaks off.
        let _: ControlFlow<()> = walk_mut(query, &mut Aliases { tables: found });
    }
}

/// Writes `t.*` of a table `s.t` with its schema.
fn qualify_star(item: &mut SelectItem, read: &[Vec<String>]) {
    if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
        && let Some([table]) = parts(name).as_deref()
        && let [only] = read.iter().filter(|read| read.last() == Some(table)).collect::<Vec<_>>().as_slice()
        && only.len() > 1
    {
        *name = ObjectName::from(only.iter().map(|part| Ident::with_quote('"', part)).collect::<Vec<_>>());
    }
}

/// The parts of a name, without the default schema.
fn without_default_schema(name: &[String]) -> &[String] {
    match name {
        [schema, rest @ ..] if !rest.is_empty() && matches!(schema.as_str(), "main" | "public") => rest,
        name => name,
    }
}

/// Collects the names of the tables that are read without an alias.
fn names_read(from: &TableWithJoins, read: &mut Vec<Vec<String>>) {
    for relation in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
        match relation {
            TableFactor::Table { name, alias: None, args: None, .. } => read.extend(parts(name)),
            TableFactor::NestedJoin { table_with_joins, alias: None } => names_read(table_with_joins, read),
            _ => {}
        }
    }
}

/// The parts of a name, in small letters unless they are quoted.
fn parts(name: &ObjectName) -> Option<Vec<String>> {
    name.0.iter().map(|part| part.as_ident().map(names::ident)).collect()
}

/// Gives these tables an alias, and uses it in their columns.
struct Aliases {
    /// The names of the tables, part by part.
    tables: BTreeSet<Vec<String>>,
}

impl Aliases {
    /// The alias of the table of this name. DataFusion would take a name that ends with `.t` for one of `t`.
    fn name(&self, parts: &[String]) -> Option<Ident> {
        let (table, schema) = parts.split_last().filter(|_| self.tables.contains(parts))?;
        Some(Ident::with_quote('"', format!("{table} of {}", schema.join("."))))
    }
}

impl VisitorMut for Aliases {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias: alias @ None, args: None, .. } = factor
            && let Some(name) = parts(name).and_then(|parts| self.name(&parts))
        {
            *alias = Some(TableAlias { explicit: true, name, columns: vec![], at: None });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
                && let Some(own) = parts(name).and_then(|parts| self.name(&parts))
            {
                *name = ObjectName::from(vec![own]);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(path) = expr {
            let names: Vec<String> = path.iter().map(names::ident).collect();
            let table = (2..names.len()).find_map(|end| Some((end, self.name(&names[..end])?)));
            if let Some((end, table)) = table {
                path.splice(..end, [table]);
            }
        }
        ControlFlow::Continue(())
    }
}
