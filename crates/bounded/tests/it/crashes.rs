//! A crash at every single operation of a write: readers see rows as they were or as they are, never others;
//! repair makes the indexes whole; what was acknowledged is there.

use crate::stores::{Kind, everywhere};
use crate::support::{Any, ask, over, rows, script};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use whimbrel_bounded::schema::{IndexState, Nullability};
use whimbrel_bounded::store::{Capabilities, Condition, Found, Outcome, Read, Write};
use whimbrel_bounded::{Database, Error, MemoryStore, Observed, Store};

const SCHEMA: &str = "
    create table towns (name varchar(20) primary key);
    create table users (name varchar(20) primary key, town varchar(20) references towns, mail varchar(20),
        age int, unique (mail), cardinality limit 3 (town));
    create index users_by_age on users (age);
    insert into towns values ('here'), ('there');
    insert into users values ('ann', 'here', 'a@x', 30), ('bob', 'here', 'b@x', 40)";

/// Every way to the rows, and what each says.
fn seen(db: &Database) -> Vec<Vec<String>> {
    let columns = "select name, town, mail, age from users";
    let mut all = vec![ask(db, &format!("{columns} order by name allow unbounded 'test'"), &[])];
    for filter in ["town = 'here'", "town = 'there'"] {
        all.push(ask(db, &format!("{columns} where {filter} order by name"), &[]));
    }
    let mut by_age = Vec::new();
    for age in [20, 30, 40, 50] {
        by_age.extend(ask(db, &format!("{columns} where age = {age} order by name limit 10"), &[]));
    }
    all.push(by_age);
    let mut by_mail = Vec::new();
    for mail in ["a@x", "b@x", "c@x"] {
        by_mail.extend(ask(db, &format!("{columns} where mail = '{mail}'"), &[]));
    }
    all.push(by_mail);
    all
}

/// All ways to the rows say the same.
fn consistent(db: &Database) -> Vec<String> {
    let mut all = seen(db);
    let table = all.remove(0);
    let mut by_town = [all[0].clone(), all[1].clone()].concat();
    by_town.sort();
    all[2].sort();
    all[3].sort();
    assert_eq!(by_town, table, "by town");
    assert_eq!(all[2], table, "by age");
    assert_eq!(all[3], table, "by mail");
    table
}

fn setup(store: impl Store + 'static) -> (Database, Arc<Observed<Any>>) {
    let (db, store) = over(store);
    script(&db, SCHEMA);
    // What the readers need is made before anything breaks.
    seen(&db);
    (db, store)
}

fn crash_everywhere(kind: Kind, statement: &str) {
    let (db, _) = setup(kind.fresh());
    let before = consistent(&db);
    db.execute(statement, &[]).unwrap();
    let after = consistent(&db);
    assert_ne!(before, after);
    let mut crashes = 0;
    for operations in 0.. {
        let (db, store) = setup(kind.fresh());
        let write = db.prepare(statement).unwrap();
        store.faults.crash_after(operations);
        let outcome = write.call(&[]);
        store.faults.recover();
        let server = Database::open(store.clone()).unwrap();
        let known: Vec<String> = before.iter().chain(&after).cloned().collect();
        let ways = seen(&server);
        let table = ways[0].clone();
        assert!(table == before || table == after, "{statement}, crash at {operations}: {table:?}");
        for way in &ways {
            assert!(
                way.iter().all(|row| known.contains(row) && table.contains(row)),
                "{statement}, crash at {operations}: {way:?}"
            );
        }
        // No row is lost from an index while it is in the table.
        assert_eq!(consistent(&server), table, "{statement}, crash at {operations}");
        if outcome.is_ok() {
            assert_eq!(table, after, "{statement}: acknowledged, and lost");
            break;
        }
        assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
        crashes += 1;
        server.repair(Duration::ZERO).unwrap();
        assert_eq!(consistent(&server), table);
        let again = server.repair(Duration::ZERO).unwrap();
        assert_eq!((again.added, again.removed), (0, 0), "{statement}, crash at {operations}");
        // And the write can be done, or was.
        if table == before {
            server.execute(statement, &[]).unwrap();
            assert_eq!(consistent(&server), after);
        }
    }
    assert!(crashes >= 2, "{statement} crashed only {crashes} times");
}

