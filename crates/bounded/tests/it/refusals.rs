//! What is refused, how it is said, and what is not.

use crate::support::{bound, counted, over, refusal, script};
use whimbrel_bounded::store::{Atomicity, Capabilities, Order};
use whimbrel_bounded::{Database, Error, MemoryStore};

const SCHEMA: &str = "create table posts (id int primary key, author varchar(20) not null, at int not null,
    title varchar(80), score int)";

const REFUSED: &str = "\
this query has no bound: nothing limits how many rows of posts have the same author

    select posts.title
      order by posts.at
        select posts.title, posts.at
          where posts.author = $1
            posts   <-- no limit here

fix 1: read it page by page
    select title from posts where author = ? order by at paginate 10
    -- at most 11 requests in 2 rounds, 20 tuples, 6840 bytes

fix 2: take the first rows
    select title from posts where author = ? order by at limit 10
    -- at most 11 requests in 2 rounds, 20 tuples, 6840 bytes

fix 3: say that at most 100 rows of posts have the same author (put your own number)
    alter table posts add cardinality limit 100 (author);
    -- at most 101 requests in 2 rounds, 200 tuples, 67300 bytes

to run it all the same, and have it listed: put `allow unbounded 'reason'` at its end";

fn invalid(db: &Database, sql: &str) -> String {
    match db.compile(sql) {
        Err(Error::Invalid(error)) => whimbrel_sql_message(&error, sql),
        other => panic!("{sql}: {other:?}"),
    }
}

fn whimbrel_sql_message(error: &datafusion::error::DataFusionError, sql: &str) -> String {
    whimbrel_sql::render(error, sql)
}

#[test]
fn a_refusal_says_what_and_why_and_what_to_do() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    let refused = refusal(&db, "select title from posts where author = ? order by at");
    let text = refused.to_string();
    assert_eq!(text, REFUSED);
    assert_eq!(refused.fixes.len(), 3, "{text}");
    for fix in &refused.fixes {
        let (db, _) = counted();
        script(&db, SCHEMA);
        let sql = match fix.changes_schema {
            true => {
                script(&db, &fix.paste);
                "select title from posts where author = ? order by at"
            }
            false => &fix.paste,
        };
        assert_eq!(db.compile(sql).unwrap().plan.bound, fix.bound, "{text}");
    }
}

#[test]
fn a_limit_does_not_help_where_rows_are_dropped() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    // No index of the word's middle; the limit cannot stop the scan.
    let refused = refusal(&db, "select id from posts where title like '%whimbrel%' limit 10");
    assert!(refused.reason.contains("drops rows after they were read"), "{refused}");
    assert!(refused.fixes.iter().any(|fix| fix.paste.contains("like [token]")), "{refused}");
    let refused = refusal(&db, "select id from posts where author = ? and score % 2 = 0 limit 10");
    assert!(refused.reason.contains("drops rows"), "{refused}");
    // With an index for it, it can.
    assert_eq!(bound(&db, "select id from posts where author = ? and score = 3 limit 10"), (1, 1));
    assert_eq!(
        bound(&db, "select title from posts where author = ? and at > 5 order by at desc limit 10"),
        (11, 2)
    );
    // Two intervals are no contiguous part of any index.
    refusal(&db, "select id from posts where author = ? and at > 5 and score > 3 limit 10");
    // An interval has to be where the order begins.
    refusal(&db, "select id from posts where author = ? and at > 5 order by score limit 10");
    // Nothing at all, and everything.
    refusal(&db, "select count(*) from posts");
    assert_eq!(bound(&db, "select * from posts limit 10"), (1, 1));
    refusal(&db, "select * from posts p join posts q on p.author = q.author where p.id = 1");
}

#[test]
fn the_order_of_key_columns_counts() {
    let (db, _) = counted();
    script(&db, "create table t (a int, b int, c int, primary key (a, b))");
    // `b` alone is no beginning of the key (a, b): an index is chosen, and not the wrong one.
    let plan = db.compile("select * from t where b = ? order by a limit 5").unwrap().plan;
    let schema = db.schema();
    assert_eq!(plan.new_indexes[0].1.describe(schema.table("t").unwrap()), "t(b, a)");
    assert_eq!(bound(&db, "select * from t where a = ? order by b desc limit 5"), (1, 1));
    assert_eq!(bound(&db, "select * from t order by a, b limit 5"), (1, 1));
    assert!(db.compile("select * from t order by a, b limit 5").unwrap().plan.new_indexes.is_empty());
}

