//! Filters and projections below aggregates, whatever the size of the batches that they work on.

use crate::data::*;
use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::prelude::{Expr, lit};
use std::sync::Arc;
use whimbrel_plan::{Agg, AggFunction, Stream, column};
use whimbrel_sharded::Options;
use whimbrel_sharded::action::collect;
use whimbrel_temporal::Closed;

const SIZE: i64 = 4000;

/// Twenty thousand rows in five windows; `cost` as it is told.
fn purchases(cost: impl Fn(i64) -> Option<i64>) -> RecordBatch {
    let costs: Int64Array = (0..20_000).map(cost).collect();
    table(vec![
        ints("time", 0..20_000),
        ints("user", (0..20_000).map(|i| i % 7)),
        (Field::new("cost", DataType::Int64, true), Arc::new(costs)),
    ])
}

/// The count, sum and average of what a query lets pass, by window.
fn summed(stream: Stream) -> Stream {
    let of = |f| Agg::of(f, column("x"));
    let calls = vec![
        ("n".to_string(), Agg::count()),
        ("sum".to_string(), of(AggFunction::Sum)),
        ("mean".to_string(), of(AggFunction::Average)),
    ];
    stream.tumbling(SIZE, 0, Closed::Left).unwrap().aggregate(calls).unwrap()
}

fn x(stream: Stream, x: Expr) -> Stream {
    stream.select(vec![x.alias("x"), column("user")]).unwrap()
}

fn queries() -> Vec<fn(Stream) -> Stream> {
    vec![
        |s| x(s, column("cost") * lit(3_i64) + column("user")),
        |s| x(s.where_(column("cost").lt(lit(500_i64))).unwrap(), column("cost")),
        |s| {
            let few = s.where_(column("user").gt_eq(lit(2_i64)).or(column("cost").eq(lit(1_i64)))).unwrap();
            let doubled = x(few, column("cost") + column("cost"));
            doubled.where_(column("x").not_eq(column("user"))).unwrap()
        },
        |s| x(s.where_(column("cost").gt(lit(2000_i64))).unwrap(), column("cost")),
    ]
}

/// How many rows there are in all windows, and the sum of what they are asked for.
fn totals(rows: &[String]) -> [i64; 2] {
    [2, 3].map(|place| rows.iter().filter_map(|row| row.split(' ').nth(place)?.parse::<i64>().ok()).sum())
}

#[test]
fn the_size_of_batches_does_not_matter() {
    let costs: [fn(i64) -> Option<i64>; 3] = [
        |i| Some(i * 37 % 1000),
        |i| (i % 11 > 0 || i < 9000).then_some(i % 1000),
        // The third product of these is too large, but nothing of it is read.
        |i| Some(if i % 5000 == 17 { i64::MAX / 4 } else { i % 900 }),
    ];
    for cost in costs {
        let rows = purchases(cost);
        for query in queries() {
            let small = Options { batch_rows: 700, ..library() };
            let expected = crate::data::rows(&summed(query(points(&rows, 1, 1))), &small);
            for shards in [1, 2] {
                let stream = summed(query(points(&rows, shards, 1)));
                for batch_rows in [100, 3000, 80_000] {
                    let options = Options { batch_rows, ..library() };
                    let found = crate::data::rows(&stream, &options);
                    // In two shards a window is two rows.
                    match shards {
                        1 => assert_eq!(found, expected),
                        _ => assert_eq!(totals(&found), totals(&expected)),
                    }
                }
            }
        }
    }
}

#[test]
fn a_number_that_is_too_large_is_an_error_if_it_is_asked_for() {
    let rows = purchases(|i| Some(if i == 12_345 { i64::MAX / 2 } else { i }));
    let tripled = |s: Stream| summed(x(s, column("cost") * lit(3_i64)));
    let error = match collect(&tripled(points(&rows, 1, 1)), &library()) {
        Ok(action) => action.wait().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("Overflow") && error.contains("4611686018427387903"), "{error}");
    // What a filter has taken out is not asked by those above it.
    let small = points(&rows, 1, 1).where_(column("cost").lt(lit(20_000_i64))).unwrap();
    let few = x(small, column("cost") * lit(3_i64)).where_(column("x").gt(lit(5_i64))).unwrap();
    assert_eq!(crate::data::rows(&summed(few), &library()).len(), 5);
    let small = points(&rows, 1, 1).where_(column("cost").lt(lit(20_000_i64))).unwrap();
    assert_eq!(crate::data::rows(&tripled(small), &library()).len(), 5);
}
