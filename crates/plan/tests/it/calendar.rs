//! Windows of days and months in time zones.

use crate::support::*;
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::lit;
use std::sync::Arc;
use whimbrel_plan::calendar::{CalendarWindows, Grid};
use whimbrel_plan::nodes::AlterLifetime;
use whimbrel_plan::{Duration, Node, Stream, TimeSpec, column, node, physical};
use whimbrel_temporal::{Closed, IngressOptions, Lifetimes};

fn instants(unit: TimeUnit, zone: &str) -> DataType {
    DataType::Timestamp(unit, Some(Arc::from(zone)))
}

/// The beginnings that lie so many steps from ticks of a type.
fn boundaries(every: &str, offset: i64, time: &DataType, at: &[i64], steps: i64) -> Result<Vec<i64>> {
    let grid = Grid::new(&Duration::from(every), offset, time, None, "size")?;
    let schema = Schema::new(vec![Field::new("at", DataType::Int64, false)]);
    let rows = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(Int64Array::from(at.to_vec()))])?;
    let expr = physical(&grid.boundary(column("at"), lit(steps)), &DFSchema::try_from(schema)?)?;
    let value = expr.evaluate(&rows)?.into_array(at.len())?;
    Ok(value.as_primitive::<Int64Type>().values().to_vec())
}

/// Seconds of an instant in UTC.
fn utc(text: &str) -> i64 {
    let text = if text.contains(' ') { text.to_string() } else { format!("{text} 00:00") };
    let text = if text.matches(':').count() == 1 { format!("{text}:00") } else { text };
    let (date, time) = text.split_once(' ').unwrap();
    let numbers =
        |text: &str, sep: char| -> Vec<i64> { text.split(sep).map(|n| n.parse().unwrap()).collect() };
    let ([y, m, d], [hour, minute, second]) = (
        <[i64; 3]>::try_from(numbers(date, '-')).unwrap(),
        <[i64; 3]>::try_from(numbers(time, ':')).unwrap(),
    );
    // Days before a date, of years that begin in March.
    let (year, month) = if m > 2 { (y, m - 3) } else { (y - 1, m + 9) };
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = days + (month * 153 + 2) / 5 + d - 1 - 719_468;
    days * 86_400 + hour * 3600 + minute * 60 + second
}

/// Where the window begins and ends that an instant in UTC is in.
#[track_caller]
fn window(every: &str, zone: &str, at: &str, start: &str, end: &str) {
    let time = instants(TimeUnit::Second, zone);
    let found = |steps| boundaries(every, 0, &time, &[utc(at)], steps).unwrap()[0];
    assert_eq!(found(0), utc(start), "start in {zone}");
    assert_eq!(found(1), utc(end), "end in {zone}");
}

#[test]
fn days_are_as_long_as_they_are_there() {
    let zone = "America/New_York";
    window("1d", zone, "2024-03-10 04:59", "2024-03-09 05:00", "2024-03-10 05:00");
    window("1d", zone, "2024-03-10 05:00", "2024-03-10 05:00", "2024-03-11 04:00");
    window("1d", zone, "2024-11-03 12:00", "2024-11-03 04:00", "2024-11-04 05:00");
    window("2d", zone, "2024-03-10 12:00", "2024-03-10 05:00", "2024-03-12 04:00");
    window("1w", zone, "2024-03-10 12:00", "2024-03-04 05:00", "2024-03-11 04:00");
    window("1mo", zone, "2024-03-31 23:00", "2024-03-01 05:00", "2024-04-01 04:00");
    window("1q", zone, "2024-03-31 23:00", "2024-01-01 05:00", "2024-04-01 04:00");
    window("1y", zone, "2024-12-31 23:00", "2024-01-01 05:00", "2025-01-01 05:00");
    window("5y", "UTC", "1969-12-31 23:59", "1965-01-01", "1970-01-01");
    window("1d", "+05:30", "2024-03-10 18:30", "2024-03-10 18:30", "2024-03-11 18:30");
}

