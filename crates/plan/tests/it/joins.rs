//! Two streams at once.

use crate::support::*;
use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, lit};
use whimbrel_plan::nodes::TimeSpec;
use whimbrel_plan::{JoinKind, Scope, Stream, column};
use whimbrel_temporal::{Closed, IngressOptions, Lifetimes};

const KINDS: [JoinKind; 6] =
    [JoinKind::Inner, JoinKind::Left, JoinKind::Full, JoinKind::Cross, JoinKind::Semi, JoinKind::Anti];

fn left() -> Stream {
    table("left", &[("k", DataType::Int64), ("v", DataType::Int64), ("x", DataType::Int64)])
}

fn right() -> Stream {
    table("right", &[("k", DataType::Int64), ("v", DataType::Utf8), ("y", DataType::Int64)])
}

fn on(name: &str) -> Vec<(Expr, Expr)> {
    vec![(column(name), column(name))]
}

#[test]
fn columns_of_every_kind() {
    let result: Vec<String> = KINDS
        .into_iter()
        .map(|kind| {
            let on = if kind == JoinKind::Cross { vec![] } else { on("k") };
            let joined = left().join(&right(), on, kind, "_right").unwrap();
            format!("{}: {}", kind.name(), names(&joined))
        })
        .collect();
    assert_eq!(
        result,
        [
            "inner: k v x v_right y",
            "left: k v x v_right y",
            "full: k v x v_right y",
            "cross: k v x k_right v_right y",
            "semi: k v x",
            "anti: k v x",
        ]
    );
}

#[test]
fn columns_are_unqualified_and_outer_ones_nullable() {
    let strict = |name: &str| {
        let (l, r) = (left(), right());
        let l = l.with_columns(vec![lit(1_i64).alias("k")]).unwrap();
        let r = r.with_columns(vec![lit(1_i64).alias("k"), lit(1_i64).alias("y")]).unwrap();
        let kind = KINDS.into_iter().find(|k| k.name() == name).unwrap();
        columns(&l.join(&r, on("k"), kind, "_right").unwrap())
    };
    assert_eq!(strict("inner"), "k: int64, v: int64?, x: int64?, v_right: string?, y: int64");
    assert_eq!(strict("left"), "k: int64, v: int64?, x: int64?, v_right: string?, y: int64?");
    assert_eq!(strict("full"), "k: int64?, v: int64?, x: int64?, v_right: string?, y: int64?");
}

#[test]
fn keys_of_other_names_both_stay() {
    let joined = left().join(&right(), vec![(column("x"), column("y"))], JoinKind::Inner, "_r").unwrap();
    assert_eq!(names(&joined), "k v x k_r v_r y");
}

#[test]
fn clashes() {
    let taken = left().with_columns(vec![column("v").alias("v_right")]).unwrap();
    assert_eq!(
        invalid(taken.join(&right(), on("k"), JoinKind::Inner, "_right")),
        "join: both sides have a column \"v\", and \"v_right\" is taken too; give another suffix=, or \
        rename one of them"
    );
    assert_eq!(
        invalid(left().join(&right(), on("k"), JoinKind::Inner, "")),
        "join: both sides have a column \"v\", and \"v\" is taken too; give another suffix=, or rename one \
        of them"
    );
}

#[test]
fn the_current_key_is_what_has_to_be_equal() {
    let (l, r) = (left().rekey(vec![column("k")]).unwrap(), right().rekey(vec![column("y")]).unwrap());
    let joined = l.join(&r, vec![], JoinKind::Inner, "_right").unwrap();
    assert_eq!(names(&joined), "k v x k_right v_right y");
    assert_eq!(joined.properties().key, ["k"]);
    assert!(joined.explain().unwrap().starts_with("join on k = y"));
}

#[test]
fn the_key_survives_a_full_join() {
    let (l, r) = (left().rekey(vec![column("k")]).unwrap(), right().rekey(vec![column("k")]).unwrap());
    let joined = l.join(&r, vec![], JoinKind::Full, "_right").unwrap();
    assert_eq!(joined.properties().key, ["k"]);
    assert_eq!(names(&joined), "k v x v_right y");
}

#[test]
fn nothing_to_be_equal() {
    let say = "join: say which columns are equal, on=…, or rekey both sides; to pair all rows, join \
               how=\"cross\"";
    assert_eq!(invalid(left().join(&right(), vec![], JoinKind::Inner, "_right")), say);
    assert_eq!(invalid(left().join(&right(), vec![], JoinKind::Left, "_right")), say);
    let keyed = left().rekey(vec![column("k")]).unwrap();
    assert_eq!(invalid(keyed.join(&right(), vec![], JoinKind::Inner, "_right")), say);
    assert_eq!(
        invalid(left().join(&right(), on("k"), JoinKind::Cross, "_right")),
        "join: a cross join pairs all rows; leave out on=, or join another way"
    );
    let two = right().rekey(vec![column("k"), column("v")]).unwrap();
    assert_eq!(
        invalid(keyed.join(&two, vec![], JoinKind::Inner, "_right")),
        "join: the left side is keyed by k and the right side by k, v; say which columns are equal, on=…"
    );
}

