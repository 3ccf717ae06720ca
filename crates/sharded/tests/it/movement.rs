//! Exchanges: which rows go to which shard.

use crate::data::*;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::prelude::lit;
use std::collections::HashSet;
use whimbrel_plan::nodes::Scope;
use whimbrel_plan::{Duration, JoinKind, Stream, TimeSpec, column};
use whimbrel_sharded::action::to_memory;
use whimbrel_sharded::error::ErrorKind;
use whimbrel_temporal::{Closed, IngressOptions};

/// The rows of each shard, in order, as text.
fn shards(stream: &Stream, library_mode: bool) -> Vec<Vec<String>> {
    let options = if library_mode { library() } else { local() };
    let memory = to_memory(stream, &options).unwrap().wait().unwrap();
    memory.dataset.shards().iter().map(|shard| shard.iter().flat_map(text).collect()).collect()
}

fn sizes(stream: &Stream) -> Vec<usize> {
    let sizes: Vec<usize> = shards(stream, false).iter().map(Vec::len).collect();
    let again: Vec<usize> = shards(stream, true).iter().map(Vec::len).collect();
    assert_eq!(sizes, again);
    sizes
}

#[test]
fn broadcast_copies_to_every_shard() {
    let clicks = clicks(100);
    for stream in [relation(&clicks, 2, 1), points(&clicks, 2, 1)] {
        assert_eq!(sizes(&stream.broadcast(Some(3), Scope::Global).unwrap()), [100, 100, 100]);
    }
    let within = points(&clicks, 4, 2).broadcast(None, Scope::Local).unwrap();
    assert_eq!(sizes(&within), [50, 50, 50, 50]);
}

#[test]
fn reshard_makes_equal_shards() {
    let clicks = clicks(1001);
    for (from, to) in [(1, 1), (1, 4), (4, 2), (3, 5)] {
        for stream in [relation(&clicks, from, 1), points(&clicks, from, 1)] {
            let sizes = sizes(&stream.reshard(Some(to), Scope::Global).unwrap());
            assert_eq!(sizes.iter().sum::<usize>(), 1001);
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= from, "{sizes:?}");
        }
    }
}

#[test]
fn redistribute_brings_equal_keys_together() {
    let clicks = clicks(1000);
    for (shards_in, groups, scope) in [(1, 1, Scope::Global), (3, 1, Scope::Global), (4, 2, Scope::Local)] {
        let keyed = points(&clicks, shards_in, groups).rekey(vec![column("user")]).unwrap();
        let moved = keyed.redistribute(Some(4), scope).unwrap();
        let users = moved.select(vec![column("user")]).unwrap();
        let shards = shards(&users, false);
        assert_eq!(shards.iter().map(Vec::len).sum::<usize>(), 1000);
        let users: Vec<HashSet<&str>> = shards
            .iter()
            .map(|s| s.iter().map(|row| row.split(' ').next_back().unwrap()).collect())
            .collect();
        let members =
            if scope == Scope::Local { vec![vec![0, 1], vec![2, 3]] } else { vec![vec![0, 1, 2, 3]] };
        for group in members {
            for a in &group {
                assert!(users[*a].len() > 1);
                assert!(group.iter().filter(|b| b != &a).all(|b| users[*a].is_disjoint(&users[*b])));
            }
        }
    }
}

#[test]
fn shards_stay_in_order_of_time() {
    let clicks = clicks(3000);
    let keyed = points(&clicks, 8, 1).rekey(vec![column("user")]).unwrap();
    for stream in [
        keyed.redistribute(Some(3), Scope::Global).unwrap(),
        keyed.reshard(Some(3), Scope::Global).unwrap(),
        keyed.broadcast(Some(2), Scope::Global).unwrap(),
    ] {
        for shard in shards(&stream, false) {
            let times: Vec<i64> =
                shard.iter().map(|row| row.split(' ').next().unwrap().parse().unwrap()).collect();
            assert!(times.is_sorted());
        }
    }
}

#[test]
fn multicast_goes_to_the_shards_that_rows_name() {
    let table = table(vec![ints("time", 0..6), ints("a", [0, 1, 2, 0, 1, 2]), ints("b", [2, 2, 2, 0, 0, 0])]);
    for stream in [relation(&table, 1, 1), points(&table, 1, 1)] {
        let one = stream.multicast(column("a"), Some(3), Scope::Global).unwrap();
        assert_eq!(sizes(&one), [2, 2, 2]);
        let two =
            stream.multicast(make_array(vec![column("a"), column("b")]), Some(3), Scope::Global).unwrap();
        assert_eq!(sizes(&two), [5, 2, 5]);
        let wrong = stream.multicast(column("a") + lit(1_i64), Some(3), Scope::Global).unwrap();
        let error = to_memory(&wrong, &local()).unwrap().wait().unwrap_err();
        assert_eq!(ErrorKind::of(&error), ErrorKind::Data);
        assert!(error.to_string().contains("goes to shard 3, but the shards are 0 to 2"), "{error}");
    }
}

