//! Predicate pushdown: Parquet files under a predicate give the rows that a filter over the same rows in
//! memory gives.

use crate::data::*;
use crate::files::{Folder, scan, write_parquet};
use datafusion::arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use datafusion::common::ScalarValue;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, lit};
use std::sync::Arc;
use whimbrel_plan::{JoinKind, Stream, column};
use whimbrel_sharded::action::collect;
use whimbrel_sharded::analyze;
use whimbrel_sharded::dataset::MemoryDataset;

const ROWS: i64 = 5000;
const ROW_GROUP: usize = 1000;

/// `id` is sorted; `v` is not, and has nulls; `name` is long; `kind` has few values, and nulls; `price` and
/// `sum` are decimals of 8 and 16 bytes, on both sides of zero, with nulls.
fn table() -> RecordBatch {
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let v: ArrayRef =
        Arc::new(Int64Array::from_iter((0..ROWS).map(|i| (i % 7 != 3).then_some(i * 7919 % 1000))));
    let name: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|i| format!("row number {i}"))));
    let kind: ArrayRef = Arc::new(StringArray::from_iter(
        (0..ROWS).map(|i| (i % 5 != 0).then_some(["plain", "10", "rare"][(i * 31 % 7 % 3) as usize])),
    ));
    let decimals = |precision| -> ArrayRef {
        let values = (0..ROWS).map(|i| (i % 11 != 4).then_some(i128::from(i * 7717 % 2000 - 1000)));
        Arc::new(Decimal128Array::from_iter(values).with_precision_and_scale(precision, 2).unwrap())
    };
    let (price, sum) = (decimals(15), decimals(30));
    let columns = [("id", id), ("v", v), ("name", name), ("kind", kind), ("price", price), ("sum", sum)];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn memory() -> Stream {
    let rows = table();
    Stream::scan("memory", Arc::new(MemoryDataset::new(rows.schema(), vec![vec![rows]]).unwrap())).unwrap()
}

fn assert_same(folder: &Folder, query: impl Fn(&Stream) -> Stream) {
    let path = folder.path("t.parquet");
    write_parquet(&path, &table(), ROW_GROUP);
    let mut wanted = rows(&query(&memory()), &local());
    wanted.sort();
    for shards in [1, 2, 3, 7] {
        for options in [library(), local()] {
            let mut found = rows(&query(&scan(std::slice::from_ref(&path), shards)), &options);
            found.sort();
            assert_eq!(found, wanted, "{shards} shards");
        }
    }
}

fn select_where(predicate: Expr, columns: &[&str]) -> impl Fn(&Stream) -> Stream {
    move |stream| {
        let rows = stream.where_(predicate.clone()).unwrap();
        rows.select(columns.iter().map(|name| column(*name)).collect()).unwrap()
    }
}

#[test]
fn predicates_hold_at_any_selectivity() {
    let folder = Folder::new();
    let id = || column("id");
    let v = || column("v");
    for predicate in [
        id().eq(lit(4321_i64)),
        id().gt_eq(lit(999_i64)).and(id().lt(lit(1001_i64))),
        id().lt(lit(-1_i64)),
        id().gt_eq(lit(0_i64)),
        v().lt(lit(30_i64)),
        v().lt(lit(900_i64)),
        v().is_null(),
        v().gt(lit(500_i64)).and(id().gt(lit(2500_i64))).and(column("name").not_eq(lit("row number 4000"))),
        v().eq(id()).or(column("name").eq(lit("row number 77"))),
    ] {
        for columns in [&["id", "v", "name"][..], &["name", "id"], &["name"], &["v"]] {
            assert_same(&folder, select_where(predicate.clone(), columns));
        }
    }
}

