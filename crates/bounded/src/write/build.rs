//! An index, a limit or `not null` on a table that has rows: built, counted or checked while others write.
//!
//! The index is in the schema before the first row is looked at, so every write keeps it from then on, and
//! the rows from before are put into it piece by piece. A limit is counted over all rows before a plan may
//! rely on it. Writes refuse nulls in a column from the time its check is in the schema; it is not null once
//! no older row has one.

use crate::error::{Error, Result};
use crate::keys::{self, Decoded};
use crate::mutation::each_piece;
use crate::record;
use crate::schema::{
    CardinalityLimit, Index, IndexKind, IndexState, Nullability, Table, entry_value, read_entry,
};
use crate::store::{Atomicity, Condition, Entries, Found, Outcome, Read, Store, Write};

/// Builds what is not ready on a table.
///
/// # Errors
/// `Data` if rows violate a unique key, a limit or `not null`: what was begun has to go back.
pub(crate) fn build(store: &dyn Store, table: &Table) -> Result<()> {
    let building: Vec<&Index> =
        table.indexes.iter().filter(|index| index.state == IndexState::Building).collect();
    if !building.is_empty() {
        each_piece(store, &table.primary().prefix(), |entries| {
            building.iter().try_for_each(|index| fill(store, table, index, entries))
        })?;
    }
    let building = |limit: &&CardinalityLimit| limit.state == IndexState::Building;
    table.limits.iter().filter(building).try_for_each(|limit| count(store, table, limit))?;
    check_nulls(store, table)
}

/// Looks for rows with a null in a column that is being checked.
fn check_nulls(store: &dyn Store, table: &Table) -> Result<()> {
    let columns = table.columns.iter().enumerate();
    let checking = columns.filter(|(_, column)| column.nullability == Nullability::Checking);
    let checking: Vec<usize> = checking.map(|(at, _)| at).collect();
    if checking.is_empty() {
        return Ok(());
    }
    each_piece(store, &table.primary().prefix(), |entries| {
        let records: Vec<&[u8]> = entries.iter().map(|(_, record)| record).collect();
        let rows = record::batch(table, records.iter().copied())?;
        match checking.iter().find(|column| rows.column(**column).null_count() > 0) {
            None => Ok(()),
            Some(column) => Err(Error::Data(format!(
                "rows of {} have a {} that is null: give it a value in them first",
                table.name, table.columns[*column].name
            ))),
        }
    })
}

/// Puts entries for some records.
fn fill(store: &dyn Store, table: &Table, index: &Index, records: &Entries) -> Result<()> {
    for (key, record) in records.iter() {
        fill_one(store, table, index, key, record)?;
    }
    Ok(())
}

/// Adds the entries of one record, also if it is changed meanwhile.
fn fill_one(store: &dyn Store, table: &Table, index: &Index, key: &[u8], record: &[u8]) -> Result<()> {
    let mut record = record.to_vec();
    loop {
        let row = record::batch(table, std::iter::once(record.as_slice()))?;
        let entries = index.keys(table, row.columns(), 0)?;
        let value = entry_value(record::version(&record)?, key);
        if put(store, index, key, &record, &entries, &value)? {
            return Ok(());
        }
        // The record has changed, and its writer has written the entries; unless a unique key is taken.
        let Some(Found::Value(now)) = store.read(&[Read::Get(key.to_vec())])?.pop() else { return Ok(()) };
        match now {
            Some(now) if now == record => return Err(duplicate_rows(table, index)),
            Some(now) => record = now,
            None => return Ok(()),
        }
    }
}

/// Writes the entries of a record, if it has not changed; `false` if it has.
fn put(
    store: &dyn Store,
    index: &Index,
    key: &[u8],
    record: &[u8],
    entries: &[Vec<u8>],
    value: &[u8],
) -> Result<bool> {
    let puts: Vec<Write> = entries.iter().map(|entry| Write::Put(entry.clone(), value.to_vec())).collect();
    let free = |entry: &Vec<u8>| Condition::Same { key: entry.clone(), value: None };
    if index.kind == IndexKind::Unique {
        let found = store.read(&entries.iter().cloned().map(Read::Get).collect::<Vec<_>>())?;
        for (found, put) in found.into_iter().zip(puts) {
            let is_own = match &found {
                Found::Value(Some(held)) => read_entry(held)?.1 == key,
                _ => false,
            };
            if is_own {
                continue;
            }
            let mut conditions = vec![free(&put.key().to_vec())];
            if store.capabilities().atomicity == Atomicity::Batch {
                conditions.push(Condition::Same { key: key.to_vec(), value: Some(record.to_vec()) });
            }
            if store.commit(&conditions, &[put])? != Outcome::Done {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let conditions = match store.capabilities().atomicity {
        Atomicity::Batch => vec![Condition::Same { key: key.to_vec(), value: Some(record.to_vec()) }],
        // Readers skip an entry without its record.
        Atomicity::Key => vec![],
    };
    Ok(puts.is_empty() || store.commit(&conditions, &puts)? == Outcome::Done)
}

/// The error for two rows with one unique key.
fn duplicate_rows(table: &Table, index: &Index) -> Error {
    Error::Data(format!(
        "rows of {} have the same ({}) already",
        table.name,
        table.column_names(&index.columns())
    ))
}

/// Counts the rows of every group of a limit.
fn count(store: &dyn Store, table: &Table, limit: &CardinalityLimit) -> Result<()> {
    let index = table
        .counting_index(&limit.columns)
        .ok_or_else(|| Error::Internal(format!("{} has no index to count its limit by", table.name)))?;
    let (mut group, mut rows) = (Vec::new(), 0);
    each_piece(store, &index.prefix(), |entries| {
        for (key, _) in entries.iter() {
            let Some(this) = first_parts(table, index, limit.columns.len(), key)? else { continue };
            rows = if this == group { rows + 1 } else { 1 };
            group = this;
            if rows > limit.rows {
                return Err(Error::Data(format!(
                    "{} has more than {} rows with the same ({}) already: give a larger limit, or delete some",
                    table.name,
                    limit.rows,
                    table.column_names(&limit.columns)
                )));
            }
        }
        Ok(())
    })
}

/// The bytes of the first parts of a key; `None` if one is null.
fn first_parts(table: &Table, index: &Index, parts: usize, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut rest = &key[index.prefix().len()..];
    for part in index.parts.iter().take(parts) {
        if let Some(at) = part.column()
            && keys::decode(table.columns[at].of, part.order, &mut rest)? == Decoded::Null
        {
            return Ok(None);
        }
    }
    Ok(Some(key[..key.len() - rest.len()].to_vec()))
}
