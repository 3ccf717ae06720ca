//! Windows of days and months, over tables and over streams.

use crate::support::*;
use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray, TimestampSecondArray};
use std::sync::Arc;
use whimbrel_plan::{Stream, TimeSpec};
use whimbrel_sql::Session;

/// Visits in New York around the days that have 23 and 25 hours, in UTC. The zone is that of the column.
fn visits(zone: Option<&str>) -> Stream {
    // 2024-03-09 23:59, 03-10 00:00, 03-10 23:59, 03-11 00:00, 03-31 23:59, 04-01 00:00, 11-03 00:30, 11-03
    // 23:30
    let at = vec![
        1_710_046_740,
        1_710_046_800,
        1_710_129_540,
        1_710_129_600,
        1_711_943_940,
        1_711_944_000,
        1_730_608_200,
        1_730_694_600,
    ];
    let at = TimestampSecondArray::from(at);
    let at: ArrayRef = match zone {
        Some(zone) => Arc::new(at.with_timezone(zone)),
        None => Arc::new(at),
    };
    let who = StringArray::from(vec!["a", "b", "a", "b", "a", "b", "a", "b"]);
    memory(vec![("at", at), ("who", Arc::new(who)), ("n", Arc::new(Int64Array::from_iter_values(1..9)))])
}

fn table(zone: Option<&str>) -> Session {
    let mut session = session();
    session.register("visits", visits(zone)).unwrap();
    session
}

fn stream(zone: Option<&str>) -> Session {
    let mut session = session();
    let timed = visits(zone).ingress(TimeSpec::point("at"), Default::default()).unwrap();
    session.register("visits", timed).unwrap();
    session
}

/// The rows of a table and of a stream, whose lifetimes are left out, in order.
#[track_caller]
fn both(zone: Option<&str>, sql: &str, expected: &[&str]) {
    let mut rows = run(&mut table(zone), sql);
    rows.sort();
    assert_eq!(rows, expected, "table: {sql}");
    let timed = run(&mut stream(zone), sql);
    let mut rows: Vec<String> = timed.iter().map(|r| r.splitn(3, ' ').nth(2).unwrap().to_string()).collect();
    rows.sort();
    assert_eq!(rows, expected, "stream: {sql}");
}

const NEW_YORK: Option<&str> = Some("America/New_York");

fn of(windows: &str) -> String {
    format!(
        "select window_start, window_end, count(*) as c, sum(n) as s from {windows} group by window_start, window_end"
    )
}

#[test]
fn days_of_23_and_25_hours() {
    let expected = [
        "2024-03-09T00:00:00-05:00 2024-03-10T00:00:00-05:00 1 1",
        "2024-03-10T00:00:00-05:00 2024-03-11T00:00:00-04:00 2 5",
        "2024-03-11T00:00:00-04:00 2024-03-12T00:00:00-04:00 1 4",
        "2024-03-31T00:00:00-04:00 2024-04-01T00:00:00-04:00 1 5",
        "2024-04-01T00:00:00-04:00 2024-04-02T00:00:00-04:00 1 6",
        "2024-11-03T00:00:00-04:00 2024-11-04T00:00:00-05:00 2 15",
    ];
    both(NEW_YORK, &of("tumble(visits, at, interval '1 day')"), &expected);
    both(NEW_YORK, &of("tumble(table visits, descriptor(at), interval '1' day)"), &expected);
    both(NEW_YORK, &of("tumble(visits, at, '1 day')"), &expected);
    let in_utc: Vec<String> = [
        ("2024-03-09T05:00:00Z 2024-03-10T05:00:00Z", "1 1"),
        ("2024-03-10T05:00:00Z 2024-03-11T04:00:00Z", "2 5"),
        ("2024-03-11T04:00:00Z 2024-03-12T04:00:00Z", "1 4"),
        ("2024-03-31T04:00:00Z 2024-04-01T04:00:00Z", "1 5"),
        ("2024-04-01T04:00:00Z 2024-04-02T04:00:00Z", "1 6"),
        ("2024-11-03T04:00:00Z 2024-11-04T05:00:00Z", "2 15"),
    ]
    .map(|(window, values)| format!("{window} {values}"))
    .to_vec();
    let in_utc: Vec<&str> = in_utc.iter().map(String::as_str).collect();
    both(Some("UTC"), &of("tumble(visits, at, interval '1 day', 'America/New_York')"), &in_utc);
    both(
        Some("UTC"),
        &of(
            "tumble(data => table visits, timecol => descriptor(at), size => interval '1' day, zone => 'America/New_York')",
        ),
        &in_utc,
    );
}

