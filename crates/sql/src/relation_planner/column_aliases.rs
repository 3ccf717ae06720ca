//! `from t as q (x)` names the first columns of a relation; the others keep their names. DataFusion's planner
//! wants a name for each.

use crate::syntax::names;
use datafusion::common::Result;
use datafusion::logical_expr::planner::{RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::sql::sqlparser::ast::{Ident, TableAlias, TableAliasColumnDef, TableFactor};

/// Adds the names that are left out, and leaves the relation to DataFusion's planner.
#[derive(Debug)]
pub(crate) struct ColumnAliases;

impl RelationPlanner for ColumnAliases {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let Some(given) = take_column_names(&mut relation) {
            let columns = context.plan(relation.clone())?.schema().columns();
            let others = columns.into_iter().skip(given.len()).map(|column| TableAliasColumnDef {
                name: Ident::with_quote('"', column.name),
                data_type: None,
            });
            if let Some(alias) = alias(&mut relation) {
                let taken: Vec<String> = given.iter().map(|column| names::ident(&column.name)).collect();
                let others = others.map(|mut column| {
                    // A name in the alias belongs to the column that it names.
                    while taken.contains(&column.name.value) {
                        column.name.value.push_str("_1");
                    }
                    column
                });
                alias.columns = given.into_iter().chain(others.collect::<Vec<_>>()).collect();
            }
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

/// Takes the column names from the alias of a relation, if it has any.
fn take_column_names(relation: &mut TableFactor) -> Option<Vec<TableAliasColumnDef>> {
    let columns = std::mem::take(&mut alias(relation)?.columns);
    (!columns.is_empty()).then_some(columns)
}

/// The alias of a table or a subquery.
fn alias(relation: &mut TableFactor) -> Option<&mut TableAlias> {
    match relation {
        TableFactor::Table { alias, args: None, .. } | TableFactor::Derived { alias, lateral: false, .. } => {
            alias.as_mut()
        }
        _ => None,
    }
}
