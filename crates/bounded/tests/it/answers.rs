//! Shapes of queries, and what every executor answers.

use crate::stores::{Kind, everywhere};
use crate::support::{Any, ask, bound, rows, script};
use std::sync::Arc;
use whimbrel_bounded::{Argument, Database, Executor, Observed, Options};

const SCHEMA: &str = "
    create table authors (id int primary key, name varchar(20));
    create table books (author int not null references authors, no int, title varchar(20), price int,
        editor int references authors, primary key (author, no), cardinality limit 10 (author));
    insert into authors values (1, 'Ann'), (2, 'Bob'), (3, 'Cid');
    insert into books values (1, 1, 'a', 10, 2), (1, 2, 'b', 20, null), (1, 3, 'c', null, 3),
        (2, 1, 'd', 5, 1), (2, 2, 'e', 20, 1)";

fn executors(kind: Kind) -> Vec<(Database, Arc<Observed<Any>>)> {
    let store = Arc::new(Observed::new(kind.fresh()));
    script(&Database::open(store.clone()).unwrap(), SCHEMA);
    let open = |executor| {
        let options = Options { executor, ..Options::default() };
        (Database::open_with(store.clone(), options).unwrap(), store.clone())
    };
    [Executor::Parallel, Executor::Simple, Executor::Lazy].map(open).into()
}

#[test]
fn shapes() {
    let cases: [(&str, &[&str]); 24] = [
        ("select title from books where author = 1 and price > 5", &["a", "b"]),
        ("select count(*), sum(price), max(title) from books where author = 1", &["3|30|c"]),
        (
            "select price, count(*) from books where author = 2 group by price order by price",
            &["5|1", "20|1"],
        ),
        (
            "select price, count(*) as n from books where author = 2 group by price having price > 5",
            &["20|1"],
        ),
        (
            "select b.title, e.name from books b left join authors e on e.id = b.editor where b.author = 1 order by b.no",
            &["a|Bob", "b|null", "c|Cid"],
        ),
        (
            "select b.title, e.name from books b left join authors e on e.id = b.editor and e.name <> 'Bob' where b.author = 1 order by b.no",
            &["a|null", "b|null", "c|Cid"],
        ),
        (
            "select title from books where author = 1 union all select title from books where author = 2 order by title desc limit 2",
            &["e", "d"],
        ),
        ("select distinct editor from books where author = 2", &["1"]),
        (
            "select a.name, b.title from authors a join books b on b.author = a.id where a.id in (1, 2, 2) order by b.title limit 3",
            &["Ann|a", "Ann|b", "Ann|c"],
        ),
        ("select title from books where author in (2, 1) and no = 1 order by title", &["a", "d"]),
        (
            "select upper(title) as t from books where author = 1 and no between 2 and 3 order by t desc",
            &["C", "B"],
        ),
        ("select title from books where author = 1 and no = 2.0", &["b"]),
        (
            "select x.title from (select author, no, title from books where author = 1 order by no desc limit 2) x order by x.title limit 5",
            &["b", "c"],
        ),
        ("select 1 + 1", &["2"]),
        ("select name from authors where id = 3 or id = 1 or id in (1, 7) order by name", &["Ann", "Cid"]),
        ("select title from books where author = 1 and (no = 1 or no = 3) order by no", &["a", "c"]),
        ("select name from authors where name like 'B%' limit 3", &["Bob"]),
        ("select name from authors where starts_with(name, 'A') order by name desc limit 3", &["Ann"]),
        ("select title from books where author = 1 and (no = 1 or price = 20) order by no", &["a", "b"]),
        ("select name from authors where name like '%' order by name limit 2", &["Ann", "Bob"]),
        ("select name from authors where id in (1, 2, 3) and name like '_ob'", &["Bob"]),
        (
            "select distinct on (author) author, title from books where author in (1, 2) order by author desc, price desc",
            &["2|e", "1|c"],
        ),
        (
            "select distinct on (price) price, no from books where author in (1, 2) order by price nulls last, no desc limit 2",
            &["5|1", "10|1"],
        ),
        (
            "select editor from books where author = 1 union select editor from books where author = 2 order by editor desc limit 2",
            &["null", "3"],
        ),
    ];
    everywhere(|kind| {
        for (db, _) in executors(kind) {
            for (sql, expected) in cases {
                assert_eq!(ask(&db, sql, &[]), expected, "{kind:?}: {sql}\n{}", db.compile(sql).unwrap());
            }
        }
    });
}

