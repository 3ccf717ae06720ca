//! Windows of time, over tables and over streams.

use crate::support::*;
use datafusion::arrow::array::{Int64Array, StringArray};
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;
use whimbrel_plan::{Agg, Stream, TimeSpec, aggregate_of, column};
use whimbrel_sharded::Options;
use whimbrel_sharded::program::Programs;
use whimbrel_sql::Session;
use whimbrel_temporal::Closed;

/// When who clicked what.
fn clicks() -> Stream {
    let times = Int64Array::from(vec![1, 2, 7, 12, 13, 31]);
    let items = StringArray::from(vec!["a", "b", "a", "a", "b", "a"]);
    memory(vec![("time", Arc::new(times)), ("item", Arc::new(items))])
}

fn table() -> Session {
    let mut session = session();
    session.register("clicks", clicks()).unwrap();
    session
}

fn stream() -> Session {
    let mut session = session();
    let timed = clicks().ingress(TimeSpec::point("time"), Default::default()).unwrap();
    session.register("clicks", timed).unwrap();
    session
}

/// The rows of a table and those of a stream, without the lifetimes that a stream's have, in order.
fn both(sql: &str, expected: &[&str]) {
    let mut rows = run(&mut table(), sql);
    rows.sort();
    assert_eq!(rows, expected, "table: {sql}");
    let timed = run(&mut stream(), sql);
    let mut rows: Vec<String> = timed.iter().map(|r| r.splitn(3, ' ').nth(2).unwrap().to_string()).collect();
    rows.sort();
    assert_eq!(rows, expected, "stream: {sql}");
}

#[test]
fn tumbling_windows() {
    let expected = ["0 10 a 2", "0 10 b 1", "10 20 a 1", "10 20 b 1", "30 40 a 1"];
    for window in [
        "tumble(clicks, time, 10)",
        "tumble(table clicks, descriptor(time), 10)",
        "table(tumble(table clicks, descriptor(time), 10))",
        "tumble((select * from clicks), time, 10)",
    ] {
        let sql = format!(
            "select window_start, window_end, item, count(*) as n from {window} group by window_start, window_end, item"
        );
        both(&sql, &expected);
    }
    both("select item, window_end from tumble(clicks, time, 10) as w where w.item = 'b'", &["b 10", "b 20"]);
}

#[test]
fn hopping_windows() {
    both(
        "select window_start, window_end, count(*) as n from hop(clicks, time, 5, 10) group by window_start, window_end",
        &["-5 5 2", "0 10 3", "10 20 2", "25 35 1", "30 40 1", "5 15 3"],
    );
}

#[test]
fn cumulating_windows() {
    both(
        "select window_start, window_end, count(*) as n from cumulate(clicks, time, 5, 10) group by window_start, window_end",
        &["0 10 3", "0 5 2", "10 15 2", "10 20 2", "30 35 1", "30 40 1"],
    );
}

/// The clicks of each window among these that has some: its start, its end, and their number, in order.
fn counted(windows: impl Iterator<Item = (i64, i64)>, closed: &str) -> Vec<String> {
    let is_in = |time: i64, (start, end): (i64, i64)| match closed {
        "left" => start <= time && time < end,
        _ => start < time && time <= end,
    };
    let count = |window| [1, 2, 7, 12, 13, 31].into_iter().filter(|time| is_in(*time, window)).count();
    let rows = windows.map(|window| (window, count(window))).filter(|(_, count)| *count > 0);
    let mut rows: Vec<String> = rows.map(|((start, end), count)| format!("{start} {end} {count}")).collect();
    rows.sort();
    rows
}

#[test]
fn windows_lie_where_they_are_asked_to() {
    for (offset, closed) in [(0, "right"), (4, "left"), (-3, "right"), (25, "left")] {
        let check = |function: &str, sizes: &str, windows: &mut dyn Iterator<Item = (i64, i64)>| {
            let sql = format!(
                "select window_start, window_end, count(*) as n from {function}(clicks, time, {sizes}, offset => {offset}, \
                 closed => '{closed}') group by window_start, window_end"
            );
            let expected = counted(windows, closed);
            both(&sql, &expected.iter().map(String::as_str).collect::<Vec<_>>());
        };
        let every = |step: i64| (-40..40).map(move |k| offset + k * step);
        for size in [1, 6, 10] {
            check("tumble", &size.to_string(), &mut every(size).map(|start| (start, start + size)));
        }
        // Sizes that are multiples of the slide, sizes that are not, and some below it.
        for (slide, size) in [(5, 10), (1, 3), (3, 10), (4, 7), (4, 5), (7, 3), (10, 1)] {
            let mut windows = every(slide).map(|start| (start, start + size));
            check("hop", &format!("{slide}, {size}"), &mut windows);
        }
        for (step, size) in [(5, 10), (1, 4)] {
            let of_one = |start| (1..=size / step).map(move |steps| (start, start + steps * step));
            check("cumulate", &format!("{step}, {size}"), &mut every(size).flat_map(of_one));
        }
    }
}

