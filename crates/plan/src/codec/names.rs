//! Names of tables in bytes.
//!
//! Expressions and schemas name tables by their number in the document, because `datafusion-proto` reads a
//! name as SQL does, which changes some. In a process, each scan has a number of its own behind its name
//! ([`source`](crate::source)). In the list of names these are the numbers of the list, so that equal queries
//! have equal bytes in every process; where they are read, they get numbers of their own again.

use super::document::TableName;
use crate::source::{next_scan, numbered, with_number};
use datafusion::common::{Result, TableReference, plan_datafusion_err};
use std::collections::HashMap;

/// The tables that a plan names.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    tables: Vec<TableReference>,
    places: HashMap<TableReference, u32>,
}

impl Names {
    /// The names of a document, under numbers that no other scan of this process has.
    pub fn read(tables: &[TableName]) -> Names {
        let tables = tables.iter().map(|name| {
            let table = match numbered(&name.table) {
                Some((given, _)) => with_number(given, next_scan()),
                None => name.table.clone(),
            };
            match (&name.catalog, &name.schema) {
                (Some(catalog), Some(schema)) => {
                    TableReference::full(catalog.as_str(), schema.as_str(), table)
                }
                (_, Some(schema)) => TableReference::partial(schema.as_str(), table),
                _ => TableReference::bare(table),
            }
        });
        Names { tables: tables.collect(), places: HashMap::new() }
    }

    /// The names for a document.
    pub fn write(&self) -> Vec<TableName> {
        let names = self.tables.iter().enumerate().map(|(place, table)| TableName {
            catalog: table.catalog().map(str::to_string),
            schema: table.schema().map(str::to_string),
            table: match numbered(table.table()) {
                Some((given, _)) => with_number(given, place as u64),
                None => table.table().to_string(),
            },
        });
        names.collect()
    }

    /// The place of a table in the list, which it gets if it is not there.
    pub fn place(&mut self, table: &TableReference) -> u32 {
        let next = self.tables.len() as u32;
        *self.places.entry(table.clone()).or_insert_with(|| {
            self.tables.push(table.clone());
            next
        })
    }

    /// The table at a place.
    ///
    /// # Errors
    /// `Plan` if there is none.
    pub fn table(&self, place: u32) -> Result<TableReference> {
        let table = self.tables.get(place as usize).cloned();
        table.ok_or_else(|| {
            plan_datafusion_err!("the bytes of this plan are damaged: table {place} has no name")
        })
    }

    /// What stands for a table in expressions and schemas.
    pub fn stand_in(&mut self, table: &TableReference) -> TableReference {
        TableReference::bare(format!("t{}", self.place(table)))
    }

    /// The table that this stands for.
    ///
    /// # Errors
    /// `Plan` if it stands for none.
    pub fn stands_for(&self, stand_in: &TableReference) -> Result<TableReference> {
        let place = stand_in.table().strip_prefix('t').and_then(|place| place.parse().ok());
        self.table(place.unwrap_or(u32::MAX))
    }
}