#[test]
fn an_end_edge_follows_its_start() {
    let mut random = Random(5);
    let mut events = Vec::new();
    for id in 0..200 {
        let start = random.below(100);
        events.push((start, id, start, None));
        let end = start + 1 + random.below(50);
        events.push((end, id, start, Some(end)));
    }
    events.sort();
    let ends = datafusion::arrow::array::Int64Array::from_iter(events.iter().map(|e| e.3));
    let field =
        datafusion::arrow::datatypes::Field::new("to", datafusion::arrow::datatypes::DataType::Int64, true);
    let kinds: Vec<&str> = events.iter().map(|e| if e.3.is_some() { "end" } else { "start" }).collect();
    let rows = table(vec![
        ints("from", events.iter().map(|e| e.2)),
        (field, std::sync::Arc::new(ends)),
        texts("kind", kinds),
        ints("id", events.iter().map(|e| e.1 % 20)),
    ]);
    let edges = relation(&rows, 1, 1);
    let edges = edges.ingress(TimeSpec::edges("from", "to", "kind"), IngressOptions::default()).unwrap();
    let expected = changes(&edges, &library());
    assert_eq!(expected.len(), 20);
    for options in [library(), local()] {
        assert_eq!(changes(&edges.reshard(Some(3), Scope::Global).unwrap(), &options), expected);
        let keyed = edges.rekey(vec![column("id")]).unwrap();
        assert_eq!(changes(&keyed.redistribute(Some(3), Scope::Global).unwrap(), &options), expected);
    }
}

#[test]
fn a_stream_joins_itself_through_an_exchange() {
    let clicks = clicks(600);
    let windows = |shards| {
        let points = points(&clicks, shards, 1).rekey(vec![column("user")]).unwrap();
        points.alter_duration(Some(Duration::Ticks(20))).unwrap()
    };
    // Each click with the total at its time.
    let query = |s: Stream, shards| {
        let load = s
            .rekey(vec![])
            .unwrap()
            .aggregate(count())
            .unwrap()
            .broadcast(Some(shards), Scope::Global)
            .unwrap();
        s.rekey(vec![]).unwrap().join(&load, vec![], JoinKind::Cross, "_right").unwrap()
    };
    let expected = changes(&query(windows(1), 1), &library());
    for options in [library(), local()] {
        assert_eq!(changes(&query(windows(1), 1), &options), expected);
        let moved = windows(4).redistribute(None, Scope::Global).unwrap();
        let n = changes(&query(moved, 4), &options).len();
        assert!(n > 0);
        // Over tables too.
        let table = relation(&clicks, 3, 1).rekey(vec![column("user")]).unwrap();
        let moved = table.redistribute(None, Scope::Global).unwrap();
        let both = moved.aggregate(count()).unwrap().redistribute(None, Scope::Global).unwrap();
        let joined = moved.join(&both, vec![], JoinKind::Inner, "_right").unwrap();
        assert_eq!(rows(&joined, &options).len(), 600);
    }
}

#[test]
fn paths_of_different_lengths_meet() {
    let clicks = clicks(3000);
    for shards in [1, 2, 8] {
        let points = points(&clicks, shards, 1).alter_duration(Some(Duration::Ticks(1))).unwrap();
        let keyed = points.rekey(vec![column("user")]).unwrap();
        // One path buffers for long, the other sends rows twice.
        let slow = keyed.shift(500).unwrap().redistribute(None, Scope::Global).unwrap().shift(-500).unwrap();
        let fast = keyed.reshard(None, Scope::Global).unwrap().redistribute(None, Scope::Global).unwrap();
        let query = slow.join(&fast, vec![], JoinKind::Inner, "_right").unwrap().aggregate(count()).unwrap();
        assert_eq!(changes(&query, &local()), changes(&query, &library()), "{shards} shards");
    }
}

#[test]
fn windows_are_moved_between_numbers_of_shards() {
    let clicks = clicks(2000);
    let query = |shards, to| {
        let keyed = points(&clicks, shards, 1).rekey(vec![column("ad")]).unwrap();
        let moved = keyed.redistribute(Some(to), Scope::Global).unwrap();
        moved.tumbling(25, 0, Closed::Left).unwrap().aggregate(count()).unwrap()
    };
    let expected = changes(&query(1, 1), &library());
    for (from, to) in [(1, 2), (2, 1), (3, 8), (8, 3)] {
        for options in [library(), local()] {
            assert_eq!(changes(&query(from, to), &options), expected, "{from} to {to} shards");
        }
    }
}

/// All rows at one instant, or with one key: one channel has everything.
#[test]
fn skew_does_not_deadlock() {
    let n = 3000;
    for (times, users) in [(0, 40), (n, 1), (0, 1)] {
        let mut random = Random(3);
        let times: Vec<i64> = (0..n).map(|i| i.min(times)).collect();
        let users: Vec<i64> = (0..n).map(|_| random.below(users)).collect();
        let rows = table(vec![ints("time", times), ints("user", users)]);
        let query = |stream: &Stream| {
            let keyed =
                stream.rekey(vec![column("user")]).unwrap().redistribute(None, Scope::Global).unwrap();
            let counts = keyed.aggregate(count()).unwrap().broadcast(None, Scope::Global).unwrap();
            keyed.where_exists(&counts, vec![]).unwrap().redistribute(None, Scope::Global).unwrap()
        };
        for shards in [2, 8] {
            let stream = query(&points(&rows, shards, 1));
            assert_eq!(changes(&stream, &local()), changes(&stream, &library()));
            let table = query(&relation(&rows, shards, 1));
            assert_eq!(rows_in_order(&table, &local()), rows_in_order(&table, &library()));
        }
    }
}
