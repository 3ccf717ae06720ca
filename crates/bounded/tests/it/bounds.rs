//! What a write can cost is proven before it runs, and no write costs more.

use crate::support::{Any, over, script};
use whimbrel_bounded::store::{Atomicity, Capabilities, Order};
use whimbrel_bounded::{Argument, Database, MemoryStore, Observed};

const SCHEMA: &str = "
    create table towns (name varchar(12) primary key, unique (name));
    create table users (name varchar(12) primary key, town varchar(12) references towns, mail varchar(12),
        age int, about varchar(30), unique (mail), cardinality limit 3 (town), cardinality limit 90 ());
    create index users_by_age on users (age, town);
    create index users_by_word on users (token(about));
    insert into towns values ('here'), ('there')";

/// Runs a statement, and compares what it asked with what was proven.
fn within(db: &Database, store: &Observed<Any>, sql: &str, arguments: &[Argument]) {
    let write = db.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let plan = write.plan();
    let writes = plan.writes.clone().unwrap();
    store.take();
    let outcome = write.call(arguments);
    let used = store.take();
    let shown = format!("{sql}: {outcome:?}\n{used:?}\n{plan}");
    assert!(used.requests <= plan.bound.requests + writes.requests, "{shown}");
    assert!(used.rounds <= plan.bound.rounds + writes.rounds, "{shown}");
    assert!(used.conditions <= writes.conditions && used.writes <= writes.writes, "{shown}");
}

#[test]
fn no_write_costs_more_than_was_proven() {
    for make in [MemoryStore::default, MemoryStore::key_by_key] {
        let (db, store) = over(make());
        script(&db, SCHEMA);
        // The rows of a reference, to be looked for when a town goes.
        db.prepare("delete from towns where name = 'x'").unwrap();
        let insert = "insert into users values (?, ?, ?, ?, ?)";
        let user = |name: &str, town: &str, mail: &str, about: &str| -> Vec<Argument> {
            vec![name.into(), town.into(), mail.into(), 30.into(), about.into()]
        };
        within(&db, &store, insert, &user("ann", "here", "a@x", "a b c d e f g h i j k l m n o"));
        within(&db, &store, insert, &user("bob", "here", "b@x", "a b"));
        within(&db, &store, insert, &user("cid", "here", "c@x", ""));
        // One too many, one that is there, a mail that is taken, a town that is not there.
        within(&db, &store, insert, &user("dan", "here", "d@x", "x y z"));
        within(&db, &store, insert, &user("ann", "there", "d@x", "x"));
        within(&db, &store, insert, &user("dan", "there", "a@x", "x"));
        within(&db, &store, insert, &user("dan", "nowhere", "d@x", "x"));
        within(
            &db,
            &store,
            "insert into users values ('e', 'there', 'e@x', 1, 'p'), ('f', 'there', 'f@x', 2, 'q r')",
            &[],
        );
        within(&db, &store, "upsert into users values ('ann', 'there', 'g@x', 1, 'other words')", &[]);
        within(&db, &store, "update users set age = age + 1 where name = 'bob'", &[]);
        within(
            &db,
            &store,
            "update users set mail = 'z@x', town = 'there', about = 'b c' where name = 'bob'",
            &[],
        );
        within(&db, &store, "update users set age = 0, about = 'no' where town = 'here'", &[]);
        within(&db, &store, "delete from users where town = 'there'", &[]);
        within(&db, &store, "delete from users where name = 'cid'", &[]);
        within(&db, &store, "delete from towns where name = 'here'", &[]);
    }
}

#[test]
fn a_write_says_what_it_costs() {
    let (db, _) = over(MemoryStore::default());
    script(&db, SCHEMA);
    let plan = db.compile("insert into users values (?, ?, ?, ?, ?)").unwrap().plan;
    let writes = plan.writes.clone().unwrap();
    // The record, three entries by columns (mail, age, town), and a word in every second letter.
    assert_eq!(writes.writes, 1 + 3 + 15);
    // The schema, the row, the mail, the town, two limits.
    assert_eq!((writes.conditions, writes.requests, writes.rounds), (6, 2, 1));
    assert!(
        plan.to_string().contains("writes: at most 1 row, 19 keys, 6 conditions, 2 requests in 1 round"),
        "{plan}"
    );
    // What an update does not set it does not touch.
    let plan = db.compile("update users set age = 1 where name = ?").unwrap().plan;
    assert_eq!(plan.writes.unwrap().writes, 1 + 2);
    let plan = db.compile("delete from users where town = ?").unwrap().plan;
    assert_eq!(plan.writes.unwrap().rows, 3);
    script(
        &db,
        "create table notes (id int primary key, body text); create index words on notes (token(body))",
    );
    let plan = db.compile("insert into notes values (1, 'a b c')").unwrap().plan;
    assert!(plan.to_string().contains("any number of keys"), "{plan}");
}

/// A limit of a whole table is counted wherever its rows can be.
#[test]
fn writes_count_in_all_partitions() {
    let of = |order| {
        let capabilities =
            Capabilities { order, atomicity: Atomicity::Key, batched_ranges: true, counts: true };
        let (db, _) = over(MemoryStore::new(capabilities));
        script(
            &db,
            "create table n (a int primary key, b int, cardinality limit 5 (), cardinality limit 3 (b))",
        );
        db.prepare("insert into n values (?, ?)").unwrap().plan().writes.unwrap().requests
    };
    // The row and the schema; the rows of (); entries and rows of (b), and whether the entry is still there.
    assert_eq!(of(Order::Global), 2 + 1 + (2 + 4) + 1);
    assert_eq!(of(Order::WithinPartition { partitions: 8 }), 2 + 8 + (2 + 4) + 1);
}

/// Where the rows of a limit are next to each other, they are counted, and not looked at one by one.
#[test]
fn rows_of_a_limit_are_counted_at_once() {
    let (db, _) = over(MemoryStore::key_by_key());
    script(
        &db,
        "create table users (name varchar(9) primary key);
         create table follows (owner varchar(9) references users, target varchar(9) references users,
            primary key (owner, target), cardinality limit 100 (owner))",
    );
    let writes = db.compile("insert into follows values (?, ?)").unwrap().plan.writes.unwrap();
    // The row and the schema, both users before the write and behind it, the count.
    assert_eq!((writes.requests, writes.rounds), (2 + 2 + 2 + 1, 3));
}
