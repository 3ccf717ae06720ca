//! Columns of instants, as ticks.

use crate::time::{BEGINNING, Time};
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

/// Refuses rows at the ends of time, which stand for rows that were always there and for the end of the
/// stream: those after `last`, and at the beginning. The first row is number `first` of the whole input.
pub(crate) fn check_instants(
    times: &[Time],
    sorted: bool,
    last: Time,
    first: u64,
    column: &str,
) -> Result<()> {
    let is_instant = |time: Time| time > BEGINNING && time <= last;
    let all = match sorted {
        true => times.first().into_iter().chain(times.last()).all(|&time| is_instant(time)),
        false => times.iter().fold(true, |all, &time| all & is_instant(time)),
    };
    match times.iter().position(|&time| !all && !is_instant(time)) {
        None => Ok(()),
        Some(row) => exec_err!(
            "row {} has the time {} in column `{column}`, which is at the end of all time; times go from {} to {last} ticks, \
             leave other rows out",
            first + row as u64,
            times[row],
            BEGINNING + 1
        ),
    }
}