const STATEMENTS: [&str; 5] = [
    "insert into users values ('cid', 'there', 'c@x', 20)",
    "update users set age = 50, mail = 'c@x', town = 'there' where name = 'ann'",
    "update users set age = 20 where name = 'bob'",
    "delete from users where name = 'ann'",
    "upsert into users values ('ann', 'there', 'c@x', 50)",
];

#[test]
fn at_every_operation() {
    everywhere(|kind| STATEMENTS.iter().for_each(|statement| crash_everywhere(kind, statement)));
}

#[test]
fn a_limit_is_filled_past_what_a_crash_left() {
    let (db, store) = setup(MemoryStore::key_by_key());
    script(&db, "create table logs (id int primary key, level int, at int)");
    let read = db.prepare("select id from logs where level = 1 order by at limit 3").unwrap();
    let insert = db.prepare("insert into logs values (?, 1, ?)").unwrap();
    for id in 0..4 {
        // The record and the schema's version were looked up, the entry is written, the record is not.
        store.faults.crash_after(3);
        assert!(insert.call(&[id.into(), id.into()]).is_err());
        store.faults.recover();
    }
    for id in 10..15 {
        insert.call(&[id.into(), id.into()]).unwrap();
    }
    assert_eq!(rows(&read.call(&[]).unwrap().batch), ["10", "11", "12"]);
    let repaired = db.repair(Duration::ZERO).unwrap();
    assert_eq!((repaired.removed, repaired.added), (4, 0));
    store.take();
    assert_eq!(rows(&read.call(&[]).unwrap().batch), ["10", "11", "12"]);
    assert_eq!(store.take().requests, read.plan().bound.requests);
}

#[test]
fn a_unique_key_that_a_crash_left_can_be_taken() {
    let (db, store) = setup(MemoryStore::key_by_key());
    let insert = db.prepare("insert into users values (?, null, 'c@x', 20)").unwrap();
    // The record and the schema's version were looked up, the unique key is reserved.
    store.faults.crash_after(3);
    assert!(insert.call(&["cid".into()]).is_err());
    store.faults.recover();
    insert.call(&["dan".into()]).unwrap();
    let error = insert.call(&["eve".into()]).unwrap_err();
    assert!(error.to_string().contains("mail = 'c@x'"), "{error}");
    assert_eq!(ask(&db, "select name from users where mail = 'c@x'", &[]), ["dan"]);
}

#[test]
fn many_writers_keep_a_limit() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        script(
            &db,
            "create table s (o int, t int, w int, primary key (o, t), cardinality limit 10 (o), cardinality limit 15 (w))",
        );
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let db = &db;
                scope.spawn(move || {
                    let insert = db.prepare("insert into s values (?, ?, 1)").unwrap();
                    for at in 0..20 {
                        let _ = insert.call(&[(at % 3).into(), (writer * 100 + at).into()]);
                    }
                });
            }
        });
        let counts = ask(&db, "select o, count(*) from s group by o allow unbounded 'test'", &[]);
        assert!(
            counts.iter().all(|row| row.split('|').nth(1).unwrap().parse::<u32>().unwrap() <= 10),
            "{counts:?}"
        );
        let all = ask(&db, "select count(*) from s where w = 1", &[]);
        assert!(all[0].parse::<u32>().unwrap() <= 15, "{all:?}");
        assert_eq!(db.repair(Duration::ZERO).unwrap().added, 0);
    });
}

#[test]
fn many_writers_of_one_row_lose_no_update() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        script(
            &db,
            "create table n (id int primary key, n int); create index n_by_n on n (n); insert into n values (1, 0)",
        );
        let done: u32 = std::thread::scope(|scope| {
            let writers = (0..4).map(|_| {
                let db = &db;
                scope.spawn(move || {
                    let add = db.prepare("update n set n = n + 1 where id = 1").unwrap();
                    (0..25).filter(|_| add.call(&[]).is_ok()).count() as u32
                })
            });
            writers.collect::<Vec<_>>().into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        assert_eq!(ask(&db, "select n from n where id = 1", &[]), [done.to_string()]);
        assert_eq!(
            ask(&db, &format!("select id from n where n = {done} limit 2"), &[]).len().min(1),
            1.min(done as usize)
        );
    });
}

