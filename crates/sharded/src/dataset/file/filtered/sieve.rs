//! The rows of a batch that have passed so far, and of their columns those that somebody still wants.
//!
//! Invariant: each column that is there has one value for each row that passed, in their order.

use super::stored::plain;
use super::terms::Term;
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer};
use datafusion::arrow::compute::FilterBuilder;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use std::sync::Arc;

/// See the module.
pub(super) struct Sieve {
    columns: Vec<Option<ArrayRef>>,
    rows: usize,
    /// For each row of the batch, whether it has passed.
    passed: BooleanBuffer,
}

impl Sieve {
    /// All rows of a batch.
    pub fn new(batch: &RecordBatch) -> Sieve {
        let rows = batch.num_rows();
        let columns = batch.columns().iter().map(|column| Some(Arc::clone(column))).collect();
        Sieve { columns, rows, passed: BooleanBuffer::new_set(rows) }
    }

    /// How many rows have passed.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes out the rows that do not satisfy all of these terms, and the columns that are not wanted after them.
    pub fn narrow(&mut self, terms: &mut [Term], wanted: &[bool]) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut holds: Option<BooleanBuffer> = None;
        for term in terms {
            let also = term.holds(&self.columns, self.rows)?;
            holds = Some(holds.map_or_else(|| also.clone(), |holds| &holds & &also));
        }
        for (column, wanted) in self.columns.iter_mut().zip(wanted) {
            *column = column.take().filter(|_| *wanted);
        }
        match holds {
            Some(holds) if holds.count_set_bits() < self.rows => self.keep(holds),
            _ => Ok(()),
        }
    }

    fn keep(&mut self, holds: BooleanBuffer) -> Result<()> {
        let kept = holds.count_set_bits();
        self.passed =
            if self.rows == self.passed.len() { holds.clone() } else { still(&self.passed, &holds) };
        self.rows = kept;
        let mut filter = FilterBuilder::new(&BooleanArray::new(holds, None));
        if self.columns.iter().flatten().count() > 1 {
            filter = filter.optimize();
        }
        let filter = filter.build();
        for column in self.columns.iter_mut().flatten() {
            *column = filter.filter(column)?;
        }
        Ok(())
    }

    /// Which rows of the batch have passed, and these columns of them, of these types.
    pub fn finish(self, columns: &[usize], schema: &SchemaRef) -> Result<(BooleanBuffer, RecordBatch)> {
        let mut arrays = Vec::with_capacity(columns.len());
        for (&column, field) in columns.iter().zip(schema.fields()) {
            let Some(array) = &self.columns[column] else {
                return internal_err!("the column `{}` was taken out before its time", field.name());
            };
            arrays.push(plain(array, field.data_type())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        Ok((self.passed, RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?))
    }
}

/// Of the bits that are set in `passed`, those whose turn in `holds` is set.
fn still(passed: &BooleanBuffer, holds: &BooleanBuffer) -> BooleanBuffer {
    let mut holds = holds.iter();
    let word = |mut passed: u64| {
        let mut still = 0;
        while passed != 0 {
            let lowest = passed & passed.wrapping_neg();
            still |= lowest * u64::from(holds.next() == Some(true));
            passed ^= lowest;
        }
        still
    };
    let words: Vec<u64> = passed.bit_chunks().iter_padded().map(word).collect();
    BooleanBuffer::new(Buffer::from(words), 0, passed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passed_is_asked_again() {
        for length in [0, 1, 63, 64, 65, 200] {
            let passed: BooleanBuffer = (0..length).map(|i| i % 3 != 1).collect();
            let holds: BooleanBuffer = (0..passed.count_set_bits()).map(|i| i % 5 < 3).collect();
            let mut turn = 0;
            let expected: BooleanBuffer = passed
                .iter()
                .map(|passed| {
                    turn += usize::from(passed);
                    passed && holds.value(turn - 1)
                })
                .collect();
            assert_eq!(still(&passed, &holds), expected);
        }
    }
}
