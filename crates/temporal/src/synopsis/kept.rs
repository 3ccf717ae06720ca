//! The batches that entries point into.
//!
//! Invariants: a batch is kept while entries point into it or it is pinned, and longer: until the next look
//! at the unused ones, so that rows which are on their way out can be gathered. A pinned batch stays at its
//! place.

use crate::held::memory_of;
use crate::places;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::interleave;
use datafusion::common::Result;

/// Where a row is: which kept batch, and which row of it.
pub(crate) type RowRef = (u32, u32);

/// Stands for no place.
const NONE: u32 = u32::MAX;

/// A batch that entries point into.
#[derive(Debug)]
struct Kept {
    rows: RecordBatch,
    /// How many entries point into it.
    entries: u32,
    pins: u32,
}

impl Kept {
    fn is_unused(&self) -> bool {
        self.entries == 0 && self.pins == 0
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct KeptBatches {
    /// None: the place is free.
    batches: Vec<Option<Kept>>,
    free: Vec<u32>,
    /// Where batches are that may be unused.
    unused: Vec<u32>,
    /// The rows of the batches that are not pinned, dead ones included.
    rows: usize,
    /// How many batches are pinned.
    pinned: usize,
}

impl KeptBatches {
    /// Keeps a batch. Its place is the first half of a [`RowRef`].
    pub fn keep(&mut self, rows: RecordBatch) -> u32 {
        let place = self.put(Kept { rows, entries: 0, pins: 0 });
        self.unused.push(place);
        place
    }

    fn put(&mut self, kept: Kept) -> u32 {
        self.rows += kept.rows.num_rows();
        match self.free.pop() {
            Some(place) => {
                self.batches[place as usize] = Some(kept);
                place
            }
            None => {
                self.batches.push(Some(kept));
                self.batches.len() as u32 - 1
            }
        }
    }

    /// The batch stays at its place until it is unpinned as often.
    #[inline]
    pub fn pin(&mut self, place: u32) {
        let Some(kept) = &mut self.batches[place as usize] else { return };
        if kept.pins == 0 {
            self.rows -= kept.rows.num_rows();
            self.pinned += 1;
        }
        kept.pins += 1;
    }

    #[inline]
    pub fn unpin(&mut self, place: u32) {
        let Some(kept) = &mut self.batches[place as usize] else { return };
        kept.pins -= 1;
        if kept.pins == 0 {
            self.rows += kept.rows.num_rows();
            self.pinned -= 1;
            self.unused.push(place);
        }
    }

    /// An entry points to this row.
    #[inline]
    pub fn point_to(&mut self, row: RowRef) {
        if let Some(kept) = &mut self.batches[row.0 as usize] {
            kept.entries += 1;
        }
    }

    /// An entry does no longer point to this row.
    #[inline]
    pub fn let_go(&mut self, row: RowRef) {
        if let Some(kept) = &mut self.batches[row.0 as usize] {
            kept.entries -= 1;
            if kept.is_unused() {
                self.unused.push(row.0);
            }
        }
    }

    /// The batch at this place.
    pub fn batch(&self, place: u32) -> Option<&RecordBatch> {
        self.batches[place as usize].as_ref().map(|kept| &kept.rows)
    }

    /// The bytes of memory of the batches.
    pub fn memory(&self) -> usize {
        memory_of(self.batches.iter().flatten().map(|kept| &kept.rows))
    }

    /// The rows at these places, in this order.
    pub fn gather(&self, rows: impl ExactSizeIterator<Item = RowRef>) -> Result<RecordBatch> {
        let (batches, indices) = self.locate(rows);
        Ok(places::interleave(&batches, &indices)?)
    }

    /// Some columns of the rows at these places. There is a row at least.
    pub fn gather_columns(
        &self,
        rows: impl ExactSizeIterator<Item = RowRef>,
        columns: &[usize],
    ) -> Result<Vec<ArrayRef>> {
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        let (batches, indices) = self.locate(rows);
        let gather = |column: &usize| {
            let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(*column).as_ref()).collect();
            Ok(interleave(&parts, &indices)?)
        };
        columns.iter().map(gather).collect()
    }

    /// The batches of rows, and in which of them each row is.
    fn locate(
        &self,
        rows: impl ExactSizeIterator<Item = RowRef>,
    ) -> (Vec<&RecordBatch>, Vec<(usize, usize)>) {
        let mut place_of = vec![NONE; self.batches.len()];
        let mut batches = Vec::new();
        let mut indices = Vec::with_capacity(rows.len());
        for (kept, row) in rows {
            let place = &mut place_of[kept as usize];
            if *place == NONE {
                *place = batches.len() as u32;
                batches.extend(self.batch(kept));
            }
            indices.push((*place as usize, row as usize));
        }
        (batches, indices)
    }

    /// Drops the batches that are unused.
    pub fn drop_unused(&mut self) {
        for place in self.unused.drain(..) {
            if let Some(kept) = self.batches[place as usize].take_if(|kept| kept.is_unused()) {
                self.rows -= kept.rows.num_rows();
                self.free.push(place);
            }
        }
    }

    /// Whether it is worth while to move the living rows together: there are many dead ones, or many batches.
    /// Pinned batches cannot be moved, and do not count.
    pub fn is_sparse(&self, living: usize) -> bool {
        let batches = self.batches.len() - self.free.len() - self.pinned;
        self.rows > 4096 + 2 * living || batches > 64 + living / 64
    }

    pub fn is_pinned(&self, place: u32) -> bool {
        self.batches[place as usize].as_ref().is_some_and(|kept| kept.pins > 0)
    }

    /// Puts these rows, to each of which an entry points, into the place of all batches that are not pinned.
    pub fn replace_all(&mut self, rows: RecordBatch) -> u32 {
        for (place, kept) in self.batches.iter_mut().enumerate() {
            if kept.take_if(|kept| kept.pins == 0).is_some() {
                self.free.push(place as u32);
            }
        }
        self.rows = 0;
        let entries = rows.num_rows() as u32;
        self.put(Kept { rows, entries, pins: 0 })
    }
}
