//! Relations become streams.

use crate::support::*;
use arrow::datatypes::{DataType, Field, Schema};
use std::sync::Arc;
use whimbrel_plan::nodes::TimeSpec;
use whimbrel_plan::{Node, SourceInfo, Stream, column, node};
use whimbrel_temporal::{IngressOptions, Lifetimes, Punctuate};

fn at(fields: &[(&str, DataType)], time: TimeSpec) -> datafusion::common::Result<Stream> {
    table("rows", fields).ingress(time, IngressOptions::default())
}

#[test]
fn points_keep_their_time_column() {
    let stream = clicks();
    assert_eq!(
        columns(&stream),
        "time: timestamp(us)?, user: int64?, item: string?, price: float64?, tags: list(string)?"
    );
    let known = stream.properties();
    assert_eq!(known.time, Some(micros()));
    assert_eq!(known.lifetimes, Lifetimes::Points);
    assert_eq!((known.bounded, known.shards, known.groups), (true, 2, 1));
    assert!(known.key.is_empty());
}

#[test]
fn ingress_stands_on_the_table_itself() {
    let stream = clicks();
    let Some(Node::Ingress(ingress)) = node(stream.plan()) else { panic!("no ingress") };
    assert!(matches!(*ingress.input, datafusion::logical_expr::LogicalPlan::TableScan(_)));
}

#[test]
fn intervals_are_known_to_be_so_only_if_every_end_is_known() {
    assert_eq!(stays(true).properties().lifetimes, Lifetimes::Intervals);
    assert_eq!(stays(false).properties().lifetimes, Lifetimes::Any);
    assert_eq!(names(&stays(true)), "arr dep guest");
}

#[test]
fn edges_lose_their_three_columns() {
    let fields =
        [("v", DataType::Int32), ("s", DataType::Int64), ("e", DataType::Int64), ("what", DataType::Utf8)];
    let stream = at(&fields, TimeSpec::edges("s", "e", "what")).unwrap();
    assert_eq!(names(&stream), "v");
    assert_eq!(stream.properties().lifetimes, Lifetimes::Any);
    assert_eq!(stream.properties().time, Some(DataType::Int64));
}

#[test]
fn the_key_of_a_relation_stays() {
    let keyed = click_table().rekey(vec![column("item")]).unwrap();
    let stream = keyed.ingress(TimeSpec::point("time"), IngressOptions::default()).unwrap();
    assert_eq!(stream.properties().key, ["item"]);
}

#[test]
fn columns_that_cannot_tell_time() {
    let fields = [("itme", DataType::Int64), ("day", DataType::Date32), ("kind", DataType::Int8)];
    assert_eq!(
        invalid(at(&fields, TimeSpec::point("time"))),
        "column \"time\" not found; did you mean \"itme\"? columns: itme, day, kind"
    );
    assert_eq!(
        invalid(at(&fields, TimeSpec::point("day"))),
        "time column \"day\" is date, which cannot tell time; cast it to a timestamp, or to int64 for a \
        logical clock"
    );
    assert_eq!(
        invalid(at(&fields, TimeSpec::interval("itme", "day"))),
        "start and end have to be of one type, but \"itme\" is int64 and \"day\" is date; cast one of them"
    );
    assert_eq!(
        invalid(at(&fields, TimeSpec::interval("itme", "itme"))),
        "\"itme\" cannot be both the start and the end of a lifetime; name two columns"
    );
    let fields = [("a", DataType::Int64), ("b", DataType::Int64), ("kind", DataType::Int8)];
    assert_eq!(
        invalid(at(&fields, TimeSpec::edges("a", "b", "kind"))),
        "kind column \"kind\" is int8; it has to be a string column of \"interval\", \"start\", \"end\", \
        \"punctuation\""
    );
}

#[test]
fn time_is_given_once() {
    let twice = clicks().ingress(TimeSpec::point("time"), IngressOptions::default());
    assert_eq!(invalid(twice), "this is a stream already; it gets its time once");
}

#[test]
fn options_with_which_ingress_could_not_work() {
    let with = |options| invalid(click_table().ingress(TimeSpec::point("time"), options));
    let default = IngressOptions::default;
    assert_eq!(
        with(IngressOptions { reorder_latency: -1, ..default() }),
        "the reorder latency is -1 ticks; give 0 or more"
    );
    assert_eq!(
        with(IngressOptions { batch_rows: 0, ..default() }),
        "a batch cannot hold 0 rows; give at least 1"
    );
    assert_eq!(
        with(IngressOptions { punctuate: Punctuate::Every(0), ..default() }),
        "punctuation every 0 ticks; give a positive number"
    );
    assert_eq!(
        with(IngressOptions { punctuate: Punctuate::Rows(0), ..default() }),
        "punctuation every 0 rows; give at least 1"
    );
}

#[test]
fn a_scan_leads_back_to_its_source() {
    let stream = clicks();
    let Some(Node::Ingress(ingress)) = node(stream.plan()) else { panic!("no ingress") };
    let datafusion::logical_expr::LogicalPlan::TableScan(scan) = &*ingress.input else { panic!("no scan") };
    let source = whimbrel_plan::source_of(scan).unwrap();
    let any: &dyn std::any::Any = source.as_ref();
    assert!(any.downcast_ref::<Nothing>().is_some());
}

#[test]
fn sources_have_sane_schemas_and_shards() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int8, true),
        Field::new("a", DataType::Int8, true),
    ]));
    let info = SourceInfo { schema, bounded: true, shards: 1, groups: 1 };
    assert_eq!(
        invalid(Stream::scan("rows", Arc::new(Nothing(info)))),
        "rows: there are two columns named \"a\"; give one another name"
    );
    let info = SourceInfo { schema: schema_of_one(), bounded: true, shards: 3, groups: 2 };
    assert_eq!(
        invalid(Stream::scan("rows", Arc::new(Nothing(info)))),
        "rows: 3 shards cannot be spread evenly over 2 groups; give at least one of each, and as many \
        shards for every group"
    );
}

fn schema_of_one() -> arrow::datatypes::SchemaRef {
    schema(&[("a", DataType::Int8)])
}

#[test]
fn equal_plans_mean_equal_data() {
    let once = click_table();
    assert_eq!(once.plan(), once.clone().plan());
    assert_ne!(once.plan(), click_table().plan(), "another scan is another table");
    let a = once.where_(column("user").gt(datafusion::logical_expr::lit(1_i64))).unwrap();
    let b = once.where_(column("user").gt(datafusion::logical_expr::lit(1_i64))).unwrap();
    assert_eq!(a.plan(), b.plan());
}
