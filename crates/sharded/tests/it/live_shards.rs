//! Relations over live sources in several shards: the same answer as in one, and as over a table.

use crate::data::*;
use crate::maintained::folded;
use datafusion::arrow::array::RecordBatch;
use datafusion::prelude::lit;
use std::sync::{Arc, Mutex};
use whimbrel_plan::nodes::Scope::Global;
use whimbrel_plan::{Agg, AggFunction, JoinKind, Stream, TimeSpec, column};
use whimbrel_sharded::Options;
use whimbrel_sharded::action::subscribe;
use whimbrel_sharded::dataset::LiveDataset;
use whimbrel_sharded::error::ErrorKind;
use whimbrel_temporal::IngressOptions;

/// A live source with so many shards, to which these rows were sent round-robin in batches of `by` rows.
fn live_source(rows: &RecordBatch, shards: usize, by: usize) -> Stream {
    let (source, senders) = LiveDataset::new(rows.schema(), shards).unwrap();
    for (number, start) in (0..rows.num_rows()).step_by(by).enumerate() {
        senders[number % shards].push(rows.slice(start, by.min(rows.num_rows() - start))).unwrap();
    }
    Stream::scan("live", source).unwrap()
}

/// The changes of a stream, batch by batch, from all shards.
fn change_batches(stream: &Stream, options: &Options) -> Vec<RecordBatch> {
    let seen: Arc<Mutex<Vec<RecordBatch>>> = Arc::default();
    let keep = seen.clone();
    let job = subscribe(&stream.changes().unwrap(), options, move |_, rows| {
        keep.lock().unwrap().push(rows);
        Ok(())
    });
    job.unwrap().wait().unwrap();
    std::mem::take(&mut *seen.lock().unwrap())
}

fn users() -> RecordBatch {
    table(vec![ints("user", 0..30), texts("name", (0..30).map(|i| format!("user{}", i % 7)))])
}

fn by(stream: &Stream, key: &str, shards: usize) -> Stream {
    stream.rekey(vec![column(key)]).unwrap().redistribute(Some(shards), Global).unwrap()
}

fn join(left: &Stream, right: &Stream, kind: JoinKind) -> Stream {
    left.join(right, vec![(column("user"), column("user"))], kind, "_right").unwrap()
}

/// A query over clicks and users, in so many shards.
type Query = fn(&Stream, &Stream, usize) -> Stream;

/// The sum of costs by name, with users that have no clicks.
fn bill(clicks: &Stream, users: &Stream, shards: usize) -> Stream {
    let joined = join(&by(users, "user", shards), &by(clicks, "user", shards), JoinKind::Left);
    let paid = vec![
        ("clicks".to_string(), Agg::of(AggFunction::Count, column("cost"))),
        ("most".to_string(), Agg::of(AggFunction::Max, column("cost"))),
        ("ads".to_string(), Agg::of(AggFunction::CountDistinct, column("ad"))),
    ];
    by(&joined, "name", shards).aggregate(paid).unwrap()
}

/// The clicks of users that exist, with their names.
fn clicks_of_users(clicks: &Stream, users: &Stream, shards: usize) -> Stream {
    let anywhere = clicks.reshard(Some(shards), Global).unwrap();
    let everywhere = users.broadcast(Some(shards), Global).unwrap();
    let joined = join(&anywhere, &everywhere, JoinKind::Semi);
    let to = column("user") % lit(shards as i64);
    joined.multicast(to, Some(shards), Global).unwrap().select(vec![column("ad"), column("cost")]).unwrap()
}

/// The most expensive ads: the first rows of all are among the first of every shard.
fn dearest(clicks: &Stream, _: &Stream, shards: usize) -> Stream {
    let total = vec![("total".to_string(), Agg::of(AggFunction::Sum, column("cost")))];
    let totals = by(clicks, "ad", shards).aggregate(total).unwrap();
    let first = |totals: &Stream| {
        let order = vec![column("total").sort(false, false), column("ad").sort(true, false)];
        totals.sort(order).unwrap().limit(0, Some(4)).unwrap()
    };
    first(&first(&totals).reshard(Some(1), Global).unwrap())
}

#[test]
fn the_last_snapshot_is_the_answer_over_the_same_rows() {
    let (clicks, users) = (clicks(300), users());
    let queries: [(&str, Query); 3] = [("bill", bill), ("known", clicks_of_users), ("dearest", dearest)];
    for (name, query) in queries {
        let expected = rows(&query(&relation(&clicks, 1, 1), &relation(&users, 1, 1), 1), &library());
        for (sources, shards) in [(1, 1), (1, 2), (2, 1), (2, 3), (3, 3), (4, 2)] {
            for options in [library(), local()] {
                let live = |rows, size| live_source(rows, sources, size);
                let query = query(&live(&clicks, 17), &live(&users, 4), shards);
                assert_eq!(query.properties().shards, if name == "dearest" { 1 } else { shards });
                let found = folded(&change_batches(&query, &options));
                assert_eq!(found, expected, "{name}: {sources} to {shards} shards, {options:?}");
            }
        }
    }
}

