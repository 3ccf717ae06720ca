//! Windows that take turns, in place of rows that move by their key: the same rows come out.

use crate::data::*;
use datafusion::logical_expr::lit;
use datafusion::prelude::col;
use whimbrel_plan::nodes::Scope;
use whimbrel_plan::{Agg, AggFunction, Stream, column};
use whimbrel_sharded::action::{collect, to_memory};
use whimbrel_sharded::analyze::explain;
use whimbrel_sharded::{Options, RuntimeKind};
use whimbrel_temporal::Closed;

/// Enough clicks for turns.
const ROWS: usize = 100_000;

/// The clicks by user, in so many shards.
fn by_user(clicks: &Stream, shards: usize) -> Stream {
    let keyed = clicks.rekey(vec![column("user")]).unwrap();
    keyed.redistribute(Some(shards), Scope::Global).unwrap()
}

/// Counts and sums.
fn counted(windows: &Stream) -> Stream {
    let cost = Agg::of(AggFunction::Average, column("cost"));
    windows.aggregate(vec![("n".into(), Agg::count()), ("cost".into(), cost)]).unwrap()
}

/// Whether windows take turns.
fn in_turns(stream: &Stream) -> bool {
    explain(stream, &Options::default()).unwrap().text(false).contains("in turns")
}

/// The rows that come out where shards have the rows that the plan says.
fn by_key(stream: &Stream) -> Vec<String> {
    let kept = to_memory(stream, &Options::default()).unwrap().wait().unwrap();
    let mut rows: Vec<String> = kept.dataset.batches().flat_map(text).collect();
    rows.sort();
    rows
}

fn tumbling(stream: &Stream) -> Stream {
    stream.tumbling(500, 0, Closed::Left).unwrap()
}

#[test]
fn the_same_rows_come_out() {
    let clicks = clicks(ROWS);
    for shards in [1, 2, 5] {
        let moved = by_user(&points(&clicks, shards, 1), 3);
        let cheap = points(&clicks, shards, 1).where_(col("cost").lt(lit(20))).unwrap();
        let many = counted(&tumbling(&moved)).where_(col("n").gt(lit(2))).unwrap();
        for query in [
            counted(&tumbling(&moved)),
            counted(&moved.tumbling(70, 13, Closed::Right).unwrap()),
            counted(&tumbling(&by_user(&cheap, 2))),
            many.select(vec![(column("n") + column("user")).alias("sum")]).unwrap(),
        ] {
            assert!(in_turns(&query), "{}", query.explain().unwrap());
            let expected = by_key(&query);
            for runtime in [RuntimeKind::Library, RuntimeKind::Local] {
                for batch_rows in [100, 80_000] {
                    let options = Options { runtime, batch_rows, queue_capacity: 1, ..Options::default() };
                    assert_eq!(rows(&query, &options), expected, "{shards} shards, {options:?}");
                }
            }
        }
    }
}

#[test]
fn windows_of_one_shard_are_on_all_cores() {
    let clicks = clicks(ROWS);
    let one = points(&clicks, 1, 1);
    let gathered = points(&clicks, 3, 1).reshard(Some(1), Scope::Global).unwrap();
    for stream in [one, gathered] {
        let some = stream.where_(col("cost").gt(lit(20))).unwrap();
        let keyed = some.rekey(vec![column("user"), column("ad")]).unwrap();
        let most = counted(&tumbling(&keyed)).rekey(vec![column("ad")]).unwrap();
        let latest = Agg::of(AggFunction::Max, column("n"));
        for query in [
            counted(&tumbling(&stream)),
            counted(&tumbling(&keyed)),
            counted(&tumbling(&keyed)).session(10_000, None).unwrap(),
            most.aggregate(vec![("n".into(), latest)]).unwrap(),
        ] {
            assert!(in_turns(&query), "{}", query.explain().unwrap());
            let expected = rows_in_order(&query, &library());
            for queue_capacity in [1, 4] {
                let options = Options { queue_capacity, ..Options::default() };
                assert_eq!(rows_in_order(&query, &options), expected);
            }
        }
    }
}

#[test]
fn rows_come_in_the_order_of_time() {
    let query = counted(&tumbling(&by_user(&points(&clicks(ROWS), 2, 1), 2)));
    let table = collect(&query, &Options::default()).unwrap().wait().unwrap();
    let starts: Vec<i64> = table.batches.iter().flat_map(text).map(|row| start_of(&row)).collect();
    assert!(in_turns(&query) && starts.is_sorted());
}

/// The start of a row, which comes first.
fn start_of(row: &str) -> i64 {
    row.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn what_meets_elsewhere_moves_by_its_key() {
    let clicks = points(&clicks(ROWS), 2, 1);
    let moved = by_user(&clicks, 2);
    let counts = counted(&tumbling(&moved));
    let by_ad = clicks.rekey(vec![column("ad")]).unwrap().redistribute(Some(2), Scope::Global).unwrap();
    for query in [
        // Hopping windows overlap.
        counted(&moved.hopping(500, 100, 0, Closed::Left).unwrap()),
        // All rows are in one window.
        counted(&moved.tumbling(1 << 40, 0, Closed::Left).unwrap()),
        // A total of each shard.
        counts.rekey(vec![]).unwrap().aggregate(count()).unwrap(),
        // Rows of one user meet in several shards.
        counted(&tumbling(&by_ad.rekey(vec![column("user")]).unwrap())),
        // Results of one user meet over all windows.
        counts.session(10_000, None).unwrap(),
        counts.union(&counts).unwrap(),
    ] {
        assert!(!in_turns(&query), "{}", query.explain().unwrap());
        assert_eq!(rows(&query, &Options::default()), by_key(&query));
    }
}
