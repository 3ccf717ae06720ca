//! Rows in and out, and what they may not do.

use crate::support::{ask, counted, over, rows, script};
use std::sync::Arc;
use whimbrel_bounded::{Argument, Database, EmbeddedStore, Error, MemoryStore, Observed};

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
    for store in [MemoryStore::default(), MemoryStore::key_by_key()] {
        let (db, _) = over(store);
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
    }
}

#[test]
fn a_statement_is_all_or_nothing_where_the_store_can() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    data(&db, "insert into follows values ('ann', 'bob', 1), ('ann', 'cid', 1), ('ann', 'dan', 1)");
    assert_eq!(ask(&db, "select * from follows where owner = 'ann'", &[]), Vec::<String>::new());
    let page =
        db.execute("insert into follows values ('ann', 'bob', 1), ('ann', 'cid', 1)", &[]).unwrap().unwrap();
    assert_eq!(rows(&page.batch), ["2"]);
    // Bounded rows by a part of the key.
    let page =
        db.execute("update follows set weight = weight + 1 where owner = 'ann'", &[]).unwrap().unwrap();
    assert_eq!(rows(&page.batch), ["2"]);
    let page =
        db.execute("delete from follows where owner = :o and weight = 2", &["ann".into()]).unwrap().unwrap();
    assert_eq!(rows(&page.batch), ["2"]);
}

#[test]
fn upsert_writes_over() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    script(&db, "upsert into users values ('ann', 'new@x'); upsert into users values ('eve', 'a@x')");
    assert_eq!(ask(&db, "select name from users where mail = 'a@x'", &[]), ["eve"]);
    assert_eq!(ask(&db, "select mail from users where name = 'ann'", &[]), ["new@x"]);
}

#[test]
fn an_index_on_a_table_with_rows_is_filled() {
    for store in [MemoryStore::default(), MemoryStore::key_by_key()] {
        let (db, _) = over(store);
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
    }
}

#[test]
fn a_server_that_has_not_heard_of_an_index_keeps_it() {
    for store in [MemoryStore::default(), MemoryStore::key_by_key()] {
        unheard_of(Arc::new(Observed::new(store)));
    }
}

fn unheard_of(store: Arc<Observed<MemoryStore>>) {
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
    let (db, _) = counted();
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
    let wrong = db
        .prepare("select id from t where b = ? limit 1")
        .unwrap()
        .call(&[Argument::from(70_000)])
        .unwrap_err();
    assert!(wrong.to_string().contains("does not fit"), "{wrong}");
}
