//! Our nodes under DataFusion's optimizer: it may prune columns and push predicates, and must not do more.

use crate::support::*;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::{LogicalPlan, lit};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{Optimizer, OptimizerContext, OptimizerRule};
use std::sync::Arc;
use whimbrel_plan::nodes::TimeSpec;
use whimbrel_plan::{Agg, AggFunction, Stream, column, explain, properties};
use whimbrel_temporal::{Closed, IngressOptions};

fn optimized(stream: &Stream, rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>) -> LogicalPlan {
    let context = OptimizerContext::new_with_config_options(Arc::new(ConfigOptions::default()));
    Optimizer::with_rules(rules).optimize(stream.plan().clone(), &context, |_, _| {}).unwrap()
}

fn pruned(stream: &Stream) -> LogicalPlan {
    optimized(stream, vec![Arc::new(OptimizeProjections::new())])
}

fn last_line(plan: &LogicalPlan) -> String {
    let text = explain(plan).unwrap();
    let line = text.lines().last().unwrap();
    line.split("  | ").next().unwrap().trim().to_string()
}

#[test]
fn only_the_columns_in_use_are_read() {
    let stream = clicks()
        .rekey(vec![column("item")])
        .unwrap()
        .redistribute(None, whimbrel_plan::Scope::Global)
        .unwrap()
        .hopping("5m", "1m", 0, Closed::Left)
        .unwrap()
        .aggregate(vec![("n".into(), Agg::count())])
        .unwrap();
    let plan = pruned(&stream);
    assert_eq!(last_line(&plan), "read clicks (nothing): time, item");
    assert_eq!(plan.schema().as_arrow(), stream.plan().schema().as_arrow());
    assert_eq!(&properties(&plan).unwrap(), stream.properties());
}

#[test]
fn sessions_clips_and_starts_keep_what_they_need() {
    let other = ticks();
    let stream = ticks()
        .rekey(vec![column("k")])
        .unwrap()
        .session(5, None)
        .unwrap()
        .with_start("s")
        .unwrap()
        .clip(&other, vec![(column("k"), column("k"))])
        .unwrap()
        .clip_constant(100)
        .unwrap()
        .point_at_end()
        .unwrap()
        .rekey(vec![])
        .unwrap()
        .select(vec![column("s")])
        .unwrap();
    let plan = pruned(&stream);
    let text = explain(&plan).unwrap();
    assert_eq!(text.matches("read ticks (nothing): t, k ").count(), 2, "{text}");
    assert_eq!(plan.schema().as_arrow(), stream.plan().schema().as_arrow());
}

#[test]
fn edges_keep_their_time_columns() {
    let fields = [
        ("v", DataType::Int32),
        ("s", DataType::Int64),
        ("w", DataType::Int32),
        ("e", DataType::Int64),
        ("what", DataType::Utf8),
    ];
    let stream = table("edges", &fields)
        .ingress(TimeSpec::edges("s", "e", "what"), IngressOptions::default())
        .unwrap()
        .aggregate(vec![("x".into(), Agg::of(AggFunction::Max, column("w")))])
        .unwrap();
    assert_eq!(last_line(&pruned(&stream)), "read edges (nothing): s, w, e, what");
}

#[test]
fn predicates_stop_where_they_would_change_the_answer() {
    let keyed = clicks().rekey(vec![column("user")]).unwrap().session("5m", None).unwrap();
    let both = column("user").gt(lit(5_i64)).and(column("price").gt(lit(1.0)));
    let stream = keyed.hopping("5m", "1m", 0, Closed::Left).unwrap().where_(both).unwrap();
    let plan = optimized(&stream, vec![Arc::new(PushDownFilter::new())]);
    let steps: Vec<String> =
        explain(&plan).unwrap().lines().map(|l| l.split("  | ").next().unwrap().trim().to_string()).collect();
    assert_eq!(
        steps,
        [
            "hopping 5m hop 1m",
            "where price > 1",
            "session 5m by user",
            "rekey by user",
            "where user > 5",
            "events at time",
            "read clicks (nothing)",
        ]
    );
}

#[test]
fn the_whole_optimizer_leaves_a_plan_that_means_the_same() {
    let stream = crate::papers::without_bots();
    let context = OptimizerContext::new_with_config_options(Arc::new(ConfigOptions::default()));
    let plan = Optimizer::new().optimize(stream.plan().clone(), &context, |_, _| {}).unwrap();
    assert_eq!(plan.schema().as_arrow(), stream.plan().schema().as_arrow());
    assert_eq!(&properties(&plan).unwrap(), stream.properties());
}
