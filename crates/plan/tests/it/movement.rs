//! Keys and shards.

use crate::support::*;
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::{LogicalPlan, Sort, lit};
use std::sync::Arc;
use whimbrel_plan::nodes::extension;
use whimbrel_plan::{Exchange, Movement, Node, Placement, Scope, Stream, column, node};

#[track_caller]
fn movement(stream: &Stream) -> &Movement {
    match node(stream.plan()) {
        Some(Node::Exchange(n)) => &n.movement,
        other => panic!("no exchange but {other:?}"),
    }
}

#[test]
fn rekey() {
    let stream = clicks().rekey(vec![column("item")]).unwrap();
    assert_eq!(stream.properties().key, ["item"]);
    assert_eq!(columns(&stream), columns(&clicks()));
    let same = stream.rekey(vec![column("item"), column("item")]).unwrap();
    assert_eq!(same.plan(), stream.plan(), "nothing to do");
    assert!(stream.rekey(vec![]).unwrap().properties().key.is_empty());
}

#[test]
fn a_computed_key_becomes_a_column() {
    let stream =
        clicks().rekey(vec![(column("user") % lit(100_i64)).alias("bucket"), column("item")]).unwrap();
    assert_eq!(names(&stream), "time user item price tags bucket");
    assert_eq!(stream.properties().key, ["bucket", "item"]);
    let unnamed = clicks().rekey(vec![column("user") % lit(100_i64)]).unwrap();
    assert_eq!(unnamed.properties().key, ["user % 100"]);
    assert_eq!(
        invalid(clicks().rekey(vec![(column("user") % lit(100_i64)).alias("item")])),
        "rekey: there is a column \"item\" already; alias the computed key"
    );
    let renamed = clicks().rekey(vec![column("user").alias("who")]).unwrap();
    assert_eq!(renamed.properties().key, ["who"]);
}

#[test]
fn a_renamed_key_is_still_the_key() {
    use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
    let keyed = clicks().rekey(vec![column("item")]).unwrap();
    let project = |exprs: Vec<datafusion::logical_expr::Expr>| -> Stream {
        let plan: LogicalPlan =
            LogicalPlanBuilder::from(keyed.plan().clone()).project(exprs).unwrap().build().unwrap();
        Stream::from_plan(plan).unwrap()
    };
    assert_eq!(project(vec![column("item").alias("thing")]).properties().key, ["thing"]);
    assert!(project(vec![column("user")]).properties().key.is_empty(), "dropped");
    assert!(project(vec![lit(1).alias("item")]).properties().key.is_empty(), "computed anew");
}

#[test]
fn redistribute() {
    let keyed = clicks().rekey(vec![column("item")]).unwrap();
    let stream = keyed.redistribute(Some(4), Scope::Global).unwrap();
    assert_eq!(stream.properties().shards, 4);
    assert_eq!(stream.properties().key, ["item"]);
    assert!(matches!(movement(&stream), Movement::ReDistribute { key } if *key == [column("item")]));
    assert_eq!(keyed.redistribute(None, Scope::Global).unwrap().properties().shards, 2);
    assert_eq!(
        invalid(clicks().redistribute(None, Scope::Global)),
        "redistribute brings rows with equal keys together, but there is no key: rekey first"
    );
    assert_eq!(
        invalid(keyed.redistribute(Some(0), Scope::Global)),
        "redistribute by item: give at least 1 shard, not 0"
    );
}

#[test]
fn reshard_and_broadcast() {
    let stream = clicks().reshard(Some(3), Scope::Global).unwrap();
    assert_eq!((stream.properties().shards, movement(&stream)), (3, &Movement::ReShard));
    let stream = clicks().broadcast(None, Scope::Global).unwrap();
    assert_eq!((stream.properties().shards, movement(&stream)), (2, &Movement::Broadcast));
    assert_eq!(stream.properties().time, Some(micros()));
}

#[test]
fn multicast_targets() {
    let to = |e| clicks().multicast(e, Some(4), Scope::Global);
    assert!(to(column("user") % lit(4_i64)).is_ok());
    let stream = to(make_array(vec![lit(0_i32), lit(2_i32)])).unwrap();
    let Movement::Multicast { to: target } = movement(&stream) else { panic!("no multicast") };
    let physical = whimbrel_plan::physical(target, stream.plan().schema()).unwrap();
    let item = Field::new_list_field(DataType::Int64, true);
    assert_eq!(physical.data_type(stream.schema()).unwrap(), DataType::List(Arc::new(item)));
    assert_eq!(
        invalid(to(column("price"))),
        "multicast: price is float64; the target shards are an integer or a list of integers"
    );
    assert_eq!(invalid(to(column("tags"))), "multicast: tags is list(string), not list(int64)");
}

#[test]
fn local_scope_stays_inside_the_groups() {
    let keyed = wide_clicks().rekey(vec![column("item")]).unwrap();
    let stream = keyed.redistribute(Some(4), Scope::Local).unwrap();
    assert_eq!((stream.properties().shards, stream.properties().groups), (4, 2));
    assert_eq!(
        invalid(keyed.redistribute(Some(3), Scope::Local)),
        "redistribute by item: 3 shards cannot be spread evenly over 2 groups, as scope local needs"
    );
    let narrowed = keyed.redistribute(Some(3), Scope::Global).unwrap();
    assert_eq!((narrowed.properties().shards, narrowed.properties().groups), (3, 1));
}

#[test]
fn sorts_of_ranges() {
    let by = column("price").sort(true, false);
    let bounds = vec![ScalarValue::from(2.5), ScalarValue::from(7.0)];
    let movement = Movement::Ranges { by: by.clone(), bounds };
    let moved = Exchange::try_new(click_table().plan().clone(), movement, Some(3), Scope::Global).unwrap();
    let moved = extension(moved);
    let in_order = |input: &LogicalPlan, shards| {
        let gathered = Exchange::try_new(input.clone(), Movement::InOrder, Some(shards), Scope::Global);
        Stream::from_plan(extension(gathered.unwrap()))
    };
    assert_eq!(
        invalid(in_order(&moved, 1)),
        "rows in the order of shards are sorted in each; these are not: \
         Exchange: 3 ranges of price into 3"
    );
    let input = Arc::new(moved);
    let sorted = LogicalPlan::Sort(Sort { expr: vec![by], input, fetch: None });
    assert_eq!(invalid(in_order(&sorted, 2)), "rows in the order of shards are in one shard, not in 2");

    let stream = in_order(&sorted, 1).unwrap();
    assert_eq!(stream.properties().shards, 1);
    let explained = stream.explain().unwrap();
    assert!(explained.contains("in the order of shards into 1 shard"), "{explained}");
    assert!(explained.contains("3 ranges of price into 3 shards"), "{explained}");
    // A program sorts all rows in one shard.
    let program = stream.to_python().unwrap().to_string();
    assert!(program.contains(".reshard(1)") && program.contains(".sort("), "{program}");
}

#[test]
fn windows_that_take_turns() {
    let movement = Movement::Windows { size: 10, offset: 3 };
    let moved = Exchange::try_new(clicks().plan().clone(), movement, Some(4), Scope::Global).unwrap();
    let stream = Stream::from_plan(extension(moved)).unwrap();
    let properties = stream.properties();
    assert_eq!((properties.shards, &properties.placement), (4, &Placement::Unknown));
    assert!(stream.explain().unwrap().contains("windows of 10 ticks in turns into 4 shards"));
    assert_eq!(
        invalid(stream.to_python()),
        "a program has no word for this movement of rows: windows of 10 ticks in turns"
    );
}
