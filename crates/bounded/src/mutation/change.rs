//! The change of one row: its record, the entries that it adds and removes, and its constraints.

use crate::datum::Datum;
use crate::error::{Error, Result};
use crate::keys;
use crate::record;
use crate::schema::{Index, IndexKind, KeyPart, Schema, Table, entry_value};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A change of one row.
#[derive(Debug)]
pub(crate) struct RowChange {
    /// The table.
    pub table: Arc<Table>,
    /// The key of the record.
    pub key: Vec<u8>,
    /// The record as it is; `None` if there is none.
    pub before: Option<Vec<u8>>,
    /// The record as it will be; `None` if it is deleted.
    pub after: Option<Vec<u8>>,
    /// Entries that only the new row has.
    pub added: Vec<AddedEntry>,
    /// Entries of unique keys that both rows have.
    pub kept: Vec<AddedEntry>,
    /// Entries that only the old row has.
    pub removed: Vec<RemovedEntry>,
    /// Ranges that the row is added to, with their cardinality limits.
    pub limits: Vec<CountedRange>,
    /// Keys of records that have to exist, with the error if they do not.
    pub references: Vec<(Vec<u8>, String)>,
    /// Ranges that have to be empty, with the error if they are not.
    pub referring: Vec<(Vec<u8>, Vec<u8>, String)>,
}

/// An entry of an index.
#[derive(Debug)]
pub(crate) struct AddedEntry {
    /// The key of the entry.
    pub key: Vec<u8>,
    /// The value of the entry.
    pub value: Vec<u8>,
    /// The key's values for messages, if the key has to be unique.
    pub unique: Option<String>,
    /// Whether its index is of words: a row has any number of these.
    pub is_of_words: bool,
}

/// An entry that is removed.
#[derive(Debug)]
pub(crate) struct RemovedEntry {
    /// The key of the entry.
    pub key: Vec<u8>,
    /// Whether it is of a unique index.
    pub is_unique: bool,
}

/// A range with a limit.
#[derive(Debug)]
pub(crate) struct CountedRange {
    /// The index whose entries are counted.
    pub index: Index,
    /// Where the range begins.
    pub from: Vec<u8>,
    /// Behind the last key.
    pub to: Vec<u8>,
    /// How many rows are allowed.
    pub rows: u64,
    /// The error for more rows.
    pub message: String,
}

impl RowChange {
    /// The change from the stored record to new values; `None` deletes the row.
    ///
    /// # Errors
    /// `Data` if a value does not fit its column, `Invalid` if the primary key changes or no index finds the
    /// rows that refer to this one.
    pub fn new(
        schema: &Schema,
        table: &Arc<Table>,
        key: Vec<u8>,
        before: Option<Vec<u8>>,
        new: Option<&[ArrayRef]>,
        row: usize,
        version: u64,
    ) -> Result<RowChange> {
        let old = before
            .as_ref()
            .map(|record| record::batch(table, std::iter::once(record.as_slice())))
            .transpose()?;
        let old = old.as_ref().map(RecordBatch::columns);
        let after = new.map(|columns| record::encode(table, columns, row, version)).transpose()?;
        let mut change = RowChange {
            table: table.clone(),
            before,
            after,
            added: vec![],
            kept: vec![],
            removed: vec![],
            limits: vec![],
            references: vec![],
            referring: vec![],
            key,
        };
        if let Some(columns) = new
            && change.key != table.primary().keys(table, columns, row)?.swap_remove(0)
        {
            return Err(Error::invalid(format!(
                "the primary key ({}) of a row does not change: delete the row and insert another",
                table.column_names(&table.key_columns())
            )));
        }
        change.entries(old, new, row, version)?;
        if let Some(columns) = new {
            change.limits(old, columns, row)?;
            change.references(schema, old, columns, row)?;
        } else if let Some(old) = old {
            change.referring(schema, old)?;
        }
        Ok(change)
    }

    /// Collects the entries that are added, kept and removed.
    fn entries(
        &mut self,
        old: Option<&[ArrayRef]>,
        new: Option<&[ArrayRef]>,
        row: usize,
        version: u64,
    ) -> Result<()> {
        let table = self.table.clone();
        for index in table.indexes.iter().filter(|index| index.kind != IndexKind::Primary) {
            let had = old.map(|old| index.keys(&table, old, 0)).transpose()?.unwrap_or_default();
            let has = new.map(|new| index.keys(&table, new, row)).transpose()?.unwrap_or_default();
            let (had, has): (BTreeSet<_>, BTreeSet<_>) =
                (had.into_iter().collect(), has.into_iter().collect());
            let held = match new {
                Some(new) if index.kind == IndexKind::Unique => {
                    values_text(&table, &index.columns(), new, row)?
                }
                _ => None,
            };
            let is_of_words = index.parts.iter().any(|part| part.column().is_none());
            let value = entry_value(version, &self.key);
            let entry = |key: &Vec<u8>| AddedEntry {
                key: key.clone(),
                value: value.clone(),
                unique: held.clone(),
                is_of_words,
            };
            self.added.extend(has.difference(&had).map(entry));
            if held.is_some() {
                self.kept.extend(has.intersection(&had).map(entry));
            }
            let is_unique = index.kind == IndexKind::Unique;
            self.removed.extend(had.difference(&has).map(|key| RemovedEntry { key: key.clone(), is_unique }));
        }
        Ok(())
    }

