//! Bins of a width, and the first instant of the one that an instant is in: `date_bin(width, instant,
//! origin)` of timestamps that DataFusion's function, which counts nanoseconds, does not reach, and
//! `time_bucket`, whose days and months are those of the zone of the instant.
//!
//! ```sql
//! select date_bin(interval '15 minutes', timestamp '2024-02-11 15:44:17');          -- 2024-02-11 15:30:00
//! select time_bucket(interval '1 day', timestamptz '2024-02-11 15:44:17 Asia/Tokyo');  -- midnight there
//! ```

use super::calendar::{Calendar, DAY};
use super::overridden::Overridden;
use super::{Mapped, zones};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray, timezone::Tz};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::functions::datetime;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::Arc;

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let signature = Signature::any(3, Volatility::Immutable);
    vec![
        Overridden::function(datetime::date_bin(), coerce, bin_type, |args| bins(args, None)),
        Mapped::function("time_bucket", signature, bucket_type, buckets),
    ]
}

/// What the arguments of `date_bin` are cast to: timestamps of all units but nanoseconds to microseconds.
fn coerce(types: &[DataType]) -> Option<Vec<DataType>> {
    let (width, instant, origin) = match types {
        [width, instant] => (width, instant, None),
        [width, instant, origin] => (width, instant, Some(origin)),
        _ => return None,
    };
    let is_instant = |kind: &DataType| {
        matches!(kind, DataType::Timestamp(..) | DataType::Date32 | DataType::Null) || kind.is_string()
    };
    match (width, instant) {
        (DataType::Interval(_), DataType::Timestamp(unit, zone))
            if *unit != TimeUnit::Nanosecond && origin.is_none_or(is_instant) =>
        {
            let instant = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            let width = DataType::Interval(IntervalUnit::MonthDayNano);
            Some([width, instant.clone(), instant].into_iter().take(types.len()).collect())
        }
        _ => None,
    }
}

/// The type of a bin.
fn bin_type(types: &[DataType]) -> Option<DataType> {
    match types {
        [_, instant @ DataType::Timestamp(TimeUnit::Microsecond, _), ..] => Some(instant.clone()),
        _ => None,
    }
}

/// The type of a bin of `time_bucket`.
fn bucket_type(types: &[DataType]) -> Result<DataType> {
    match types {
        [DataType::Interval(_) | DataType::Null, DataType::Timestamp(_, zone), _] => {
            Ok(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        [DataType::Interval(_) | DataType::Null, DataType::Date32 | DataType::Null, _] => {
            Ok(DataType::Timestamp(TimeUnit::Microsecond, None))
        }
        _ => plan_err!("time_bucket takes an interval, and a timestamp or a date"),
    }
}

/// `time_bucket(width, instant, origin)` of each row. Bins of days and months are those of clocks in the
/// zone, and so is an origin without a zone.
fn buckets(args: &[ArrayRef]) -> Result<ArrayRef> {
    let kinds: Vec<DataType> = args.iter().map(|arg| arg.data_type().clone()).collect();
    let kind = bucket_type(&kinds)?;
    let widths = cast(&args[0], &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let instants = cast(&args[1], &kind)?;
    let (origins, zone) = match (&kinds[2], &kind) {
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, None)) => {
            return exec_err!("time_bucket: an origin with a zone is for timestamps with one");
        }
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, Some(zone))) => {
            (cast(&args[2], &kind)?, Some(zone.parse()?))
        }
        (_, DataType::Timestamp(_, Some(zone))) => {
            let zone: Tz = zone.parse()?;
            let clocks = cast(&args[2], &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            let clocks = clocks.as_primitive::<TimestampMicrosecondType>();
            let instant = |clock| zones::instant_of_micros(&zone, clock).ok_or_else(too_far);
            let origins: TimestampMicrosecondArray = clocks.try_unary(instant)?;
            (Arc::new(origins) as ArrayRef, Some(zone))
        }
        _ => (cast(&args[2], &kind)?, None),
    };
    bins(&[widths, instants, origins], zone)
}