#[test]
fn midnights_that_clocks_skip_or_show_twice() {
    // Clocks went from midnight to one.
    window("1d", "America/Sao_Paulo", "2018-11-04 12:00", "2018-11-04 03:00", "2018-11-05 02:00");
    window("1d", "America/Sao_Paulo", "2018-11-04 02:59", "2018-11-03 03:00", "2018-11-04 03:00");
    window("1d", "Asia/Beirut", "2022-03-27 12:00", "2022-03-26 22:00", "2022-03-27 21:00");
    // The hour before midnight is shown twice.
    window("1d", "America/Sao_Paulo", "2018-02-18 02:30", "2018-02-17 02:00", "2018-02-18 03:00");
    // The hour after midnight is shown twice: the day begins with the first.
    window("1d", "America/Havana", "2024-11-03 04:30", "2024-11-03 04:00", "2024-11-04 05:00");
    window("1d", "America/Havana", "2024-11-03 05:30", "2024-11-03 04:00", "2024-11-04 05:00");
    // A minute after midnight clocks go back to the day before, which has ended.
    window("1d", "America/St_Johns", "2010-11-07 02:30", "2010-11-07 02:30", "2010-11-08 03:30");
    window("1d", "America/St_Johns", "2010-11-07 03:00", "2010-11-07 02:30", "2010-11-08 03:30");
    // A day that is left out is no window.
    window("1d", "Pacific/Apia", "2011-12-30 09:00", "2011-12-29 10:00", "2011-12-30 10:00");
    window("1d", "Pacific/Apia", "2011-12-30 10:00", "2011-12-30 10:00", "2011-12-31 10:00");
    let apia = instants(TimeUnit::Second, "Pacific/Apia");
    let at = [utc("2011-12-30 09:00")];
    assert_eq!(boundaries("1d", 0, &apia, &at, 2).unwrap(), [utc("2011-12-31 10:00")]);
    assert_eq!(
        boundaries("1d", 0, &apia, &[utc("2011-12-31 12:00")], -1).unwrap(),
        [utc("2011-12-30 10:00")]
    );
    assert_eq!(
        boundaries("1d", 0, &apia, &[utc("2011-12-31 12:00")], -2).unwrap(),
        [utc("2011-12-29 10:00")]
    );
}

#[test]
fn zones_of_long_ago_and_later() {
    // Local time, by the sun, until 1883.
    window("1d", "America/New_York", "1850-06-15 12:00", "1850-06-15 04:56:02", "1850-06-16 04:56:02");
    window("1mo", "America/New_York", "1883-11-18 12:00", "1883-11-01 04:56:02", "1883-12-01 05:00");
    window("1mo", "UTC", "0001-02-03", "0001-02-01", "0001-03-01");
    window("1mo", "UTC", "9999-12-31", "9999-12-01", "10000-01-01");
    window("1y", "Asia/Tokyo", "2500-06-01", "2499-12-31 15:00", "2500-12-31 15:00");
}

#[test]
fn offsets_are_what_clocks_show() {
    let time = instants(TimeUnit::Second, "America/New_York");
    let six = 6 * 3600;
    let start = |at: &str| boundaries("1d", six, &time, &[utc(at)], 0).unwrap()[0];
    assert_eq!(start("2024-03-10 09:59"), utc("2024-03-09 11:00"));
    assert_eq!(start("2024-03-10 10:00"), utc("2024-03-10 10:00"));
}

#[test]
fn windows_lie_one_after_the_other() {
    for zone in
        ["America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "Europe/London", "Africa/Casablanca"]
    {
        let time = instants(TimeUnit::Second, zone);
        for every in ["1d", "3d", "1w", "1mo"] {
            let at: Vec<i64> = (0..6000).map(|n| utc("1985-01-01") + n * 250_007).collect();
            let of = |at: &[i64], steps| boundaries(every, 0, &time, at, steps).unwrap();
            let (starts, ends) = (of(&at, 0), of(&at, 1));
            assert!(at.iter().zip(&starts).all(|(at, start)| start <= at), "{zone} {every}");
            assert!(at.iter().zip(&ends).all(|(at, end)| at < end), "{zone} {every}");
            assert!(starts.is_sorted() && ends.is_sorted(), "{zone} {every}");
            let lasts: Vec<i64> = ends.iter().map(|end| end - 1).collect();
            assert_eq!(of(&ends, 0), ends, "{zone} {every}");
            assert_eq!(of(&lasts, 0), starts, "{zone} {every}");
            assert_eq!(of(&starts, 1), ends, "{zone} {every}");
            assert_eq!(of(&at, 3), of(&of(&of(&at, 1), 1), 1), "{zone} {every}");
            assert_eq!(of(&of(&at, 2), -2), starts, "{zone} {every}");
        }
    }
}

#[test]
fn beyond_time_is_an_error() {
    let nanos = instants(TimeUnit::Nanosecond, "Europe/Berlin");
    let wrong = boundaries("1mo", 0, &nanos, &[i64::MAX], 1).unwrap_err().to_string();
    assert!(wrong.contains("cannot tell time") && wrong.contains("2262"), "{wrong}");
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        for zone in ["UTC", "Asia/Tokyo", "America/New_York"] {
            for at in [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX] {
                assert!(boundaries("1mo", 0, &instants(unit, zone), &[at], 0).is_err());
            }
        }
    }
}

