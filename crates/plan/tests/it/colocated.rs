//! What has to lie together does, or the plan is refused.

use crate::support::*;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::lit;
use whimbrel_plan::{Agg, JoinKind, Placement, Scope, Stream, column};

fn keyed(by: &[&str]) -> Stream {
    clicks().rekey(by.iter().map(|c| column(*c)).collect()).unwrap()
}

fn by(columns: &[&str]) -> Stream {
    keyed(columns).redistribute(Some(4), Scope::Global).unwrap()
}

fn everywhere() -> Stream {
    clicks().broadcast(Some(4), Scope::Global).unwrap()
}

fn placement(stream: &Stream) -> String {
    stream.properties().placement.to_string()
}

fn on(names: &[&str]) -> Vec<(datafusion::logical_expr::Expr, datafusion::logical_expr::Expr)> {
    names.iter().map(|n| (column(*n), column(*n))).collect()
}

fn together(left: &Stream, right: &Stream, names: &[&str], kind: JoinKind) -> Result<Stream> {
    left.join_colocated(right, on(names), kind, "_right")
}

#[test]
fn sources_and_movements_say_how_rows_lie() {
    assert_eq!(clicks().properties().placement, Placement::Unknown);
    assert_eq!(ticks().properties().placement, Placement::OneShard);
    assert_eq!(placement(&by(&["user", "item"])), "by user, item");
    assert_eq!(
        by(&["user"]).reshard(None, Scope::Global).unwrap().properties().placement,
        Placement::Unknown
    );
    assert_eq!(
        by(&["user"]).reshard(Some(1), Scope::Global).unwrap().properties().placement,
        Placement::OneShard
    );
    assert_eq!(everywhere().properties().placement, Placement::Replicated);
    let to = clicks().multicast(lit(0_i64), Some(4), Scope::Global).unwrap();
    assert_eq!(to.properties().placement, Placement::Unknown);
    let near = wide_clicks().rekey(vec![column("user")]).unwrap();
    let near = near.redistribute(None, Scope::Local).unwrap();
    assert_eq!(near.properties().placement, Placement::Unknown, "equal keys of two machines stay apart");
    assert_eq!(
        wide_clicks().broadcast(None, Scope::Local).unwrap().properties().placement,
        Placement::Unknown
    );
}

#[test]
fn steps_keep_what_they_do_not_touch() {
    let rows = by(&["user", "item"]);
    let kept = rows.where_(column("price").gt(lit(1.0))).unwrap().tumbling(
        "1m",
        "0s",
        whimbrel_temporal::Closed::Left,
    );
    assert_eq!(placement(&kept.unwrap()), "by user, item");
    let renamed = rows.rekey(vec![]).unwrap();
    let renamed = renamed.select(vec![column("item"), column("user").alias("who")]).unwrap();
    assert_eq!(placement(&renamed), "by who, item");
    let dropped = rows.rekey(vec![]).unwrap().drop(&["user"]).unwrap();
    assert_eq!(dropped.properties().placement, Placement::Unknown);
    let computed =
        rows.rekey(vec![]).unwrap().with_columns(vec![(column("user") + lit(1_i64)).alias("user")]);
    assert_eq!(computed.unwrap().properties().placement, Placement::Unknown);
    let groups = |key: &[&str]| {
        let rows = rows.rekey(key.iter().map(|c| column(*c)).collect()).unwrap();
        placement(&rows.aggregate(vec![("n".into(), Agg::count())]).unwrap())
    };
    assert_eq!(groups(&["item", "price", "user"]), "by user, item");
    assert_eq!(groups(&["item"]), "in no known way", "each shard has a part of each group");
    assert_eq!(placement(&rows.union(&rows).unwrap()), "by user, item");
    assert_eq!(rows.union(&by(&["item", "user"])).unwrap().properties().placement, Placement::Unknown);
    assert_eq!(everywhere().distinct().unwrap().properties().placement, Placement::Replicated);
}

#[test]
fn limits_of_copies_are_no_copies() {
    let copies = click_table().broadcast(Some(4), Scope::Global).unwrap();
    assert_eq!(copies.limit(0, Some(3)).unwrap().properties().placement, Placement::Unknown);
}

#[test]
fn rows_that_are_equal() {
    let rows = by(&["user"]);
    for stream in [&rows, &everywhere(), &ticks().with_columns(vec![column("k").alias("user")]).unwrap()] {
        let same = stream.colocated(vec![column("user")]).unwrap();
        assert_eq!((same.schema(), same.properties()), (stream.schema(), stream.properties()));
    }
    assert!(rows.colocated(vec![column("item"), column("user")]).is_ok(), "finer groups lie together too");
    assert_eq!(
        invalid(rows.colocated(vec![column("item")])),
        "colocated: rows with equal item have to be in one shard, but they lie by user over 4 shards; add \
         .rekey(\"item\").redistribute() before"
    );
    assert_eq!(
        invalid(clicks().colocated(vec![column("item")])),
        "colocated: rows with equal item have to be in one shard, but they lie in no known way over 2 shards; add \
         .rekey(\"item\").redistribute() before"
    );
    assert_eq!(
        invalid(rows.colocated(vec![])),
        "colocated: all rows have to be in one shard, but they lie by user over 4 shards; add .reshard(1) before"
    );
    assert!(rows.reshard(Some(1), Scope::Global).unwrap().colocated(vec![]).is_ok());
    assert!(invalid(rows.colocated(vec![column("itme")])).contains("did you mean \"item\""));
}

