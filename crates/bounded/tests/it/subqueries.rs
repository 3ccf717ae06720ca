//! Subqueries in expressions: what they cost, what they answer, and what is too much.

use crate::support::{ask, bound, counted, over, refusal, script};
use whimbrel_bounded::{Database, Error, Executor, MemoryStore, Options};

const SCHEMA: &str = "
    create table users (name varchar(20) primary key, town varchar(20), boss varchar(20));
    create table follows (owner varchar(20) not null, target varchar(20) not null, close boolean,
        primary key (owner, target), cardinality limit 10 (owner));
    create table posts (owner varchar(20) not null, at int not null, text varchar(20), primary key (owner, at));
    create table tags (word varchar(20), owner varchar(20) not null, at int, primary key (word, owner, at),
        cardinality limit 20 (word));
    insert into users values ('ann', 'Ghent', null), ('bob', 'Ghent', 'ann'), ('cid', null, 'ann'), ('dee', 'Lier', 'bob');
    insert into follows values ('ann', 'bob', true), ('ann', 'cid', false), ('bob', 'ann', null), ('cid', 'dee', true);
    insert into posts values ('ann', 1, 'a1'), ('ann', 2, 'a2'), ('bob', 5, 'b5'), ('dee', 9, null);
    insert into tags values ('x', 'ann', 1), ('x', 'ann', 2), ('x', 'bob', 5), ('y', 'dee', 9)";

/// A query, its bound and its answer.
const CASES: [(&str, (u64, u64), &[&str]); 27] = [
    // By the whole key: the search begins with either side.
    (
        "select name from users where name in (select target from follows where owner = 'ann') order by name",
        (11, 2),
        &["bob", "cid"],
    ),
    (
        "select name from users u where exists (select 1 from follows f where f.owner = 'ann' and f.target = u.name) order by name",
        (11, 2),
        &["bob", "cid"],
    ),
    (
        "select name from users u where u.name = 'bob' and exists (select 1 from follows where owner = 'ann' and target = u.name)",
        (2, 2),
        &["bob"],
    ),
    // Of the followed, those that do not follow back.
    (
        "select f.target from follows f where f.owner = 'ann'
            and not exists (select 1 from follows b where b.owner = f.target and b.target = f.owner)",
        (11, 2),
        &["cid"],
    ),
    (
        "select target from follows where owner = 'ann' and target not in (select owner from follows where target = 'ann')",
        (11, 2),
        &["cid"],
    ),
    // By the first parts of an index: one row is enough.
    (
        "select f.target from follows f where f.owner = 'ann' and exists (select 1 from posts p where p.owner = f.target)",
        (11, 2),
        &["bob"],
    ),
    (
        "select f.target from follows f where f.owner = 'ann'
            and exists (select * from posts p where p.owner = f.target and p.at > 4 order by p.text limit 3)",
        (11, 2),
        &["bob"],
    ),
    // What no index knows is looked for among all that the schema allows.
    (
        "select f.target from follows f where f.owner = 'ann'
            and exists (select 1 from follows g where g.owner = f.target and (g.close or g.target like 'a%'))",
        (11, 2),
        &["bob", "cid"],
    ),
    // As a value, and inside of other predicates.
    (
        "select exists (select 1 from follows where owner = 'ann' and target = 'bob') as yes,
            exists (select 1 from follows where owner = 'bob' and target = 'dee') as no",
        (2, 2),
        &["true|false"],
    ),
    (
        "select name, case when exists (select 1 from posts where owner = u.name) then 'writes' else 'reads' end
            from users u where name in ('ann', 'cid') order by name",
        (4, 2),
        &["ann|writes", "cid|reads"],
    ),
    (
        "select target from follows f where owner = 'ann'
            and (close or exists (select 1 from follows g where g.owner = f.target and g.target = 'dee')) order by target",
        (11, 2),
        &["bob", "cid"],
    ),
    // A value by a key, also through a null, and the last of many.
    (
        "select name, (select town from users b where b.name = u.boss) as town from users u where name in ('ann', 'bob', 'dee') order by name",
        (6, 2),
        &["ann|null", "bob|Ghent", "dee|Ghent"],
    ),
    (
        "select f.target, (select text from posts p where p.owner = f.target order by at desc limit 1) as last
            from follows f where f.owner = 'ann' order by f.target",
        (11, 2),
        &["bob|b5", "cid|null"],
    ),
    (
        "select f.target from follows f where f.owner = 'bob'
            and (select at from posts p where p.owner = f.target and p.at < 2 order by at desc limit 1) = 1",
        (2 + 9, 2),
        &["ann"],
    ),
    // An aggregate that knows nothing outside.
    (
        "select name, (select count(*) from follows where owner = 'ann') as n from users where name = 'ann'",
        (2, 2),
        &["ann|2"],
    ),
    ("select (select max(target) from follows where owner = 'ann') as last", (1, 1), &["cid"]),
    // Aggregates that are folded for each row.
    (
        "select u.name, (select count(*) from follows f where f.owner = u.name) as n from users u
            where u.name in ('ann', 'bob', 'dee') order by u.name",
        (6, 2),
        &["ann|2", "bob|1", "dee|0"],
    ),
    (
        "select f.target, (select max(g.target) || '!' from follows g where g.owner = f.target and g.close is not true) as m
            from follows f where f.owner = 'ann' order by f.target",
        (11, 2),
        &["bob|ann!", "cid|null"],
    ),
    (
        "select f.target from follows f where f.owner = 'ann' and (select count(*) from follows g where g.owner = f.target) > 0
            and not f.close",
        (11, 2),
        &["cid"],
    ),
    (
        "select u.name, (select count(*) filter (where close) from follows f where f.owner = u.name) as close,
            (select count(*) from tags t where t.word = 'x' and t.owner = u.name) as tags from users u where u.name = 'ann'",
        (3, 3),
        &["ann|1|2"],
    ),
    (
        "select word, (select count(*) from follows f where f.owner = t.owner) as n from tags t where word = 'x' order by at limit 2",
        (1 + 2, 2),
        &["x|2", "x|2"],
    ),
    // The subquery first: its different values, each looked up once.
    (
        "select name from users where name in (select owner from tags where word = 'x') order by name",
        (1 + 20, 2),
        &["ann", "bob"],
    ),
    (
        "select name from users where name in (select target from follows where owner = 'ann' order by target desc limit 1)",
        (2, 2),
        &["cid"],
    ),
    // After what is asked, where that is cheaper.
    (
        "select name from users where name = 'ann' and name in (select owner from tags where word = 'x')",
        (2, 2),
        &["ann"],
    ),
    (
        "select target from follows where owner = 'ann' intersect select owner from follows where target = 'ann'",
        (11, 2),
        &["bob"],
    ),
    (
        "select target from follows where owner = 'ann' except select owner from follows where target = 'ann'",
        (11, 2),
        &["cid"],
    ),
    // An interval of a left join is one of its key.
    (
        "select f.target, p.at from follows f left join posts p on p.owner = f.target and p.at = 5 where f.owner = 'ann' order by f.target",
        (11, 2),
        &["bob|5", "cid|null"],
    ),
];

