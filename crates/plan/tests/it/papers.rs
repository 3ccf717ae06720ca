//! The papers' plans, line for line.

use crate::support::*;
use arrow::datatypes::DataType;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::lit;
use whimbrel_plan::{Agg, AggFunction, JoinKind, Scope, Stream, column};
use whimbrel_temporal::Closed;

fn counted(s: &Stream) -> Stream {
    s.aggregate(vec![("n".into(), Agg::count())]).unwrap()
}

fn summed(s: &Stream) -> Stream {
    s.aggregate(vec![("n".into(), Agg::of(AggFunction::Sum, column("n")))]).unwrap()
}

/// `ss3` of quill.txt §3.3: clicks keyed by ad.
fn by_item() -> Stream {
    wide_clicks().rekey(vec![column("item")]).unwrap()
}

fn moved(s: &Stream, scope: Scope) -> Stream {
    s.redistribute(None, scope).unwrap()
}

#[test]
fn quill_figure_1() {
    let a = counted(&moved(&by_item(), Scope::Global));
    let b = summed(&moved(&counted(&by_item()), Scope::Global));
    let c = counted(&by_item());
    let c = summed(&moved(&summed(&moved(&c, Scope::Local)), Scope::Global));
    let d = summed(&moved(&counted(&moved(&by_item(), Scope::Local)), Scope::Global));
    for plan in [&a, &b, &c, &d] {
        assert_eq!(names(plan), "item n");
        assert_eq!(plan.properties().key, ["item"]);
        assert_eq!((plan.properties().shards, plan.properties().groups), (8, 2));
        assert_eq!(plan.schema().field(1).data_type(), &DataType::Int64);
    }
}

/// The reference data of quill.txt §3.2.3, in as many shards as the clicks.
fn ads() -> Stream {
    table_in("ads", &[("item", DataType::Utf8), ("bid", DataType::Float64)], 8, 2)
}

#[test]
fn quill_figure_4a_symmetric_hash_join() {
    let left = moved(&by_item(), Scope::Global);
    let right = moved(&ads().rekey(vec![column("item")]).unwrap(), Scope::Global);
    let joined = left.join(&right, vec![], JoinKind::Inner, "_right").unwrap();
    assert_eq!(names(&joined), "time user item price tags bid");
}

#[test]
fn quill_figure_4b_broadcast_join() {
    let right = ads().broadcast(None, Scope::Global).unwrap();
    let on = vec![(column("item"), column("item"))];
    let joined = wide_clicks().join(&right, on, JoinKind::Inner, "_right").unwrap();
    assert_eq!(names(&joined), "time user item price tags bid");
}

#[test]
fn quill_figure_4c_broadcast_between_machines_hash_within() {
    // Every ad goes to the first shard of each machine, and from there by hash; clicks stay on their machine.
    let copied = ads().multicast(make_array(vec![lit(0_i64), lit(4_i64)]), None, Scope::Global).unwrap();
    let right = moved(&copied.rekey(vec![column("item")]).unwrap(), Scope::Local);
    let left = moved(&by_item(), Scope::Local);
    let joined = left.join(&right, vec![], JoinKind::Inner, "_right").unwrap();
    assert_eq!(names(&joined), "time user item price tags bid");
    assert_eq!((joined.properties().shards, joined.properties().groups), (8, 2));
}

/// Quill §3.7: who clicks too much is left out while that holds.
pub fn without_bots() -> Stream {
    let w0 = clicks().rekey(vec![column("user")]).unwrap().redistribute(None, Scope::Global).unwrap();
    let w1 = counted(&w0.sliding("5m", Closed::Right).unwrap()).where_(column("n").gt(lit(10_i64))).unwrap();
    let w2 = w0.where_not_exists(&w1, vec![]).unwrap();
    let w3 = w2.rekey(vec![column("item")]).unwrap().redistribute(None, Scope::Global).unwrap();
    counted(&w3.hopping("10m", "1m", 0, Closed::Left).unwrap())
}

#[test]
fn quill_section_3_7() {
    let stream = without_bots();
    assert_eq!(columns(&stream), "item: string?, n: int64");
    assert_eq!(stream.properties().key, ["item"]);
}

#[test]
fn trill_section_2() {
    // A sample of 5 % of the users, the clicks per item over five minutes, moved on every minute.
    let stream = clicks()
        .where_((column("user") % lit(100)).lt(lit(5)))
        .unwrap()
        .select(vec![column("user"), column("item")])
        .unwrap()
        .group_apply(vec![column("item")], |g| Ok(counted(&g.hopping("5m", "1m", 0, Closed::Left)?)))
        .unwrap();
    assert_eq!(columns(&stream), "item: string?, n: int64");
}