#[test]
fn what_may_run_without_a_bound_says_why() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    let plan = db.compile("select count(*) from posts allow unbounded 'nightly report'").unwrap().plan;
    assert_eq!(plan.allowed.as_deref(), Some("nightly report"));
    assert!(!plan.bound.is_bounded());
    assert!(plan.to_string().contains("no bound\nallowed to be unbounded: nightly report"), "{plan}");
    // It has one: there is nothing to allow.
    let plan = db.compile("select * from posts where id = 1 allow unbounded 'really'").unwrap().plan;
    assert_eq!(plan.allowed, None);
    assert!(invalid(&db, "select 1 from posts allow unbounded").contains("says why"));
}

#[test]
fn a_scan_asks_every_partition_of_a_store_without_an_order() {
    let capabilities = Capabilities {
        order: Order::WithinPartition { partitions: 8 },
        atomicity: Atomicity::Batch,
        batched_ranges: false,
        counts: true,
    };
    let (db, _) = over(MemoryStore::new(capabilities));
    script(&db, SCHEMA);
    let scan = "select * from posts order by at limit 10";
    assert_eq!(bound(&db, scan), (8 + 10, 2));
    assert!(db.compile(scan).unwrap().to_string().contains("in all 8 partitions"));
    assert_eq!(bound(&db, "select id from posts where author = ? order by at limit 10"), (1, 1));
}

#[test]
fn a_store_that_writes_key_by_key_has_its_entries_checked() {
    let (db, _) = over(MemoryStore::key_by_key());
    script(&db, SCHEMA);
    // An entry alone may be left from a crash: the record is read too.
    assert_eq!(bound(&db, "select id from posts where author = ? order by at limit 10"), (11, 2));
}

#[test]
fn too_much_is_refused_too() {
    let (db, _) = counted();
    script(
        &db,
        "create table a (id int primary key); create table b (a int, id int, primary key (a, id), cardinality limit 1000 (a))",
    );
    let refused = refusal(&db, "select * from (select id from a limit 20000) x join b on b.a = x.id");
    assert!(refused.reason.contains("20001 requests, and one call may take 10000"), "{refused}");
    assert!(refused.fixes[0].paste.contains("limit 9999"), "{refused}");
    db.compile(&refused.fixes[0].paste).unwrap();
}

#[test]
fn wrong_statements_say_where() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    let text = invalid(&db, "select titel from posts where id = 1");
    assert!(text.contains("title") && text.contains("^^^^^"), "{text}");
    assert!(invalid(&db, "select * from post where id = 1").contains("did you mean \"posts\"?"));
    assert!(invalid(&db, "select * from posts order by at limit 10 offset 20").contains("paginate n"));
    assert!(invalid(&db, "select * from posts order by at limit ?").contains("there is no bound"));
    assert!(invalid(&db, "select * from posts paginate ?").contains("a number that stands in the query"));
    assert!(invalid(&db, "select * from posts paginate 5 order by at").contains("at the end"));
    assert!(invalid(&db, "select * from posts p where id = 1 and not exists (select 1 from posts a join posts b on a.id = b.at where a.at = p.id)").contains("subquery"));
    assert!(invalid(&db, "select random() from posts where id = 1").contains("as a parameter"));
    assert!(invalid(&db, "select * from posts where").contains("^"));
    assert!(
        invalid(&db, "update posts set score = 1, author = 'x'; delete from posts")
            .contains("end of statement")
    );
    refusal(&db, "update posts set score = 1");
    refusal(&db, "delete from posts");
}

#[test]
fn a_count_without_end_is_one_of_the_first_rows() {
    let (db, _) = counted();
    script(&db, "create table follows (owner int, target int, primary key (owner, target))");
    let refused = refusal(&db, "select count(*) as n from follows where target = :who");
    let fix = refused.fixes.iter().find(|fix| !fix.changes_schema).unwrap_or_else(|| panic!("{refused}"));
    assert_eq!(
        fix.paste,
        "select count(*) as n from (select 1 from follows where target = :who limit 100) as first_rows"
    );
    assert_eq!((fix.bound.requests, fix.bound.tuples), (1, 100));
    // What is in a subquery is drawn, and marked.
    let refused = refusal(
        &db,
        "select 1 from follows f where f.owner = 1 and f.target = 2
        and exists (select 1 from follows g where g.owner = f.target and g.target % 2 = 0)",
    );
    assert!(refused.drawing.contains("follows g   <-- no limit here"), "{refused}");
}

#[test]
fn nothing_that_is_written_is_passed_over() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    for (sql, why) in [
        ("select * from posts where id = 1 for update", "there are no locks"),
        ("select * from posts tablesample (10) where id = 1", "tablesample"),
        ("insert into posts values (1, 'a', 1, 'b', 1) on conflict do nothing", "write upsert"),
        ("insert or replace into posts values (1, 'a', 1, 'b', 1)", "write upsert"),
        ("create temporary table t (id int primary key)", "no temporary tables"),
        ("create table t (id int primary key, p int references posts on delete cascade)", "on delete"),
        (
            "select p.id from posts p cross join lateral (select q.id from posts q where q.id = p.id) x where p.id = 1",
            "lateral",
        ),
    ] {
        let error = db.execute(sql, &[]).unwrap_err().to_string();
        assert!(error.contains(why), "{sql}: {error}");
    }
    script(&db, "create table t (id int primary key, p int references posts on delete restrict)");
}

