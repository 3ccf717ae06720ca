//! The schema: all tables, as an immutable value with a version.
//!
//! Invariants: names are unique. A reference points at the whole primary key of its table, and has the same
//! types. The number of an index is never reused. A change makes a new schema with the next version; holders
//! of the old one keep reading by it.

use super::index::{Index, IndexState};
use super::limits::ForeignKey;
use super::table::Table;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All tables.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Schema {
    /// Counts the changes.
    pub version: u64,
    /// The tables, by name.
    tables: BTreeMap<String, Table>,
    /// The number of the next index.
    next_index: u32,
    /// The same tables, shared by pointer.
    #[serde(skip)]
    shared: BTreeMap<String, Arc<Table>>,
}

impl Schema {
    /// No table yet.
    pub fn empty() -> Schema {
        // The numbers below are for what the database keeps of itself.
        Schema { version: 0, tables: BTreeMap::new(), next_index: 16, shared: BTreeMap::new() }
    }

    /// Reads what [`to_bytes`](Schema::to_bytes) wrote.
    ///
    /// # Errors
    /// `Internal` if the bytes are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Schema> {
        let schema: Schema = postcard::from_bytes(bytes).map_err(|_| {
            Error::Internal("the schema in the store is damaged or of another release".into())
        })?;
        Ok(schema.share())
    }

    /// The schema as the store keeps it.
    ///
    /// # Errors
    /// `Internal` if the schema cannot be written.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        postcard::to_stdvec(self).map_err(|error| Error::Internal(error.to_string()))
    }

    /// The table of this name.
    ///
    /// # Errors
    /// `Invalid` if there is none.
    pub fn table(&self, name: &str) -> Result<&Arc<Table>> {
        self.shared.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.shared.keys().map(String::as_str).collect();
            let near = whimbrel_plan::names::nearest(name, &names);
            let hint = match near.first() {
                Some(near) => format!("did you mean {near:?}?"),
                None if names.is_empty() => "create table makes one".to_string(),
                None => format!("there are {}", names.join(", ")),
            };
            Error::invalid(format!("there is no table {name:?}; {hint}"))
        })
    }

    /// All tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.shared.values()
    }

    /// The references that point at a table, with the tables that they stand in.
    pub(crate) fn references_to<'a>(
        &'a self,
        table: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<Table>, &'a ForeignKey)> {
        self.tables().flat_map(move |from| {
            from.foreign_keys.iter().filter(move |key| key.table == table).map(move |key| (from, key))
        })
    }

    /// The next schema, with this table new or in place of the one of its name.
    pub(crate) fn with_table(&self, mut table: Table) -> Schema {
        let mut next = self.clone();
        next.version += 1;
        for index in table.indexes.iter_mut().filter(|index| index.id == Index::UNNUMBERED) {
            index.id = next.next_index;
            next.next_index += 1;
        }
        next.tables.insert(table.name.clone(), table);
        next.share()
    }

    /// The next schema, without this table.
    pub(crate) fn without(&self, name: &str) -> Schema {
        let mut next = self.clone();
        next.version += 1;
        next.tables.remove(name);
        next.share()
    }

    /// The same, as it will be when all indexes are built and all views are filled.
    pub(crate) fn ready(mut self) -> Schema {
        for table in self.tables.values_mut() {
            table.make_ready();
            table.view.iter_mut().for_each(|view| view.state = IndexState::Ready);
        }
        self.share()
    }

    /// The next schema, in which a view is filled.
    pub(crate) fn with_filled(&self, view: &str) -> Result<Schema> {
        let mut table = Table::clone(self.table(view)?);
        table.view.iter_mut().for_each(|view| view.state = IndexState::Ready);
        Ok(self.with_table(table))
    }

    /// The next schema, in which a table is ready.
    pub(crate) fn with_ready(&self, table: &str) -> Result<Schema> {
        let mut table = Table::clone(self.table(table)?);
        table.make_ready();
        Ok(self.with_table(table))
    }

    /// The next schema, without what was being built on a table.
    pub(crate) fn without_unready(&self, table: &str) -> Result<Schema> {
        let mut table = Table::clone(self.table(table)?);
        table.drop_unready();
        Ok(self.with_table(table))
    }

    /// The same schema, with tables that are shared by pointer.
    fn share(mut self) -> Schema {
        let tables = self.tables.iter();
        self.shared = tables.map(|(name, table)| (name.clone(), Arc::new(table.clone()))).collect();
        self
    }
}