#[test]
fn groups_are_part_of_it() {
    let counted = |rows: Stream| {
        rows.group_apply(vec![column("item")], |g| {
            g.colocated(vec![column("user")])?.aggregate(vec![("n".into(), Agg::count())])
        })
    };
    assert!(counted(by(&["user"])).is_ok());
    assert!(counted(by(&["item"])).is_ok());
    assert!(invalid(counted(by(&["price"]).rekey(vec![]).unwrap())).contains("rows with equal item, user"));
}

#[test]
fn rows_that_match() {
    let (l, r) = (by(&["user", "item"]), by(&["user", "item"]));
    let joined = together(&l, &r, &["item", "user"], JoinKind::Inner).unwrap();
    assert_eq!(
        joined.properties(),
        l.join(&r, on(&["item", "user"]), JoinKind::Inner, "_right").unwrap().properties()
    );
    assert!(together(&l, &r, &["user", "item", "price"], JoinKind::Full).is_ok());
    assert_eq!(
        invalid(together(&l, &by(&["item", "user"]), &["user", "item"], JoinKind::Left)),
        "join: rows with equal user, item have to meet in one shard, but over 4 shards the left side lies by user, \
         item and the right side by item, user; bring both sides together with .rekey(…).redistribute(), by these \
         columns in the same order and into as many shards, or copy one of them with .broadcast()"
    );
    assert!(
        invalid(together(&l, &r, &["user"], JoinKind::Semi)).contains("rows with equal user have to meet")
    );
    assert!(together(&ticks(), &ticks(), &["k"], JoinKind::Anti).is_ok(), "one shard");
    let loose = l.join(&by(&["price"]), on(&["user", "item"]), JoinKind::Left, "_right");
    assert!(loose.is_ok(), "joins of shards by themselves stay legal");
}

#[test]
fn hashes_of_other_types_are_other_hashes() {
    let side = |name: &str, of: DataType| {
        let rows = table_in(name, &[("k", of), (name, DataType::Int64)], 4, 1);
        rows.rekey(vec![column("k")]).unwrap().redistribute(None, Scope::Global).unwrap()
    };
    let (small, large) = (side("a", DataType::Int32), side("b", DataType::Int64));
    assert!(together(&small, &large, &["k"], JoinKind::Inner).is_err());
    assert!(together(&large, &large, &["k"], JoinKind::Inner).is_ok());
}

#[test]
fn copies_meet_everybody() {
    let (rows, loose) = (by(&["user"]), clicks().reshard(Some(4), Scope::Global).unwrap());
    for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti] {
        assert!(together(&loose, &everywhere(), &["item"], kind).is_ok(), "{kind:?}");
    }
    assert!(together(&loose, &everywhere(), &[], JoinKind::Cross).is_ok());
    assert!(together(&everywhere(), &loose, &["item"], JoinKind::Inner).is_ok());
    assert!(together(&everywhere(), &everywhere(), &["item"], JoinKind::Full).is_ok());
    assert_eq!(
        invalid(together(&everywhere(), &rows, &["item"], JoinKind::Left)),
        "join: the left side is copied to every shard, so rows that the left join keeps would come out 4 times; \
         broadcast the right side instead, or bring both together with .rekey(…).redistribute()"
    );
    assert!(
        invalid(together(&rows, &everywhere(), &["item"], JoinKind::Full))
            .starts_with("join: the right side is")
    );
    let rows = rows.rekey(vec![]).unwrap();
    assert_eq!(
        invalid(together(&rows, &rows, &[], JoinKind::Cross)),
        "join: all rows of both sides have to meet in one shard, but over 4 shards the left side lies by user and the \
         right side by user; copy one of them with .broadcast()"
    );
}

#[test]
fn what_a_join_makes_equal_stands_for_the_key() {
    let buyers = by(&["user"]).rekey(vec![]).unwrap();
    let buyers = buyers.select(vec![column("user").alias("buyer"), column("item")]).unwrap();
    let joined =
        by(&["user"]).join_colocated(&buyers, vec![(column("user"), column("buyer"))], JoinKind::Inner, "_b");
    let joined = joined.unwrap().rekey(vec![]).unwrap();
    let either = |kept: &str| placement(&joined.select(vec![column(kept)]).unwrap());
    assert_eq!((either("user").as_str(), either("buyer").as_str()), ("by user", "by buyer"));
    assert!(joined.colocated(vec![column("buyer")]).is_ok());
}

#[test]
fn explained() {
    let joined = together(&by(&["user"]), &by(&["user"]), &["user"], JoinKind::Inner).unwrap();
    let text = joined.colocated(vec![column("user")]).unwrap().explain().unwrap();
    let steps: Vec<&str> =
        text.lines().filter_map(|l| Some(l.split_once('|')?.0.trim_end())).take(3).collect();
    assert_eq!(steps[..2], ["co-located by user", "  join on user, co-located"]);
}
