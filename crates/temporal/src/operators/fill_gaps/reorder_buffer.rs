//! Rows of the input and rows of empty cells, on their way out in one order of time.
//!
//! Invariant: no row of the buffer, and none to come, is before one that has been released. Batches of the
//! input are in order and go out as they are, cut where the frontier is, unless cells belong between their
//! rows.

use crate::batch::{Batch, Message, Other};
use crate::checkpoint::SavedBatch;
use crate::operators::runs::runs;
use crate::places;
use crate::time::Time;
use arrow::array::RecordBatch;
use datafusion::common::Result;
use std::collections::{BTreeMap, VecDeque};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReorderBuffer {
    input: VecDeque<Batch>,
    /// Rows of cells, by the begin of the cell.
    cells: BTreeMap<Time, Vec<Batch>>,
}

/// The rows of a checkpoint: of the input, and of cells.
pub(super) type SavedBuffer = (Vec<SavedBatch>, Vec<SavedBatch>);

impl ReorderBuffer {
    /// Takes rows of the input, which are all present.
    pub fn push_input(&mut self, batch: Batch) {
        if !batch.is_empty() {
            self.input.push_back(batch);
        }
    }

    /// Takes rows of cells, in order of time.
    pub fn push_cells(&mut self, batch: Batch) {
        for run in runs(&batch.sync) {
            let at = batch.sync[run.start];
            self.cells.entry(at).or_default().push(batch.slice(run.start, run.len()));
        }
    }

    /// Hands out the rows up to the frontier, before which none is pushed any more.
    pub fn release(&mut self, frontier: Time, out: &mut Vec<Message>) -> Result<()> {
        let mut batches = Vec::new();
        while let Some(batch) = self.input.pop_front() {
            let rows = batch.sync.partition_point(|&sync| sync <= frontier);
            if rows > 0 {
                batches.push(batch.slice(0, rows));
            }
            if rows < batch.len() {
                self.input.push_front(batch.slice(rows, batch.len() - rows));
                break;
            }
        }
        let of_input = batches.len();
        while let Some(cell) = self.cells.first_entry().filter(|cell| *cell.key() <= frontier) {
            batches.extend(cell.remove());
        }
        match batches.len() == of_input {
            true => out.extend(batches.into_iter().map(Message::Batch)),
            false => out.push(Message::Batch(in_order(&batches)?)),
        }
        Ok(())
    }

    /// What waits, for a checkpoint.
    pub fn save(&self) -> Result<SavedBuffer> {
        let input = self.input.iter().map(SavedBatch::of).collect::<Result<_>>()?;
        let cells = self.cells.values().flatten().map(SavedBatch::of).collect::<Result<_>>()?;
        Ok((input, cells))
    }

    /// The rows of a checkpoint.
    pub fn restore((input, cells): SavedBuffer) -> Result<ReorderBuffer> {
        let mut buffer = ReorderBuffer::default();
        for batch in input {
            buffer.push_input(batch.batch()?);
        }
        for batch in cells {
            buffer.push_cells(batch.batch()?);
        }
        Ok(buffer)
    }
}

/// The rows of several batches, each of which is in order, as one.
fn in_order(batches: &[Batch]) -> Result<Batch> {
    let rows_of = |(place, batch): (usize, &Batch)| {
        (0..batch.len()).map(|row| (batch.sync[row], batch.other_at(row), (place, row))).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = batches.iter().enumerate().flat_map(rows_of).collect();
    rows.sort_by_key(|(sync, ..)| *sync);
    let places: Vec<(usize, usize)> = rows.iter().map(|(.., place)| *place).collect();
    let columns: Vec<&RecordBatch> = batches.iter().map(|batch| &batch.rows).collect();
    let sync: Vec<Time> = rows.iter().map(|(sync, ..)| *sync).collect();
    let other: Vec<Time> = rows.iter().map(|(_, other, _)| *other).collect();
    Ok(Batch::new(sync.into(), Other::Column(other.into()), places::interleave(&columns, &places)?))
}
