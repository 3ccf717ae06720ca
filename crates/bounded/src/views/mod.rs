//! Views for what has no bound: `create materialized view`, kept up to date by every write of its tables.
//!
//! A count over all rows has no bound, and reading one number has. So the rows of a view are kept like those of a
//! table, and a write of a row it is made of brings them up to date, in the same commit. What that costs is proven
//! like a query's cost: a view is taken only if the *delta* of every change has a bound.
//!
//! 1. `definition`, `layout`: what a view is, and the table that holds its rows;
//! 2. `delta`: what of it depends on one row of a table, as bounded queries;
//! 3. `overlay`: the store as the statement will leave it, and what was read of it;
//! 4. `keep`, `groups`: deltas to changes of the view's rows;
//! 5. `fill`: the rows from before;
//! 6. `change`: a view comes and goes;
//! 7. here: what of this a statement needs.
//!
//! Invariant: on a store that commits as a whole a view is, at every instant, what its query would return. There are
//! no views on a store that writes key by key: nothing there could keep two rows together.

mod change;
mod definition;
mod delta;
mod fill;
mod groups;
mod keep;
mod layout;
mod overlay;

pub(crate) use delta::Maintained;
pub(crate) use keep::keep;

use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::schema::{Index, IndexState, Schema, Table, View};
use crate::store::{Atomicity, Capabilities, Store};
use crate::text::Parsed;
use crate::write::Versions;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectType, Statement};
use definition::Definition;
use delta::Compiling;
use std::sync::Arc;

/// A statement about a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// A new one, of this query.
    Create { name: String, sql: String, if_not_exists: bool },
    /// It goes, and its rows.
    Drop { name: String, if_exists: bool },
}

impl Command {
    /// The statement, if it is one.
    pub fn of(parsed: &Parsed) -> Result<Option<Command>> {
        match &parsed.statement {
            Statement::CreateView(create) if !create.materialized => Err(Error::invalid(
                "a view is kept: write create materialized view; what is computed anew in every query is part of the query",
            )),
            Statement::CreateView(create) => {
                if create.or_replace || !create.columns.is_empty() {
                    return Err(Error::invalid(
                        "create materialized view takes a name and a query: drop the old view first, name columns by `as`",
                    ));
                }
                let (name, sql) = (named(&create.name)?, create.query.to_string());
                Ok(Some(Command::Create { name, sql, if_not_exists: create.if_not_exists }))
            }
            Statement::Drop {
                object_type: ObjectType::MaterializedView | ObjectType::View,
                names,
                if_exists,
                ..
            } => {
                let [name] = names.as_slice() else { return Err(Error::invalid("drop one view at a time")) };
                Ok(Some(Command::Drop { name: named(name)?, if_exists: *if_exists }))
            }
            _ => Ok(None),
        }
    }
}

fn named(name: &ObjectName) -> Result<String> {
    let of = |ident: &Ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    let [part] = name.0.as_slice() else {
        return Err(Error::invalid(format!("{name}: there is one schema; write the name of the view alone")));
    };
    part.as_ident().map(of).ok_or_else(|| Error::invalid(format!("{name} is not a name")))
}

/// A view that can be made: its table, and what its deltas need.
pub(crate) struct Proposed {
    pub table: Table,
    /// Indexes of its tables, with their names.
    pub new_indexes: Vec<(String, Index)>,
}

/// Looks whether a view can be kept.
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
    let compiling = Compiling { schema, capabilities, definition: &definition };
    let table = Arc::new(definition.table.clone());
    let mut new_indexes: Vec<(String, Index)> = Vec::new();
    for name in table.view.iter().flat_map(|view| &view.tables) {
        for plan in compiling.follow(&table, name)?.plans() {
            let missing = plan.new_indexes.iter().filter(|index| !new_indexes.contains(index));
            let missing: Vec<_> = missing.cloned().collect();
            new_indexes.extend(missing);
        }
    }
    Ok(Proposed { table: Table::clone(&table), new_indexes })
}

/// The views that a write of a table has to keep.
pub(crate) fn of_table(
    schema: &Schema,
    capabilities: Capabilities,
    table: &Table,
) -> Result<Vec<Maintained>> {
    let views = schema.tables().filter_map(|view| Some((view, view.view.as_ref()?)));
    let views = views.filter(|(_, of)| of.tables.contains(&table.name));
    views.map(|(view, of)| maintained(schema, capabilities, view, of, &table.name)).collect()
}

fn maintained(
    schema: &Schema,
    capabilities: Capabilities,
    view: &Arc<Table>,
    of: &View,
    table: &str,
) -> Result<Maintained> {
    let definition = Arc::new(Definition::new(schema, &view.name, &of.sql)?);
    Compiling { schema, capabilities, definition: &definition }.follow(view, table)
}

/// Refuses a schema that lacks what a view of it is kept by.
pub(crate) fn still_kept(schema: &Schema, capabilities: Capabilities) -> Result<()> {
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

/// Puts the rows from before into a view that is in the schema.
fn fill(store: &dyn Store, schema: &Schema, versions: &Versions, view: &Arc<Table>) -> Result<()> {
    let Some(of) = &view.view else { return Ok(()) };
    let capabilities = store.capabilities();
    let definition = Arc::new(Definition::new(schema, &view.name, &of.sql)?);
    let compiling = Compiling { schema, capabilities, definition: &definition };
    let Some(driver) = definition.driver() else {
        return Err(Error::Internal(format!("{} has no table to be filled by", view.name)));
    };
    let maintained = compiling.follow(view, &driver.table.name)?;
    fill::fill(store, schema, versions, &maintained)
}

/// Behind the last step of filling a view.
fn filled(store: &dyn Store, view: &Table) -> Result<()> {
    fill::forget_watermark(store, view)
}

impl Maintained {
    /// All its plans.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.deltas.iter().chain(self.extremes.iter().flatten()).map(|query| &query.plan)
    }
}

/// Refuses a view that is not there as a whole yet.
pub(crate) fn readable(table: &Table) -> Result<()> {
    match &table.view {
        Some(view) if view.state == IndexState::Building => Err(Error::invalid(format!(
            "the view {} is still being filled; if nobody does, create materialized view {} as … goes on",
            table.name, table.name
        ))),
        _ => Ok(()),
    }
}