/// Applies a fix to a new database with this schema, and compiles the query: its bound is what was said.
fn works(schema: &str, sql: &str, fix: &whimbrel_bounded::Fix) {
    let (db, _) = counted();
    script(&db, schema);
    let (change, sql) = match (fix.changes_schema, fix.paste.split_once(";\n")) {
        // A view, and the query of it.
        (true, Some((view, query))) => (view, query),
        (true, None) => (fix.paste.as_str(), sql),
        (false, _) => ("", fix.paste.as_str()),
    };
    script(&db, change);
    // A view is kept with indexes of its own.
    db.prepare(sql).unwrap();
    assert_eq!(db.compile(sql).unwrap().plan.bound, fix.bound, "{}", fix.paste);
}

#[test]
fn a_reference_that_can_be_null_is_named() {
    let schema = "create table topics (name varchar(20) primary key);
        create table posts (id int primary key, author varchar(20) not null, topic varchar(20) references topics)";
    let sql = "select t.name from posts p join topics t on t.name = p.topic where p.author = ? limit 10";
    let (db, _) = counted();
    script(&db, schema);
    let refused = refusal(&db, sql);
    assert!(refused.reason.ends_with("p.topic can be null, and then the join drops the row"), "{refused}");
    let pastes: Vec<&str> = refused.fixes.iter().map(|fix| fix.paste.as_str()).collect();
    assert!(pastes.contains(&"alter table posts alter column topic set not null;"), "{refused}");
    let query = "select t.name from posts p join topics t on t.name = p.topic where p.topic is not null and p.author = ? limit 10";
    assert!(pastes.contains(&query), "{refused}");
    refused.fixes.iter().for_each(|fix| works(schema, sql, fix));
    // What is compared is not null.
    let later = "select t.name from posts p join topics t on t.name = p.topic
        where p.author = ? and p.topic > 'b' order by p.topic limit 10";
    assert_eq!(bound(&db, later), (11, 2));
    script(
        &db,
        "insert into topics values ('a'); insert into posts values (1, 'ann', 'a'), (2, 'ann', null)",
    );
    assert_eq!(crate::support::ask(&db, query, &["ann".into()]), ["a"]);
}

#[test]
fn what_is_null_is_looked_for_before_a_column_is_never_null() {
    for store in [MemoryStore::default(), MemoryStore::key_by_key()] {
        let (db, _) = over(store);
        script(&db, "create table t (id int primary key, x int); insert into t values (1, null), (2, 3)");
        let error = db.execute("alter table t alter column x set not null", &[]).unwrap_err();
        assert!(error.to_string().contains("rows of t have a x that is null"), "{error}");
        script(&db, "insert into t values (3, null); update t set x = 1 where id in (1, 3)");
        script(&db, "alter table t alter column x set not null");
        let error = db.execute("insert into t values (4, null)", &[]).unwrap_err();
        assert!(error.to_string().contains("t.x is not null"), "{error}");
        script(&db, "alter table t alter column x drop not null; insert into t values (4, null)");
        assert!(db.execute("alter table t alter column id drop not null", &[]).is_err());
    }
}

#[test]
fn limits_are_offered_where_something_is_known() {
    let schema = "create table orders (id int primary key, paid boolean not null, town varchar(9));
        create table lines (o int not null references orders, item int not null, primary key (o, item))";
    let sql = "select o.id from orders o join lines l on l.o = o.id where l.item = ? and o.paid";
    let (db, _) = counted();
    script(&db, schema);
    let refused = refusal(&db, sql);
    let pastes: Vec<&str> = refused.fixes.iter().map(|fix| fix.paste.as_str()).collect();
    assert!(pastes.contains(&"alter table lines add cardinality limit 100 (item);"), "{refused}");
    assert!(!pastes.iter().any(|paste| paste.contains("(paid)") || paste.contains("()")), "{refused}");
    refused.fixes.iter().for_each(|fix| works(schema, sql, fix));
    assert!(refused.drawing.contains("o.paid") && !refused.to_string().contains("Boolean("), "{refused}");
}

