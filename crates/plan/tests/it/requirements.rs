//! What is asserted of streams: what follows from it, how long it is known, and what is refused.

use crate::support::*;
use datafusion::logical_expr::{Expr, lit};
use whimbrel_plan::{JoinKind, Placement, Scope, Stream, column, merge_join_order};
use whimbrel_temporal::Closed;

fn sorted(columns: &[&str]) -> Stream {
    ticks().require_sorted(columns.iter().map(|name| column(*name)).collect()).unwrap()
}

/// The order in which a join compares its equalities, if it can be merged.
fn merged(left: &Stream, right: &Stream, on: &[(&str, &str)]) -> Option<Vec<usize>> {
    let on: Vec<(Expr, Expr)> = on.iter().map(|(l, r)| (column(*l), column(*r))).collect();
    let joined = left.join(right, on, JoinKind::Inner, "_right").unwrap();
    let mut plan = joined.plan();
    loop {
        match plan {
            datafusion::logical_expr::LogicalPlan::Join(join) => return merge_join_order(join).unwrap(),
            other => plan = other.inputs()[0],
        }
    }
}

#[test]
fn joins_of_sorted_streams_are_merged() {
    let by_k = sorted(&["k", "v"]);
    assert_eq!(merged(&by_k, &by_k, &[("k", "k")]), Some(vec![0]));
    assert_eq!(merged(&by_k, &by_k, &[("v", "v"), ("k", "k")]), Some(vec![1, 0]));
    // Another prefix, another order, another column, another type.
    assert_eq!(merged(&by_k, &by_k, &[("v", "v")]), None);
    assert_eq!(merged(&by_k, &sorted(&["v", "k"]), &[("v", "v"), ("k", "k")]), None);
    assert_eq!(merged(&by_k, &sorted(&["v", "k"]), &[("k", "v")]), Some(vec![0]));
    assert_eq!(merged(&sorted(&["t"]), &by_k, &[("t", "k")]), None);
    assert_eq!(merged(&by_k, &ticks(), &[("k", "k")]), None);
    // Rows with end edges come again when they end.
    let edges = by_k.distinct().unwrap().require_sorted(vec![column("k")]).unwrap();
    assert_eq!(merged(&edges, &by_k, &[("k", "k")]), None);
    let forever = by_k.alter_duration(None::<whimbrel_plan::Duration>).unwrap();
    assert_eq!(merged(&forever, &by_k.sliding(5, Closed::Left).unwrap(), &[("k", "k")]), Some(vec![0]));
}

#[test]
fn runs_lie_together_and_not_with_those_of_others() {
    let dealt = sorted(&["k", "v"]).reshard_runs(vec![column("v"), column("k")], Some(3)).unwrap();
    let runs = Placement::Runs(vec![vec!["v".to_string()], vec!["k".to_string()]]);
    assert_eq!((dealt.properties().shards, &dealt.properties().placement), (3, &runs));
    assert!(dealt.colocated(vec![column("k"), column("v"), column("t")]).is_ok());
    assert!(invalid(dealt.colocated(vec![column("k")])).contains("they lie by runs of v, k over 3 shards"));
    let one = sorted(&["k"]).reshard_runs(vec![column("k")], Some(3)).unwrap();
    let counted = one.where_(column("v").gt(lit(3))).unwrap();
    assert_eq!(counted.properties().placement, Placement::Runs(vec![vec!["k".to_string()]]));
}

#[test]
fn runs_have_to_be_there() {
    let reshard = |stream: &Stream| invalid(stream.reshard_runs(vec![column("k")], Some(3)));
    assert!(reshard(&ticks()).contains("require_sorted"));
    assert!(reshard(&sorted(&["v", "k"])).contains("require_sorted"));
    assert!(reshard(&sorted(&["k"]).distinct().unwrap()).contains("require_sorted"));
    let spread = ticks().reshard(Some(2), Scope::Global).unwrap().require_sorted(vec![column("k")]).unwrap();
    assert!(reshard(&spread).contains("these rows lie in 2 shards"));
}

#[test]
fn an_assertion_is_about_columns_of_a_stream() {
    let no_time = invalid(click_table().require_sorted(vec![column("user")]));
    assert!(no_time.contains("require_sorted"), "{no_time}");
    assert!(invalid(click_table().require_distinct_starts()).contains("require_distinct_starts"));
    let computed = invalid(ticks().require_sorted(vec![column("k") + lit(1)]));
    assert!(computed.contains("takes columns, not k + "), "{computed}");
    assert!(invalid(ticks().require_sorted(vec![])).contains("name a column"));
}

#[test]
fn assertions_are_explained() {
    let stream = sorted(&["k"]).require_distinct_starts().unwrap().require_duration(Some(1.into())).unwrap();
    let explained = stream.reshard_runs(vec![column("k")], Some(2)).unwrap().explain().unwrap();
    for line in ["reshard runs of k", "require a duration of 1", "no two rows start together", "order of k"] {
        assert!(explained.contains(line), "{line} in\n{explained}");
    }
    let merged =
        sorted(&["k"]).join(&sorted(&["k"]), vec![(column("k"), column("k"))], JoinKind::Inner, "_r");
    assert!(merged.unwrap().explain().unwrap().starts_with("merge join on k"));
}
