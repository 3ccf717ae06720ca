//! The rows of a batch that have passed all tests so far, and the columns that are still needed of them.
//!
//! Invariant: each column that is left has one value for each row that passed, in their order.

use super::conjuncts::Conjunct;
use super::encoding::decode;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use std::sync::Arc;
use whimbrel_temporal::RowFilter;

/// A selection of the rows of a batch; see the module.
pub(super) struct Selection {
    columns: Vec<Option<ArrayRef>>,
    rows: usize,
    /// For each row of the batch, whether it has passed.
    passed: BooleanBuffer,
}

impl Selection {
    /// All rows of a batch.
    pub fn new(batch: &RecordBatch) -> Selection {
        let rows = batch.num_rows();
        let columns = batch.columns().iter().map(|column| Some(Arc::clone(column))).collect();
        Selection { columns, rows, passed: BooleanBuffer::new_set(rows) }
    }

    /// How many rows have passed.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Drops the rows that fail one of these conjuncts, and the columns that are not live after them.
    ///
    /// # Errors
    /// Those of the expressions; `Internal` if a column that they read was dropped before.
    pub fn apply(&mut self, conjuncts: &mut [Conjunct], live: &[bool]) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut holds: Option<BooleanBuffer> = None;
        let share = self.rows as f64 / self.passed.len() as f64;
        for conjunct in conjuncts {
            let also = conjunct.evaluate(&self.columns, self.rows, share)?;
            holds = Some(holds.map_or_else(|| also.clone(), |holds| &holds & &also));
        }
        for (column, live) in self.columns.iter_mut().zip(live) {
            *column = column.take().filter(|_| *live);
        }
        match holds {
            Some(holds) if holds.count_set_bits() < self.rows => self.keep(holds),
            _ => Ok(()),
        }
    }

    /// Keeps the rows whose bit is set.
    fn keep(&mut self, holds: BooleanBuffer) -> Result<()> {
        let kept = holds.count_set_bits();
        self.passed =
            if self.rows == self.passed.len() { holds.clone() } else { refine(&self.passed, &holds) };
        self.rows = kept;
        let filter = RowFilter::new(&holds, self.columns.iter().flatten().count());
        for column in self.columns.iter_mut().flatten() {
            *column = filter.column(column)?;
        }
        Ok(())
    }

    /// Which rows of the batch have passed, and these of their columns, decoded to the types of the schema.
    ///
    /// # Errors
    /// `Internal` if one of the columns was dropped before.
    pub fn finish(self, columns: &[usize], schema: &SchemaRef) -> Result<(BooleanBuffer, RecordBatch)> {
        let mut arrays = Vec::with_capacity(columns.len());
        for (&column, field) in columns.iter().zip(schema.fields()) {
            let Some(array) = &self.columns[column] else {
                return internal_err!("the column `{}` was dropped too early", field.name());
            };
            arrays.push(decode(array, field.data_type())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        Ok((self.passed, RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?))
    }
}

/// Clears bits of `passed`: its n-th set bit stays set if bit n of `holds` is set.
fn refine(passed: &BooleanBuffer, holds: &BooleanBuffer) -> BooleanBuffer {
    let mut holds = holds.iter();
    let word = |mut passed: u64| {
        let mut refined = 0;
        while passed != 0 {
            let lowest = passed & passed.wrapping_neg();
            refined |= lowest * u64::from(holds.next() == Some(true));
            passed ^= lowest;
        }
        refined
    };
    let words: Vec<u64> = passed.bit_chunks().iter_padded().map(word).collect();
    BooleanBuffer::new(Buffer::from(words), 0, passed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_passed_are_tested_again() {
        for length in [0, 1, 63, 64, 65, 200] {
            let passed: BooleanBuffer = (0..length).map(|i| i % 3 != 1).collect();
            let holds: BooleanBuffer = (0..passed.count_set_bits()).map(|i| i % 5 < 3).collect();
            let mut rank = 0;
            let expected: BooleanBuffer = passed
                .iter()
                .map(|passed| {
                    rank += usize::from(passed);
                    passed && holds.value(rank - 1)
                })
                .collect();
            assert_eq!(refine(&passed, &holds), expected);
        }
    }
}
