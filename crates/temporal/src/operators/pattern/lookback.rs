//! Values of earlier rows of a key, as columns beside those of each row: SQL's PREV.
//!
//! Invariant: the rows that are kept of a key are its last ones, as many as are looked back at. They are kept
//! for good: the next row of a key may come at any time.

use super::intake::Events;
use crate::held::Held;
use crate::synopsis::{EntryId, RowRef, SavedSynopsis, Synopsis};
use crate::time::INFINITY;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{Result, plan_err};
use std::sync::Arc;

/// A column of an earlier row of the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Previous {
    /// Which column.
    pub column: usize,
    /// How many rows earlier; at least one.
    pub rows: usize,
}

/// The columns of rows, then those of earlier rows, null where there is none; they are called
/// `column_1` and so on, after the column and how many rows earlier it is.
///
/// # Errors
/// `Plan` if a column does not exist, or is one of the same row.
pub fn with_previous(input: &Schema, previous: &[Previous]) -> Result<SchemaRef> {
    let mut fields = input.fields().to_vec();
    for &Previous { column, rows } in previous {
        let Some(field) = input.fields().get(column) else {
            return plan_err!(
                "rows have {} columns, and none with the number {column}",
                input.fields().len()
            );
        };
        if rows == 0 {
            return plan_err!("{} of a row itself is a column of its own", field.name());
        }
        let name = format!("{}_{rows}", field.name());
        fields.push(Arc::new(Field::new(name, field.data_type().clone(), true)));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Lookback {
    previous: Vec<Previous>,
    /// The columns that are kept.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// Rows of a key that are kept.
    depth: usize,
    last: Synopsis,
}

impl Lookback {
    /// Adds these columns to rows with the columns of `input`.
    pub fn new(input: &Schema, previous: Vec<Previous>) -> Result<Lookback> {
        let mut columns: Vec<usize> = previous.iter().map(|previous| previous.column).collect();
        columns.sort_unstable();
        columns.dedup();
        let depth = previous.iter().map(|previous| previous.rows).max().unwrap_or(0);
        let schema = with_previous(input, &previous)?;
        Ok(Lookback { previous, columns, schema, depth, last: Synopsis::default() })
    }

    /// The rows that are looked back at.
    pub fn held(&self) -> Held {
        self.last.held()
    }

    /// Adds the columns to rows in the order in which each key has them.
    pub fn extend(&mut self, events: &mut Events) -> Result<()> {
        if self.depth == 0 {
            return Ok(());
        }
        let found = self.find(events)?;
        let mut all: Vec<ArrayRef> = events.rows.columns().to_vec();
        for &Previous { column, rows } in &self.previous {
            let of = &found[rows - 1];
            let known: Vec<RowRef> = of.iter().flatten().copied().collect();
            let place = self.columns.partition_point(|&other| other < column);
            all.push(match known.is_empty() {
                true => arrow::array::new_null_array(self.schema.field(column).data_type(), of.len()),
                false => {
                    let values = self.last.gather(known.iter().copied())?;
                    let places = of.iter().scan(0, |next, row| {
                        let place = row.map(|_| *next);
                        *next += row.is_some() as u32;
                        Some(place)
                    });
                    arrow::compute::take(values.column(place), &places.collect::<UInt32Array>(), None)?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(events.times.len()));
        events.rows = RecordBatch::try_new_with_options(self.schema.clone(), all, &options)?;
        self.last.tidy()
    }

    /// The places of the rows before each row, by how many rows earlier they are; none: there is no such row.
    /// The rows become the last of their keys.
    fn find(&mut self, events: &Events) -> Result<Vec<Vec<Option<RowRef>>>> {
        let kept = self.last.keep(events.rows.project(&self.columns)?);
        let mut found = vec![Vec::with_capacity(events.times.len()); self.depth];
        let mut before: Vec<(EntryId, RowRef)> = Vec::with_capacity(self.depth);
        for (row, &group) in (0..).zip(&events.groups) {
            before.clear();
            before.extend(self.last.of(group).map(|(id, entry)| (id, entry.row)));
            for (earlier, found) in found.iter_mut().enumerate() {
                let place = before.len().checked_sub(earlier + 1);
                found.push(place.map(|place| before[place].1));
            }
            if before.len() == self.depth {
                self.last.remove(before[0].0);
            }
            self.last.insert(group, (kept, row), events.times[row as usize], INFINITY, 0);
        }
        Ok(found)
    }

    /// Whether nothing is kept of keys.
    pub fn is_empty(&self) -> bool {
        self.depth == 0
    }

    pub fn save(&self) -> Result<SavedSynopsis> {
        self.last.save()
    }

    pub fn restore(&mut self, saved: SavedSynopsis) -> Result<()> {
        self.last = Synopsis::restore(saved)?;
        Ok(())
    }
}