#[test]
fn months_quarters_and_years() {
    let months = [
        "2024-03-01T00:00:00-05:00 2024-04-01T00:00:00-04:00 5 15",
        "2024-04-01T00:00:00-04:00 2024-05-01T00:00:00-04:00 1 6",
        "2024-11-01T00:00:00-04:00 2024-12-01T00:00:00-05:00 2 15",
    ];
    both(NEW_YORK, &of("tumble(visits, at, interval '1 month')"), &months);
    let quarters = [
        "2024-01-01T00:00:00-05:00 2024-04-01T00:00:00-04:00 5 15",
        "2024-04-01T00:00:00-04:00 2024-07-01T00:00:00-04:00 1 6",
        "2024-10-01T00:00:00-04:00 2025-01-01T00:00:00-05:00 2 15",
    ];
    both(NEW_YORK, &of("tumble(visits, at, interval '3 months')"), &quarters);
    both(NEW_YORK, &of("tumble(visits, at, '1 quarter')"), &quarters);
    let year = ["2024-01-01T00:00:00-05:00 2025-01-01T00:00:00-05:00 8 36"];
    both(NEW_YORK, &of("tumble(visits, at, interval '1 year')"), &year);
    let shown = [
        "2024-03-01T00:00:00 2024-04-01T00:00:00 4 10",
        "2024-04-01T00:00:00 2024-05-01T00:00:00 2 11",
        "2024-11-01T00:00:00 2024-12-01T00:00:00 2 15",
    ];
    both(None, &of("tumble(visits, at, interval '1 month')"), &shown);
}

#[test]
fn weeks_begin_on_mondays() {
    let weeks = [
        "2024-03-04T00:00:00-05:00 2024-03-11T00:00:00-04:00 3 6",
        "2024-03-11T00:00:00-04:00 2024-03-18T00:00:00-04:00 1 4",
        "2024-03-25T00:00:00-04:00 2024-04-01T00:00:00-04:00 1 5",
        "2024-04-01T00:00:00-04:00 2024-04-08T00:00:00-04:00 1 6",
        "2024-10-28T00:00:00-04:00 2024-11-04T00:00:00-05:00 2 15",
    ];
    both(NEW_YORK, &of("tumble(visits, at, interval '1 week')"), &weeks);
    let in_utc = [
        "2024-03-04T00:00:00 2024-03-11T00:00:00 2 3",
        "2024-03-11T00:00:00 2024-03-18T00:00:00 2 7",
        "2024-04-01T00:00:00 2024-04-08T00:00:00 2 11",
        "2024-10-28T00:00:00 2024-11-04T00:00:00 1 7",
        "2024-11-04T00:00:00 2024-11-11T00:00:00 1 8",
    ];
    both(None, &of("tumble(visits, at, interval '7 days')"), &in_utc);
}

#[test]
fn windows_that_overlap() {
    let hop = [
        "2024-02-01T00:00:00-05:00 2024-04-01T00:00:00-04:00 5",
        "2024-03-01T00:00:00-05:00 2024-05-01T00:00:00-04:00 6",
        "2024-04-01T00:00:00-04:00 2024-06-01T00:00:00-04:00 1",
        "2024-10-01T00:00:00-04:00 2024-12-01T00:00:00-05:00 2",
        "2024-11-01T00:00:00-04:00 2025-01-01T00:00:00-05:00 2",
    ];
    let sql = "select window_start, window_end, count(*) as c from hop(visits, at, interval '1 month', interval '2 months') \
               group by window_start, window_end";
    both(NEW_YORK, sql, &hop);
    let to_date = [
        "2024-03-01T00:00:00-05:00 2024-03-10T00:00:00-05:00 1",
        "2024-03-01T00:00:00-05:00 2024-03-11T00:00:00-04:00 3",
        "2024-03-01T00:00:00-05:00 2024-03-12T00:00:00-04:00 4",
    ];
    let sql = "select window_start, window_end, count(*) as c from \
               (select * from cumulate(visits, at, interval '1 day', interval '1 month')) \
               where n < 5 and window_end < timestamptz '2024-03-12 12:00:00+00' group by window_start, window_end";
    both(NEW_YORK, sql, &to_date);
    let march = "select window_end, count(*) as c from cumulate(visits, at, interval '1 day', interval '1 month') \
                 group by window_start, window_end having count(*) = 5";
    both(NEW_YORK, march, &["2024-04-01T00:00:00-04:00 5"]);
    let hours = "select window_start, window_end, count(*) as c from cumulate(visits, at, interval '12 hours', interval '1 month') \
                 where n = 4 group by window_start, window_end having count(*) > 0";
    assert_eq!(run(&mut table(None), hours).len(), 42);
    assert_eq!(run(&mut stream(None), hours).len(), 42);
}