fn timed(time: DataType) -> Stream {
    table("visits", &[("at", time)]).ingress(TimeSpec::point("at"), IngressOptions::default()).unwrap()
}

fn zoned(zone: &str) -> Stream {
    timed(instants(TimeUnit::Microsecond, zone))
}

fn altered(stream: &Stream) -> &AlterLifetime {
    match node(stream.plan()) {
        Some(Node::AlterLifetime(window)) => window,
        other => panic!("no AlterLifetime but {other:?}"),
    }
}

#[test]
fn days_without_a_zone_are_ticks() {
    let grid =
        |every: &str, time: &DataType| Grid::new(&Duration::from(every), 0, time, None, "size").unwrap();
    let day = 86_400;
    let seconds = DataType::Timestamp(TimeUnit::Second, None);
    assert_eq!(grid("1d", &seconds), Grid::Ticks { hop: day, offset: 0 });
    assert_eq!(grid("1d", &instants(TimeUnit::Second, "+00:00")), Grid::Ticks { hop: day, offset: 0 });
    assert_eq!(grid("1w", &seconds), Grid::Ticks { hop: 7 * day, offset: 4 * day }, "from Monday");
    assert_eq!(grid("2w", &seconds), Grid::Ticks { hop: 14 * day, offset: 11 * day }, "from 1969-12-29");
    assert_eq!(grid("168h", &seconds), Grid::Ticks { hop: 7 * day, offset: 0 });
    assert_eq!(grid("24h", &instants(TimeUnit::Second, "Asia/Tokyo")), Grid::Ticks { hop: day, offset: 0 });
}

#[test]
fn windows_are_rules_for_lifetimes() {
    let months = zoned("Asia/Tokyo").tumbling("1mo", 0, Closed::Left).unwrap();
    assert_eq!(altered(&months).label, "tumbling 1mo in Asia/Tokyo");
    assert_eq!(months.properties().lifetimes, Lifetimes::Tiled);
    let windows = CalendarWindows::of_rules(&altered(&months).start, &altered(&months).duration).unwrap();
    assert_eq!((windows.hops, windows.closed), (1, Closed::Left));
    let year = zoned("UTC").hopping_in("1y", "1q", "6h", Closed::Right, Some("Asia/Tokyo")).unwrap();
    assert_eq!(altered(&year).label, "hopping 1y hop 3mo offset 6h in Asia/Tokyo closed right");
    assert_eq!(year.properties().lifetimes, Lifetimes::Intervals);
    let shifted = months.shift("1h").unwrap();
    assert_eq!(shifted.properties().lifetimes, Lifetimes::Tiled);
    let days = zoned("Asia/Tokyo").tumbling("1d", 0, Closed::Left).unwrap();
    let again = months.union(&days).unwrap();
    assert_eq!(again.properties().lifetimes, Lifetimes::Intervals, "windows of two kinds overlap");
}

#[test]
fn what_is_no_window_of_the_calendar() {
    let tokyo = || zoned("Asia/Tokyo");
    let wrong = |size: &str, hop: &str, zone| invalid(tokyo().hopping_in(size, hop, 0, Closed::Left, zone));
    assert_eq!(
        wrong("3mo", "2mo", None),
        "hopping: size: \"3mo\" is no multiple of 2mo: give both in days, or both in months"
    );
    assert!(wrong("48h", "1d", None).contains("no multiple of 1d"));
    assert!(wrong("2d", "24h", None).contains("2d"), "{}", wrong("2d", "24h", None));
    assert!(wrong("1d12h", "1d12h", None).contains("days and hours"));
    assert!(wrong("1mo1d", "1mo1d", None).contains("months only"));
    assert!(wrong("-1mo", "-1mo", None).contains("is negative"));
    assert!(wrong("1d", "1d", Some("Nowhere/Land")).contains("no time zone"));
    assert!(wrong("1h", "1h", Some("Asia/Tokyo")).contains("as long in every zone"));
    let clock = invalid(timed(DataType::Int64).tumbling_in(5, 0, Closed::Left, Some("UTC")));
    assert!(clock.contains("has no zone"), "{clock}");
    let shown = timed(DataType::Timestamp(TimeUnit::Microsecond, None));
    let shown = invalid(shown.tumbling_in("1d", 0, Closed::Left, Some("Asia/Tokyo")));
    assert!(shown.contains("what clocks show"), "{shown}");
    let session = invalid(tokyo().session("1mo", None));
    assert!(session.contains("differ in length"), "{session}");
}