/// The first instant of the bin that each instant is in. Bins begin at the origin, 1970 unless it is given.
fn bins(args: &[ArrayRef], zone: Option<Tz>) -> Result<ArrayRef> {
    let widths = args[0].as_primitive::<IntervalMonthDayNanoType>();
    let instants = args[1].as_primitive::<TimestampMicrosecondType>();
    let origins = args.get(2).map(|origins| origins.as_primitive::<TimestampMicrosecondType>());
    let bins = widths.iter().zip(instants).enumerate().map(|(row, (width, instant))| {
        let origin = origins.map_or(Some(0), |origins| origins.is_valid(row).then(|| origins.value(row)));
        let known = width.zip(instant).zip(origin);
        let bin = known.map(|((width, instant), origin)| match zone {
            Some(zone) if width.nanoseconds == 0 => bin_in_zone(width, instant, origin, &zone),
            _ => bin_of(width, instant, origin),
        });
        bin.transpose()
    });
    let bins = bins.collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(bins.with_data_type(args[1].data_type().clone())))
}

/// The bin by what clocks show in a zone.
fn bin_in_zone(width: IntervalMonthDayNano, instant: i64, origin: i64, zone: &Tz) -> Result<i64> {
    let clock = |instant| zones::clock_of_instant(zone, instant);
    let bin = match (clock(instant), clock(origin)) {
        (Some(instant), Some(origin)) => zones::instant_of_micros(zone, bin_of(width, instant, origin)?),
        _ => None,
    };
    bin.ok_or_else(too_far)
}

/// The error for an instant that clocks do not show.
fn too_far() -> DataFusionError {
    exec_datafusion_err!("a time is too far away for the clocks of a zone")
}

/// The first instant of the bin that an instant is in.
fn bin_of(width: IntervalMonthDayNano, instant: i64, origin: i64) -> Result<i64> {
    let refused = |why: &str| exec_datafusion_err!("date_bin: a width {why}");
    let beyond = || exec_datafusion_err!("date_bin: a bin begins beyond the first or the last timestamp");
    if width.months == 0 {
        let ticks = i128::from(width.days) * i128::from(DAY) * 1_000 + i128::from(width.nanoseconds);
        if ticks <= 0 {
            return Err(refused("is longer than nothing"));
        }
        let since = (i128::from(instant) - i128::from(origin)) * 1_000;
        let bin = i128::from(origin) * 1_000 + since - since.rem_euclid(ticks);
        return i64::try_from(bin.div_euclid(1_000)).map_err(|_| beyond());
    }
    if width.days != 0 || width.nanoseconds != 0 {
        return Err(refused("has months, or days and what is shorter, but not both"));
    }
    if width.months < 0 {
        return Err(refused("is longer than nothing"));
    }
    let (own, first) = (Calendar::of(instant), Calendar::of(origin));
    let since = own.months - first.months;
    let months = since - since.rem_euclid(i64::from(width.months));
    // Where bins do not begin with the month, an instant can lie before the beginning in its own month.
    [months, months - i64::from(width.months)]
        .into_iter()
        .filter_map(|months| first.months_later(months))
        .find(|bin| *bin <= instant)
        .ok_or_else(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_begin_at_their_origin() {
        let months = |months| IntervalMonthDayNano::new(months, 0, 0);
        let day =
            |year: i64, month: i64, day: i64| (Calendar::first_day(12 * year + month - 1) + day - 1) * DAY;
        let origin = day(2000, 1, 31);
        assert_eq!(bin_of(months(1), day(2000, 2, 28), origin).unwrap(), origin);
        assert_eq!(bin_of(months(1), day(2000, 2, 29), origin).unwrap(), day(2000, 2, 29));
        assert_eq!(bin_of(months(3), day(1999, 12, 31), origin).unwrap(), day(1999, 10, 31));
        assert_eq!(bin_of(months(12), day(9999, 12, 31), day(2000, 1, 1)).unwrap(), day(9999, 1, 1));
        let days = |days| IntervalMonthDayNano::new(0, days, 0);
        assert_eq!(bin_of(days(7), -1, 0).unwrap(), -7 * DAY);
        let third = IntervalMonthDayNano::new(0, 0, 333);
        assert_eq!(bin_of(third, 1, 0).unwrap(), 0);
        assert_eq!(bin_of(third, 2, 0).unwrap(), 1);
        for width in [days(0), days(-1), months(-1), IntervalMonthDayNano::new(1, 1, 0)] {
            assert!(bin_of(width, 0, 0).unwrap_err().to_string().contains("a width"), "{width:?}");
        }
        assert!(bin_of(days(7), i64::MIN, 1).is_err() && bin_of(months(7), i64::MIN, 0).is_err());
    }
}