    /// Collects the cardinality limits that the new row is counted in.
    fn limits(&mut self, old: Option<&[ArrayRef]>, new: &[ArrayRef], row: usize) -> Result<()> {
        let table = self.table.clone();
        for limit in &table.limits {
            if let Some(old) = old
                && !differ(&limit.columns, old, new, row)?
            {
                continue;
            }
            // Nulls are not equal, so rows with a null are not counted together.
            if values_text(&table, &limit.columns, new, row)?.is_none() {
                continue;
            }
            let index = table.counting_index(&limit.columns).ok_or_else(|| {
                Error::Internal(format!("{} has no index to count its limit by", table.name))
            })?;
            let from = prefix(index, limit.columns.len(), new, row)?;
            let message = format!(
                "{} takes at most {} rows with the same ({})",
                table.name,
                limit.rows,
                table.column_names(&limit.columns)
            );
            self.limits.push(CountedRange {
                index: index.clone(),
                to: keys::prefix_end(&from),
                from,
                rows: limit.rows,
                message,
            });
        }
        Ok(())
    }

    /// Collects the records that the new row refers to.
    fn references(
        &mut self,
        schema: &Schema,
        old: Option<&[ArrayRef]>,
        new: &[ArrayRef],
        row: usize,
    ) -> Result<()> {
        let table = self.table.clone();
        for reference in &table.foreign_keys {
            let unchanged = match old {
                Some(old) => !differ(&reference.columns, old, new, row)?,
                None => false,
            };
            let Some(values) = values_text(&table, &reference.columns, new, row)? else { continue };
            if unchanged {
                continue;
            }
            let parent =
                if reference.table == table.name { &table } else { schema.table(&reference.table)? };
            let mut key = parent.primary().prefix();
            for (at, part) in reference.columns.iter().zip(&parent.primary().parts) {
                keys::encode(Datum::of(&new[*at], row)?, part.order, &mut key);
            }
            self.references.push((
                key,
                format!("{} refers to a row of {} that is not there: {values}", table.name, parent.name),
            ));
        }
        Ok(())
    }

    /// Collects the ranges of rows that may refer to a deleted row.
    fn referring(&mut self, schema: &Schema, old: &[ArrayRef]) -> Result<()> {
        let table = self.table.clone();
        for (from, reference) in schema.references_to(&table.name) {
            let Some(index) = from.index_on(&reference.columns) else {
                return Err(Error::invalid(format!(
                    "to delete from {} one has to look for rows of {} that refer to it, and no index finds them all: \
                     create index on {} ({})",
                    table.name,
                    from.name,
                    from.name,
                    from.column_names(&reference.columns)
                )));
            };
            let mut key = index.prefix();
            for part in index.parts.iter().take(reference.columns.len()) {
                let at =
                    part.column().and_then(|at| reference.columns.iter().position(|column| *column == at));
                let Some(at) = at else { continue };
                keys::encode(Datum::of(&old[table.key_columns()[at]], 0)?, part.order, &mut key);
            }
            self.referring.push((
                key.clone(),
                keys::prefix_end(&key),
                format!("rows of {} still refer to this row of {}", from.name, table.name),
            ));
        }
        Ok(())
    }
}

/// The first parts of the keys of an index, for a row.
fn prefix(index: &Index, parts: usize, columns: &[ArrayRef], row: usize) -> Result<Vec<u8>> {
    let mut key = index.prefix();
    for part in index.parts.iter().take(parts) {
        if let Some(at) = KeyPart::column(part) {
            keys::encode(Datum::of(&columns[at], row)?, part.order, &mut key);
        }
    }
    Ok(key)
}

/// Whether some columns of two rows differ.
fn differ(columns: &[usize], old: &[ArrayRef], new: &[ArrayRef], row: usize) -> Result<bool> {
    for at in columns {
        if Datum::of(&old[*at], 0)? != Datum::of(&new[*at], row)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The values of some columns for messages; `None` if one is null.
pub(crate) fn values_text(
    table: &Table,
    columns: &[usize],
    values: &[ArrayRef],
    row: usize,
) -> Result<Option<String>> {
    let mut out = Vec::new();
    for at in columns {
        let value = match Datum::of(&values[*at], row)? {
            Datum::Null => return Ok(None),
            Datum::Text(text) => format!("'{text}'"),
            Datum::Int(v) => v.to_string(),
            Datum::Bool(v) => v.to_string(),
            Datum::Float(v) => v.to_string(),
            other => format!("{other:?}"),
        };
        out.push(format!("{} = {value}", table.columns[*at].name));
    }
    Ok(Some(out.join(", ")))
}

/// The error for a key that exists already.
pub(crate) fn duplicate_key(table: &Table, columns: &[ArrayRef], row: usize) -> Error {
    let values = values_text(table, &table.key_columns(), columns, row).ok().flatten().unwrap_or_default();
    Error::Data(format!("{} has a row with {values} already: update it, or write upsert", table.name))
}

/// Whether a record has these values.
pub(crate) fn has_values(table: &Table, record: &[u8], columns: &[ArrayRef], row: usize) -> Result<bool> {
    let found = record::batch(table, std::iter::once(record))?;
    let all: Vec<usize> = (0..table.columns.len()).collect();
    Ok(!differ(&all, found.columns(), columns, row)?)
}

/// Refuses a statement that writes a row twice, or one unique key to two rows.
pub(crate) fn check_distinct_keys(table: &Table, changes: &[RowChange]) -> Result<()> {
    let mut seen = BTreeSet::new();
    for change in changes {
        let unique = change.added.iter().filter(|added| added.unique.is_some()).map(|added| &added.key);
        for key in std::iter::once(&change.key).chain(unique) {
            if !seen.insert(key) {
                return Err(Error::Data(format!(
                    "the statement writes two rows of {} with the same key",
                    table.name
                )));
            }
        }
    }
    Ok(())
}