#[test]
fn an_index_that_was_begun_is_finished_by_another() {
    everywhere(|kind| {
        for operations in 1..12 {
            let (db, store) = over(kind.fresh());
            script(
                &db,
                "create table t (id int primary key, g int); insert into t values (1, 5), (2, 5), (3, 6)",
            );
            store.faults.crash_after(operations);
            let built = db.execute("create index t_g on t (g)", &[]);
            store.faults.recover();
            let server = Database::open(store.clone()).unwrap();
            assert_eq!(
                ask(&server, "select id from t where g = 5 order by id limit 9", &[]),
                ["1", "2"],
                "{operations} {built:?}"
            );
        }
    });
}

#[test]
fn a_change_of_the_schema_that_crashed_stops_no_writer() {
    everywhere(|kind| {
        for operations in 0..12 {
            let (db, store) = over(kind.fresh());
            script(&db, "create table t (id int primary key, g int); insert into t values (1, 5)");
            store.faults.crash_after(operations);
            let _ = db.execute("create index t_g on t (g)", &[]);
            store.faults.recover();
            let server = Database::open(store.clone()).unwrap();
            script(&server, "insert into t values (2, 5)");
            script(&db, "insert into t values (3, 5)");
            assert_eq!(
                ask(&server, "select id from t where g = 5 order by id limit 9", &[]),
                ["1", "2", "3"]
            );
        }
    });
}

#[test]
fn references_are_kept_while_their_index_is_half_built() {
    everywhere(|kind| {
        for operations in 1..12 {
            let (db, store) = over(kind.fresh());
            script(
                &db,
                "create table p (id int primary key); create table c (id int primary key, p int references p);
                 insert into p values (1), (2); insert into c values (10, 1), (11, 1)",
            );
            store.faults.crash_after(operations);
            let built = db.execute("create index c_p on c (p)", &[]);
            store.faults.recover();
            let server = Database::open(store.clone()).unwrap();
            let deleted = server.execute("delete from p where id = 1", &[]);
            assert!(matches!(deleted, Err(Error::Data(_))), "{operations} {built:?} {deleted:?}");
            script(
                &server,
                "delete from p where id = 2; delete from c where id in (10, 11); delete from p where id = 1",
            );
        }
    });
}

#[test]
fn what_was_begun_is_finished_by_who_asks_for_it_again_and_by_a_repair() {
    for repairs in [false, true] {
        for operations in 1..12 {
            let (db, store) = over(MemoryStore::default());
            script(&db, "create table t (id int primary key, g int); insert into t values (1, 5), (2, 5)");
            store.faults.crash_after(operations);
            let _ = db.execute("create index t_g on t (g)", &[]);
            store.faults.recover();
            let server = Database::open(store.clone()).unwrap();
            let begun = server.schema().table("t").unwrap().indexes.iter().any(|index| index.name == "t_g");
            let ready = |server: &Database| {
                let schema = server.schema();
                let index = schema.table("t").unwrap().indexes.iter().find(|index| index.name == "t_g");
                index.is_some_and(|index| index.state == IndexState::Ready)
            };
            match repairs {
                true if !begun => continue,
                true => drop(server.repair(Duration::ZERO).unwrap()),
                false if ready(&server) => continue,
                false => script(&server, "create index t_g on t (g)"),
            }
            assert!(ready(&server), "{operations}");
        }
    }
}