#[test]
fn parameters_are_typed_by_their_columns() {
    everywhere(|kind| {
        for (db, _) in executors(kind) {
            let sql = "select title from books where author = :a and price >= :p and no in (:list limit 4) order by title";
            let query = db.prepare(sql).unwrap();
            let call = |a: i64, p: i64, list: Vec<i64>| {
                rows(&query.call(&[a.into(), p.into(), Argument::list(list)]).unwrap().batch)
            };
            assert_eq!(call(1, 10, vec![1, 2, 3]), ["a", "b"]);
            assert_eq!(call(2, 10, vec![]), Vec::<String>::new());
            let error = query.call(&[1.into(), 1.into(), Argument::list(0..5)]).unwrap_err();
            assert!(error.to_string().contains("at most 4 values"), "{error}");
            assert!(query.call(&[1.into()]).unwrap_err().to_string().contains("3 parameters"));
            // Null equals nothing.
            let null = datafusion::common::ScalarValue::Int32(None);
            assert_eq!(
                rows(&query.call(&[null.into(), 1.into(), Argument::list([1])]).unwrap().batch),
                Vec::<String>::new()
            );
        }
    });
}

#[test]
fn executors_differ_in_rounds_alone() {
    let sql = "select b.title, a.name from books b join authors a on a.id = b.author where b.author in (1, 2, 3) limit 4";
    everywhere(|kind| {
        let mut seen = Vec::new();
        for (db, store) in executors(kind) {
            let query = db.prepare(sql).unwrap();
            store.take();
            let answer = rows(&query.call(&[]).unwrap().batch);
            let used = store.take();
            assert!(used.requests <= query.plan().bound.requests);
            seen.push((answer.len(), used.requests, used.rounds));
        }
        assert_eq!(seen[0].2, bound(&executors(kind)[0].0, sql).1);
        assert_eq!(seen[1].1, seen[1].2);
        // Lazily, no more is asked than four rows need.
        assert!(seen[2].1 <= seen[1].1, "{seen:?}");
    });
}

#[test]
fn a_union_waits_for_its_branches_together() {
    let (db, store) = executors(Kind::Memory).swap_remove(0);
    let sql = "select a.name from books b join authors a on a.id = b.editor where b.author = 1
        union all select a.name from books b join authors a on a.id = b.editor where b.author = 2";
    let query = db.prepare(sql).unwrap();
    store.take();
    assert_eq!(query.call(&[]).unwrap().batch.num_rows(), 4);
    assert_eq!((store.take().rounds, query.plan().bound.rounds), (2, 2));
}

#[test]
fn a_store_is_waited_for_once_a_round() {
    let (db, store) = executors(Kind::Memory).swap_remove(0);
    let query = db.prepare("select b.title, a.name from books b join authors a on a.id = b.author where b.author in (1, 2, 3)").unwrap();
    store.take();
    query.call(&[]).unwrap();
    // Two rounds, in which four requests would be waited for one after the other.
    assert_eq!(store.take().rounds, 2);
}

#[test]
fn a_beginning_is_an_interval() {
    for (db, _) in executors(Kind::Memory) {
        let query = db
            .prepare("select name from authors where starts_with(name, :begin) order by name limit 2")
            .unwrap();
        let call = |begin: &str| rows(&query.call(&[begin.into()]).unwrap().batch);
        assert_eq!(call(""), ["Ann", "Bob"]);
        assert_eq!(call("C"), ["Cid"]);
        assert_eq!(call("Bobb"), Vec::<String>::new());
        assert_eq!(query.plan().bound.requests, 1, "{}", query.plan());
        let error =
            db.prepare("select name from authors where name like :begin limit 2").unwrap_err().to_string();
        assert!(
            error.contains("select name from authors where starts_with(name, :begin) limit 2"),
            "{error}"
        );
    }
}

#[test]
fn instants_are_written_as_texts() {
    let (db, _) = executors(Kind::Memory).swap_remove(0);
    script(&db, "create table log (at timestamp primary key, day date)");
    script(&db, "insert into log values ('2026-01-01', '2026-01-01'), ('2026-01-02T10:00:00', '2026-01-02')");
    for sql in [
        "select day from log where at > '2026-01-01' order by at limit 3",
        "select day from log where at = '2026-01-02 10:00:00'",
        "select day from log where at between '2026-01-02' and '2026-01-03' limit 3",
        "select day from log where day >= '2026-01-02' order by day limit 3",
    ] {
        assert_eq!(ask(&db, sql, &[]), ["2026-01-02"], "{sql}");
    }
}
