//! Rows in and out, and what they may not do.

use crate::stores::everywhere;
use crate::support::{Any, ask, counted, over, rows, script};
use std::sync::Arc;
use whimbrel_bounded::store::{Found, Read};
use whimbrel_bounded::{Argument, Database, EmbeddedStore, Error, MemoryStore, Observed, Store};

fn data(db: &Database, sql: &str) -> String {
    match db.execute(sql, &[]) {
        Err(Error::Data(text)) => text,
        other => panic!("{sql}: {other:?}"),
    }
}

const SCHEMA: &str = "
    create table users (name varchar(8) primary key, mail varchar(20), unique (mail));
    create table follows (owner varchar(8) not null references users, target varchar(8) not null references users,
        weight int, primary key (owner, target), cardinality limit 2 (owner));
    insert into users values ('ann', 'a@x'), ('bob', null), ('cid', null), ('dan', 'd@x')";

#[test]
fn constraints_hold() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        script(&db, SCHEMA);
        script(
            &db,
            "insert into follows values ('ann', 'bob', 1); insert into follows values ('ann', 'cid', 2)",
        );
        assert!(data(&db, "insert into users values ('ann', 'z@x')").contains("name = 'ann' already"));
        assert!(data(&db, "insert into users values ('eve', 'a@x')").contains("mail = 'a@x' already"));
        assert!(
            data(&db, "update users set mail = 'a@x' where name = 'dan'").contains("mail = 'a@x' already")
        );
        assert!(
            data(&db, "insert into follows values ('ann', 'dan', 3)")
                .contains("at most 2 rows with the same (owner)")
        );
        assert!(
            data(&db, "insert into follows values ('bob', 'nobody', 3)")
                .contains("not there: target = 'nobody'")
        );
        assert!(data(&db, "insert into users values (null, 'n@x')").contains("never null"));
        assert!(data(&db, "insert into users values ('much too long', null)").contains("takes 8"));
        assert!(data(&db, "delete from users where name = 'bob'").contains("still refer"));
        assert!(data(&db, "insert into users values ('eve', 'e@x'), ('eve', 'f@x')").contains("same key"));
        // Nothing of it happened.
        assert_eq!(
            ask(&db, "select name, mail from users order by name limit 10", &[]),
            ["ann|a@x", "bob|null", "cid|null", "dan|d@x"]
        );
        script(
            &db,
            "delete from follows where owner = 'ann' and target = 'bob'; delete from users where name = 'bob'",
        );
        script(&db, "insert into follows values ('ann', 'dan', 3)");
        script(
            &db,
            "update users set mail = null where name = 'ann'; update users set mail = 'a@x' where name = 'dan'",
        );
        assert_eq!(ask(&db, "select name from users where mail = 'a@x'", &[]), ["dan"]);
        assert_eq!(ask(&db, "select name from users where mail = 'd@x'", &[]), Vec::<String>::new());
        match db.execute("update users set name = 'x' where name = 'ann'", &[]) {
            Err(Error::Invalid(error)) => assert!(error.to_string().contains("does not change")),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_statement_is_all_or_nothing_where_the_store_can() {
    everywhere(|kind| {
        if kind.writes_key_by_key() {
            return;
        }
        let (db, _) = over(kind.fresh());
        script(&db, SCHEMA);
        data(&db, "insert into follows values ('ann', 'bob', 1), ('ann', 'cid', 1), ('ann', 'dan', 1)");
        assert_eq!(ask(&db, "select * from follows where owner = 'ann'", &[]), Vec::<String>::new());
        let page = db
            .execute("insert into follows values ('ann', 'bob', 1), ('ann', 'cid', 1)", &[])
            .unwrap()
            .unwrap();
        assert_eq!(rows(&page.batch), ["2"]);
        // Bounded rows by a part of the key.
        let page =
            db.execute("update follows set weight = weight + 1 where owner = 'ann'", &[]).unwrap().unwrap();
        assert_eq!(rows(&page.batch), ["2"]);
        let page = db
            .execute("delete from follows where owner = :o and weight = 2", &["ann".into()])
            .unwrap()
            .unwrap();
        assert_eq!(rows(&page.batch), ["2"]);
    });
}

#[test]
fn upsert_writes_over() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        script(&db, SCHEMA);
        script(&db, "upsert into users values ('ann', 'new@x'); upsert into users values ('eve', 'a@x')");
        assert_eq!(ask(&db, "select name from users where mail = 'a@x'", &[]), ["eve"]);
        assert_eq!(ask(&db, "select mail from users where name = 'ann'", &[]), ["new@x"]);
    });
}

