//! Memory limits: operators spill, and the answers are the same.

use crate::data::*;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field};
use std::sync::Arc;
use whimbrel_plan::{Agg, AggFunction, JoinKind, Stream, column};
use whimbrel_sharded::{Memory, Options, replay};

const ROWS: i64 = 60_000;

/// A limit of less than a tenth of what the operators hold.
fn limited(options: Options) -> Options {
    Options { memory: Memory::Query(400 << 10), batch_rows: 4_000, ..options }
}

/// Rows with keys, some null and one frequent, numbers, and different strings.
fn rows_of(seed: u64, name: &str, rows: i64) -> RecordBatch {
    let mut random = Random(seed);
    let keys: Int64Array = (0..rows)
        .map(|row| match random.below(10) {
            0 => None,
            1 if row % 8 == 0 => Some(7),
            _ => Some(random.below(rows as u64)),
        })
        .collect();
    let texts_of = (0..rows).map(|row| format!("{name}, row number {row}, a text that is not short"));
    let key = (Field::new("k", DataType::Int64, true), Arc::new(keys) as ArrayRef);
    table(vec![key, ints(name, 0..rows), texts(&format!("{name}_text"), texts_of)])
}

fn assert_same(query: &Stream) {
    let expected = rows(query, &Options { batch_rows: 4_000, ..library() });
    assert!(!expected.is_empty());
    for options in [library(), local()] {
        assert_eq!(rows(query, &limited(options)), expected);
    }
}

#[test]
fn rows_are_sorted() {
    let table = relation(&rows_of(1, "v", ROWS), 1, 1);
    for by in [
        vec![column("v").sort(false, false)],
        vec![column("k").sort(true, true), column("v").sort(true, true)],
    ] {
        let query = table.sort(by).unwrap();
        let expected = rows_in_order(&query, &Options { batch_rows: 4_000, ..library() });
        for options in [library(), local()] {
            assert_eq!(rows_in_order(&query, &limited(options)), expected);
        }
    }
}

#[test]
fn a_large_limit_is_sorted() {
    let table = relation(&rows_of(11, "v", ROWS), 1, 1);
    let query =
        table.sort(vec![column("v_text").sort(false, false)]).unwrap().limit(10, Some(50_000)).unwrap();
    let expected = rows_in_order(&query, &Options { batch_rows: 4_000, ..library() });
    assert_eq!(expected.len(), 50_000);
    for options in [library(), local()] {
        assert_eq!(rows_in_order(&query, &limited(options)), expected);
    }
}

#[test]
fn rows_are_grouped() {
    let table = relation(&rows_of(2, "v", ROWS), 1, 1);
    let sum = || Agg::of(AggFunction::Sum, column("v"));
    for key in ["k", "v_text"] {
        let groups = table.rekey(vec![column(key)]).unwrap();
        assert_same(&groups.aggregate(vec![("sum".into(), sum()), ("n".into(), Agg::count())]).unwrap());
    }
}

#[test]
fn tables_are_joined() {
    let (left, right) = (rows_of(3, "v", ROWS), rows_of(4, "w", ROWS / 2));
    let (left, right) = (relation(&left, 1, 1), relation(&right, 1, 1));
    for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Full, JoinKind::Semi, JoinKind::Anti] {
        let on = || vec![(column("k"), column("k"))];
        assert_same(&left.join(&right, on(), kind, "_right").unwrap());
        assert_same(&right.join(&left, on(), kind, "_right").unwrap());
    }
}

#[test]
fn joins_feed_joins_and_sorts() {
    let tables = [rows_of(5, "a", ROWS / 3), rows_of(6, "b", ROWS / 3), rows_of(7, "c", ROWS / 3)];
    let [a, b, c] = tables.map(|table| relation(&table, 1, 1));
    let on = |left: &str, right: &str| vec![(column(left), column(right))];
    let both = a.join(&b, on("a", "b"), JoinKind::Inner, "_b").unwrap();
    let all = both.join(&c, on("a", "c"), JoinKind::Left, "_c").unwrap();
    assert_same(&all.sort(vec![column("a").sort(true, true)]).unwrap());
}

/// A channel with a pool of its own spills at the same places whenever it runs, whatever others hold.
#[test]
fn channels_that_spill_run_again() {
    let [a, b] = [rows_of(8, "a", ROWS / 3), rows_of(9, "b", ROWS / 3)].map(|t| relation(&t, 2, 1));
    let joined = a.join(&b, vec![(column("a"), column("b"))], JoinKind::Inner, "_b").unwrap();
    let query = joined.sort(vec![column("a_text").sort(true, true)]).unwrap();
    let options = Options { memory: Memory::Channel(1 << 20), batch_rows: 4_000, ..local() };
    replay::record(&query, &options).unwrap().check().unwrap();
    let refused = replay::record(&query, &limited(local())).err().unwrap().to_string();
    assert!(refused.contains("give each its own"), "{refused}");
}