#[test]
fn arguments_that_may_be_left_out() {
    let windows = |arguments: &str| {
        let sql = format!(
            "select window_start, count(*) as n from tumble({arguments}) group by window_start order by window_start"
        );
        run(&mut table(), &sql)
    };
    let expected = ["-7 2", "3 2", "13 1", "23 1"];
    // Flink has the offset after the size.
    assert_eq!(windows("table clicks, descriptor(time), 10, 3"), expected);
    assert_eq!(
        windows("data => table clicks, timecol => descriptor(time), offset => 3, size => 10"),
        expected
    );
    assert_eq!(windows("clicks, time, 10, closed => 'LEFT', offset => -7"), expected);
    for (arguments, reason) in [
        ("clicks, time, 10, 3, 4", "offset is given twice"),
        ("clicks, time, 10, 3, offset => 3", "offset is given twice"),
        (
            "clicks, time, 10, closed => 'both'",
            "closed 'left', [start, end), or 'right', (start, end], not 'both'",
        ),
        ("clicks, time, 10, offset => 'Mars/Phobos'", "offset"),
        ("clicks, time, 10, length => 1", "data, timecol, size, offset, zone, closed"),
    ] {
        let sql = format!("select * from tumble({arguments})");
        let error = wrong(&mut table(), &sql);
        assert!(error.contains(reason), "{sql}: {error}");
    }
    let error = wrong(&mut table(), "select * from session(clicks, time, 10, closed => 'left')");
    assert!(error.contains("there is no argument closed"), "{error}");
}

#[test]
fn sessions() {
    both(
        "select window_start, window_end, item, count(*) as n from session(clicks, time, 7, item) group by window_start, window_end, item",
        &["1 19 a 3", "13 20 b 1", "2 9 b 1", "31 38 a 1"],
    );
    both(
        "select window_start, window_end, count(*) as n from session(clicks, time, 7) group by window_start, window_end",
        &["1 20 5", "31 38 1"],
    );
}

#[test]
fn windows_over_timestamps() {
    let mut session = with(
        "create table t as select * from (values (timestamp '2024-01-01 00:01:00', 1), (timestamp '2024-01-01 00:06:00', 2)) as t(at, v)",
    );
    check(
        &mut session,
        "select window_start, sum(v) from tumble(table t, descriptor(at), interval '5' minute) group by window_start order by 1",
        &["2024-01-01T00:00:00 1", "2024-01-01T00:05:00 2"],
    );
    check(
        &mut session,
        "select window_end, sum(v) from hop(t, at, interval '5 minutes', '10 minutes') group by window_end order by 1",
        &["2024-01-01T00:05:00 1", "2024-01-01T00:10:00 3", "2024-01-01T00:15:00 2"],
    );
}

#[test]
fn wrong_windows() {
    let mut session = table();
    assert!(wrong(&mut session, "select * from tumble(clicks, time)").contains("tumble(table, time, size)"));
    assert!(wrong(&mut session, "select * from tumble(clicks, itme, 5)").contains("itme"));
    assert!(wrong(&mut session, "select * from cumulate(clicks, time, 3, 10)").contains("multiple"));
    assert!(
        wrong(&mut session, "select * from tumble(clicks, time, interval '1 month')")
            .contains("logical clock")
    );
    assert!(wrong(&mut session, "select * from tumble(clicks, item, 5)").contains("cannot tell time"));
}

#[test]
fn the_columns_of_a_window_are_named_once() {
    for sql in [
        "select item, window_start, window_end, count(*) as n from tumble(clicks, time, 10) group by item, window_start, window_end",
        "select window_end, count(*) as n from hop(clicks, time, 5, 10) group by window_end",
        "select window_end, count(*) as n from hop(clicks, time, 5, 12, offset => 1) group by window_end",
        "select window_end, count(*) as n from hop(clicks, time, 5, 3, closed => 'right') group by window_end",
        "select window_end, count(*) as n from cumulate(clicks, time, 5, 10) group by window_end",
    ] {
        let plan = query(&mut stream(), sql).plan().display_indent().to_string();
        let above: Vec<&str> =
            plan.lines().take_while(|line| !line.contains("WithStart: window_end")).collect();
        let named = above.iter().filter(|line| line.trim_start().starts_with("Projection")).count();
        assert_eq!((above.len(), named), (1, 1), "{sql}\n{plan}");
    }
}