#[test]
fn an_index_on_a_table_with_rows_is_filled() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        script(&db, "create table t (id int primary key, g int, s varchar(20))");
        let insert = db.prepare("insert into t values (?, ?, ?)").unwrap();
        for id in 0..600 {
            insert.call(&[id.into(), (id % 200).into(), format!("word{} same", id % 7).into()]).unwrap();
        }
        assert_eq!(ask(&db, "select id from t where g = 5 order by id limit 10", &[]), ["5", "205", "405"]);
        assert_eq!(
            ask(&db, "select id from t where s like [token] 'WORD3' order by id limit 3", &[]),
            ["3", "10", "17"]
        );
        // The statement from before keeps the new indexes.
        insert.call(&[1000.into(), 5.into(), "word3".into()]).unwrap();
        assert_eq!(
            ask(&db, "select id from t where g = 5 order by id limit 10", &[]),
            ["5", "205", "405", "1000"]
        );
        assert!(data(&db, "alter table t add cardinality limit 3 (g)").contains("more than 3 rows"));
        script(&db, "alter table t add cardinality limit 4 (g)");
        assert_eq!(ask(&db, "select count(*) from t where g = 5", &[]), ["4"]);
        assert!(data(&db, "insert into t values (1001, 5, '')").contains("at most 4 rows"));
        assert!(data(&db, "create unique index t_g on t (g)").contains("the same (g) already"));
        script(&db, "alter table t add column extra double");
        assert_eq!(ask(&db, "select extra from t where id = 7", &[]), ["null"]);
        script(&db, "update t set extra = 1.5 where id = 7");
        assert_eq!(ask(&db, "select id, extra from t where id = 7", &[]), ["7|1.5"]);
    });
}

#[test]
fn a_server_that_has_not_heard_of_an_index_keeps_it() {
    everywhere(|kind| {
        unheard_of(Arc::new(Observed::new(kind.fresh())));
    });
}

fn unheard_of(store: Arc<Observed<Any>>) {
    let first = Database::open(store.clone()).unwrap();
    script(&first, "create table t (id int primary key, g int)");
    let second = Database::open(store).unwrap();
    let insert = second.prepare("insert into t values (?, ?)").unwrap();
    insert.call(&[1.into(), 7.into()]).unwrap();
    script(&first, "create index t_g on t (g)");
    insert.call(&[2.into(), 7.into()]).unwrap();
    assert_eq!(ask(&first, "select id from t where g = 7 order by id limit 5", &[]), ["1", "2"]);
}

#[test]
fn servers_that_start_together_make_an_index_once() {
    everywhere(|kind| {
        let store = Arc::new(kind.fresh());
        let first = Database::open(store.clone()).unwrap();
        script(&first, "create table t (id int primary key, a int, b int, c int)");
        (0..30).for_each(|id| {
            script(&first, &format!("insert into t values ({id}, {}, {}, 7)", id % 3, id % 5))
        });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let server = Database::open(store.clone()).unwrap();
                    for column in ["a", "b", "c"] {
                        let sql = format!("select id from t where {column} = ? order by id limit 3");
                        let query = server.prepare(&sql).unwrap();
                        assert_eq!(
                            rows(&query.call(&[7.into()]).unwrap().batch).len(),
                            if column == "c" { 3 } else { 0 }
                        );
                    }
                });
            }
        });
        let last = Database::open(store.clone()).unwrap();
        let schema = last.schema();
        let table = schema.table("t").unwrap();
        assert_eq!(table.indexes.len(), 4, "{kind:?}: {:?}", table.indexes);
        assert!(table.indexes.iter().all(|index| index.state == whimbrel_bounded::schema::IndexState::Ready));
        assert_eq!(
            ask(&last, "select id from t where b = 4 order by id limit 9", &[]),
            ["4", "9", "14", "19", "24", "29"]
        );
        assert_eq!(last.repair(std::time::Duration::ZERO).unwrap(), whimbrel_bounded::Repaired::default());
    });
}

