//! The views of a schema: which can be maintained, and which a write has to maintain.

use super::definition::Definition;
use super::delta::{DeltaCompiler, Maintained};
use super::fill as filling;
use super::watermark::forget_watermark;
use crate::error::{Error, Result};
use crate::mutation::Versions;
use crate::plan::Plan;
use crate::schema::{Index, Schema, Table, View};
use crate::store::{Atomicity, Capabilities, Store};
use std::sync::Arc;

/// A view that can be created.
pub(crate) struct Proposed {
    pub table: Table,
    /// Indexes of its tables, with their names.
    pub new_indexes: Vec<(String, Index)>,
}

/// Checks whether a view can be maintained.
///
/// # Errors
/// `Unbounded` with the reason and fixes if a change of one of its tables has no bounded delta.
pub(crate) fn propose(
    schema: &Schema,
    capabilities: Capabilities,
    name: &str,
    sql: &str,
) -> Result<Proposed> {
    if capabilities.atomicity == Atomicity::Key {
        return Err(Error::invalid(
            "a view is kept in the commit of each write, and this store writes key by key: \
             keep it in an embedded or PostgreSQL store, or count in a table of your own",
        ));
    }
    if schema.tables().any(|table| table.name == name) {
        return Err(Error::invalid(format!("there is a table or view {name:?} already")));
    }
    let definition = Arc::new(Definition::new(schema, name, sql)?);
    let compiling = DeltaCompiler { schema, capabilities, definition: &definition };
    let table = Arc::new(definition.table.clone());
    let mut new_indexes: Vec<(String, Index)> = Vec::new();
    for name in table.view.iter().flat_map(|view| &view.tables) {
        for plan in compiling.maintained(&table, name)?.plans() {
            let missing = plan.new_indexes.iter().filter(|index| !new_indexes.contains(index));
            let missing: Vec<_> = missing.cloned().collect();
            new_indexes.extend(missing);
        }
    }
    Ok(Proposed { table: Table::clone(&table), new_indexes })
}

/// The views that a write of a table has to keep.
pub(crate) fn views_of(
    schema: &Schema,
    capabilities: Capabilities,
    table: &Table,
) -> Result<Vec<Maintained>> {
    let views = schema.tables().filter_map(|view| Some((view, view.view.as_ref()?)));
    let views = views.filter(|(_, of)| of.tables.contains(&table.name));
    views.map(|(view, of)| maintained(schema, capabilities, view, of, &table.name)).collect()
}

/// How a view follows the rows of one table.
fn maintained(
    schema: &Schema,
    capabilities: Capabilities,
    view: &Arc<Table>,
    of: &View,
    table: &str,
) -> Result<Maintained> {
    let definition = Arc::new(Definition::new(schema, &view.name, &of.sql)?);
    DeltaCompiler { schema, capabilities, definition: &definition }.maintained(view, table)
}

/// Refuses a schema without the indexes that its views are maintained by.
pub(crate) fn check_views(schema: &Schema, capabilities: Capabilities) -> Result<()> {
    let views = schema.tables().filter_map(|view| Some((view, view.view.as_ref()?)));
    for (view, of) in views {
        for table in &of.tables {
            let lacks = match maintained(schema, capabilities, view, of, table) {
                Ok(maintained) => maintained.plans().any(|plan| !plan.new_indexes.is_empty()),
                Err(Error::Unbounded(_)) => true,
                Err(error) => return Err(error),
            };
            if lacks {
                return Err(Error::invalid(format!(
                    "writes of {table} find the rows of the view {} by this index: drop the view first",
                    view.name
                )));
            }
        }
    }
    Ok(())
}

/// Fills a view that is in the schema.
pub(crate) fn fill(store: &dyn Store, schema: &Schema, versions: &Versions, view: &Arc<Table>) -> Result<()> {
    let Some(of) = &view.view else { return Ok(()) };
    let capabilities = store.capabilities();
    let definition = Arc::new(Definition::new(schema, &view.name, &of.sql)?);
    let compiling = DeltaCompiler { schema, capabilities, definition: &definition };
    let Some(driver) = definition.driver() else {
        return Err(Error::Internal(format!("{} has no table to be filled by", view.name)));
    };
    let maintained = compiling.maintained(view, &driver.table.name)?;
    filling::fill(store, schema, versions, &maintained)
}

/// Deletes the watermark of a filled view.
pub(crate) fn filled(store: &dyn Store, view: &Table) -> Result<()> {
    forget_watermark(store, view)
}

impl Maintained {
    /// All its plans.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.deltas.iter().chain(self.extremes.iter().flatten()).map(|query| &query.plan)
    }
}
