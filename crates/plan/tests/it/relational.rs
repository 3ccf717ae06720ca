//! Rows one by one, and relations as a whole.

use crate::support::*;
use arrow::datatypes::DataType;
use datafusion::logical_expr::{LogicalPlan, lit};
use whimbrel_plan::{Stream, column};
use whimbrel_temporal::{Closed, Lifetimes};

#[test]
fn where_keeps_everything_else() {
    let hopping = clicks().hopping("5m", "1m", 0, Closed::Left).unwrap();
    let stream = hopping.where_(column("price").gt(lit(2))).unwrap();
    assert_eq!(columns(&stream), columns(&hopping));
    assert_eq!(stream.properties(), hopping.properties());
}

#[test]
fn where_wants_a_boolean() {
    assert_eq!(
        invalid(clicks().where_(column("user") + lit(1_i64))),
        "where: user + 1 is int64, not boolean; compare it with something"
    );
}

#[test]
fn select_computes_columns() {
    let stream = clicks()
        .select(vec![column("item"), (column("price") * lit(2)).alias("twice"), column("user") + lit(1_i64)])
        .unwrap();
    assert_eq!(columns(&stream), "item: string?, twice: float64?, user + 1: int64?");
    assert_eq!(stream.properties().lifetimes, Lifetimes::Points);
}

#[test]
fn types_are_those_that_will_be_computed() {
    let fields = [("a", DataType::Int32), ("b", DataType::UInt8), ("c", DataType::Float32)];
    let stream = table("rows", &fields)
        .select(vec![(column("a") + column("b")).alias("x"), (column("b") + column("c")).alias("y")])
        .unwrap();
    assert_eq!(columns(&stream), "x: int32?, y: float32?");
    for field in stream.schema().fields() {
        let physical = whimbrel_plan::physical(&column(field.name()), stream.plan().schema()).unwrap();
        assert_eq!(&physical.data_type(stream.schema()).unwrap(), field.data_type());
    }
}

#[test]
fn the_key_stays_in_a_select() {
    let keyed = clicks().rekey(vec![column("user"), column("item")]).unwrap();
    let stream = keyed.select(vec![column("price"), column("item")]).unwrap();
    assert_eq!(names(&stream), "user price item");
    assert_eq!(stream.properties().key, ["user", "item"]);
    assert_eq!(
        invalid(keyed.select(vec![(column("user") + lit(1_i64)).alias("user")])),
        "select: \"user\" is in the current key, which cannot change under it; choose another name, or rekey"
    );
    assert_eq!(
        invalid(keyed.drop(&["item"])),
        "drop: \"item\" is in the current key; rekey by something else first"
    );
    let other = keyed.rekey(vec![]).unwrap().drop(&["item"]).unwrap();
    assert_eq!(names(&other), "time user price tags");
}

#[test]
fn with_columns_replaces_and_adds() {
    let stream = clicks()
        .with_columns(vec![(column("price") * lit(100)).alias("price"), column("user").alias("who")])
        .unwrap();
    assert_eq!(names(&stream), "time user item price tags who");
    assert_eq!(
        invalid(clicks().with_columns(vec![column("user").alias("x"), column("item").alias("x")])),
        "with_columns: there would be two columns named \"x\"; alias one of them"
    );
}

#[test]
fn something_has_to_stay() {
    let one = table("rows", &[("a", DataType::Int8)]);
    assert_eq!(invalid(one.drop(&["a"])), "at least one column has to stay");
    assert_eq!(invalid(one.select(vec![])), "at least one column has to stay");
    assert_eq!(invalid(one.drop(&["b"])), "column \"b\" not found; columns: a");
}

