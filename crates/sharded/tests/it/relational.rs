//! Tables: bounded and without time, so every stage is DataFusion's.

use crate::data::*;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, StringViewArray};
use datafusion::arrow::datatypes::{Field, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::prelude::{Expr, lit};
use std::sync::Arc;
use whimbrel_plan::nodes::Scope;
use whimbrel_plan::{Agg, AggFunction, JoinKind, Stream, column};
use whimbrel_sharded::action::collect;
use whimbrel_sharded::stage::{Kind, cut};

fn check(query: &Stream, expected: &[&str]) {
    for options in [library(), local()] {
        assert_eq!(rows(query, &options), expected);
    }
}

fn small() -> Stream {
    let table = table(vec![texts("k", ["a", "b", "a", "c"]), ints("v", [1, 2, 3, 4])]);
    relation(&table, 1, 1)
}

#[test]
fn rows_are_filtered_and_computed() {
    let query = small().where_(column("v").gt(lit(1_i64))).unwrap();
    let query = query.select(vec![(column("v") * lit(10_i64)).alias("w"), column("k")]).unwrap();
    check(&query, &["20 b", "30 a", "40 c"]);
}

/// A decimal of 38 digits, `scale` of them behind the point.
fn decimals(name: &str, scale: i8, values: &[Option<i128>]) -> (Field, ArrayRef) {
    let values = Decimal128Array::from_iter(values.iter().copied());
    let values = values.with_precision_and_scale(38, scale).unwrap();
    (Field::new(name, values.data_type().clone(), true), Arc::new(values))
}

#[test]
fn decimals_are_computed_whatever_their_size() {
    let large = 10_i128.pow(20);
    let a = decimals("a", 2, &[Some(150), Some(-large), None, Some(i64::MIN.into())]);
    let b = decimals("b", 4, &[Some(25), Some(30_000), Some(1), Some(10_000)]);
    let input = relation(&table(vec![a, b]), 1, 1);
    let (a, b) = (|| column("a"), || column("b"));
    let half = || lit(ScalarValue::Decimal128(Some(5), 2, 1));
    for (computed, expected) in [
        (a() + b(), ["-92233720368547757.0800", "-999999999999999997.0000", "1.5025", "null"]),
        (b() - a(), ["-1.4975", "1000000000000000003.0000", "92233720368547759.0800", "null"]),
        (a() * half(), ["-46116860184273879.040", "-500000000000000000.000", "0.750", "null"]),
        (half() - a(), ["-1.00", "1000000000000000000.50", "92233720368547758.58", "null"]),
    ] {
        check(&input.select(vec![computed.alias("c")]).unwrap(), &expected);
    }
}

#[test]
fn a_decimal_that_is_too_large_is_an_error() {
    let a = decimals("a", 0, &[Some(10_i128.pow(37))]);
    let query = relation(&table(vec![a]), 1, 1).select(vec![(column("a") * column("a")).alias("b")]).unwrap();
    for options in [library(), local()] {
        let told = collect(&query, &options).unwrap().wait().unwrap_err().to_string();
        assert!(told.contains("verflow"), "{told}");
    }
}

#[test]
fn rows_are_aggregated() {
    let average = Agg::of(AggFunction::Average, column("v"));
    let big = Agg::count().filter(column("v").gt(lit(2_i64)));
    let query = small().rekey(vec![column("k")]).unwrap();
    let query = query.aggregate(vec![("mean".into(), average), ("big".into(), big)]).unwrap();
    check(&query, &["a 2.0 1", "b 2.0 0", "c 4.0 1"]);
    check(&small().aggregate(count()).unwrap(), &["4"]);
}

#[test]
fn rows_are_sorted_and_limited() {
    let query = small().sort(vec![column("v").sort(false, false)]).unwrap().limit(1, Some(2)).unwrap();
    for options in [library(), local()] {
        assert_eq!(rows_in_order(&query, &options), ["a 3", "b 2"]);
    }
}

#[test]
fn a_limit_ends_what_feeds_it() {
    let many = relation(&clicks(100_000), 4, 1).reshard(Some(1), Scope::Global).unwrap();
    let query = many.limit(0, Some(3)).unwrap();
    for options in [library(), local()] {
        assert_eq!(rows(&query, &options).len(), 3);
    }
}

#[test]
fn tables_are_joined_in_every_way() {
    let right = table(vec![texts("k", ["a", "b", "d", "a"]), ints("w", [10, 20, 30, 40])]);
    let joined = |kind| {
        let on: Vec<(Expr, Expr)> = match kind {
            JoinKind::Cross => vec![],
            _ => vec![(column("k"), column("k"))],
        };
        small().join(&relation(&right, 1, 1), on, kind, "_right").unwrap()
    };
    check(&joined(JoinKind::Inner), &["a 1 10", "a 1 40", "a 3 10", "a 3 40", "b 2 20"]);
    check(&joined(JoinKind::Left), &["a 1 10", "a 1 40", "a 3 10", "a 3 40", "b 2 20", "c 4 null"]);
    check(&joined(JoinKind::Semi), &["a 1", "a 3", "b 2"]);
    check(&joined(JoinKind::Anti), &["c 4"]);
    let full = ["a 1 10", "a 1 40", "a 3 10", "a 3 40", "b 2 20", "c 4 null", "d null 30"];
    check(&joined(JoinKind::Full), &full);
    assert_eq!(rows(&joined(JoinKind::Cross), &local()).len(), 16);
}

#[test]
fn a_union_keeps_the_order_of_its_branches() {
    let (low, high) = (column("v").lt(lit(3_i64)), column("v").gt_eq(lit(3_i64)));
    let query = small().where_(high).unwrap().union(&small().where_(low).unwrap()).unwrap();
    for options in [library(), local()] {
        assert_eq!(rows_in_order(&query, &options), ["a 3", "c 4", "a 1", "b 2"]);
    }
    let total = Agg::of(AggFunction::Sum, column("v"));
    check(&query.aggregate(vec![("total".into(), total)]).unwrap(), &["10"]);
    check(&query.distinct().unwrap(), &["a 1", "a 3", "b 2", "c 4"]);
}

/// A join sends one filter to all partitions of its probe side.
#[test]
fn a_join_over_a_union_does_not_wait_for_branches_that_are_not_read_yet() {
    let union = small().union(&small()).unwrap().union(&small()).unwrap();
    let few = relation(&table(vec![texts("k", ["a"]), ints("w", [10])]), 1, 1);
    let on = vec![(column("k"), column("k"))];
    let query = few.join(&union, on, JoinKind::Inner, "_right").unwrap();
    check(&query, &["a 10 1", "a 10 1", "a 10 1", "a 10 3", "a 10 3", "a 10 3"]);
}

/// A name for each `id`, and two larger tables, each of which refers to the one before.
#[test]
fn string_views_of_nested_joins_have_few_buffers() {
    let name =
        |id: i64| if id % 20 == 0 { format!("a name that is not short {id}") } else { format!("{id}") };
    let names: StringViewArray = (0..1_000).map(|id| Some(name(id))).collect();
    let names: (Field, ArrayRef) = (Field::new("name", names.data_type().clone(), true), Arc::new(names));
    let first = relation(&table(vec![ints("id", 0..1_000), names]), 1, 1);
    let next = |rows: i64, of: &str, id: &str| {
        relation(&table(vec![ints(of, (0..rows).map(|row| row / 20)), ints(id, 0..rows)]), 1, 1)
    };
    let on = |id: &str, of: &str| vec![(column(id), column(of))];
    let both = first.join(&next(20_000, "of_id", "second"), on("id", "of_id"), JoinKind::Inner, "_right");
    let all = both.unwrap().join(
        &next(400_000, "of_second", "third"),
        on("second", "of_second"),
        JoinKind::Inner,
        "_right",
    );
    let result = collect(&all.unwrap(), &library()).unwrap().wait().unwrap();
    assert_eq!(result.batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 400_000);
    for batch in &result.batches {
        let (names, ids) = (batch["name"].as_string_view(), batch["id"].as_primitive::<Int64Type>());
        assert!((0..batch.num_rows()).all(|row| names.value(row) == name(ids.value(row))));
        assert!(names.data_buffers().len() < 10, "{} buffers", names.data_buffers().len());
    }
}

#[test]
fn shared_subplans_are_computed_once() {
    let costly = small().where_(column("v").gt(lit(1_i64))).unwrap();
    let query = costly.join(&costly, vec![(column("k"), column("k"))], JoinKind::Inner, "_right").unwrap();
    check(&query, &["a 3 3", "b 2 2", "c 4 4"]);
    let stages = cut(query.plan()).unwrap();
    assert_eq!(stages.stages.len(), 2);
    assert!(stages.stages.iter().all(|s| s.kind == Kind::Relational));
    assert_eq!(stages.edges_out(0), 2);
}

#[test]
fn results_do_not_depend_on_timing() {
    let query = relation(&clicks(20_000), 8, 1).rekey(vec![column("user")]).unwrap();
    let query = query.redistribute(Some(3), Scope::Global).unwrap();
    let first = Agg::of(AggFunction::First, column("cost"));
    let query = query.aggregate(vec![("first".into(), first), ("n".into(), Agg::count())]).unwrap();
    let expected = rows_in_order(&query, &library());
    for _ in 0..5 {
        assert_eq!(rows_in_order(&query, &local()), expected);
    }
}

#[test]
fn every_shard_is_queried_by_itself() {
    let clicks = clicks(1000);
    for shards in [1, 2, 3, 8] {
        let counts = rows(&relation(&clicks, shards, 1).aggregate(count()).unwrap(), &local());
        let counts: Vec<usize> = counts.iter().map(|n| n.parse().unwrap()).collect();
        assert_eq!(counts.len(), shards);
        assert_eq!(counts.iter().sum::<usize>(), 1000);
        assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
    }
}

#[test]
fn an_empty_table_has_an_answer() {
    let empty = clicks(0);
    for shards in [1, 3] {
        let keyed = relation(&empty, shards, 1).rekey(vec![column("ad")]).unwrap();
        let query = keyed.redistribute(None, Scope::Global).unwrap().aggregate(count()).unwrap();
        check(&query, &[]);
    }
}