#[test]
fn a_cross_join_pairs_all_rows_whatever_their_keys() {
    let (l, r) = (left().rekey(vec![column("k")]).unwrap(), right().rekey(vec![column("k")]).unwrap());
    let joined = l.join(&r, vec![], JoinKind::Cross, "_right").unwrap();
    assert!(joined.explain().unwrap().starts_with("cross join "));
    let unkeyed = l.join(&right(), vec![], JoinKind::Cross, "_right").unwrap();
    assert!(unkeyed.explain().unwrap().starts_with("cross join "));
}

#[test]
fn exists_without_a_key_is_about_any_row() {
    let stream = left().where_not_exists(&right(), vec![]).unwrap();
    assert!(stream.explain().unwrap().starts_with("where not exists "));
    assert_eq!(columns(&stream), columns(&left()));
}

#[test]
fn computed_and_cast_keys_leave_no_column_behind() {
    let r = table("right", &[("k", DataType::Int32), ("y", DataType::Int64)]);
    let joined = left().join(&r, on("k"), JoinKind::Inner, "_right").unwrap();
    assert_eq!(names(&joined), "k v x k_right y", "an int32 key is another column than an int64 one");
    let pair = vec![(column("v") % lit(10_i64), column("y"))];
    let joined = left().join(&right(), pair.clone(), JoinKind::Inner, "_right").unwrap();
    assert_eq!(names(&joined), "k v x k_right v_right y");
    let exists = left().where_exists(&right(), pair).unwrap();
    assert_eq!(names(&exists), "k v x");
}

#[test]
fn keys_that_cannot_be_compared() {
    assert_eq!(
        invalid(left().join(&right(), on("v"), JoinKind::Inner, "_right")),
        "join: on: v is int64 and v is string, which cannot be compared; cast one of them"
    );
    assert_eq!(
        invalid(left().join(&right(), vec![(column("k"), column("q"))], JoinKind::Inner, "_right")),
        "column \"q\" not found; columns: k, v, y"
    );
}

#[test]
fn lifetimes_of_joins() {
    let join = |l: &Stream, r: &Stream, kind| {
        let joined = l.join(r, vec![(column("k"), column("k"))], kind, "_right").unwrap();
        joined.properties().lifetimes
    };
    let sliding = ticks().sliding(5, Closed::Right).unwrap();
    let any = ticks().clip_constant(5).unwrap();
    assert_eq!(join(&ticks(), &sliding, JoinKind::Inner), Lifetimes::Intervals);
    assert_eq!(join(&ticks(), &any, JoinKind::Inner), Lifetimes::Any);
    assert_eq!(join(&ticks(), &sliding, JoinKind::Left), Lifetimes::Any);
    assert_eq!(join(&ticks(), &sliding, JoinKind::Semi), Lifetimes::Any);
    assert_eq!(join(&ticks(), &sliding, JoinKind::Anti), Lifetimes::Any);
}

#[test]
fn a_stream_meets_a_relation() {
    let names_of_k = table("names", &[("k", DataType::Int32), ("name", DataType::Utf8)]);
    let joined = ticks().join(&names_of_k, on("k"), JoinKind::Inner, "_right").unwrap();
    assert_eq!(names(&joined), "t k v name");
    assert_eq!(joined.properties().time, Some(DataType::Int64));
    assert_eq!(joined.properties().lifetimes, Lifetimes::Any);
    let joined = names_of_k.join(&ticks(), on("k"), JoinKind::Inner, "_right").unwrap();
    assert_eq!(joined.properties().time, Some(DataType::Int64));
}

#[test]
fn sides_that_cannot_meet() {
    let by_user = |s: &Stream| s.select(vec![column("user")]).unwrap();
    let one = table("one", &[("user", DataType::Int64)]);
    assert_eq!(
        invalid(by_user(&clicks()).join(&one, on("user"), JoinKind::Inner, "_right")),
        "join: the left side has 2 shards and the right side 1; bring them to the same number first, with \
         redistribute, reshard or broadcast into 2 shards"
    );
    let copied = one.broadcast(Some(2), Scope::Global).unwrap();
    by_user(&clicks()).join(&copied, on("user"), JoinKind::Inner, "_right").unwrap();
    let fields = [("s", DataType::Int64), ("user", DataType::Int64)];
    let clock =
        table_in("clock", &fields, 2, 1).ingress(TimeSpec::point("s"), IngressOptions::default()).unwrap();
    assert_eq!(
        invalid(clicks().where_exists(&clock, on("user"))),
        "join: one stream counts time in timestamp(us), the other in int64; cast the time column of one of \
        them"
    );
}

#[test]
fn a_stream_joins_itself() {
    let joined = ticks().join(&ticks(), on("k"), JoinKind::Inner, "_right").unwrap();
    let again = joined.join(&ticks(), on("k"), JoinKind::Left, "_again").unwrap();
    assert_eq!(names(&again), "t k v t_right v_right t_again v_again");
}
