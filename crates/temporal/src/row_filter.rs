//! The selected rows of columns, copied by their numbers, which are found eight rows at a time, without a
//! branch for any of them. Long runs are copied at once, as Arrow does.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, FilterPredicate, take, take_record_batch};
use arrow::error::ArrowError;

/// From this share of the rows on Arrow copies run by run.
const DENSE: f64 = 0.8;
/// Runs of so many rows are worth to be copied at once.
const LONG_RUN: usize = 32;

/// For each byte the places of its bits that are set, in their order; zeros after them.
const PLACES: [[u8; 8]; 256] = {
    let mut places = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut found) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                places[byte][found] = bit;
                found += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    places
};

/// Copies the rows whose bits are set.
///
/// ```
/// use arrow::array::{ArrayRef, Int64Array};
/// use arrow::buffer::BooleanBuffer;
/// use std::sync::Arc;
/// use whimbrel_temporal::RowFilter;
///
/// let selected = BooleanBuffer::from(vec![true, false, true, true, true]);
/// let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]));
/// let kept: ArrayRef = Arc::new(Int64Array::from(vec![1, 3, 4, 5]));
/// assert_eq!(&RowFilter::new(&selected, 1).column(&numbers)?, &kept);
/// # Ok::<(), arrow::error::ArrowError>(())
/// ```
#[derive(Debug)]
pub struct RowFilter(Rows);

#[derive(Debug)]
enum Rows {
    Mask(FilterPredicate),
    Numbers(UInt32Array),
}

impl RowFilter {
    /// Copies the rows whose bits are set, of so many columns.
    pub fn new(selection: &BooleanBuffer, columns: usize) -> RowFilter {
        let kept = selection.count_set_bits();
        let has_long_runs =
            kept as f64 >= DENSE * selection.len() as f64 && runs(selection) * LONG_RUN <= kept;
        if !has_long_runs && u32::try_from(selection.len()).is_ok() {
            return RowFilter(Rows::Numbers(numbers(selection, kept).into()));
        }
        let builder = FilterBuilder::new(&BooleanArray::new(selection.clone(), None));
        let builder = if columns > 1 { builder.optimize() } else { builder };
        RowFilter(Rows::Mask(builder.build()))
    }

    /// The selected rows of a column.
    ///
    /// # Errors
    /// `ArrowError` if the column has another number of rows, or its type cannot be copied so.
    pub fn column(&self, column: &dyn Array) -> Result<ArrayRef, ArrowError> {
        match &self.0 {
            Rows::Mask(mask) => mask.filter(column),
            Rows::Numbers(numbers) => take(column, numbers, None),
        }
    }

    /// The selected rows of a batch.
    ///
    /// # Errors
    /// Those of [`column`](RowFilter::column).
    pub fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        match &self.0 {
            Rows::Numbers(numbers) if batch.num_columns() > 0 => take_record_batch(batch, numbers),
            Rows::Numbers(numbers) => Ok(batch.slice(0, numbers.len())),
            Rows::Mask(mask) => mask.filter_record_batch(batch),
        }
    }
}

/// How many runs of set bits there are.
fn runs(selection: &BooleanBuffer) -> usize {
    let mut last = 0;
    let begins = selection.bit_chunks().iter_padded().map(|word| {
        let begins = word & !(word << 1 | last);
        last = word >> 63;
        begins.count_ones() as usize
    });
    begins.sum()
}

/// The numbers of the bits that are set, of which there are `kept`.
fn numbers(selection: &BooleanBuffer, kept: usize) -> Vec<u32> {
    // Each byte writes eight numbers, of which those count that the next one does not write over.
    let mut numbers = vec![0; kept + 8];
    let mut count = 0;
    for (word, first) in selection.bit_chunks().iter_padded().zip((0..).step_by(64)) {
        if word == 0 {
            continue;
        }
        for (byte, first) in word.to_le_bytes().into_iter().zip((first..).step_by(8)) {
            if let Some(found) = numbers[count..].first_chunk_mut::<8>() {
                *found = PLACES[byte as usize].map(|place| first + u32::from(place));
            }
            count += byte.count_ones() as usize;
        }
    }
    numbers.truncate(kept);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::compute::filter_record_batch;
    use arrow::datatypes::{DataType, Field, Schema};
    use std::sync::Arc;

    /// Selections of few and of most rows, in short runs and in long ones.
    fn selections(rows: usize) -> Vec<BooleanBuffer> {
        let by = |select: fn(usize) -> bool| (0..rows).map(select).collect();
        vec![
            by(|_| true),
            by(|_| false),
            by(|row| row % 7 == 3),
            by(|row| row % 7 != 3),
            by(|row| row % 64 != 63),
            by(|row| row % 500 < 450),
            by(|row| row * row % 11 != 4),
            by(|row| row % 5 < 3),
        ]
    }

    #[test]
    fn the_rows_are_those_of_arrow() {
        let schema = Schema::new(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("s", DataType::Utf8View, true),
        ]);
        let schema = Arc::new(schema);
        for rows in [0, 1, 63, 64, 65, 1_000, 4_096] {
            let numbers: Int64Array = (0..rows as i64).map(|row| (row % 13 != 5).then_some(row)).collect();
            let texts: StringViewArray =
                (0..rows).map(|row| (row % 17 != 2).then(|| format!("text number {row}"))).collect();
            let columns: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(texts)];
            let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
            for selection in selections(rows + 3).iter().map(|all| all.slice(3, rows)).chain(selections(rows))
            {
                let expected =
                    filter_record_batch(&batch, &BooleanArray::new(selection.clone(), None)).unwrap();
                let filter = RowFilter::new(&selection, 2);
                assert_eq!(filter.batch(&batch).unwrap(), expected, "{rows} rows, {selection:?}");
                assert_eq!(&filter.column(batch.column(1)).unwrap(), expected.column(1));
                let none = batch.project(&[]).unwrap();
                assert_eq!(filter.batch(&none).unwrap().num_rows(), expected.num_rows());
            }
        }
    }

    #[test]
    fn long_runs_are_copied_at_once() {
        let by_number = |filter: RowFilter| matches!(filter.0, Rows::Numbers(_));
        let found = selections(4_096)
            .iter()
            .map(|selection| by_number(RowFilter::new(selection, 2)))
            .collect::<Vec<_>>();
        assert_eq!(found, [false, true, true, true, false, false, true, true]);
    }
}
