//! `range(a, b, step)` and `generate_series(a, b, step)` of timestamps, in microseconds: DataFusion's
//! functions count nanoseconds, which end in the year 2262. For arguments of other types they are
//! DataFusion's functions.
//!
//! ```sql
//! select range(timestamp '9999-12-29', timestamp '9999-12-31', interval '1 day');  -- two timestamps
//! ```

use super::overridden::Overridden;
use datafusion::arrow::array::types::ArrowTimestampType;
use datafusion::arrow::array::{ArrayRef, AsArray, ListArray, PrimitiveArray, timezone::Tz};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType, TimestampNanosecondType,
};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::functions_nested::range::{gen_series_udf, range_udf};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    vec![
        Overridden::function(range_udf(), coerce, list_type, |args| series(args, End::Excluded)),
        Overridden::function(gen_series_udf(), coerce, list_type, |args| series(args, End::Included)),
    ]
}

/// Whether the last instant is part of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It is, as in `generate_series`.
    Included,
    /// It is not, as in `range`.
    Excluded,
}

/// What the arguments of a series of timestamps are cast to.
fn coerce(types: &[DataType]) -> Option<Vec<DataType>> {
    let instant = instant_type(types)?;
    match types {
        [_, _, step] if is_step(step) => {
            Some(vec![instant.clone(), instant, DataType::Interval(IntervalUnit::MonthDayNano)])
        }
        _ => None,
    }
}

/// The type of a series of timestamps.
fn list_type(types: &[DataType]) -> Option<DataType> {
    match types {
        [instant @ DataType::Timestamp(..), DataType::Timestamp(..), DataType::Interval(_)] => {
            Some(DataType::List(Arc::new(Field::new_list_field(instant.clone(), true))))
        }
        _ => None,
    }
}

/// The series of each row.
fn series(args: &[ArrayRef], end: End) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, zone) = args[0].data_type() else {
        return exec_err!("{} is no timestamp", args[0].data_type());
    };
    let zone: Tz = zone.as_deref().unwrap_or("UTC").parse()?;
    match unit {
        TimeUnit::Nanosecond => lists::<TimestampNanosecondType>(args, end, |instant, step| {
            TimestampNanosecondType::add_month_day_nano(instant, step, zone)
        }),
        _ => lists::<TimestampMicrosecondType>(args, end, |instant, step| {
            TimestampMicrosecondType::add_month_day_nano(instant, step, zone)
        }),
    }
}

/// The series of each row; null where an argument is.
fn lists<T: ArrowTimestampType>(
    args: &[ArrayRef],
    end: End,
    add: impl Fn(i64, IntervalMonthDayNano) -> Option<i64>,
) -> Result<ArrayRef> {
    let (starts, ends) = (args[0].as_primitive::<T>(), args[1].as_primitive::<T>());
    let steps = args[2].as_primitive::<IntervalMonthDayNanoType>();
    let (mut values, mut offsets, mut valid) = (vec![], vec![0], vec![]);
    for ((start, last), step) in starts.iter().zip(ends).zip(steps) {
        let row = start.zip(last).zip(step);
        valid.push(row.is_some());
        if let Some(((start, last), step)) = row {
            let after = |instant| add(instant, step);
            let Some(second) = after(start).filter(|second| *second != start) else {
                let step = ScalarValue::IntervalMonthDayNano(Some(step));
                return exec_err!("a series needs a step that leads to another timestamp, and not {step}");
            };
            append(&mut values, (start, last, end), second > start, after);
        }
        let too_many = |_| exec_datafusion_err!("a series of more values than a list can have");
        offsets.push(i32::try_from(values.len()).map_err(too_many)?);
    }
    let kind = args[0].data_type();
    let field = Arc::new(Field::new_list_field(kind.clone(), true));
    let values = cast(&PrimitiveArray::<T>::from_iter_values(values), kind)?;
    let nulls = NullBuffer::from(valid);
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::new(offsets.into()), values, Some(nulls))?))
}

/// Appends the instants of one series.
fn append(
    values: &mut Vec<i64>,
    (start, last, end): (i64, i64, End),
    rises: bool,
    after: impl Fn(i64) -> Option<i64>,
) {
    let is_part = |instant: i64| match end {
        _ if instant == last => end == End::Included,
        _ => (instant < last) == rises,
    };
    let mut next = Some(start);
    while let Some(instant) = next.filter(|instant| is_part(*instant)) {
        values.push(instant);
        // A step of months and days of different signs can turn around.
        next = after(instant).filter(|later| *later != instant && (*later > instant) == rises);
    }
}

/// What a series of such arguments consists of, if one of them is a timestamp: microseconds, unless one has
/// nanoseconds.
fn instant_type(types: &[DataType]) -> Option<DataType> {
    let mut units = types.iter().filter_map(|kind| match kind {
        DataType::Timestamp(unit, zone) => Some((unit, zone)),
        _ => None,
    });
    let zone = units.clone().find_map(|(_, zone)| zone.clone());
    units.clone().next()?;
    let nanoseconds = units.any(|(unit, _)| *unit == TimeUnit::Nanosecond);
    let unit = if nanoseconds { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
    Some(DataType::Timestamp(unit, zone))
}

/// Whether a type can be the step of a series of timestamps.
fn is_step(kind: &DataType) -> bool {
    matches!(kind, DataType::Interval(_) | DataType::Null) || kind.is_string()
}