fn check(db: &Database) {
    for (sql, _, expected) in CASES {
        assert_eq!(ask(db, sql, &[]), expected, "{sql}\n{}", db.compile(sql).unwrap());
    }
}

#[test]
fn answers_and_bounds() {
    let (db, store) = counted();
    script(&db, SCHEMA);
    for executor in [Executor::Parallel, Executor::Simple, Executor::Lazy] {
        let options = Options { executor, ..Options::default() };
        check(&Database::open_with(store.clone(), options).unwrap());
    }
    for (sql, expected, _) in CASES {
        assert_eq!(bound(&db, sql), expected, "{sql}\n{}", db.compile(sql).unwrap());
        let query = db.prepare(sql).unwrap();
        store.take();
        query.call(&[]).unwrap();
        let used = store.take();
        let bound = query.plan().bound;
        assert!(used.requests <= bound.requests && used.tuples <= bound.tuples, "{sql}: {used:?} {bound}");
    }
}

#[test]
fn on_a_store_that_writes_key_by_key_entries_are_checked() {
    let (db, _) = over(MemoryStore::key_by_key());
    script(&db, SCHEMA);
    check(&db);
}

#[test]
fn pages_with_subqueries() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    let query = db
        .prepare(
            "select at, exists (select 1 from tags t where t.word = 'x' and t.owner = p.owner and t.at = p.at) as x
            from posts p where owner = ? order by at desc paginate 1",
        )
        .unwrap();
    assert!(query.plan().resumes_in_index(), "{}", query.plan());
    let first = query.call(&["ann".into()]).unwrap();
    let second = query.resume(&first.cursor.unwrap()).unwrap();
    assert_eq!(crate::support::rows(&second.batch), ["1|true"]);
}

