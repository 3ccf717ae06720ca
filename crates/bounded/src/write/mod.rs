//! Rows in and out: indexes kept, limits and references held (piql.txt §7.2).
//!
//! A statement is a query for the rows that change, and a [`Change`](change::Change) for each of them. How changes
//! reach the store depends on what it can do:
//!
//! - `atomic`: one conditional commit for the whole statement. Limits, references and uniqueness are exact.
//! - `ordered`: key by key, in the paper's order: new entries of indexes, the record by test-and-set, stale
//!   entries. A crash leaves at most entries without a record. Limits are counted after the write, and the write taken
//!   back if there are too many rows: as many rows as are being written at the same instant can be seen above a limit
//!   for that instant, and a writer that crashes between its write and its count leaves its row there. Unique keys are
//!   claimed before the record is written and settled behind it (`claim`).

mod atomic;
mod bound;
mod build;
mod change;
mod claim;
mod erase;
mod ordered;
mod repair;

pub(crate) use atomic::apply as commit;
pub(crate) use bound::bound;
pub(crate) use build::{build, no_nulls};
pub(crate) use change::Change as RowChange;
pub(crate) use erase::erase;
pub use repair::Repaired;
pub(crate) use repair::repair;

use crate::contention::Contention;
use crate::database::schema_version;
use crate::error::{Error, Result};
use crate::schema::{Schema, Table, VERSIONS};
use crate::store::{Atomicity, Found, Read, Store};
use crate::target::Target;
use crate::views;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a statement does with its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Puts them in; a row of the same key is an error.
    Insert,
    /// Puts them in, in place of a row of the same key.
    Upsert,
    /// The rows are as they were, and then as they will be.
    Update,
    /// Takes them out.
    Delete,
}

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// So many rows were written.
    Rows(u64),
    /// A row was changed by somebody else meanwhile: read again.
    Again,
    /// The schema was changed by somebody else meanwhile.
    OtherSchema,
}

/// Numbers that no other write of a record has: random, and counted on from there.
#[derive(Debug)]
pub(crate) struct Versions(AtomicU64);

impl Versions {
    pub fn new() -> Result<Versions> {
        let random =
            getrandom::u64().map_err(|error| Error::Unavailable(format!("no random numbers: {error}")))?;
        Ok(Versions(AtomicU64::new(random)))
    }

    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) & VERSIONS
    }
}

/// Writes the rows of a statement.
pub(crate) fn write(
    store: &dyn Store,
    schema: &Schema,
    versions: &Versions,
    target: &Target,
    batch: &RecordBatch,
    contention: &mut Contention,
) -> Result<Written> {
    let Target { kind, table, .. } = target;
    let kind = *kind;
    let width = table.columns.len();
    let (old, new) = match kind {
        Kind::Insert | Kind::Upsert => (None, Some(batch.columns())),
        Kind::Update => (Some(&batch.columns()[..width]), Some(&batch.columns()[width..])),
        Kind::Delete => (Some(batch.columns()), None),
    };
    let Some(named) = old.or(new) else { return Ok(Written::Rows(0)) };
    let keys = keys(table, named, batch.num_rows())?;
    if keys.is_empty() {
        return Ok(Written::Rows(0));
    }
    let (version_key, version) = schema_version(schema.version);
    let requests: Vec<Read> = keys.iter().chain([&version_key]).cloned().map(Read::Get).collect();
    let mut found = store.read(&requests)?;
    // Where a commit is not conditional on it, this is as near to the writes as it can be looked at.
    if found.pop() != Some(Found::Value(Some(version))) {
        return Ok(Written::OtherSchema);
    }
    let mut changes = Vec::with_capacity(keys.len());
    for (row, (key, found)) in keys.into_iter().zip(found).enumerate() {
        let Found::Value(before) = found else {
            return Err(Error::Internal("the store gave another answer than was asked for".to_string()));
        };
        match (kind, &before, old) {
            (Kind::Insert, Some(_), _) => return Err(change::taken(table, named, row)),
            (Kind::Update | Kind::Delete, None, _) => return Ok(Written::Again),
            (Kind::Update | Kind::Delete, Some(record), Some(old))
                if !change::same(table, record, old, row)? =>
            {
                return Ok(Written::Again);
            }
            _ => {}
        }
        changes.push(RowChange::new(schema, table, key, before, new, row, versions.next())?);
    }
    change::no_doubles(table, &changes)?;
    match store.capabilities().atomicity {
        Atomicity::Batch => {
            let Some(kept) = views::keep(store, schema, versions, &target.views, &changes)? else {
                return Ok(Written::Again);
            };
            let rows = changes.len() as u64;
            changes.extend(kept.changes);
            match commit(store, schema, &changes, kept.conditions, vec![])? {
                Written::Rows(_) => Ok(Written::Rows(rows)),
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
