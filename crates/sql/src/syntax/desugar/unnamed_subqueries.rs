//! Subqueries without an alias beside other relations get one: DataFusion's planner could not tell apart
//! their columns of one name.
//!
//! ```sql
//! select * from (select 1 as a), (select 2 as a);
//! -- select * from (select 1 as a) as unnamed_subquery, (select 2 as a) as unnamed_subquery2
//! ```

use crate::syntax::ast::selects;
use crate::syntax::names;
use datafusion::sql::sqlparser::ast::{Ident, Query, Select, TableAlias, TableFactor, TableWithJoins};
use std::collections::HashSet;

/// What they are called, as in DuckDB.
const NAME: &str = "unnamed_subquery";

/// Names the subqueries in the `from` clauses of a query, without those inside of subqueries.
pub(super) fn desugar(query: &mut Query) {
    selects(&mut query.body, &mut |select| {
        let mut relations = 0;
        let mut unnamed = 0;
        let mut taken = HashSet::new();
        each_relation(select, &mut |relation| {
            relations += 1;
            match relation {
                TableFactor::Derived { alias: None, .. } => unnamed += 1,
                TableFactor::Table { name, alias: None, .. } => {
                    taken.extend(name.0.last().and_then(|part| part.as_ident()).map(names::ident));
                }
                other => taken.extend(alias_of(other).map(|alias| names::ident(&alias.name))),
            }
        });
        if relations > 1 && unnamed > 0 {
            let numbers =
                (1..).map(|at: usize| if at == 1 { NAME.to_string() } else { format!("{NAME}{at}") });
            let mut free = numbers.filter(|name| !taken.contains(name));
            each_relation(select, &mut |relation| {
                if let TableFactor::Derived { alias: alias @ None, .. } = relation {
                    *alias = free.next().map(|name| TableAlias {
                        explicit: true,
                        name: Ident::new(name),
                        columns: vec![],
                        at: None,
                    });
                }
            });
        }
    });
}

/// Visits the relations of a select; those of joins in parentheses too.
fn each_relation(select: &mut Select, visit: &mut impl FnMut(&mut TableFactor)) {
    select.from.iter_mut().for_each(|from| each_of(from, visit));
}

/// Visits the relations of an item of `from`.
fn each_of(from: &mut TableWithJoins, visit: &mut impl FnMut(&mut TableFactor)) {
    let joined = from.joins.iter_mut().map(|join| &mut join.relation);
    for relation in std::iter::once(&mut from.relation).chain(joined) {
        match relation {
            TableFactor::NestedJoin { table_with_joins, alias: None } => each_of(table_with_joins, visit),
            relation => visit(relation),
        }
    }
}

/// The alias of a relation.
fn alias_of(relation: &TableFactor) -> Option<&TableAlias> {
    match relation {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::Pivot { alias, .. }
        | TableFactor::Unpivot { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    }
}