/// What a query runs: its steps, without those that only pick and name columns.
fn steps(stream: &Stream) -> Vec<String> {
    let programs = Programs::new(stream, &Options::default()).unwrap();
    let nodes = programs.stages().stages.iter().flat_map(|stage| &stage.nodes);
    let step = |plan: &LogicalPlan| match plan {
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => None,
        LogicalPlan::Aggregate(aggregate) => {
            let calls: Vec<_> = aggregate.aggr_expr.iter().map(|e| aggregate_of(e).unwrap().1).collect();
            let groups: Vec<_> =
                aggregate.group_expr.iter().map(|e| e.try_as_col().map(|c| &c.name)).collect();
            Some(format!("aggregate by {groups:?}: {calls:?}"))
        }
        other => Some(other.display().to_string()),
    };
    nodes.filter_map(|node| step(&node.plan)).collect()
}

#[test]
fn sql_runs_the_steps_of_the_fluent_program() {
    let timed = clicks().ingress(TimeSpec::point("time"), Default::default()).unwrap();
    let count = vec![("n".to_string(), Agg::count())];
    let windows = |stream: &Stream| stream.tumbling(10_i64, 0_i64, Closed::Left).unwrap();
    let per_item = windows(&timed.rekey(vec![column("item")]).unwrap()).aggregate(count.clone()).unwrap();
    let all = windows(&timed).aggregate(count.clone()).unwrap();
    let hops =
        timed.rekey(vec![column("item")]).unwrap().hopping(10_i64, 5_i64, 0_i64, Closed::Left).unwrap();
    let hops = hops.aggregate(count).unwrap().chop(5_i64, 0_i64).unwrap();
    for (sql, fluent) in [
        (
            "select item, window_start, window_end, count(*) from tumble(table clicks, descriptor(time), 10) group by item, window_start, window_end",
            &per_item,
        ),
        (
            "select count(*), item, window_end from tumble(clicks, time, 10) group by window_end, item",
            &per_item,
        ),
        ("select window_start, count(*) from tumble(clicks, time, 10) group by window_start", &all),
        (
            "select item, window_start, window_end, count(*) as n from hop(clicks, time, 5, 10) group by item, window_start, window_end",
            &hops,
        ),
        // Windows with a name of their own.
        (
            "select w.item, w.window_end, count(*) from tumble(clicks, time, 10) as w group by w.item, w.window_end",
            &per_item,
        ),
    ] {
        let mut ours = steps(&query(&mut stream(), sql));
        // The window's columns are read off the result.
        assert_eq!(ours.pop().as_deref(), Some("WithStart: window_end"), "{sql}");
        assert_eq!(ours, steps(fluent), "{sql}");
    }
}

/// A group that is computed takes the window out of the groups as a column does.
#[test]
fn windows_of_computed_groups_are_read_off_the_result() {
    for sql in [
        "select upper(item) as i, window_end, count(*) from tumble(clicks, time, 10) group by upper(item), window_end",
        "select time % 10, item, window_start, count(*) from hop(clicks, time, 5, 10) group by 1, 2, 3",
        "select item is null as unknown, window_end, count(*) from tumble(clicks, time, 10) as w group by all",
    ] {
        let steps = steps(&query(&mut stream(), sql));
        let ends: Vec<usize> = places(&steps, "WithStart");
        assert_eq!(ends.len(), 1, "{sql}: {steps:?}");
        assert!(places(&steps, "aggregate")[0] < ends[0], "{sql}: {steps:?}");
    }
    // A function of the window and of something else stays a group.
    let sql =
        "select window_end - time as left, window_end, count(*) from tumble(clicks, time, 10) group by 1, 2";
    let steps = steps(&query(&mut stream(), sql));
    assert!(places(&steps, "WithStart")[0] < places(&steps, "aggregate")[0], "{steps:?}");
}

/// Where the steps are that begin so.
fn places(steps: &[String], begin: &str) -> Vec<usize> {
    (0..steps.len()).filter(|step| steps[*step].starts_with(begin)).collect()
}
