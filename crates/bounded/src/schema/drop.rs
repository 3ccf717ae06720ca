//! `drop table`, `drop index`: from the parser's tree to the next schema, and the indexes whose keys are
//! garbage then.

use super::ddl::table_name;
use super::index::{Index, IndexKind};
use super::table::Table;
use super::tables::Schema;
use crate::error::{Error, Result};
use datafusion::sql::sqlparser::ast::{ObjectType, Statement};
use std::sync::Arc;

/// Tables or indexes to be dropped.
#[derive(Debug, Clone)]
pub(crate) struct Removal {
    tables: bool,
    names: Vec<String>,
    if_exists: bool,
}

/// The result of a removal.
pub(crate) struct Removed {
    /// The schema without them.
    pub schema: Schema,
    /// The indexes whose keys have to be deleted.
    pub indexes: Vec<Index>,
}

impl Removal {
    /// The removal that a statement is, if it is one.
    ///
    /// # Errors
    /// `Invalid` if it drops something else, or with `cascade`.
    pub fn of(statement: &Statement) -> Result<Option<Removal>> {
        let Statement::Drop { object_type, if_exists, names, cascade, .. } = statement else {
            return Ok(None);
        };
        let tables = match object_type {
            ObjectType::Table => true,
            ObjectType::Index => false,
            other => {
                return Err(Error::invalid(format!("there is no {other} to drop: drop table or drop index")));
            }
        };
        if *cascade {
            return Err(Error::invalid("cascade is not supported: drop what refers to it first"));
        }
        let names = names.iter().map(table_name).collect::<Result<_>>()?;
        Ok(Some(Removal { tables, names, if_exists: *if_exists }))
    }

    /// The next schema; `None` if nothing changes.
    ///
    /// # Errors
    /// `Invalid` if a table or index does not exist, or something depends on it.
    pub fn apply(&self, schema: &Schema) -> Result<Option<Removed>> {
        let mut removed = Removed { schema: schema.clone(), indexes: vec![] };
        for name in &self.names {
            let there = match self.tables {
                true => schema.tables().any(|table| table.name == *name),
                false => owner(&removed.schema, name).is_some(),
            };
            match (there, self.tables) {
                (false, _) if self.if_exists => {}
                (_, true) => removed.without_table(name)?,
                (_, false) => removed.without_index(name)?,
            }
        }
        Ok((removed.schema.version > schema.version).then_some(removed))
    }
}

impl Removed {
    /// Removes a table that nothing refers to.
    fn without_table(&mut self, name: &str) -> Result<()> {
        let table = self.schema.table(name)?.clone();
        if let Some((from, _)) = self.schema.references_to(name).find(|(from, _)| from.name != name) {
            return Err(Error::invalid(format!("{} refers to {name}: drop it first", from.name)));
        }
        if table.view.is_some() {
            return Err(Error::invalid(format!("{name} is a view: write drop materialized view {name}")));
        }
        let reads = |of: &&Arc<Table>| {
            of.view.as_ref().is_some_and(|view| view.tables.iter().any(|table| table == name))
        };
        if let Some(view) = self.schema.tables().find(reads) {
            return Err(Error::invalid(format!("the view {} is made of {name}: drop it first", view.name)));
        }
        self.indexes.extend(table.indexes.iter().cloned());
        self.schema = self.schema.without(name);
        Ok(())
    }

    /// Removes an index that no limit is counted by.
    fn without_index(&mut self, name: &str) -> Result<()> {
        let table = owner(&self.schema, name).ok_or_else(|| {
            let existing =
                self.schema.tables().flat_map(|table| &table.indexes).map(|index| index.name.as_str());
            let near = whimbrel_plan::names::nearest(name, &existing.collect::<Vec<_>>());
            let hint = near.first().map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
            Error::invalid(format!("there is no index {name:?}{hint}"))
        })?;
        let mut table = Table::clone(table);
        let at = table.indexes.iter().position(|index| index.name == name).unwrap_or_default();
        let index = table.indexes.remove(at);
        if index.kind == IndexKind::Primary {
            return Err(Error::invalid(format!(
                "{name} is the primary key of {}: drop the table",
                table.name
            )));
        }
        if let Some(limit) = table.limits.iter().find(|limit| table.index_on(&limit.columns).is_none()) {
            return Err(Error::invalid(format!(
                "the cardinality limit of {} ({}) is counted by {name}: it stays as long as the limit",
                table.name,
                table.column_names(&limit.columns)
            )));
        }
        self.schema = self.schema.with_table(table);
        self.indexes.push(index);
        Ok(())
    }
}

/// The table of an index.
fn owner<'s>(schema: &'s Schema, index: &str) -> Option<&'s Table> {
    schema
        .tables()
        .map(AsRef::as_ref)
        .find(|table| table.indexes.iter().any(|existing| existing.name == index))
}
