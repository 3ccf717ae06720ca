//! One write statement: its rows are looked up, their changes computed and committed.

use super::ordered;
use super::target::Target;
use crate::catalog::version_entry;
use crate::contention::Contention;
use crate::error::{Error, Result};
use crate::mutation::{
    RowChange, Versions, WriteKind, WriteOutcome, check_distinct_keys, commit, duplicate_key, has_values,
};
use crate::schema::{Schema, Table};
use crate::store::{Atomicity, Found, Read, Store};
use crate::views;
use datafusion::arrow::array::{ArrayRef, RecordBatch};

/// Writes the rows of a statement.
pub(crate) fn write(
    store: &dyn Store,
    schema: &Schema,
    versions: &Versions,
    target: &Target,
    batch: &RecordBatch,
    contention: &mut Contention,
) -> Result<WriteOutcome> {
    let Target { kind, table, .. } = target;
    let kind = *kind;
    let width = table.columns.len();
    let (old, new) = match kind {
        WriteKind::Insert | WriteKind::Upsert => (None, Some(batch.columns())),
        WriteKind::Update => (Some(&batch.columns()[..width]), Some(&batch.columns()[width..])),
        WriteKind::Delete => (Some(batch.columns()), None),
    };
    let Some(named) = old.or(new) else { return Ok(WriteOutcome::Rows(0)) };
    let keys = keys(table, named, batch.num_rows())?;
    if keys.is_empty() {
        return Ok(WriteOutcome::Rows(0));
    }
    let (version_key, version) = version_entry(schema.version);
    let requests: Vec<Read> = keys.iter().chain([&version_key]).cloned().map(Read::Get).collect();
    let mut found = store.read(&requests)?;
    // Without conditional commits, this is the latest time at which the version can be checked.
    if found.pop() != Some(Found::Value(Some(version))) {
        return Ok(WriteOutcome::OtherSchema);
    }
    let mut changes = Vec::with_capacity(keys.len());
    for (row, (key, found)) in keys.into_iter().zip(found).enumerate() {
        let Found::Value(before) = found else {
            return Err(Error::Internal("the store gave another answer than was asked for".to_string()));
        };
        match (kind, &before, old) {
            (WriteKind::Insert, Some(_), _) => return Err(duplicate_key(table, named, row)),
            (WriteKind::Update | WriteKind::Delete, None, _) => return Ok(WriteOutcome::Again),
            (WriteKind::Update | WriteKind::Delete, Some(record), Some(old))
                if !has_values(table, record, old, row)? =>
            {
                return Ok(WriteOutcome::Again);
            }
            _ => {}
        }
        changes.push(RowChange::new(schema, table, key, before, new, row, versions.next())?);
    }
    check_distinct_keys(table, &changes)?;
    match store.capabilities().atomicity {
        Atomicity::Batch => {
            let Some(kept) = views::view_changes(store, schema, versions, &target.views, &changes)? else {
                return Ok(WriteOutcome::Again);
            };
            let rows = changes.len() as u64;
            changes.extend(kept.changes);
            match commit(store, schema, &changes, kept.conditions, vec![])? {
                WriteOutcome::Rows(_) => Ok(WriteOutcome::Rows(rows)),
                other => Ok(other),
            }
        }
        Atomicity::Key => ordered::apply(store, &changes, contention),
    }
}

/// The keys of the records of some rows.
fn keys(table: &Table, columns: &[ArrayRef], rows: usize) -> Result<Vec<Vec<u8>>> {
    let keys = (0..rows).map(|row| {
        for at in table.key_columns() {
            if columns[at].is_null(row) {
                let name = &table.columns[at].name;
                return Err(Error::Data(format!(
                    "{}.{name} is part of the primary key: it is never null",
                    table.name
                )));
            }
        }
        Ok(table.primary().keys(table, columns, row)?.swap_remove(0))
    });
    keys.collect()
}
