//! Nulls that are looked for, and rows that are first by a value: by indexes.

use crate::stores::everywhere;
use crate::support::{ask, bound, over, script};
use whimbrel_bounded::Database;

const SCHEMA: &str = "
    create table notes (id int primary key, team int not null, deleted date, at int, unique (team, at),
        cardinality limit 9 (deleted));
    insert into notes values (1, 1, null, 5), (2, 1, '2024-01-01', 6), (3, 1, null, 7), (4, 1, null, null),
        (5, 2, null, 8), (6, 1, '2024-01-02', null)";

fn database(db: &Database) {
    script(db, SCHEMA);
}

#[test]
fn what_is_null_is_found_by_an_index() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        database(&db);
        let cases: [(&str, &[&str]); 9] = [
            ("team = 1 and deleted is null order by at limit 10", &["1", "3", "4"]),
            ("team = 1 and deleted is null order by at desc limit 2", &["4", "3"]),
            ("team = 1 and deleted is not null order by deleted desc limit 10", &["6", "2"]),
            ("team = 1 and at is null order by id limit 10", &["4", "6"]),
            ("team = 1 and at is null and deleted is null limit 10", &["4"]),
            ("deleted is null and at > 5 order by at limit 2", &["3", "5"]),
            ("deleted = '2024-01-01' and at is not null", &["2"]),
            ("id in (1, 2, 4) and deleted is null order by id", &["1", "4"]),
            ("team is null and id = 1", &[]),
        ];
        for (says, ids) in cases {
            assert_eq!(ask(&db, &format!("select id from notes where {says}"), &[]), ids, "{says}");
        }
        let exists = "select id from notes n where id in (1, 5) and exists (select 1 from notes o where o.team = n.team and o.deleted is not null)";
        assert_eq!(ask(&db, exists, &[]), ["1"]);
        // Of rows with a null there can be any number.
        assert!(db.compile("select id from notes where deleted is null").is_err());
    });
}

#[test]
fn a_greatest_value_is_that_of_the_first_row() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        database(&db);
        for (sql, answer) in [
            ("select max(at) from notes where team = 1", "7"),
            ("select min(at) as m from notes where team = 1", "5"),
            ("select max(at) from notes where team = 1 and deleted is null", "7"),
            ("select max(at) + 1 from notes where team = 3", "null"),
            ("select min(deleted) from notes where team = 1", "2024-01-01"),
        ] {
            assert_eq!(ask(&db, sql, &[]), [answer], "{sql}");
        }
    });
    let (db, _) = over(whimbrel_bounded::MemoryStore::default());
    database(&db);
    assert_eq!(bound(&db, "select max(at) from notes where team = 1"), (1, 1));
}

#[test]
fn a_delete_may_give_its_table_a_name() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        database(&db);
        assert_eq!(
            ask(&db, "delete from notes as n where n.id = 1 and n.deleted is null returning n.at", &[]),
            ["5"]
        );
        assert_eq!(
            ask(&db, "select id from notes where team = 1 order by id fetch first 2 rows only", &[]),
            ["2", "3"]
        );
    });
}

#[test]
fn the_greatest_key_is_that_of_the_last_row() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        script(&db, "create table orders (id int primary key); insert into orders values (3), (7), (5)");
        let partitions = bound(&db, "select id from orders order by id limit 1").0;
        assert_eq!(bound(&db, "select max(id) from orders"), (partitions, 1));
        assert_eq!(ask(&db, "select max(id) from orders", &[]), ["7"]);
        assert_eq!(ask(&db, "select id from orders where id > (select max(id) - 3 from orders) limit 9 allow unbounded 'test'", &[]).len(), 2);
    });
}