/// A predicate on a dictionary-encoded column is evaluated once per value, and holds for every row.
#[test]
fn predicates_on_strings_hold_for_every_row() {
    let folder = Folder::new();
    let kind = || column("kind");
    for predicate in [
        kind().eq(lit("rare")),
        kind().eq(lit("nothing")),
        kind().is_null(),
        kind().is_not_null().and(kind().not_eq(lit("plain"))),
        kind().like(lit("%a%")).and(column("id").lt(lit(1500_i64))),
        kind().in_list(vec![lit("10"), lit("rare")], true),
        coalesce(vec![kind(), lit("rare")]).eq(lit("rare")),
        kind().eq(lit("plain")).or(column("v").eq(lit(3_i64))),
        kind().eq(lit("plain")).and(column("name").like(lit("%7"))),
    ] {
        for columns in [&["id", "v", "name", "kind"][..], &["kind", "id"], &["name"], &["kind"]] {
            assert_same(&folder, select_where(predicate.clone(), columns));
        }
    }
}

/// Decimals are read as narrow integers, and come out as they were written.
#[test]
fn predicates_on_decimals_hold_for_every_row() {
    let folder = Folder::new();
    let price = || column("price");
    let cents = |cents| lit(ScalarValue::Decimal128(Some(cents), 15, 2));
    for predicate in [
        price().gt(cents(990)),
        price().lt(cents(900)),
        price().is_null(),
        price().gt_eq(cents(-100)).and(price().lt(cents(100))).and(column("id").gt(lit(100_i64))),
        price().eq(column("sum")).and(column("v").lt(lit(100_i64))),
        column("v").lt(lit(500_i64)).and(price().not_eq(cents(0))),
        column("id").lt(lit(50_i64)),
    ] {
        for columns in [&["id", "price", "sum"][..], &["price"], &["sum", "name"], &["id"]] {
            assert_same(&folder, select_where(predicate.clone(), columns));
        }
    }
}

#[test]
fn a_join_pushes_its_filter_down_to_the_file() {
    let folder = Folder::new();
    for wanted in [vec![17, 18, 4999], (0..ROWS).collect(), vec![]] {
        let keys: ArrayRef = Arc::new(Int64Array::from(wanted));
        let keys = RecordBatch::try_from_iter([("k", keys)]).unwrap();
        assert_same(&folder, |stream| {
            let shards = stream.properties().shards;
            let keys = MemoryDataset::new(keys.schema(), vec![vec![keys.clone()]]).unwrap();
            let keys = Stream::scan("keys", Arc::new(keys)).unwrap();
            let keys = keys.broadcast(Some(shards), whimbrel_plan::Scope::Global).unwrap();
            keys.join(stream, vec![(column("k"), column("id"))], JoinKind::Inner, "_right").unwrap()
        });
    }
}

#[test]
fn row_groups_without_matching_rows_are_skipped() {
    let folder = Folder::new();
    let path = folder.path("t.parquet");
    write_parquet(&path, &table(), ROW_GROUP);
    let wanted = scan(&[path], 1).where_(column("id").gt_eq(lit(4000_i64))).unwrap();
    let action = collect(&wanted, &local()).unwrap();
    action.job().wait().unwrap();
    assert_eq!(action.job().rows_read(), 1000);
}

#[test]
fn files_and_memory_have_statistics() {
    let folder = Folder::new();
    let path = folder.path("t.parquet");
    write_parquet(&path, &table(), ROW_GROUP);
    for stream in [scan(&[path], 2), memory()] {
        let explained = analyze::explain(&stream.distinct().unwrap(), &local()).unwrap();
        let read = explained.lines.last().unwrap();
        assert_eq!(read.rows, Some(5000.0), "{read:?}");
    }
}

#[test]
fn an_analysis_counts_rows_and_bytes() {
    let query = memory().where_(column("id").lt(lit(10_i64))).unwrap();
    let query = query.reshard(Some(3), whimbrel_plan::Scope::Global).unwrap().distinct().unwrap();
    let explained = analyze::analyze(&query, &local()).unwrap().wait().unwrap();
    let counted: Vec<Option<u64>> = explained.lines.iter().map(|line| line.actual_rows).collect();
    assert_eq!(counted.first(), Some(&Some(10)));
    assert_eq!(counted.last(), Some(&Some(5000)));
    let moved: Vec<u64> = explained.lines.iter().filter_map(|line| line.actual_bytes).collect();
    assert!(matches!(moved.as_slice(), [bytes] if *bytes >= 10 * 16), "{moved:?}");
    let text = explained.text(true);
    assert!(text.contains("reshard into 3 shards") && text.contains("took"), "{text}");
}