#[test]
fn a_fix_of_several_statements_can_be_executed() {
    let schema =
        "create table lines (o int, item int, qty int, primary key (o, item), cardinality limit 100 (o))";
    let (db, _) = counted();
    script(&db, schema);
    // What else was bought with an item (Armbrust et al. 2013).
    let sql = "select b.item, sum(b.qty) as bought from lines a join lines b on b.o = a.o
        where a.item = :item and not (b.item = :item) group by b.item order by bought desc limit 5";
    let refused = refusal(&db, sql);
    let fix = refused.fixes.iter().find(|fix| fix.paste.starts_with("create materialized view"));
    let fix = fix.unwrap_or_else(|| panic!("{refused}"));
    assert_eq!(fix.bound.requests, 1, "{refused}");
    script(&db, "insert into lines values (1, 1, 1), (1, 2, 5), (2, 1, 1), (2, 2, 1), (2, 3, 9)");
    let page = db.execute(&fix.paste, &[1.into()]).unwrap().unwrap();
    assert_eq!(crate::support::rows(&page.batch), ["3|9", "2|6"]);
    assert!(db.execute(" ; ", &[]).is_err());
}

/// What else was bought with an item, as a subquery.
const ADMIN_CONFIRM: &str = "select item, sum(qty) as bought from lines
    where o in (select o from lines where item = :item) and item <> :item group by item order by bought desc limit 5";

#[test]
fn a_subquery_that_has_no_bound_is_offered_as_a_view_of_a_join() {
    let schema =
        "create table lines (o int, item int, qty int, primary key (o, item), cardinality limit 100 (o))";
    let (db, _) = counted();
    script(&db, schema);
    let refused = refusal(&db, ADMIN_CONFIRM);
    // The subquery is meant, not the table around it.
    assert_eq!(refused.reason, "nothing limits how many rows of lines have the same item");
    assert!(refused.drawing.ends_with("lines   <-- no limit here"), "{refused}");
    let view = |fix: &&whimbrel_bounded::Fix| fix.paste.starts_with("create materialized view");
    let fix = refused.fixes.iter().find(view).unwrap_or_else(|| panic!("{refused}"));
    assert_eq!((fix.title.as_str(), fix.bound.requests), ("keep the answer in a view, and read that", 1));
    script(&db, "insert into lines values (1, 1, 1), (1, 2, 5), (2, 1, 1), (2, 2, 1), (2, 3, 9)");
    let page = db.execute(&fix.paste, &[1.into()]).unwrap().unwrap();
    assert_eq!(page.batch.schema().field(0).name(), "item");
    let kept = crate::support::rows(&page.batch);
    assert_eq!(kept, ["3|9", "2|6"]);
    let all = format!("{ADMIN_CONFIRM} allow unbounded 'test'");
    assert_eq!(crate::support::ask(&db, &all, &[1.into()]), kept);
    // An item can be in two lines of an order: then the join is not the same.
    let (db, _) = counted();
    script(
        &db,
        "create table lines (o int, line int, item int not null, qty int, primary key (o, line), cardinality limit 100 (o))",
    );
    let refused = refusal(&db, ADMIN_CONFIRM);
    let fix = refused.fixes.iter().find(view).unwrap_or_else(|| panic!("{refused}"));
    assert!(fix.title.ends_with("what the subquery finds twice counts twice"), "{refused}");
    script(&db, "insert into lines values (1, 1, 1, 1), (1, 2, 1, 1), (1, 3, 2, 5)");
    assert_eq!(crate::support::rows(&db.execute(&fix.paste, &[1.into()]).unwrap().unwrap().batch), ["2|10"]);
}

/// One column that is never null is not enough where two references can be null, or one of two columns.
#[test]
fn references_that_can_be_null_are_named_together() {
    let db = Database::open(MemoryStore::default()).unwrap();
    script(
        &db,
        "create table a (id int primary key); create table b (id int primary key);
        create table p (x int, y int, primary key (x, y));
        create table c (id int primary key, a int references a, b int references b, k int not null,
            x int, y int, foreign key (x, y) references p);
        create index c_by_k on c (k, id)",
    );
    let pastes =
        |sql: &str| -> Vec<String> { refusal(&db, sql).fixes.into_iter().map(|fix| fix.paste).collect() };
    let two = pastes(
        "select c.id from c join a on a.id = c.a join b on b.id = c.b where c.k = ? order by c.id limit 10",
    );
    let both = |paste: &String, columns: [&str; 2]| {
        columns
            .iter()
            .all(|column| paste.contains(&format!("alter table c alter column {column} set not null")))
    };
    assert!(two.iter().any(|paste| both(paste, ["a", "b"])), "{two:#?}");
    let wide =
        pastes("select c.id from c join p on p.x = c.x and p.y = c.y where c.k = ? order by c.id limit 10");
    assert!(wide.iter().any(|paste| both(paste, ["x", "y"])), "{wide:#?}");
}
