//! Rows between two steps: arrays of one length.

use crate::error::Result;
use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use datafusion::arrow::compute::{concat, filter, take};

/// Columns of one length, perhaps none.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub columns: Vec<ArrayRef>,
    pub len: usize,
}

impl Rows {
    /// One row without columns.
    pub fn unit() -> Rows {
        Rows { columns: vec![], len: 1 }
    }

    /// The rows at some positions.
    ///
    /// # Errors
    /// `Internal` if a position is out of range.
    pub fn take(&self, places: &UInt32Array) -> Result<Rows> {
        let columns = self.columns.iter().map(|column| take(column, places, None));
        Ok(Rows { columns: columns.collect::<std::result::Result<_, _>>()?, len: places.len() })
    }

    /// The rows for which a mask is true.
    ///
    /// # Errors
    /// `Internal` if the mask has another length.
    pub fn filter(&self, keep: &BooleanArray) -> Result<Rows> {
        let columns = self.columns.iter().map(|column| filter(column, keep));
        Ok(Rows { columns: columns.collect::<std::result::Result<_, _>>()?, len: keep.true_count() })
    }

    /// The first rows.
    pub fn first(&self, rows: usize) -> Rows {
        self.slice(0, rows.min(self.len))
    }

    /// Some rows in the middle.
    pub fn slice(&self, from: usize, len: usize) -> Rows {
        Rows { columns: self.columns.iter().map(|column| column.slice(from, len)).collect(), len }
    }

    /// Rows of the same columns, one behind the other.
    ///
    /// # Errors
    /// `Internal` if the columns have different types.
    pub fn concat(all: &[Rows]) -> Result<Option<Rows>> {
        let Some(first) = all.first() else { return Ok(None) };
        let columns = (0..first.columns.len()).map(|at| {
            let parts: Vec<&dyn datafusion::arrow::array::Array> =
                all.iter().map(|rows| rows.columns[at].as_ref()).collect();
            concat(&parts)
        });
        let len = all.iter().map(|rows| rows.len).sum();
        Ok(Some(Rows { columns: columns.collect::<std::result::Result<_, _>>()?, len }))
    }
}