#[test]
fn select_many() {
    let stream = clicks().select_many(column("tags"), "tag").unwrap();
    assert_eq!(
        columns(&stream),
        "time: timestamp(us)?, user: int64?, item: string?, price: float64?, tags: list(string)?, tag: string?"
    );
    let LogicalPlan::Unnest(unnest) = stream.plan() else { panic!("no unnest") };
    assert!(!unnest.options.preserve_nulls());
    let in_place = clicks().rekey(vec![column("user")]).unwrap().select_many(column("tags"), "tags").unwrap();
    assert_eq!(names(&in_place), "time user item price tags");
    assert_eq!(in_place.properties().key, ["user"]);
    assert_eq!(in_place.properties().lifetimes, Lifetimes::Points);
    assert_eq!(invalid(clicks().select_many(column("user"), "u")), "select_many: user is int64, not a list");
}

#[test]
fn union_matches_columns_by_name() {
    let a = table("a", &[("x", DataType::Int32), ("y", DataType::Utf8)]);
    let b = table("b", &[("y", DataType::Utf8), ("x", DataType::Int64)]);
    assert_eq!(columns(&a.union(&b).unwrap()), "x: int64?, y: string?");
    let c = table("c", &[("x", DataType::Int32), ("z", DataType::Utf8)]);
    assert_eq!(invalid(a.union(&c)), "union: the right side: column \"y\" not found; columns: x, z");
    let d = table("d", &[("x", DataType::Int32), ("y", DataType::Utf8), ("yy", DataType::Utf8)]);
    assert_eq!(
        invalid(a.union(&d)),
        "union: the left side: column \"yy\" not found; did you mean \"y\"? columns: x, y"
    );
    let e = table("e", &[("x", DataType::Utf8), ("y", DataType::Utf8)]);
    assert_eq!(
        invalid(a.union(&e)),
        "union: \"x\" is int32 on the left and string on the right; cast one of them"
    );
}

#[test]
fn what_is_known_of_a_union() {
    let lifetimes = |l: &Stream, r: &Stream| {
        let (l, r) = (l.select(vec![column("k")]), r.select(vec![column("k")]));
        l.unwrap().union(&r.unwrap()).unwrap().properties().lifetimes
    };
    let points = ticks();
    let sliding = ticks().sliding(5, Closed::Right).unwrap();
    let any = ticks().clip_constant(1).unwrap();
    assert_eq!(lifetimes(&points, &points), Lifetimes::Points);
    assert_eq!(lifetimes(&sliding, &sliding), Lifetimes::Constant(5));
    assert_eq!(lifetimes(&points, &sliding), Lifetimes::Intervals);
    assert_eq!(lifetimes(&points, &any), Lifetimes::Any);
    let keyed = ticks().rekey(vec![column("k")]).unwrap();
    assert_eq!(keyed.union(&keyed).unwrap().properties().key, ["k"]);
    assert!(keyed.union(&ticks()).unwrap().properties().key.is_empty());
}

#[test]
fn distinct() {
    assert_eq!(click_table().distinct().unwrap().properties().lifetimes, Lifetimes::StartEdges);
    assert_eq!(clicks().distinct().unwrap().properties().lifetimes, Lifetimes::Any);
    let keyed = clicks().rekey(vec![column("item")]).unwrap().distinct().unwrap();
    assert_eq!(keyed.properties().key, ["item"]);
}

#[test]
fn sort_and_limit_are_for_relations() {
    let sorted = click_table().sort(vec![column("price").sort(false, false)]).unwrap();
    let top = sorted.limit(2, Some(10)).unwrap();
    assert_eq!(columns(&top), columns(&click_table()));
    assert_eq!(
        invalid(clicks().sort(vec![column("price").sort(true, false)])),
        "sort is for relations, this is a stream: its rows are in the order of time, and there is no last \
        one to sort up to; sort what it gives instead"
    );
    assert_eq!(
        invalid(clicks().limit(0, Some(1))),
        "limit is for relations, this is a stream: which rows are the first ones changes as time moves; \
        limit what it gives instead"
    );
    assert_eq!(invalid(click_table().sort(vec![])), "sort: say by which columns");
    assert_eq!(
        invalid(click_table().sort(vec![column("prize").sort(true, false)])),
        "column \"prize\" not found; did you mean \"price\"? columns: time, user, item, price, tags"
    );
}