/// One puts a row that refers to another, while somebody takes that away: never are both done.
#[test]
fn no_reference_is_left_to_a_row_that_goes_meanwhile() {
    everywhere(|kind| {
        let (db, store) = over(kind.fresh());
        script(
            &db,
            "create table p (id int primary key); create table c (id int primary key, p int references p);
             create index c_p on c (p)",
        );
        let other = Database::open(store).unwrap();
        for id in 0..60 {
            db.execute("insert into p values (?)", &[id.into()]).unwrap();
            let (puts, takes) = std::thread::scope(|scope| {
                let puts = scope
                    .spawn(|| db.execute("insert into c values (?, ?)", &[id.into(), id.into()]).is_ok());
                let takes = scope.spawn(|| other.execute("delete from p where id = ?", &[id.into()]).is_ok());
                (puts.join().unwrap(), takes.join().unwrap())
            });
            assert!(!(puts && takes), "{id}");
            let child = ask(&db, "select p from c where id = ?", &[id.into()]);
            let parent = ask(&db, "select id from p where id = ?", &[id.into()]);
            assert!(child.is_empty() || !parent.is_empty(), "{id}");
        }
    });
}

/// A store before whose next change of the schema something else happens.
struct Interrupted {
    store: Arc<Observed<Any>>,
    before_schema: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Store for Interrupted {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>, Error> {
        self.store.read(requests)
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome, Error> {
        let is_schema = |write: &Write| matches!(write, Write::Put(key, _) if key.ends_with(b"schema"));
        if writes.iter().any(is_schema)
            && let Some(before) = self.before_schema.lock().unwrap().take()
        {
            before();
        }
        self.store.commit(conditions, writes)
    }
}

/// A null comes just before `set not null` is in the schema, and its check does not get to its end.
#[test]
fn a_check_for_nulls_that_crashed_leaves_no_column_that_is_wrongly_not_null() {
    for store in [MemoryStore::default, MemoryStore::key_by_key] {
        for operations in 0..8 {
            let (other, store) = over(store());
            script(&other, "create table t (id int primary key, x int); insert into t values (1, 3)");
            let (writer, faults) = (other.clone(), store.clone());
            let before: Box<dyn FnOnce() + Send> = Box::new(move || {
                script(&writer, "insert into t values (2, null)");
                faults.faults.crash_after(operations);
            });
            let interrupted = Interrupted { store: store.clone(), before_schema: Mutex::new(Some(before)) };
            let db = Database::open(interrupted).unwrap();
            let set_not_null = "alter table t alter column x set not null";
            let outcome = db.execute(set_not_null, &[]);
            assert!(outcome.is_err(), "{operations}");
            store.faults.recover();
            let server = Database::open(store.clone()).unwrap();
            assert_eq!(
                ask(&server, "select id, x from t order by id allow unbounded 'test'", &[]),
                ["1|3", "2|null"]
            );
            // Whoever resumes the check finds the null, and the column may have nulls again.
            let error = server.execute(set_not_null, &[]).unwrap_err();
            assert!(matches!(error, Error::Data(_)), "{operations}: {error}");
            script(&server, "insert into t values (3, null); update t set x = 1 where id in (2, 3)");
            script(&server, set_not_null);
            assert!(server.execute("insert into t values (4, null)", &[]).is_err());
        }
    }
}

#[test]
fn writes_refuse_nulls_while_older_rows_are_checked_for_them() {
    for repairs in [false, true] {
        let (db, store) = over(MemoryStore::default());
        script(&db, "create table t (id int primary key, x int); insert into t values (1, 3)");
        let set_not_null = "alter table t alter column x set not null";
        // The schema is written, and the first rows are not read.
        store.faults.crash_after(2);
        assert!(db.execute(set_not_null, &[]).is_err());
        store.faults.recover();
        let server = Database::open(store.clone()).unwrap();
        let nullability = |server: &Database| server.schema().table("t").unwrap().columns[1].nullability;
        assert_eq!(nullability(&server), Nullability::Checking);
        let error = server.execute("insert into t values (2, null)", &[]).unwrap_err();
        assert!(error.to_string().contains("t.x is not null"), "{error}");
        script(&server, "insert into t values (2, 4)");
        match repairs {
            true => drop(server.repair(Duration::ZERO).unwrap()),
            false => script(&server, set_not_null),
        }
        assert_eq!(nullability(&server), Nullability::NotNull);
    }
}
