//! Keys are ordered as their values are, for every type and direction, and nothing that is read back can do
//! harm.

use crate::support::{counted, script};
use proptest::prelude::*;
use std::cmp::Ordering;
use whimbrel_bounded::Cursor;
use whimbrel_bounded::datum::{Datum, Type};
use whimbrel_bounded::keys::{Decoded, KeyOrder, decode, encode};

/// Values of one type.
#[derive(Debug, Clone)]
struct Column {
    of: Type,
    values: Vec<Decoded>,
}

fn column() -> impl Strategy<Value = Column> {
    let of = |of: Type, value: BoxedStrategy<Decoded>| {
        let value = prop_oneof![1 => Just(Decoded::Null), 9 => value];
        prop::collection::vec(value, 3).prop_map(move |values| Column { of, values }).boxed()
    };
    let text = "[\\x00a-c\u{ff}\u{10ffff}]{0,4}";
    prop_oneof![
        of(Type::Bool, any::<bool>().prop_map(Decoded::Bool).boxed()),
        of(Type::Int16, any::<i16>().prop_map(|v| Decoded::Int(v.into())).boxed()),
        of(Type::Int32, any::<i32>().prop_map(|v| Decoded::Int(v.into())).boxed()),
        of(Type::Int64, any::<i64>().prop_map(Decoded::Int).boxed()),
        of(Type::Date, any::<i32>().prop_map(|v| Decoded::Int(v.into())).boxed()),
        of(Type::Timestamp, any::<i64>().prop_map(Decoded::Int).boxed()),
        of(Type::Float64, any::<f64>().prop_map(Decoded::Float).boxed()),
        of(Type::Decimal(38, 2), any::<i128>().prop_map(Decoded::Decimal).boxed()),
        of(Type::Text(None), text.prop_map(Decoded::Text).boxed()),
        of(
            Type::Bytes(None),
            prop::collection::vec(prop_oneof![Just(0), Just(255), any::<u8>()], 0..5)
                .prop_map(Decoded::Bytes)
                .boxed()
        ),
    ]
}

fn order() -> impl Strategy<Value = KeyOrder> {
    (any::<bool>(), any::<bool>()).prop_map(|(descending, nulls_first)| KeyOrder { descending, nulls_first })
}

fn compare(left: &Decoded, right: &Decoded, order: KeyOrder) -> Ordering {
    let plain = match (left, right) {
        (Decoded::Null, Decoded::Null) => return Ordering::Equal,
        (Decoded::Null, _) => return if order.nulls_first { Ordering::Less } else { Ordering::Greater },
        (_, Decoded::Null) => return compare(right, left, order).reverse(),
        (Decoded::Bool(a), Decoded::Bool(b)) => a.cmp(b),
        (Decoded::Int(a), Decoded::Int(b)) => a.cmp(b),
        (Decoded::Float(a), Decoded::Float(b)) if a == b => Ordering::Equal,
        (Decoded::Float(a), Decoded::Float(b)) => a.total_cmp(b),
        (Decoded::Decimal(a), Decoded::Decimal(b)) => a.cmp(b),
        (Decoded::Text(a), Decoded::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Decoded::Bytes(a), Decoded::Bytes(b)) => a.cmp(b),
        other => panic!("{other:?}"),
    };
    if order.descending { plain.reverse() } else { plain }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn keys_are_ordered_as_tuples_are(columns in prop::collection::vec((column(), order()), 1..4)) {
        let key = |row: usize| {
            let mut key = Vec::new();
            columns.iter().for_each(|(column, order)| encode(column.values[row].datum(), *order, &mut key));
            key
        };
        let by_values = |a: usize, b: usize| {
            let parts = columns.iter().map(|(column, order)| compare(&column.values[a], &column.values[b], *order));
            parts.fold(Ordering::Equal, Ordering::then)
        };
        for (a, b) in [(0, 1), (1, 2), (0, 2)] {
            prop_assert_eq!(key(a).cmp(&key(b)), by_values(a, b));
        }
    }

    #[test]
    fn keys_are_read_back(column in column(), order in order(), tail in prop::collection::vec(any::<u8>(), 0..4)) {
        for value in &column.values {
            let mut key = Vec::new();
            encode(value.datum(), order, &mut key);
            key.extend(&tail);
            let mut rest = key.as_slice();
            let read = decode(column.of, order, &mut rest).unwrap();
            prop_assert_eq!(rest, tail.as_slice());
            match (value, &read) {
                (Decoded::Float(a), Decoded::Float(b)) => prop_assert!(a == b || (a.is_nan() && b.is_nan())),
                (a, b) => prop_assert_eq!(a, b),
            }
        }
    }

    #[test]
    fn bytes_that_are_no_key_are_an_error(column in column(), order in order(), bytes in prop::collection::vec(any::<u8>(), 0..24)) {
        let mut rest = bytes.as_slice();
        let _ = decode(column.of, order, &mut rest);
    }
}

#[test]
fn zeros_and_nans_are_one_each() {
    let key = |value: f64| {
        let mut key = Vec::new();
        encode(Datum::Float(value), KeyOrder::ASCENDING, &mut key);
        key
    };
    assert_eq!(key(0.0), key(-0.0));
    assert_eq!(key(f64::NAN), key(-f64::NAN));
    assert!(key(f64::INFINITY) < key(f64::NAN));
}

#[test]
fn texts_that_are_no_cursor_are_refused() {
    let (db, _) = counted();
    script(
        &db,
        "create table t (a int, b int, primary key (a, b)); insert into t values (1, 1), (1, 2), (1, 3)",
    );
    let query = db.prepare("select b from t where a = 1 order by b paginate 1").unwrap();
    let good = query.call(&[]).unwrap().cursor.unwrap();
    let mut runner = proptest::test_runner::TestRunner::default();
    runner
        .run(&(".{0,80}", 0..good.as_str().len(), any::<char>()), |(text, at, letter)| {
            let made_up: Cursor = text.parse().unwrap();
            prop_assert!(query.page(&[], Some(&made_up)).is_err());
            let mut changed: Vec<char> = good.as_str().chars().collect();
            // The last letter has bits that stand for nothing.
            prop_assume!(changed[at] != letter && at + 1 < changed.len());
            changed[at] = letter;
            let changed: Cursor = changed.into_iter().collect::<String>().parse().unwrap();
            prop_assert!(query.page(&[], Some(&changed)).is_err());
            let cut: Cursor = good.as_str()[..at].parse().unwrap();
            prop_assert!(query.page(&[], Some(&cut)).is_err());
            Ok(())
        })
        .unwrap();
}
