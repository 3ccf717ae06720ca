//! What a term says of a column in which values follow themselves, asked once a run instead of once a row.
//!
//! The rows of a file often lie in the order of a key that several of them share. To find a value in a table of a join costs
//! more than to see that it is the one before.

use datafusion::arrow::array::{Array, ArrayRef, BooleanBufferBuilder, UInt32Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::kernels::cmp::neq;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

/// How many rows a run has to have, on average.
const ROWS: usize = 2;

/// The runs of a column.
pub(super) struct Runs {
    /// The value of each.
    pub values: ArrayRef,
    /// The row that it begins with.
    starts: UInt32Array,
    rows: usize,
}

impl Runs {
    /// None: they are too short, or of something else than whole numbers.
    pub fn of(column: &ArrayRef) -> Result<Option<Runs>> {
        let rows = column.len();
        let whole = matches!(column.data_type(), DataType::Int32 | DataType::Int64);
        if !whole || rows == 0 || column.null_count() > 0 {
            return Ok(None);
        }
        let changes = neq(&column.slice(1, rows - 1), &column.slice(0, rows - 1))?;
        if (changes.true_count() + 1) * ROWS > rows {
            return Ok(None);
        }
        let changes = changes.values().set_indices().map(|row| row as u32 + 1);
        let starts: UInt32Array = std::iter::once(0).chain(changes).collect::<Vec<u32>>().into();
        Ok(Some(Runs { values: take(column, &starts, None)?, starts, rows }))
    }

    /// For each row what was said of its run.
    pub fn each(&self, of_values: &BooleanBuffer) -> BooleanBuffer {
        let mut each = BooleanBufferBuilder::new(self.rows);
        each.append_n(self.rows, false);
        let starts = self.starts.values();
        for run in of_values.set_indices() {
            let end = starts.get(run + 1).map_or(self.rows, |next| *next as usize);
            (starts[run] as usize..end).for_each(|row| each.set_bit(row, true));
        }
        each.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{AsArray, Int64Array};
    use datafusion::arrow::datatypes::Int64Type;
    use std::sync::Arc;

    fn runs(values: Vec<Option<i64>>) -> Option<Runs> {
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        Runs::of(&column).unwrap()
    }

    #[test]
    fn each_row_is_told_what_was_said_of_its_run() {
        let values = [5, 5, 5, 7, 5, 5, 9, 9, 9, 9].repeat(20);
        let runs = runs(values.iter().copied().map(Some).collect()).unwrap();
        assert_eq!(runs.values.as_primitive::<Int64Type>().values(), &[5, 7, 5, 9].repeat(20)[..]);
        let said = |values: &[i64]| values.iter().map(|value| *value != 5).collect::<BooleanBuffer>();
        let of_values = said(runs.values.as_primitive::<Int64Type>().values());
        assert_eq!(runs.each(&of_values), said(&values));
    }

    #[test]
    fn short_runs_and_nulls_are_left_alone() {
        assert!(runs(vec![Some(1), Some(1), Some(2), Some(2)]).is_some());
        assert!(runs(vec![Some(1), Some(1), Some(2)]).is_none());
        assert!(runs(vec![Some(1), Some(1), Some(1), None]).is_none());
        assert!(runs(vec![]).is_none() && runs(vec![Some(1)]).is_none());
    }
}
