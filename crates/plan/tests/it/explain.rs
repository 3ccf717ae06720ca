//! How plans read.

use crate::papers::without_bots;
use crate::support::*;
use arrow::datatypes::DataType;
use datafusion::logical_expr::lit;
use whimbrel_plan::nodes::TimeSpec;
use whimbrel_plan::{Agg, AggFunction, JoinKind, Scope, Stream, column};
use whimbrel_temporal::operators::SessionCap;
use whimbrel_temporal::{Disorder, IngressOptions, OnCompleted, Punctuate};

/// Compares with a file beside this one. `BLESS=1 cargo test` writes the files anew.
#[track_caller]
fn reads(stream: &Stream, golden: &str) {
    let text = stream.explain().unwrap();
    let path = format!("tests/it/golden/{golden}");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "\n{text}");
}

#[test]
fn the_bots() {
    reads(&without_bots(), "bots.txt");
}

#[test]
fn relations() {
    let dear = Agg::of(AggFunction::Sum, column("price") * lit(2)).filter(column("user").gt(lit(0_i64)));
    let stream = click_table()
        .where_(column("item").eq(lit("shoe")))
        .unwrap()
        .with_columns(vec![(column("price") / lit(100.0)).alias("price"), column("user").alias("who")])
        .unwrap()
        .rekey(vec![column("item")])
        .unwrap()
        .aggregate(vec![("n".into(), Agg::count()), ("dear".into(), dear)])
        .unwrap()
        .sort(vec![column("n").sort(false, false), column("item").sort(true, true)])
        .unwrap()
        .limit(5, Some(10))
        .unwrap();
    reads(&stream, "relations.txt");
}

#[test]
fn every_other_step() {
    let a = clicks()
        .select_many(column("tags"), "tag")
        .unwrap()
        .with_start("at")
        .unwrap()
        .rekey(vec![column("user")])
        .unwrap()
        .session("30m", Some(SessionCap::After("2h".into())))
        .unwrap()
        .clip_constant("1h")
        .unwrap();
    let b = a.shift("5m").unwrap().point_at_end().unwrap().distinct().unwrap();
    let stream = a
        .clip(&b, vec![])
        .unwrap()
        .union(&b)
        .unwrap()
        .join(&b, vec![], JoinKind::Full, "_b")
        .unwrap()
        .select(vec![column("tag"), (column("price") + column("price_b")).alias("sum")])
        .unwrap()
        .multicast(lit(1_i64), Some(2), Scope::Global)
        .unwrap()
        .reshard(Some(6), Scope::Local)
        .unwrap();
    reads(&stream, "every_other_step.txt");
}

#[test]
fn options_of_ingress() {
    let options = IngressOptions {
        disorder: Disorder::Drop,
        reorder_latency: 5_000_000,
        punctuate: Punctuate::Every(60_000_000),
        on_completed: OnCompleted::Flush,
        batch_rows: 1000,
        idle: Some(std::time::Duration::from_secs(30)),
    };
    let stream = click_table().ingress(TimeSpec::point("time"), options).unwrap();
    let first = stream.explain().unwrap().lines().next().unwrap().to_string();
    assert!(
        first.starts_with(
            "events at time, reorder within 5s, late rows dropped, punctuation every 1m, idle after 30s, \
            flushes when its input ends, batches of 1000 rows  | "
        ),
        "{first}"
    );
}

#[test]
fn the_same_plan_gives_the_same_text() {
    assert_eq!(without_bots().explain().unwrap(), without_bots().explain().unwrap());
}

#[test]
fn joins_of_other_kinds() {
    let t = |name: &str| table(name, &[("k", DataType::Int64), (name, DataType::Int64)]);
    let on = || vec![(column("k"), column("k"))];
    let stream = t("a")
        .join(&t("b"), on(), JoinKind::Left, "_right")
        .unwrap()
        .join(&t("c"), vec![], JoinKind::Cross, "_c")
        .unwrap()
        .where_exists(&t("d"), vec![(column("b"), column("d"))])
        .unwrap();
    reads(&stream, "joins.txt");
}
