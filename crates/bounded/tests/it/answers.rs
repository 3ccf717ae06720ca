//! Shapes of queries, and what every executor answers.

use crate::support::{ask, bound, rows, script};
use std::sync::Arc;
use std::time::{Duration, Instant};
use whimbrel_bounded::{Argument, Database, Executor, MemoryStore, Observed, Options};

const SCHEMA: &str = "
    create table authors (id int primary key, name varchar(20));
    create table books (author int not null references authors, no int, title varchar(20), price int,
        editor int references authors, primary key (author, no), cardinality limit 10 (author));
    insert into authors values (1, 'Ann'), (2, 'Bob'), (3, 'Cid');
    insert into books values (1, 1, 'a', 10, 2), (1, 2, 'b', 20, null), (1, 3, 'c', null, 3),
        (2, 1, 'd', 5, 1), (2, 2, 'e', 20, 1)";

fn executors() -> Vec<(Database, Arc<Observed<MemoryStore>>)> {
    let store = Arc::new(Observed::new(MemoryStore::default()));
    script(&Database::open(store.clone()).unwrap(), SCHEMA);
    let open = |executor| {
        let options = Options { executor, ..Options::default() };
        (Database::open_with(store.clone(), options).unwrap(), store.clone())
    };
    [Executor::Parallel, Executor::Simple, Executor::Lazy].map(open).into()
}

#[test]
fn shapes() {
    let cases: [(&str, &[&str]); 14] = [
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
    ];
    for (db, _) in executors() {
        for (sql, expected) in cases {
            assert_eq!(ask(&db, sql, &[]), expected, "{sql}\n{}", db.compile(sql).unwrap());
        }
    }
}

#[test]
fn parameters_are_typed_by_their_columns() {
    for (db, _) in executors() {
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
}

#[test]
fn executors_differ_in_rounds_alone() {
    let sql = "select b.title, a.name from books b join authors a on a.id = b.author where b.author in (1, 2, 3) limit 4";
    let mut seen = Vec::new();
    for (db, store) in executors() {
        let query = db.prepare(sql).unwrap();
        store.take();
        let answer = rows(&query.call(&[]).unwrap().batch);
        let used = store.take();
        assert!(used.requests <= query.plan().bound.requests);
        seen.push((answer.len(), used.requests, used.rounds));
    }
    assert_eq!(seen[0].2, bound(&executors()[0].0, sql).1);
    assert_eq!(seen[1].1, seen[1].2);
    // Lazily, no more is asked than four rows need.
    assert!(seen[2].1 <= seen[1].1, "{seen:?}");
}

#[test]
fn a_union_waits_for_its_branches_together() {
    let (db, store) = executors().swap_remove(0);
    let sql = "select a.name from books b join authors a on a.id = b.editor where b.author = 1
        union all select a.name from books b join authors a on a.id = b.editor where b.author = 2";
    let query = db.prepare(sql).unwrap();
    store.take();
    assert_eq!(query.call(&[]).unwrap().batch.num_rows(), 4);
    assert_eq!((store.take().rounds, query.plan().bound.rounds), (2, 2));
}

#[test]
fn a_slow_store_is_waited_for_once_a_round() {
    let (db, store) = executors().swap_remove(0);
    let query = db.prepare("select b.title, a.name from books b join authors a on a.id = b.author where b.author in (1, 2, 3)").unwrap();
    store.faults.delay(Duration::from_millis(20));
    let started = Instant::now();
    query.call(&[]).unwrap();
    assert!(started.elapsed() < Duration::from_millis(39 * 2), "{:?}", started.elapsed());
    store.faults.delay(Duration::ZERO);
}
