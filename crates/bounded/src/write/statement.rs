//! One write statement: its rows are looked up, their changes computed and committed.

use super::ordered;
use super::progress::Progress;
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

/// Writes the rows of a statement that it has not written yet.
pub(crate) fn write(
    store: &dyn Store,
    schema: &Schema,
    versions: &Versions,
    target: &Target,
    batch: &RecordBatch,
    progress: &mut Progress,
    contention: &mut Contention,
) -> Result<WriteOutcome> {
    let Target { kind, table, .. } = target;
    let kind = *kind;
    let width = table.columns.len();
    // Of an update the old values, whose key is the new one's.
    let named = &batch.columns()[..width];
    let (batch, keys) = progress.unwritten(batch, keys(table, named, batch.num_rows())?)?;
    if keys.is_empty() {
        return Ok(WriteOutcome::Written);
    }
    let (named, rest) = batch.columns().split_at(width);
    let (old, new) = match kind {
        WriteKind::Insert | WriteKind::Upsert => (None, Some(named)),
        WriteKind::Update => (Some(named), Some(rest)),
        WriteKind::Delete => (Some(named), None),
    };
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
            let rows = changes.len();
            changes.extend(kept.changes);
            let outcome = commit(store, schema, &changes, kept.conditions, vec![])?;
            if outcome == WriteOutcome::Written {
                progress.add(&batch, changes[..rows].iter().map(|change| &change.key));
            }
            Ok(outcome)
        }
        Atomicity::Key => {
            let (written, outcome) = ordered::apply(store, &changes, contention);
            progress.add(&batch, changes[..written].iter().map(|change| &change.key));
            outcome
        }
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
