//! Rows of the input and rows of empty cells, on their way out in one order of time.
//!
//! Invariant: no row of the buffer, and none to come, is before one that has been released. Batches of the
//! input are in order and go out as they are, cut where the frontier is, unless cells belong between their
//! rows.

use crate::batch::{Batch, Message, Other};
use crate::checkpoint::SavedBatch;
use crate::held::Held;
use crate::places;
use crate::rules::BATCH_ROWS;
use crate::time::Time;
use arrow::array::RecordBatch;
use datafusion::common::Result;
use std::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReorderBuffer {
    input: VecDeque<Batch>,
    /// Rows of cells, each batch in order of time.
    cells: Vec<Batch>,
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
        self.cells.push(batch);
    }

    /// Hands out the rows up to the frontier, before which none is pushed any more.
    pub fn release(&mut self, frontier: Time, out: &mut Vec<Message>) -> Result<()> {
        let mut batches = Vec::new();
        while let Some(batch) = self.input.pop_front() {
            let rest = split(batch, frontier, &mut batches);
            if let Some(rest) = rest {
                self.input.push_front(rest);
                break;
            }
        }
        let of_input = batches.len();
        let cells = std::mem::take(&mut self.cells).into_iter();
        self.cells = cells.filter_map(|cells| split(cells, frontier, &mut batches)).collect();
        match batches.len() == of_input {
            true => out.extend(batches.into_iter().map(Message::Batch)),
            false => in_order(&batches, out)?,
        }
        Ok(())
    }

    /// The rows that wait.
    pub fn held(&self) -> Held {
        Held::batches(self.input.iter().chain(&self.cells))
    }

    /// What waits, for a checkpoint.
    pub fn save(&self) -> Result<SavedBuffer> {
        let input = self.input.iter().map(SavedBatch::of).collect::<Result<_>>()?;
        let cells = self.cells.iter().map(SavedBatch::of).collect::<Result<_>>()?;
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

/// Adds the rows of a batch up to the frontier to others; the rest.
fn split(batch: Batch, frontier: Time, batches: &mut Vec<Batch>) -> Option<Batch> {
    let rows = batch.sync.partition_point(|&sync| sync <= frontier);
    if rows > 0 {
        batches.push(batch.slice(0, rows));
    }
    (rows < batch.len()).then(|| batch.slice(rows, batch.len() - rows))
}

/// Hands out the rows of several batches, each of which is in order, in one order.
fn in_order(batches: &[Batch], out: &mut Vec<Message>) -> Result<()> {
    let rows_of = |(place, batch): (usize, &Batch)| {
        let rows = batch.sync.iter().enumerate();
        rows.map(|(row, sync)| (*sync, place as u32, row as u32)).collect::<Vec<_>>()
    };
    let mut rows: Vec<(Time, u32, u32)> = batches.iter().enumerate().flat_map(rows_of).collect();
    rows.sort_by_key(|(sync, ..)| *sync);
    let columns: Vec<&RecordBatch> = batches.iter().map(|batch| &batch.rows).collect();
    for rows in rows.chunks(BATCH_ROWS) {
        let places: Vec<(usize, usize)> =
            rows.iter().map(|(_, batch, row)| (*batch as usize, *row as usize)).collect();
        let sync: Vec<Time> = rows.iter().map(|(sync, ..)| *sync).collect();
        let other: Vec<Time> = places.iter().map(|(batch, row)| batches[*batch].other_at(*row)).collect();
        let rows = places::interleave(&columns, &places)?;
        out.push(Message::Batch(Batch::new(sync.into(), Other::Column(other.into()), rows)));
    }
    Ok(())
}