#[test]
fn at_the_end_the_answer_is_that_of_a_table() {
    let clicks = clicks(300);
    let expected =
        rows_in_order(&dearest(&relation(&clicks, 1, 1), &relation(&users(), 1, 1), 1), &library());
    for shards in 1..4 {
        for options in [library(), local()] {
            assert_eq!(
                rows_in_order(
                    &dearest(&live_source(&clicks, shards, 17), &relation(&users(), 1, 1), shards),
                    &options
                ),
                expected
            );
            let totals = |clicks: &Stream| by(clicks, "ad", shards).aggregate(count()).unwrap();
            let expected = rows(&totals(&relation(&clicks, 1, 1)), &options);
            assert_eq!(rows(&totals(&live_source(&clicks, 2, 17)), &options), expected);
        }
    }
}

#[test]
fn rows_stay_in_their_shards_without_an_exchange() {
    let clicks = clicks(90);
    let sizes = |stream: &Stream| {
        let counted = stream.aggregate(count()).unwrap();
        let mut sizes = folded(&change_batches(&counted, &local()));
        sizes.sort();
        sizes
    };
    assert_eq!(sizes(&live_source(&clicks, 3, 40)), ["10", "40", "40"]);
    assert_eq!(sizes(&live_source(&clicks, 1, 40)), ["90"]);
}

#[test]
fn rows_that_arrive_together_are_seen_together_in_all_shards() {
    // Every push moves money between accounts, so the sum stays the same.
    let shards = 3;
    let (source, senders) =
        LiveDataset::new(table(vec![ints("account", []), ints("amount", [])]).schema(), 2).unwrap();
    let accounts = by(&Stream::scan("live", source).unwrap(), "account", shards);
    let amount = |name: &str| vec![("amount".to_string(), Agg::of(AggFunction::Sum, column(name)))];
    let balances = accounts.aggregate(amount("amount")).unwrap();
    let all = balances.reshard(Some(1), Global).unwrap().rekey(vec![]).unwrap();
    let all = all.aggregate(amount("amount")).unwrap();
    let mut random = Random(3);
    for push in 0..200 {
        let (from, to, amount) = (random.below(20), random.below(20), random.below(1000));
        let rows = table(vec![ints("account", [from, to]), ints("amount", [-amount, amount])]);
        senders[push % 2].push(rows).unwrap();
    }
    drop(senders);
    let seen: Vec<String> = change_batches(&all, &local()).iter().flat_map(text).collect();
    let wrong: Vec<&String> =
        seen.iter().filter(|row| !["1 0", "1 null", "-1 null"].contains(&row.as_str())).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(seen.last().map(String::as_str), Some("1 0"));
}

#[test]
fn a_source_that_is_read_twice_in_shards_is_read_once() {
    let clicks = clicks(100);
    let twice = |clicks: &Stream, shards: usize| {
        let costs = by(&clicks.select(vec![column("user"), column("cost")]).unwrap(), "user", shards);
        let ads = clicks.select(vec![column("user"), column("ad")]).unwrap();
        join(&costs, &ads.broadcast(Some(shards), Global).unwrap(), JoinKind::Inner)
    };
    let expected = rows(&twice(&relation(&clicks, 1, 1), 1), &library());
    for (sources, shards) in [(1, 2), (2, 3)] {
        for options in [library(), local()] {
            assert_eq!(rows(&twice(&live_source(&clicks, sources, 9), shards), &options), expected);
        }
    }
}

#[test]
fn events_meet_a_table_at_rest_in_any_number_of_shards() {
    let (clicks, users) = (clicks(300), relation(&users(), 1, 1));
    let timed = |clicks: &Stream| clicks.ingress(TimeSpec::point("time"), IngressOptions::default()).unwrap();
    let copied = |clicks: &Stream, shards: usize| {
        let everywhere = users.broadcast(Some(shards), Global).unwrap();
        join(&clicks.reshard(Some(shards), Global).unwrap(), &everywhere, JoinKind::Inner)
    };
    let moved = |clicks: &Stream, shards: usize| {
        join(&by(clicks, "user", shards), &by(&users, "user", shards), JoinKind::Inner)
    };
    let expected = changes(&copied(&timed(&relation(&clicks, 1, 1)), 1), &library());
    assert_eq!(expected.len(), 224);
    for shards in 1..4 {
        let live = || timed(&live_source(&clicks, 1, 17));
        for stream in [copied(&live(), shards), moved(&live(), shards)] {
            assert_eq!(changes(&stream, &local()), expected, "{shards} shards");
        }
    }
}

#[test]
fn events_do_not_meet_rows_that_come_without_a_time() {
    let clicks =
        live_source(&clicks(10), 1, 1).ingress(TimeSpec::point("time"), IngressOptions::default()).unwrap();
    let on = vec![(column("user"), column("user"))];
    let error = clicks.join(&live_source(&users(), 1, 1), on, JoinKind::Inner, "_right").unwrap_err();
    assert_eq!(ErrorKind::of(&error), ErrorKind::Invalid);
    assert!(error.to_string().contains("which came first"), "{error}");
}