#[test]
fn windows_of_a_calendar_are_joined_and_unioned() {
    let sql = "select a.window_end, a.who, b.who, a.n, b.n from tumble(visits, at, interval '1 day') a \
               join tumble(visits, at, interval '1 day') b on a.window_start = b.window_start and a.n < b.n";
    both(NEW_YORK, sql, &["2024-03-11T00:00:00-04:00 b a 2 3", "2024-11-04T00:00:00-05:00 a b 7 8"]);
    let sql = "select window_start, count(*) as c from (select * from tumble(visits, at, interval '1 month') where n < 3 \
               union all select * from tumble(visits, at, interval '1 month') where n = 8) group by window_start";
    both(NEW_YORK, sql, &["2024-03-01T00:00:00-05:00 2", "2024-11-01T00:00:00-04:00 1"]);
    let other = "select a.n from tumble(visits, at, interval '1 day') a join tumble(visits, at, interval '1 month') b \
                 on a.window_start = b.window_start";
    // Windows of two lengths are joined as the tables of their rows.
    for session in [&mut table(NEW_YORK), &mut stream(NEW_YORK)] {
        check(session, other, &["6"]);
    }
}

#[test]
fn what_is_early_is_what_a_table_says() {
    for window in
        ["tumble(visits, at, interval '1 month')", "hop(visits, at, interval '1 day', interval '3 days')"]
    {
        let sql = of(window);
        let mut table = run(&mut table(NEW_YORK), &sql);
        let mut changes = std::collections::BTreeMap::new();
        for row in run(&mut stream(NEW_YORK), &format!("{sql} emit changes")) {
            let (change, row) = row.split_once(' ').unwrap();
            *changes.entry(row.to_string()).or_insert(0) += change.parse::<i32>().unwrap();
        }
        let rows: Vec<String> = changes.into_iter().filter(|(_, n)| *n != 0).map(|(row, _)| row).collect();
        table.sort();
        assert_eq!(rows, table, "{sql}");
    }
}

#[test]
fn a_window_is_aggregated_once() {
    let plan = query(&mut stream(NEW_YORK), &of("tumble(visits, at, interval '1 month')"));
    let text = plan.plan().display_indent().to_string();
    assert!(text.lines().any(|line| line.contains("Aggregate: groupBy=[[]]")), "{text}");
}

#[test]
fn wrong_windows_of_the_calendar() {
    for session in [&mut table(NEW_YORK), &mut stream(NEW_YORK)] {
        let mut refused = |windows: &str| wrong(session, &format!("select * from {windows}"));
        let zone = refused("tumble(visits, at, interval '1 day', 'Nowhere/Land')");
        assert!(zone.contains("no time zone"), "{zone}");
        let offset = refused("tumble(visits, at, interval '1 day', interval '1 month')");
        assert!(offset.contains("which differ in length"), "{offset}");
        let hours = refused("tumble(visits, at, interval '6 hours', 'UTC')");
        assert!(hours.contains("as long in every zone"), "{hours}");
        let mixed = refused("tumble(visits, at, interval '1 month 2 days')");
        assert!(mixed.contains("months only"), "{mixed}");
        let apart = refused("hop(visits, at, interval '1 day', interval '1 month')");
        assert!(apart.contains("both in days"), "{apart}");
        let hop = refused("hop(visits, at, interval '1 hour', interval '1 day')");
        assert!(hop.contains("both in hours"), "{hop}");
        let step = refused("cumulate(visits, at, interval '1 hour', interval '1 day')");
        assert!(step.contains("step of days"), "{step}");
        let step = refused("cumulate(visits, at, interval '1 week', interval '1 month')");
        assert!(step.contains("begin where steps do"), "{step}");
    }
    let clock = wrong(&mut table(None), "select * from tumble(visits, at, interval '1 day', 'UTC')");
    assert!(clock.contains("what clocks show"), "{clock}");
}
