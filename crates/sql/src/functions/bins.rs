//! `date_bin(width, instant, origin)`: the first instant of the bin of a width that an instant is in, for
//! timestamps that DataFusion's function, which counts nanoseconds, does not reach. Bins are those of UTC,
//! and so is an origin without a zone.
//!
//! ```sql
//! select date_bin(interval '15 minutes', timestamp '2024-02-11 15:44:17');  -- 2024-02-11 15:30:00
//! ```

use super::calendar::{Calendar, DAY};
use super::overridden::Overridden;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::functions::datetime;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    vec![Overridden::function(datetime::date_bin(), coerce, bin_type, bins)]
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
            let instant = |zone| DataType::Timestamp(TimeUnit::Microsecond, zone);
            let own_zone = match origin {
                Some(DataType::Timestamp(_, zone)) => zone.clone(),
                _ => None,
            };
            let width = DataType::Interval(IntervalUnit::MonthDayNano);
            Some([width, instant(zone.clone()), instant(own_zone)].into_iter().take(types.len()).collect())
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

/// The first instant of the bin that each instant is in. Bins begin at the origin, 1970 unless it is given.
fn bins(args: &[ArrayRef]) -> Result<ArrayRef> {
    let widths = args[0].as_primitive::<IntervalMonthDayNanoType>();
    let instants = args[1].as_primitive::<TimestampMicrosecondType>();
    let origins = args.get(2).map(|origins| origins.as_primitive::<TimestampMicrosecondType>());
    let bins = widths.iter().zip(instants).enumerate().map(|(row, (width, instant))| {
        let origin = origins.map_or(Some(0), |origins| origins.is_valid(row).then(|| origins.value(row)));
        let known = width.zip(instant).zip(origin);
        known.map(|((width, instant), origin)| bin_of(width, instant, origin)).transpose()
    });
    let bins = bins.collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(bins.with_data_type(args[1].data_type().clone())))
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