#[test]
fn what_drops_rows_behind_a_limit_is_refused_with_its_reason() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    for sql in [
        "select name from users u where not exists (select 1 from follows f where f.owner = 'ann' and f.target = u.name) order by name limit 5",
        "select name from users u left join follows f on f.owner = 'ann' and f.target = u.name where f.owner is null order by name limit 5",
    ] {
        let refusal = refusal(&db, sql);
        assert!(refusal.reason.contains("users u"), "{refusal}");
        assert!(refusal.reason.contains("its first 5 rows are not enough"), "{refusal}");
    }
}

#[test]
fn a_subquery_without_a_bound_is_named_also_behind_a_limit() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    for sql in [
        "select name, (select count(*) from posts p where p.owner = u.name) from users u order by name limit 5",
        "select name, exists (select 1 from posts p where p.owner = u.name and p.at % 2 = 0) from users u order by name limit 5",
    ] {
        let refusal = refusal(&db, sql);
        assert_eq!(
            refusal.reason, "for each row of u nothing limits how many rows of posts p have the same owner",
            "{refusal}"
        );
        assert!(refusal.fixes.iter().any(|fix| fix.bound.requests == 6), "{refusal}");
    }
}

#[test]
fn writes_have_subqueries_too() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    script(
        &db,
        "update users set town = (select town from users b where b.name = 'dee') where name = 'cid';
         delete from follows where owner = 'ann' and not exists (select 1 from posts p where p.owner = follows.target);
         insert into users select 'eve', (select max(target) from follows where owner = 'cid'), null
            where not exists (select 1 from users where name = 'eve')",
    );
    assert_eq!(
        ask(&db, "select town from users where name in ('cid', 'eve') order by name", &[]),
        ["Lier", "dee"]
    );
    assert_eq!(ask(&db, "select target from follows where owner = 'ann'", &[]), ["bob"]);
}

#[test]
fn what_is_too_much_says_so() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    for (sql, why) in [
        (
            "select name from users u where exists (select 1 from follows f join posts p on p.owner = f.target where f.owner = u.name)",
            "ask twice",
        ),
        (
            "select name, (select count(*) from follows f join users v on v.name = f.target where f.owner = u.name) from users u where name = 'ann'",
            "ask twice",
        ),
        (
            "select name, (select text from posts p where p.owner = u.name) from users u where name = 'ann'",
            "ask twice",
        ),
        (
            "select name from users u where name = 'bob' and boss not in (select owner from follows where target = 'cid')",
            "may be null",
        ),
        (
            "select name, name in (select boss from users b where b.name = 'bob') from users u where name = 'ann'",
            "may be null",
        ),
        (
            "select name from users u where name in ('ann', 'bob') order by (select count(*) from follows f where f.owner = u.name)",
            "ask twice",
        ),
        ("select now()", "give it as a parameter"),
    ] {
        match db.compile(sql) {
            Err(Error::Invalid(error)) => assert!(error.to_string().contains(why), "{sql}: {error}"),
            Err(other) => panic!("{sql}: {other}"),
            Ok(compiled) => panic!("{sql}:\n{compiled}"),
        }
    }
}

#[test]
fn the_order_is_that_of_the_query_whatever_is_read_first() {
    let (db, _) = counted();
    script(
        &db,
        "create table comments (id int primary key, post int, score int, cardinality limit 9 (post));
         create table blocks (owner int, at int, primary key (owner, at));
         insert into comments values (1, 1, 5), (2, 1, 7), (3, 1, 6);
         insert into blocks values (1, 1)",
    );
    for asked in [
        "not exists (select 1 from blocks b where b.owner = 2)",
        "exists (select 1 from blocks b where b.owner = 1)",
        "(select at from blocks b where b.owner = 1 order by at desc limit 1) = 1",
    ] {
        for (end, ids) in [("", &["2", "3", "1"][..]), (" limit 2", &["2", "3"])] {
            let sql =
                format!("select id from comments c where c.post = 1 and {asked} order by c.score desc{end}");
            assert_eq!(ask(&db, &sql, &[]), ids, "{sql}");
        }
    }
}
