//! Columns of instants, as ticks.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::ScalarBuffer;
use datafusion::common::{Result, exec_err};

/// A start column as ticks; each row has one.
pub(crate) fn starts(table: &RecordBatch, column: usize, first: u64) -> Result<ScalarBuffer<i64>> {
    match table.column(column).logical_nulls().filter(|n| n.null_count() > 0) {
        Some(nulls) => exec_err!(
            "row {} has no time: column `{}` is null there; filter such rows out before the time is read",
            first + nulls.iter().position(|valid| !valid).unwrap_or(0) as u64,
            table.schema().field(column).name()
        ),
        None => ticks(table.column(column)),
    }
}

/// A time column as ticks.
pub(crate) fn ticks(column: &ArrayRef) -> Result<ScalarBuffer<i64>> {
    let data = column.to_data();
    Ok(ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()))
}