#[test]
fn what_was_written_is_there_when_it_is_opened_again() {
    let folder = std::env::temp_dir().join(format!("whimbrel-bounded-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("reopened.redb");
    {
        let db = Database::open(EmbeddedStore::open(&path).unwrap()).unwrap();
        script(&db, SCHEMA);
    }
    let db = Database::open(EmbeddedStore::open(&path).unwrap()).unwrap();
    assert_eq!(ask(&db, "select name from users where mail = ?", &["d@x".into()]), ["dan"]);
    drop(db);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn every_type_comes_back() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        script(
            &db,
            "create table t (id int primary key, a boolean, b smallint, c bigint, d double, e decimal(10, 2),
        f varchar(10), g bytea, h date, i timestamp)",
        );
        script(&db, "insert into t values (1, true, -2, 3000000000, -0.5, 12.34, 'x', X'00FF', '2020-01-02', '2020-01-02T03:04:05'),
        (2, null, null, null, null, null, null, null, null, null)");
        assert_eq!(
            ask(&db, "select * from t order by id limit 2", &[]),
            [
                "1|true|-2|3000000000|-0.5|12.34|x|00ff|2020-01-02|2020-01-02T03:04:05",
                "2|null|null|null|null|null|null|null|null|null"
            ]
        );
        for (column, value) in [
            ("a", "true"),
            ("b", "-2"),
            ("c", "3000000000"),
            ("d", "-0.5"),
            ("e", "12.34"),
            ("f", "'x'"),
            ("h", "date '2020-01-02'"),
        ] {
            assert_eq!(
                ask(&db, &format!("select id from t where {column} = {value} limit 1"), &[]),
                ["1"],
                "{column}"
            );
        }
        // What no smallint is equal to, and cannot be stored in one.
        assert!(ask(&db, "select id from t where b = ? limit 1", &[Argument::from(70_000)]).is_empty());
        let wrong = db.execute("update t set b = ? where id = 1", &[Argument::from(70_000)]).unwrap_err();
        assert!(wrong.to_string().contains("does not fit"), "{wrong}");
    });
}

#[test]
fn what_is_dropped_leaves_nothing_behind() {
    for store in [MemoryStore::default(), MemoryStore::key_by_key()] {
        let (db, store) = over(store);
        script(
            &db,
            "create table a (id int primary key, town varchar(9), cardinality limit 900 (town));
             create table b (id int primary key, a int references a);
             create index towns on a (id desc, town)",
        );
        for id in 0..700 {
            db.execute("insert into a values (?, 'x')", &[id.into()]).unwrap();
        }
        let by_town = db.prepare("select id from a where town = 'x' order by id limit 2").unwrap();
        let refused = |sql: &str, why: &str| {
            let error = db.execute(sql, &[]).unwrap_err().to_string();
            assert!(error.contains(why), "{sql}: {error}");
        };
        refused("drop table a", "b refers to a");
        refused("drop table c", "there is no table");
        refused("drop index tows", "did you mean \"towns\"");
        refused("drop index a_key", "primary key");
        refused("drop index a_town", "counted by");
        refused("drop view v", "there is no table");
        script(&db, "drop index towns; drop index if exists towns; drop table if exists c");
        assert_eq!(rows(&by_town.call(&[]).unwrap().batch), ["0", "1"]);
        script(&db, "drop table b; drop table a");
        assert!(by_town.call(&[]).unwrap_err().to_string().contains("there is no table"));
        // The schema, its version and the key for cursors.
        let all = Read::Range { from: vec![], to: vec![0xff; 9], limit: 99, reverse: false };
        let Found::Entries(left) = store.read(&[all]).unwrap().remove(0) else { panic!() };
        assert_eq!(left.len(), 3);
        script(&db, "create table a (id int primary key); insert into a values (1)");
        assert_eq!(ask(&db, "select * from a where id in (1, 2)", &[]), ["1"]);
    }
}

