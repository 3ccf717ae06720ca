//! Transferability: over rows that never end, the last snapshot of the result of a stream is the result over
//! the table of these rows.

use crate::data::*;
use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::prelude::lit;
use std::sync::Arc;
use whimbrel_plan::nodes::{Scope, TimeSpec};
use whimbrel_plan::{Agg, AggFunction, JoinKind, Stream, column};
use whimbrel_temporal::IngressOptions;

/// Rows that never end: start edges.
fn staying(rows: &RecordBatch) -> RecordBatch {
    let mut columns: Vec<_> = rows
        .schema()
        .fields()
        .iter()
        .map(|f| f.as_ref().clone())
        .zip(rows.columns().iter().cloned())
        .collect();
    let nulls = Int64Array::from(vec![None; rows.num_rows()]);
    columns.push((Field::new("until", DataType::Int64, true), Arc::new(nulls)));
    table(columns)
}

fn events(rows: &RecordBatch, shards: usize) -> Stream {
    let time = TimeSpec::interval("time", "until");
    relation(rows, shards, 1).ingress(time, IngressOptions::default()).unwrap()
}

fn check(name: &str, query: impl Fn(Stream, Stream) -> Stream) {
    let clicks = staying(&clicks(300));
    let others = staying(&table(vec![
        ints("time", (0..30).map(|i| i * 3)),
        ints("user", (0..30).map(|i| i * 2)),
        ints("age", 20..50),
    ]));
    for shards in [1, 3] {
        let table = query(relation(&clicks, shards, 1), relation(&others, shards, 1));
        let stream = query(events(&clicks, shards), events(&others, shards));
        for options in [library(), local()] {
            let expected = rows(&table, &options);
            assert!(!expected.is_empty(), "{name} says nothing");
            assert_eq!(last_snapshot(&stream, &options), expected, "{name}, {shards} shards");
        }
    }
}

fn by_user(stream: &Stream) -> Stream {
    stream.rekey(vec![column("user")]).unwrap().redistribute(None, Scope::Global).unwrap()
}

#[test]
fn rows_one_by_one() {
    check("where", |s, _| s.where_(column("cost").gt(lit(50_i64))).unwrap());
    check("select", |s, _| {
        s.select(vec![(column("cost") + column("user")).alias("x"), column("ad")]).unwrap()
    });
    check("distinct", |s, _| s.select(vec![column("ad"), column("user")]).unwrap().distinct().unwrap());
    check("union", |s, o| {
        let users = |s: Stream| s.select(vec![column("user"), column("time")]).unwrap();
        users(s).union(&users(o)).unwrap()
    });
}

#[test]
fn aggregates() {
    let all = || {
        let of = |f| Agg::of(f, column("cost"));
        vec![
            ("n".to_string(), Agg::count()),
            ("sum".to_string(), of(AggFunction::Sum)),
            ("mean".to_string(), of(AggFunction::Average)),
            ("least".to_string(), of(AggFunction::Min)),
            ("most".to_string(), of(AggFunction::Max)),
            ("kinds".to_string(), of(AggFunction::CountDistinct)),
            ("dear".to_string(), Agg::count().filter(column("cost").gt(lit(90_i64)))),
            ("name".to_string(), Agg::of(AggFunction::Max, column("ad"))),
        ]
    };
    check("aggregate", |s, _| s.aggregate(all()).unwrap());
    check("aggregate by key", |s, _| by_user(&s).aggregate(all()).unwrap());
    check("aggregate of aggregates", |s, _| {
        let n = by_user(&s).aggregate(count()).unwrap().rekey(vec![column("n")]).unwrap();
        let n = n.redistribute(None, Scope::Global).unwrap();
        n.aggregate(vec![("users".to_string(), Agg::count())]).unwrap()
    });
    check("group apply", |s, _| s.group_apply(vec![column("ad")], |g| g.aggregate(count())).unwrap());
}

#[test]
fn joins() {
    for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Full, JoinKind::Semi, JoinKind::Anti] {
        check(kind.name(), |s, o| by_user(&s).join(&by_user(&o), vec![], kind, "_right").unwrap());
    }
    check("cross", |s, o| {
        let few = |s: Stream| {
            s.where_(column("user").lt(lit(4_i64))).unwrap().broadcast(None, Scope::Global).unwrap()
        };
        few(s).join(&few(o), vec![], JoinKind::Cross, "_right").unwrap()
    });
    check("where not exists", |s, o| {
        by_user(&s).where_not_exists(&by_user(&o), vec![]).unwrap().aggregate(count()).unwrap()
    });
}

/// A table that meets a stream is always alive.
#[test]
fn tables_meet_streams() {
    let (clicks, users) = (clicks(400), table(vec![ints("user", 0..20), ints("age", 20..40)]));
    let expected = {
        let both = by_user(&relation(&clicks, 1, 1)).join(
            &relation(&users, 1, 1),
            by("user"),
            JoinKind::Inner,
            "_r",
        );
        crate::data::rows(&both.unwrap(), &library())
    };
    for shards in [1, 2] {
        let users = relation(&users, 1, 1).where_(column("age").gt(lit(0_i64))).unwrap();
        let users = users.broadcast(Some(shards), Scope::Global).unwrap();
        let stream = points(&clicks, shards, 1).join(&users, by("user"), JoinKind::Inner, "_r").unwrap();
        for options in [library(), local()] {
            let mut found: Vec<String> = crate::data::rows(&stream, &options)
                .iter()
                .map(|row| row.splitn(3, ' ').nth(2).unwrap().to_string())
                .collect();
            found.sort();
            assert_eq!(found, expected);
        }
    }
}

fn by(name: &str) -> Vec<(datafusion::prelude::Expr, datafusion::prelude::Expr)> {
    vec![(column(name), column(name))]
}
