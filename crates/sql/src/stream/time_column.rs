//! The column of a relation that tells the time of its rows.

use super::semantics::{Liveness, liveness};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use whimbrel_plan::Stream;
use whimbrel_plan::names::type_name;

/// The type in which the instants of a table's column are computed with.
///
/// # Errors
/// `Plan` if the column is none of instants.
pub(super) fn table_clock(table: &LogicalPlan, time: &str) -> Result<DataType> {
    match table.schema().field_with_unqualified_name(time)?.data_type() {
        clock @ (DataType::Int64 | DataType::Timestamp(..)) => Ok(clock.clone()),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => Ok(DataType::Int64),
        DataType::Date32 | DataType::Date64 => Ok(DataType::Timestamp(TimeUnit::Microsecond, None)),
        other => plan_err!(
            "column {time:?} is {}, which cannot tell time; cast it to a timestamp, or to bigint",
            type_name(other)
        ),
    }
}

/// Refuses a column that is not the time of the stream. Of a stream whose lifetimes were not made here, only
/// the type of the time is known and checked.
///
/// # Errors
/// `Plan`, with the column that is.
pub(super) fn check_time_column(stream: &Stream, time: &str, clock: &DataType) -> Result<()> {
    let field = stream.schema().field_with_name(time)?;
    if field.data_type() != clock {
        return plan_err!(
            "column {time:?} is {}, the time of the stream {}; name the column that the stream gets its time from",
            type_name(field.data_type()),
            type_name(clock)
        );
    }
    let Liveness::From(instants) = liveness(stream.plan())? else { return Ok(()) };
    if instants.contains(stream.schema().index_of(time)?) {
        return Ok(());
    }
    let columns = stream.schema().fields().iter().enumerate();
    let times: Vec<String> = columns
        .filter(|(place, _)| instants.contains(*place))
        .map(|(_, f)| format!("{:?}", f.name()))
        .collect();
    match times.as_slice() {
        [] => plan_err!(
            "{time:?} is not the time at which these rows come, and no other column is: keep the column that the stream \
             was read with as its time, and compute with it afterwards"
        ),
        times => plan_err!(
            "{time:?} is not the time at which these rows come, {} is: make windows of that, or read the source with \
             time=\"{time}\"",
            times.join(" or ")
        ),
    }
}
