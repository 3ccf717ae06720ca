//! What a statement changes in views: the deltas of its rows, for the same commit.
//!
//! For each row, the deltas of the old row are subtracted, the change is written to an overlay of the store,
//! and the deltas of the new row are added. Everything that was read becomes a condition of the commit. So a
//! view is right whatever others write at the same time: of two statements that collide, the second is tried
//! again.

use super::delta::Maintained;
use super::groups::{GroupChanges, row};
use super::overlay::Overlay;
use super::watermark::watermark;
use crate::error::Result;
use crate::mutation::{RowChange, Versions};
use crate::schema::{Schema, Table};
use crate::store::{Condition, Store, Write};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;

/// The effect of a statement on views.
#[derive(Default)]
pub(crate) struct ViewChanges {
    /// Changes of their rows.
    pub changes: Vec<RowChange>,
    /// The conditions under which these are right.
    pub conditions: Vec<Condition>,
}

/// The effect of changes on views; `None` if another writer changed a view's row meanwhile.
pub(crate) fn view_changes(
    store: &dyn Store,
    schema: &Schema,
    versions: &Versions,
    views: &[Maintained],
    changes: &[RowChange],
) -> Result<Option<ViewChanges>> {
    if views.is_empty() {
        return Ok(Some(ViewChanges::default()));
    }
    let overlay = Overlay::new(store);
    let mut sums = Vec::with_capacity(views.len());
    for view in views {
        sums.push(match view.is_building() {
            true => GroupChanges::up_to(watermark(&overlay, &view.view)?),
            false => GroupChanges::new(),
        });
    }
    for change in changes {
        apply_change(&overlay, views, &mut sums, change)?;
    }
    let mut kept = ViewChanges::default();
    for (view, sums) in views.iter().zip(sums) {
        match sums.row_changes(store, &overlay, schema, versions, view)? {
            Some(changes) => kept.changes.extend(changes),
            None => return Ok(None),
        }
    }
    kept.conditions = overlay.conditions();
    Ok(Some(kept))
}

/// Subtracts the deltas of the old row, applies the change to the overlay, and adds the deltas of the new
/// row.
fn apply_change(
    overlay: &Overlay<'_>,
    views: &[Maintained],
    sums: &mut [GroupChanges],
    change: &RowChange,
) -> Result<()> {
    let table = &change.table;
    let (old, new) = (row(table, change.before.as_ref())?, row(table, change.after.as_ref())?);
    let (old, new) = (old.as_ref().map(RecordBatch::columns), new.as_ref().map(RecordBatch::columns));
    let Some(there) = old.or(new) else { return Ok(()) };
    let key = key_values(table, there)?;
    let mut touched = Vec::with_capacity(views.len());
    for (view, sums) in views.iter().zip(sums) {
        if view.is_touched(table, old, new)? {
            touched.push((view, sums));
        }
    }
    let mut each = |sign: i64| {
        for (view, sums) in &mut touched {
            for delta in &view.deltas {
                sums.add(view, &delta.run(overlay, &key)?, sign)?;
            }
        }
        Ok(())
    };
    if old.is_some() {
        each(-1)?;
    }
    overlay.write(change.writes());
    match new {
        Some(_) => each(1),
        None => Ok(()),
    }
}

/// The primary key of a row, as parameters.
pub(super) fn key_values(table: &Table, columns: &[ArrayRef]) -> Result<Vec<ScalarValue>> {
    let values = table.key_columns().into_iter().map(|at| Ok(ScalarValue::try_from_array(&columns[at], 0)?));
    values.collect()
}

/// The writes of a change.
impl RowChange {
    /// The writes of the change: entries first, then the record.
    fn writes(&self) -> impl Iterator<Item = Write> {
        let removed = self.removed.iter().map(|removed| Write::Delete(removed.key.clone()));
        let added = self.added.iter().map(|added| Write::Put(added.key.clone(), added.value.clone()));
        let record = match &self.after {
            Some(record) => Write::Put(self.key.clone(), record.clone()),
            None => Write::Delete(self.key.clone()),
        };
        removed.chain(added).chain(std::iter::once(record))
    }
}
