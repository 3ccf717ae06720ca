//! The initial rows of a view, written while others write.
//!
//! The view is in the schema before the first row is read. From then on, the rows of one table, the driving
//! one, are read in the order of their keys, and a *watermark* holds the last key. Writers maintain only what
//! comes from driving rows up to the watermark. The rows of a piece and the new watermark are one commit. So
//! every joined row is counted once, and filling resumes at the watermark after a crash.

use super::delta::Maintained;
use super::groups::GroupChanges;
use super::keep::key_values;
use super::overlay::Overlay;
use super::watermark::{forget_watermark, watermark, watermark_key};
use crate::error::{Error, Result};
use crate::keys;
use crate::mutation::{Versions, WriteOutcome, commit, erase};
use crate::record;
use crate::schema::{Schema, Table};
use crate::store::{Found, Read, Store, Write};

/// Driving rows of one commit.
const PIECE: usize = 64;
/// How often a piece is tried while others write.
const TRIES: usize = 1_000;

/// Fills a view that is in the schema.
pub(super) fn fill(store: &dyn Store, schema: &Schema, versions: &Versions, view: &Maintained) -> Result<()> {
    let (mut limit, mut tries) = (PIECE, 0);
    while tries < TRIES {
        match piece(store, schema, versions, view, limit)? {
            Piece::More => (limit, tries) = (PIECE, 0),
            Piece::Last => return Ok(()),
            // A smaller piece collides with fewer writers.
            Piece::Again => (limit, tries) = (1, tries + 1),
        }
    }
    Err(Error::Conflict(format!(
        "others write all the time; create materialized view {} again goes on filling it",
        view.view.name
    )))
}

/// The outcome of a piece.
enum Piece {
    /// There are more driving rows.
    More,
    /// That was the last one.
    Last,
    /// Others wrote at the same time, and nothing was done.
    Again,
}

/// Adds the rows of some driving rows, and moves the watermark, in one commit.
fn piece(
    store: &dyn Store,
    schema: &Schema,
    versions: &Versions,
    view: &Maintained,
    limit: usize,
) -> Result<Piece> {
    let (Some(driver), Some(delta)) = (view.definition.driver(), view.deltas.first()) else {
        return Err(Error::Internal(format!("{} has no table to be filled by", view.view.name)));
    };
    let overlay = Overlay::new(store);
    let prefix = driver.table.primary().prefix();
    let to = keys::prefix_end(&prefix);
    let from = match watermark(&overlay, &view.view)? {
        Some(last) if last >= to => return Ok(Piece::Last),
        Some(last) => [last.as_slice(), &[0]].concat(),
        None => prefix,
    };
    let range = Read::Range { from, to: to.clone(), limit, reverse: false };
    let Some(Found::Entries(entries)) = overlay.read(&[range])?.pop() else {
        return Err(Error::Internal("the store gave another answer than was asked for".to_string()));
    };
    let mut sums = GroupChanges::new();
    if view.definition.group.is_empty() {
        sums.add_group(view, vec![], view.view.primary().prefix());
    }
    for (_, record) in entries.iter() {
        let row = record::batch(&driver.table, std::iter::once(record))?;
        sums.add(view, &delta.run(&overlay, &key_values(&driver.table, row.columns())?)?, 1)?;
    }
    let last = entries.len() < limit;
    let until = entries.iter().last().map(|(key, _)| key.to_vec()).filter(|_| !last);
    let Some(changes) = sums.row_changes(store, &overlay, schema, versions, view)? else {
        return Ok(Piece::Again);
    };
    let put = Write::Put(watermark_key(&view.view), until.unwrap_or(to));
    match commit(store, schema, &changes, overlay.conditions(), vec![put])? {
        WriteOutcome::Written if last => Ok(Piece::Last),
        WriteOutcome::Written => Ok(Piece::More),
        WriteOutcome::Again => Ok(Piece::Again),
        WriteOutcome::OtherSchema => Err(Error::Conflict(format!(
            "somebody else changed the schema meanwhile; create materialized view {} again goes on filling it",
            view.view.name
        ))),
    }
}

/// Deletes the rows and the watermark of a dropped view.
pub(crate) fn clear(store: &dyn Store, view: &Table) -> Result<()> {
    forget_watermark(store, view)?;
    erase(store, &view.indexes)
}
