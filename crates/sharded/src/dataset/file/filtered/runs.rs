//! Runs of equal values in a column: a conjunct is evaluated once per run instead of once per row.
//!
//! The rows of a file often lie in the order of a key that several of them share. A lookup in the hash table
//! of a join costs more than a comparison with the value before.

use datafusion::arrow::array::{Array, ArrayRef, BooleanBufferBuilder, UInt32Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::kernels::cmp::neq;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

/// How many rows a run has to have, on average.
const MIN_RUN: usize = 2;

/// The runs of a column.
pub(super) struct ValueRuns {
    /// The value of each run.
    pub values: ArrayRef,
    /// The first row of each run.
    starts: UInt32Array,
    rows: usize,
}

impl ValueRuns {
    /// The runs of a column. None: they are too short, or the column is not of integers, or has nulls.
    ///
    /// # Errors
    /// If the values cannot be compared.
    pub fn of(column: &ArrayRef) -> Result<Option<ValueRuns>> {
        let rows = column.len();
        let is_integer = matches!(column.data_type(), DataType::Int32 | DataType::Int64);
        if !is_integer || rows == 0 || column.null_count() > 0 {
            return Ok(None);
        }
        let changes = neq(&column.slice(1, rows - 1), &column.slice(0, rows - 1))?;
        if (changes.true_count() + 1) * MIN_RUN > rows {
            return Ok(None);
        }
        let changes = changes.values().set_indices().map(|row| row as u32 + 1);
        let starts: UInt32Array = std::iter::once(0).chain(changes).collect::<Vec<u32>>().into();
        Ok(Some(ValueRuns { values: take(column, &starts, None)?, starts, rows }))
    }

    /// A bit for each row, from one for each run.
    pub fn expand(&self, of_runs: &BooleanBuffer) -> BooleanBuffer {
        let mut bits = BooleanBufferBuilder::new(self.rows);
        bits.append_n(self.rows, false);
        let starts = self.starts.values();
        for run in of_runs.set_indices() {
            let end = starts.get(run + 1).map_or(self.rows, |next| *next as usize);
            (starts[run] as usize..end).for_each(|row| bits.set_bit(row, true));
        }
        bits.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{AsArray, Int64Array};
    use datafusion::arrow::datatypes::Int64Type;
    use std::sync::Arc;

    fn runs(values: Vec<Option<i64>>) -> Option<ValueRuns> {
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        ValueRuns::of(&column).unwrap()
    }

    #[test]
    fn each_row_has_the_bit_of_its_run() {
        let values = [5, 5, 5, 7, 5, 5, 9, 9, 9, 9].repeat(20);
        let runs = runs(values.iter().copied().map(Some).collect()).unwrap();
        assert_eq!(runs.values.as_primitive::<Int64Type>().values(), &[5, 7, 5, 9].repeat(20)[..]);
        let differs = |values: &[i64]| values.iter().map(|value| *value != 5).collect::<BooleanBuffer>();
        let of_runs = differs(runs.values.as_primitive::<Int64Type>().values());
        assert_eq!(runs.expand(&of_runs), differs(&values));
    }

    #[test]
    fn short_runs_and_nulls_are_left_alone() {
        assert!(runs(vec![Some(1), Some(1), Some(2), Some(2)]).is_some());
        assert!(runs(vec![Some(1), Some(1), Some(2)]).is_none());
        assert!(runs(vec![Some(1), Some(1), Some(1), None]).is_none());
        assert!(runs(vec![]).is_none() && runs(vec![Some(1)]).is_none());
    }
}
