//! Plans of relations are DataFusion's own: its analyzer, optimizer and planner take them, and the columns
//! that come out are those that the plan promised.

use crate::support::Nothing;
use arrow::array::{ArrayRef, Int32Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::MemTable;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;
use whimbrel_plan::{Agg, AggFunction, JoinKind, Node, SourceInfo, Stream, column, node, source_of};

/// A table, and the rows that stand in for it when the plan runs.
fn table(name: &str, rows: &RecordBatch) -> Stream {
    let info = SourceInfo { schema: rows.schema(), bounded: true, shards: 1, groups: 1 };
    Stream::scan(name, Arc::new(Nothing(info))).unwrap()
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn orders() -> RecordBatch {
    let k: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(1), Some(2), None]));
    let v: ArrayRef = Arc::new(Int32Array::from(vec![10, 11, 20, 40]));
    rows(vec![("k", k), ("v", v)])
}

fn users() -> RecordBatch {
    let k: ArrayRef = Arc::new(Int64Array::from(vec![1, 3]));
    let v: ArrayRef = Arc::new(StringArray::from(vec!["ann", "cat"]));
    rows(vec![("k", k), ("v", v)])
}

/// Runs the plan with the rows in place of the tables; ordered lines without the frame.
fn run(stream: &Stream, tables: &[RecordBatch]) -> Vec<String> {
    let plan = stream.plan().clone().transform_up(|p| {
        Ok(match (&p, node(&p)) {
            // Executing keys is not DataFusion's affair; on relations they are in the other nodes already.
            (_, Some(Node::ReKey(n))) => Transformed::yes(n.input.clone().into_inner()),
            (LogicalPlan::TableScan(scan), _) => {
                let wanted = source_of(scan).unwrap().info().schema;
                let rows = tables.iter().find(|t| t.schema() == wanted).unwrap().clone();
                let mut scan = scan.clone();
                scan.source = provider_as_source(Arc::new(MemTable::try_new(wanted, vec![vec![rows]])?));
                Transformed::yes(LogicalPlan::TableScan(scan))
            }
            _ => Transformed::no(p),
        })
    });
    let config = SessionConfig::new().with_target_partitions(1);
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let batches = runtime.block_on(async {
        let frame = SessionContext::new_with_state(state).execute_logical_plan(plan.data().unwrap()).await?;
        frame.collect().await
    });
    let batches = batches.unwrap();
    for batch in &batches {
        let types = |s: &arrow::datatypes::Schema| {
            s.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect::<Vec<_>>()
        };
        assert_eq!(types(&batch.schema()), types(stream.schema()));
    }
    let text = pretty_format_batches(&batches).unwrap().to_string();
    let line = |l: &str| l.split('|').map(str::trim).collect::<Vec<_>>().join(" ").trim().to_string();
    let mut lines: Vec<String> = text.lines().filter(|l| !l.starts_with('+')).skip(1).map(line).collect();
    lines.sort();
    lines
}

fn on_k() -> Vec<(Expr, Expr)> {
    vec![(column("k"), column("k"))]
}

#[test]
fn joins_of_every_kind() {
    let (l, r) = (orders(), users());
    let join =
        |kind, on| run(&table("l", &l).join(&table("r", &r), on, kind, "_r").unwrap(), &[orders(), users()]);
    assert_eq!(join(JoinKind::Inner, on_k()), ["1 10 ann", "1 11 ann"]);
    assert_eq!(join(JoinKind::Left, on_k()), ["1 10 ann", "1 11 ann", "2 20", "40"]);
    assert_eq!(join(JoinKind::Full, on_k()), ["1 10 ann", "1 11 ann", "2 20", "3  cat", "40"]);
    assert_eq!(join(JoinKind::Semi, on_k()), ["1 10", "1 11"]);
    assert_eq!(join(JoinKind::Anti, on_k()), ["2 20", "40"]);
    assert_eq!(join(JoinKind::Cross, vec![]).len(), 8);
    assert_eq!(join(JoinKind::Semi, vec![]).len(), 4);
    assert_eq!(join(JoinKind::Anti, vec![]).len(), 0);
}

#[test]
fn joins_on_computed_and_cast_columns() {
    let (l, r) = (table("l", &orders()), table("r", &users()));
    let on = vec![(column("v") % lit(10_i64), column("k"))];
    let joined = l.join(&r, on.clone(), JoinKind::Inner, "_r").unwrap();
    assert_eq!(run(&joined, &[orders(), users()]), ["1 11 1 ann"]);
    let exists = l.where_exists(&r, on).unwrap();
    assert_eq!(run(&exists, &[orders(), users()]), ["1 11"]);
}

#[test]
fn a_relation_meets_itself() {
    let l = table("l", &orders());
    let twice = l.join(&l, on_k(), JoinKind::Inner, "_again").unwrap();
    assert_eq!(run(&twice, &[orders()]), ["1 10 10", "1 10 11", "1 11 10", "1 11 11", "2 20 20"]);
    let thrice = twice.join(&l, on_k(), JoinKind::Semi, "").unwrap();
    assert_eq!(run(&thrice, &[orders()]).len(), 5);
}

#[test]
fn aggregates() {
    let of = |f| Agg::of(f, column("v"));
    let stream = table("l", &orders())
        .rekey(vec![column("k")])
        .unwrap()
        .aggregate(vec![
            ("n".into(), Agg::count()),
            ("big".into(), Agg::count().filter(column("v").gt(lit(10)))),
            ("sum".into(), of(AggFunction::Sum)),
            ("avg".into(), of(AggFunction::Average)),
            ("min".into(), of(AggFunction::Min)),
            ("max".into(), of(AggFunction::Max)),
            ("first".into(), of(AggFunction::First)),
            ("last".into(), of(AggFunction::Last)),
            ("different".into(), of(AggFunction::CountDistinct)),
        ])
        .unwrap();
    assert_eq!(
        run(&stream, &[orders()]),
        ["1 1 40 40.0 40 40 40 40 1", "1 2 1 21 10.5 10 11 10 11 2", "2 1 1 20 20.0 20 20 20 20 1"]
    );
}

#[test]
fn unions_lists_sorts_and_limits() {
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let k: ArrayRef = Arc::new(Int32Array::from(vec![9]));
    let other = rows(vec![("v", wide), ("k", k)]);
    let union = table("l", &orders()).union(&table("o", &other)).unwrap();
    let tables = [orders(), other];
    assert_eq!(run(&union, &tables), ["1 10", "1 11", "2 20", "40", "9 7"]);
    let top = union.sort(vec![column("v").sort(false, false)]).unwrap().limit(1, Some(2)).unwrap();
    assert_eq!(run(&top, &tables), ["1 11", "2 20"]);
    let keys = union.select(vec![column("k")]).unwrap().distinct().unwrap();
    assert_eq!(run(&keys, &tables).len(), 4);

    let list = vec![Some(vec![Some(1), Some(2)]), None, Some(vec![])];
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(list));
    let lists = rows(vec![("l", list)]);
    let each = table("lists", &lists).select_many(column("l"), "x").unwrap().select(vec![column("x")]);
    assert_eq!(run(&each.unwrap(), &[lists]), ["1", "2"]);
}