#[test]
fn what_was_written_is_returned() {
    let (db, _) = counted();
    script(&db, "create table n (name varchar(9) primary key, n int, at int)");
    let cases: [(&str, &[&str]); 9] = [
        ("insert into n values ('a', 1, null), ('b', 2, 7) returning *", &["a|1|null", "b|2|7"]),
        ("upsert into n (name, n) values ('b', 5) returning n.at, upper(name) as big", &["null|B"]),
        ("update n set n = n + 1 where name = 'a' returning n", &["2"]),
        ("update n set n = n + 1 where name = 'a' returning n * 10 as tens, n.n - 1", &["30|2"]),
        ("update n set n = 0 where name = 'nobody' returning name", &[]),
        ("update n as x set at = 4 where x.name = 'a' returning x.at, n + at as sum", &["4|7"]),
        ("upsert into n values ('c', 1, 1) returning *", &["c|1|1"]),
        ("delete from n where name = 'a' returning name, n", &["a|3"]),
        ("delete from n where name = 'a' returning name, n", &[]),
    ];
    for (sql, expected) in cases {
        assert_eq!(ask(&db, sql, &[]), expected, "{sql}");
    }
    let query = db.prepare("update n set at = :at where name = :name returning name, at").unwrap();
    assert!(!query.counts());
    let page = query.call(&[3.into(), "b".into()]).unwrap();
    assert_eq!(rows(&page.batch), ["b|3"]);
    assert_eq!(page.batch.schema().field(1).name(), "at");
    for (returning, expected) in [
        ("count(*)", "of the rows that were written"),
        ("(select n from n where name = 'a')", "a subquery is not supported here"),
        ("random()", "another value in every call"),
        ("nam", "nam"),
        ("n + :more", "returning takes no parameters"),
    ] {
        let sql = format!("delete from n where name = 'b' returning {returning}");
        let error = db.compile(&sql).unwrap_err().to_string();
        assert!(error.contains(expected), "{sql}: {error}");
    }
}

/// What is wrong with a literal is said in the words of SQL, with its column.
#[test]
fn a_literal_that_its_column_cannot_hold() {
    let db = Database::open(MemoryStore::default()).unwrap();
    script(&db, "create table t (a int primary key, e date, s smallint, d decimal(9, 2))");
    for (sql, expected) in [
        ("insert into t (a) values ('x')", "'x' cannot be read as INTEGER for column t.a"),
        ("insert into t (a, e) values (1, null), (2, 'zz')", "'zz' cannot be read as DATE for column t.e"),
        ("insert into t (e, a) values ('zz', 1)", "'zz' cannot be read as DATE for column t.e"),
        (
            "insert into t (a) values (99999999999)",
            "99999999999 is not in the range of INTEGER for column t.a",
        ),
        ("upsert into t (a, s) values (1, 70000)", "70000 is not in the range of SMALLINT for column t.s"),
        ("insert into t (a, d) values (1, 1e20)", "is not in the range of DECIMAL(9, 2) for column t.d"),
        ("update t set s = 'x' where a = 1", "'x' cannot be read as SMALLINT for column t.s"),
    ] {
        let error = db.execute(sql, &[]).expect_err(sql);
        assert!(matches!(error, Error::Invalid(_)), "{sql}: {error:?}");
        assert!(error.to_string().contains(expected), "{sql}: {error}");
    }
    script(&db, "insert into t (a, e, s, d) values (1, '2020-01-02', '3', 4)");
    // What is computed says it when it is computed.
    let error = db.execute("select cast('abc' as int) from t where a = 1", &[]).unwrap_err().to_string();
    assert!(error.contains("'abc' cannot be read as INTEGER"), "{error}");
    let error = db.execute("insert into t (a) values (cast('abc' as int))", &[]).unwrap_err().to_string();
    assert!(error.contains("'abc' cannot be read as INTEGER"), "{error}");
}
