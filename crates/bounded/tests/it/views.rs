//! Views: at every instant what their queries would return, whatever is written, by whomever, and whatever
//! crashes; and no write costs more than was proven.

use crate::support::{Any, Dice, ask, bound, counted, over, refusal, rows, script};
use datafusion::arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use whimbrel_bounded::{Database, EmbeddedStore, Error, MemoryStore, Observed};

/// What queries return, by an ordinary engine over the same rows.
fn computed(db: &Database, queries: &[&str]) -> Vec<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let context = SessionContext::new();
    for table in db.schema().tables().filter(|table| table.view.is_none()) {
        let all = format!("select * from {} allow unbounded 'test'", table.name);
        let batch: RecordBatch = db.execute(&all, &[]).unwrap().unwrap().batch;
        let table_of = datafusion::datasource::MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        context.register_table(table.name.as_str(), Arc::new(table_of)).unwrap();
    }
    let answer = |sql: &&str| {
        let batches = runtime.block_on(async { context.sql(sql).await.unwrap().collect().await.unwrap() });
        let mut found: Vec<String> = batches.iter().flat_map(rows).collect();
        found.sort();
        found
    };
    queries.iter().map(answer).collect()
}

/// What the view holds.
fn kept(db: &Database, view: &str) -> Vec<String> {
    let mut found = ask(db, &format!("select * from {view} allow unbounded 'test'"), &[]);
    found.sort();
    found
}

fn same(db: &Database, views: &[(&str, &str)], when: &str) {
    let queries: Vec<&str> = views.iter().map(|(_, sql)| *sql).collect();
    for ((name, _), expected) in views.iter().zip(computed(db, &queries)) {
        assert_eq!(kept(db, name), expected, "{name} {when}");
    }
}

fn make(db: &Database, views: &[(&str, &str)]) {
    for (name, sql) in views {
        let create = format!("create materialized view {name} as {sql}");
        db.execute(&create, &[]).unwrap_or_else(|error| panic!("{create}\n{error}"));
    }
}

/// Runs a write; it may fail for the rows, and never costs more than was proven.
fn write(db: &Database, store: &Observed<Any>, sql: &str) -> bool {
    let write = db.prepare(sql).unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let plan = write.plan();
    let writes = plan.writes.clone().unwrap();
    store.take();
    let outcome = write.call(&[]);
    let used = store.take();
    let shown = format!("{sql}: {outcome:?}\n{used:?}\n{plan}");
    assert!(used.requests <= plan.bound.requests + writes.requests, "{shown}");
    assert!(used.rounds <= plan.bound.rounds + writes.rounds, "{shown}");
    assert!(used.conditions <= writes.conditions && used.writes <= writes.writes, "{shown}");
    assert!(
        !matches!(outcome, Err(Error::Internal(_) | Error::Unavailable(_) | Error::Invalid(_))),
        "{shown}"
    );
    outcome.is_ok()
}

const SHOP: &str = "
    create table makers (m int primary key, land varchar(10) not null);
    create table items (i int primary key, m int not null references makers, kind varchar(10), cardinality limit 4 (m));
    create table orders (o int primary key, who varchar(10) not null, day int not null);
    create table lines (o int references orders, n int, i int not null references items, qty int, price decimal(8, 2),
        primary key (o, n), cardinality limit 5 (o), cardinality limit 30 (i))";

const VIEWS: [(&str, &str); 9] = [
    ("sold", "select i.kind, l.i, sum(l.qty) as sold, count(*) as lines from lines l join items i on i.i = l.i group by i.kind, l.i"),
    ("lands", "select m.land, sum(l.qty) as sold, avg(l.qty) as mean, count(l.qty) as n
        from lines l join items i on i.i = l.i join makers m on m.m = i.m where l.qty > 0 group by m.land"),
    ("pairs", "select a.i as one, b.i as other, count(*) as together from lines a join lines b on a.o = b.o and a.n <> b.n
        where a.i <> b.i group by a.i, b.i"),
    ("total", "select count(*) as n, sum(price) as worth, avg(price) as mean from lines"),
    ("days", "select o.day, count(*) as n, sum(l.price) as worth from orders o join lines l on l.o = o.o group by o.day"),
    ("dear", "select i, max(price) as dearest, min(qty) as least, max(qty) as most from lines group by i"),
    ("kinds", "select kind, count(*) as n from items group by kind"),
    ("dozens", "select l.o, l.n, i.kind, l.qty from lines l join items i on i.i = l.i where l.qty >= 12"),
    ("weeks", "select day / 7 as week, count(*) as n from orders group by day / 7"),
];

fn value(dice: &mut Dice) -> (String, String) {
    let qty = if dice.roll(6) == 0 { "null".into() } else { dice.roll(20).to_string() };
    let price =
        if dice.roll(6) == 0 { "null".into() } else { format!("{}.{:02}", dice.roll(9), dice.roll(100)) };
    (qty, price)
}

fn change(dice: &mut Dice) -> String {
    let (o, n, i, m) = (dice.roll(6), dice.roll(5), dice.roll(7), dice.roll(3));
    let (qty, price) = value(dice);
    let kind = ["'a'", "'b'", "null"][dice.roll(3) as usize];
    match dice.roll(16) {
        0..=4 => format!("insert into lines values ({o}, {n}, {i}, {qty}, {price})"),
        5 => {
            let (more, worth) = value(dice);
            let j = dice.roll(7);
            format!(
                "upsert into lines values ({o}, {n}, {i}, {qty}, {price}), ({o}, {}, {j}, {more}, {worth})",
                n + 1
            )
        }
        6 => format!("upsert into items values ({i}, {m}, {kind})"),
        7 => format!("update lines set qty = {qty}, price = {price} where o = {o} and n = {n}"),
        8 => format!("update lines set i = {i} where o = {o}"),
        9 => format!("delete from lines where o = {o} and n = {n}"),
        10 => format!("delete from lines where o = {o}"),
        11 => format!("insert into orders values ({o}, 'w', {})", dice.roll(30)),
        12 => format!("update orders set day = {} where o = {o}", dice.roll(30)),
        13 => format!("delete from orders where o = {o}"),
        14 => format!("update items set kind = {kind} where i = {i}"),
        _ => match dice.roll(3) {
            0 => format!("delete from items where i = {i}"),
            1 => format!("update makers set land = 'l{}' where m = {m}", dice.roll(3)),
            _ => format!("insert into items values ({i}, {m}, {kind})"),
        },
    }
}

fn shop(db: &Database) {
    script(db, SHOP);
    script(db, "insert into makers values (0, 'l0'), (1, 'l1'), (2, 'l0')");
    script(db, "insert into items values (0, 0, 'a'), (1, 0, 'b'), (2, 1, 'a'), (3, 2, null)");
    script(db, "insert into orders values (0, 'ann', 3), (1, 'bob', 9), (2, 'ann', 17)");
    script(
        db,
        "insert into lines values (0, 0, 1, 5, 1.50), (0, 1, 2, null, 2.25), (1, 0, 1, 12, null), (2, 0, 3, 1, 9.00)",
    );
}

#[test]
fn a_view_is_what_its_query_returns_after_every_change() {
    let mut written = 0;
    for seed in 0..3 {
        let (db, store) = counted();
        shop(&db);
        make(&db, &VIEWS);
        same(&db, &VIEWS, "when it was filled");
        let mut dice = Dice(seed);
        for step in 0..40 {
            let sql = change(&mut dice);
            if write(&db, &store, &sql) {
                written += 1;
                same(&db, &VIEWS, &format!("after step {step} of seed {seed}: {sql}"));
            }
        }
        assert_eq!(db.repair(std::time::Duration::ZERO).unwrap(), Default::default());
    }
    assert!(written > 50, "{written}");
}

const TREE: [(&str, &str); 3] = [
    ("children", "select p.id, p.kind, count(*) as n, sum(c.weight) as weight from nodes c join nodes p on c.parent = p.id
        group by p.id, p.kind"),
    ("grandchildren", "select a.id, count(c.weight) as n, min(c.weight) as least from nodes a join nodes b on b.parent = a.id
        join nodes c on c.parent = b.id group by a.id"),
    ("alike", "select a.kind, a.id, b.id as other from nodes a join nodes b on a.parent = b.parent where a.kind = b.kind"),
];

#[test]
fn a_table_that_is_joined_with_itself() {
    let mut written = 0;
    for seed in 0..4 {
        let (db, store) = counted();
        script(&db, "create table nodes (id int primary key, parent int references nodes, kind varchar(5), weight int,
            cardinality limit 4 (parent))");
        script(
            &db,
            "insert into nodes values (0, 0, 'a', 1), (1, 0, 'b', null), (2, null, null, 3), (3, 2, 'a', 5)",
        );
        make(&db, &TREE);
        same(&db, &TREE, "when it was filled");
        let mut dice = Dice(seed);
        for step in 0..50 {
            let node = |dice: &mut Dice| {
                let parent = if dice.roll(5) == 0 { "null".into() } else { dice.roll(8).to_string() };
                let kind = ["'a'", "'b'", "null"][dice.roll(3) as usize];
                format!("({}, {parent}, {kind}, {})", dice.roll(8), dice.roll(9))
            };
            let sql = match dice.roll(7) {
                0 => format!("insert into nodes values {}", node(&mut dice)),
                // One may refer to the other.
                1 => format!("insert into nodes values {}, {}", node(&mut dice), node(&mut dice)),
                2 => format!("upsert into nodes values {}", node(&mut dice)),
                3 => format!("delete from nodes where id = {}", dice.roll(8)),
                4 => format!("update nodes set weight = weight + 1 where parent = {}", dice.roll(8)),
                5 => format!("update nodes set parent = {} where id = {}", dice.roll(8), dice.roll(8)),
                _ => format!("update nodes set kind = 'b' where parent = {}", dice.roll(8)),
            };
            if write(&db, &store, &sql) {
                written += 1;
                same(&db, &TREE, &format!("after step {step} of seed {seed}: {sql}"));
            }
        }
    }
    assert!(written > 60, "{written}");
}

/// TPC-W's tables, as far as its two analytical queries need them. A day is a column: sales are asked for by
/// day.
const TPCW: &str = "
    create table item (i_id int primary key, i_title varchar(60), i_subject varchar(20) not null, i_stock int);
    create table orders (o_id int primary key, o_c_uname varchar(20) not null, o_date_time timestamp not null);
    create table order_line (ol_o_id int references orders, ol_id int, ol_i_id int not null references item, ol_qty int,
        primary key (ol_o_id, ol_id), cardinality limit 100 (ol_o_id))";

fn tpcw(db: &Database) {
    script(db, TPCW);
    for item in 0..8 {
        let insert = "insert into item values (?, 'title', ?, 10)";
        db.execute(insert, &[item.into(), format!("s{}", item % 2).into()]).unwrap();
    }
    for order in 0..9 {
        script(
            db,
            &format!(
                "insert into orders values ({order}, 'ann', timestamp '2020-01-0{} 10:00:00')",
                1 + order / 3
            ),
        );
        for line in 0..3 {
            script(
                db,
                &format!(
                    "insert into order_line values ({order}, {line}, {}, {})",
                    (order * 3 + line * 2) % 8,
                    1 + line
                ),
            );
        }
    }
}

#[test]
fn best_sellers() {
    let (db, store) = counted();
    tpcw(&db);
    let sql = "select date_trunc('week', o.o_date_time) as week, i.i_subject as subject, i.i_id as item, sum(l.ol_qty) as sold
        from order_line l join orders o on o.o_id = l.ol_o_id join item i on i.i_id = l.ol_i_id
        group by date_trunc('week', o.o_date_time), i.i_subject, i.i_id";
    make(&db, &[("best_sellers", sql)]);
    let read = "select b.item, i.i_title, b.sold from best_sellers b join item i on i.i_id = b.item
        where b.week = ? and b.subject = ? order by b.sold desc limit 50";
    // One range of an index that has all, and the titles.
    assert_eq!(bound(&db, read), (51, 2), "{}", db.compile(read).unwrap());
    let top = "select item, sold from best_sellers where week = timestamp '2019-12-30' and subject = 's0' order by sold desc limit 2";
    assert_eq!(ask(&db, top, &[]), ["4|9", "2|8"]);
    assert!(write(&db, &store, "insert into order_line values (0, 7, 2, 5)"));
    assert_eq!(ask(&db, top, &[]), ["2|13", "4|9"]);
    same(&db, &[("best_sellers", sql)], "after a sale");
    // A line costs: two lookups for its order and item, its row of the view, and that row's two entries.
    let plan = db.compile("insert into order_line values (?, ?, ?, ?)").unwrap().plan;
    assert_eq!(plan.writes.clone().unwrap().writes, 1 + 1 + 2, "{plan}");
    assert!(plan.writes.unwrap().requests <= 8);
    // The stock is no part of it; the subject is, and nothing limits the lines of an item.
    assert!(write(&db, &store, "update item set i_stock = i_stock - 1 where i_id = 2"));
    let error = db.prepare("update item set i_subject = 's1' where i_id = 2").unwrap_err().to_string();
    assert!(error.contains("item.i_subject does not change while the view best_sellers is there"), "{error}");
    assert!(
        db.execute("upsert into item values (2, 'title', 's1', 9)", &[])
            .unwrap_err()
            .to_string()
            .contains("does not change")
    );
    assert!(write(&db, &store, "upsert into item values (2, 'other', 's0', 9)"));
    same(&db, &[("best_sellers", sql)], "at the end");
}

#[test]
fn admin_confirm() {
    let (db, store) = counted();
    tpcw(&db);
    let sql = "select a.ol_i_id as item, b.ol_i_id as related, sum(b.ol_qty) as bought
        from order_line a join order_line b on a.ol_o_id = b.ol_o_id where a.ol_i_id <> b.ol_i_id
        group by a.ol_i_id, b.ol_i_id";
    make(&db, &[("related_items", sql)]);
    let read = "select related from related_items where item = ? order by bought desc limit 5";
    assert_eq!(bound(&db, read), (1, 1));
    assert!(write(&db, &store, "insert into order_line values (0, 9, 7, 3)"));
    assert!(write(&db, &store, "delete from order_line where ol_o_id = 1 and ol_id = 0"));
    same(&db, &[("related_items", sql)], "after an order and a return");
    // A hundred lines at once, each with a hundred others, are too much for one call.
    let refused = refusal(&db, "delete from order_line where ol_o_id = 1");
    assert!(refused.reason.contains("change fewer rows at a time"), "{refused}");
    // Both places, a hundred lines each.
    let plan = db.compile("insert into order_line values (?, ?, ?, ?)").unwrap().plan;
    assert!(plan.writes.clone().unwrap().writes <= 1 + 200 * 3, "{plan}");
    let refused = without_limit(" , cardinality limit 100 (ol_o_id)", sql);
    assert!(refused.contains("so does related_items") && refused.contains("the same ol_o_id"), "{refused}");
    assert!(refused.contains("alter table order_line add cardinality limit 100 (ol_o_id);"), "{refused}");
}

fn without_limit(limit: &str, sql: &str) -> String {
    let (db, _) = counted();
    script(&db, &TPCW.replace(limit.trim_start(), "").replace("ol_id), )", "ol_id))"));
    db.execute(&format!("create materialized view related_items as {sql}"), &[]).unwrap_err().to_string()
}

#[test]
fn tag_pairs() {
    let (db, store) = counted();
    script(
        &db,
        "create table tags (owner varchar(20), timestamp int, word varchar(20),
        primary key (owner, timestamp, word), cardinality limit 20 (owner, timestamp))",
    );
    script(
        &db,
        "insert into tags values ('ann', 1, 'rust'), ('ann', 1, 'sql'), ('ann', 2, 'rust'), ('bob', 1, 'sql')",
    );
    let sql = "select t1.word as one, t2.word as other, t1.owner, t1.timestamp
        from tags t1 join tags t2 on t1.owner = t2.owner and t1.timestamp = t2.timestamp where t1.word <> t2.word";
    make(&db, &[("tag_pairs", sql)]);
    let read = "select owner, timestamp from tag_pairs where one = ? and other = ? order by owner, timestamp paginate 10";
    assert_eq!(bound(&db, read), (1, 1), "{}", db.compile(read).unwrap());
    let query = db.prepare(read).unwrap();
    let found = |one: &str, other: &str| rows(&query.call(&[one.into(), other.into()]).unwrap().batch);
    assert_eq!(found("rust", "sql"), ["ann|1"]);
    assert!(write(&db, &store, "insert into tags values ('bob', 1, 'rust')"));
    assert_eq!(found("rust", "sql"), ["ann|1", "bob|1"]);
    assert!(write(&db, &store, "insert into tags values ('cid', 5, 'sql'), ('cid', 5, 'rust')"));
    assert_eq!(found("sql", "rust"), ["ann|1", "bob|1", "cid|5"]);
    assert!(write(&db, &store, "delete from tags where owner = 'ann' and timestamp = 1"));
    assert_eq!(found("rust", "sql"), ["bob|1", "cid|5"]);
    same(&db, &[("tag_pairs", sql)], "at the end");
}

#[test]
fn counters() {
    let (db, store) = counted();
    script(&db, "create table users (name varchar(20) primary key);
        create table follows (owner varchar(20) references users, target varchar(20) references users, primary key (owner, target))");
    let views = [
        ("followers", "select target, count(*) as n from follows group by target"),
        ("everybody", "select count(*) as n from users"),
    ];
    make(&db, &views);
    assert_eq!(ask(&db, "select n from everybody", &[]), ["0"]);
    script(&db, "insert into users values ('ann'), ('bob'), ('cid')");
    assert!(write(&db, &store, "insert into follows values ('bob', 'ann'), ('cid', 'ann')"));
    assert_eq!(bound(&db, "select n from followers where target = ?"), (1, 1));
    assert_eq!(bound(&db, "select n from everybody"), (1, 1));
    assert_eq!(ask(&db, "select n from followers where target = 'ann'", &[]), ["2"]);
    assert_eq!(ask(&db, "select target, n from followers order by n desc limit 3", &[]), ["ann|2"]);
    assert_eq!(ask(&db, "select n from everybody", &[]), ["3"]);
    assert!(write(&db, &store, "delete from follows where owner = 'bob' and target = 'ann'"));
    assert!(write(&db, &store, "delete from follows where owner = 'cid' and target = 'ann'"));
    // A group without rows is none.
    assert_eq!(ask(&db, "select n from followers where target = 'ann'", &[]), Vec::<String>::new());
    same(&db, &views, "at the end");
}

fn create(db: &Database, query: &str) -> String {
    db.execute(&format!("create materialized view v as {query}"), &[]).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_kept_is_refused_with_the_reason() {
    let (db, _) = counted();
    script(
        &db,
        "create table t (a int primary key, b int, x double, y int not null);
        create table u (c int primary key, b int not null)",
    );
    for (query, says) in [
        ("select b, sum(x) as s from t group by b", "drifts"),
        ("select b, count(distinct a) as n from t group by b", "cannot be kept"),
        ("select b, count(*) from t group by b", "give it a name"),
        ("select b, count(*) + 1 as n from t group by b", "compute with them when you read it"),
        ("select b, count(*) as n from t group by b having count(*) > 1", "having"),
        ("select a from t order by b", "order by"),
        ("select a from t limit 5", "limit"),
        ("select distinct b from t", "distinct"),
        ("select t.a from t left join u on u.b = t.b", "outer join"),
        ("select a from t where b = ?", "no parameters"),
        ("select b, max(a) as m from t group by b", "can be null"),
        ("select median(a) as m from t", "cannot be kept"),
        ("select a from nothing", "no table"),
        ("select * from t", "names its columns"),
        ("select t.a, u.c from t natural join u", "names its columns"),
    ] {
        let said = create(&db, query);
        assert!(said.contains(says), "{query}: {said}");
    }
    // Rows of both tables meet by a column that nothing limits.
    let said = create(&db, "select t.y, count(*) as n from t join u on u.b = t.y group by t.y");
    assert!(
        said.contains("when a row of t changes, so does v")
            && said.contains("nothing limits how many rows of u have the same b"),
        "{said}"
    );
    assert!(said.contains("alter table u add cardinality limit 100 (b);"), "{said}");
    assert!(
        create(&db, "select y, 1 as one from t where random() < 0.5").contains("another value in every call")
    );
    // The greatest of a group is found by an index; the greatest of a product is not.
    assert!(
        create(&db, "select y, max(a * 2) as m from t group by y").contains("the next one has to be found")
    );
    script(&db, "create materialized view v as select y, max(a) as m from t group by y");
    assert!(create(&db, "select a from t").contains("already"));
    for (sql, says) in [
        ("insert into v values (1, 2)", "is a view"),
        ("delete from v where y = 1", "is a view"),
        ("alter table v add cardinality limit 3 (m)", "is a view"),
        ("create unique index v_m on v (m)", "is a view"),
        ("create materialized view w as select y from v", "a view is of tables"),
        ("create view w as select a from t", "create materialized view"),
        ("drop materialized view t", "is a table"),
    ] {
        let said = db.execute(sql, &[]).unwrap_err().to_string();
        assert!(said.contains(says), "{sql}: {said}");
    }
    refusal(&db, "select * from v where m = 3");
    // Another column of the table makes no other view.
    script(&db, "alter table t add column z int; insert into t values (1, 2, 0.5, 7, 9), (4, 2, 0.5, 7, 9)");
    assert_eq!(ask(&db, "select * from v where y = 7", &[]), ["7|4"]);
    // What drifts does not if it is made a decimal.
    script(
        &db,
        "create materialized view w as select y, sum(cast(x as decimal(10, 2))) as s from t group by y",
    );
    assert_eq!(ask(&db, "select s from w where y = 7", &[]), ["1.00"]);
    let (db, _) = over(MemoryStore::key_by_key());
    script(&db, "create table t (a int primary key)");
    assert!(create(&db, "select count(*) as n from t").contains("this store writes key by key"));
}

#[test]
fn a_view_goes_and_comes() {
    let (db, store) = counted();
    shop(&db);
    make(&db, &VIEWS);
    assert!(db.execute("drop materialized view nothing", &[]).is_err());
    script(&db, "drop materialized view if exists nothing; drop materialized view sold");
    script(&db, "create materialized view if not exists kinds as select 1");
    assert!(db.execute("select * from sold", &[]).is_err());
    assert!(write(&db, &store, "insert into lines values (2, 1, 0, 1, 1.00)"));
    make(&db, &VIEWS[..1]);
    same(&db, &VIEWS, "when it came again");
}

#[test]
fn a_crash_anywhere_leaves_views_right() {
    for sql in [
        "insert into lines values (2, 3, 0, 7, 1.25)",
        "update lines set qty = 30, i = 2 where o = 0",
        "delete from lines where o = 0",
        "upsert into items values (1, 0, 'a')",
    ] {
        for operations in 0.. {
            let (db, store) = counted();
            shop(&db);
            make(&db, &VIEWS[..6]);
            let write = db.prepare(sql).unwrap();
            store.faults.crash_after(operations);
            let outcome = write.call(&[]);
            store.faults.recover();
            let server = Database::open(store.clone()).unwrap();
            same(&server, &VIEWS[..6], &format!("{sql}, crash at {operations}"));
            if outcome.is_ok() {
                assert!(operations > 4);
                break;
            }
        }
    }
}

#[test]
fn a_view_whose_filling_crashed_is_filled_by_another() {
    let mut crashes = 0;
    for operations in 0.. {
        let (db, store) = counted();
        shop(&db);
        // What the deltas need is there.
        script(&db, "create index lines_by_item on lines (i)");
        store.faults.crash_after(operations);
        let outcome = db.execute(&format!("create materialized view sold as {}", VIEWS[0].1), &[]);
        store.faults.recover();
        let server = Database::open(store.clone()).unwrap();
        // Whatever state it is in, others write.
        script(
            &server,
            "insert into lines values (2, 3, 0, 7, 1.25); delete from lines where o = 0 and n = 0",
        );
        if outcome.is_ok() {
            same(&server, &VIEWS[..1], "filled");
            break;
        }
        crashes += 1;
        match server.execute(&format!("create materialized view sold as {}", VIEWS[0].1), &[]) {
            Ok(_) => {}
            Err(error) => assert!(error.to_string().contains("already"), "{operations}: {error}"),
        }
        same(&server, &VIEWS[..1], &format!("filled again, crash at {operations}"));
    }
    assert!(crashes > 10, "{crashes}");
}

#[test]
fn many_writers_and_one_who_makes_views() {
    let (db, _) = counted();
    shop(&db);
    let total = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let db = &db;
                scope.spawn(move || {
                    let mut dice = Dice(writer * 1000);
                    let done = (0..60).filter(|_| db.execute(&change(&mut dice), &[]).is_ok());
                    done.count()
                })
            })
            .collect();
        for view in &VIEWS {
            // Somebody else may change the schema, for an index that a write needs.
            while let Err(error) =
                db.execute(&format!("create materialized view {} as {}", view.0, view.1), &[])
            {
                assert!(matches!(error, Error::Conflict(_)), "{error}");
            }
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).sum::<usize>()
    });
    assert!(total > 20, "{total}");
    same(&db, &VIEWS, "after all");
}

#[test]
fn a_refusal_offers_a_view() {
    let (db, _) = counted();
    script(&db, "create table posts (id int primary key, author varchar(20) not null, score int not null)");
    script(
        &db,
        "create table tags (owner varchar(20), timestamp int, word varchar(20),
        primary key (owner, timestamp, word), cardinality limit 20 (owner, timestamp))",
    );
    for (sql, view) in [
        (
            "select count(*) from posts",
            "create materialized view posts_kept as select count(*) as n from posts;",
        ),
        (
            "select author, sum(score) as s from posts group by author order by s desc limit 10",
            "create materialized view posts_kept as select author, sum(score) as s from posts group by author;",
        ),
        (
            "select count(*) as n, max(score) from posts where author = ?",
            "create materialized view posts_by_author as select author, count(*) as n, max(score) as max_score from posts group by author;",
        ),
        (
            "select t1.owner, t1.timestamp from tags t1 join tags t2 using (owner, timestamp) where t1.word = ? and t2.word = ?",
            "create materialized view tags_by_word_t2_word as select",
        ),
    ] {
        let refused = refusal(&db, sql);
        let fix = refused
            .fixes
            .iter()
            .find(|fix| fix.title.contains("view"))
            .unwrap_or_else(|| panic!("{refused}"));
        assert!(fix.paste.to_lowercase().contains(view), "{refused}");
        let (create, query) = fix.paste.split_once(";\n").unwrap();
        db.execute(create, &[]).unwrap();
        assert_eq!(db.prepare(query).unwrap().plan().bound, fix.bound, "{refused}");
        let name = create.split_whitespace().nth(3).unwrap();
        script(&db, &format!("drop materialized view {name}"));
    }
}

#[test]
fn one_counter_and_many_writers() {
    let (db, _) = counted();
    script(
        &db,
        "create table t (id int primary key); create materialized view n as select count(*) as n from t",
    );
    let done: usize = std::thread::scope(|scope| {
        let writers = (0..4).map(|writer| {
            let db = &db;
            scope.spawn(move || {
                let insert = db.prepare("insert into t values (?)").unwrap();
                (0..50).filter(|at| insert.call(&[(writer * 1000 + at).into()]).is_ok()).count()
            })
        });
        writers.collect::<Vec<_>>().into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert!(done > 50, "{done}");
    assert_eq!(ask(&db, "select n from n", &[]), [done.to_string()]);
}

#[test]
fn rows_on_both_sides_of_how_far_the_filling_came() {
    let views = [
        (
            "groups",
            "select h.h, h.name, count(*) as n, max(t.id) as last from t join heads h on h.h = t.h group by h.h, h.name",
        ),
        ("pairs", "select a.id, b.id as other from t a join t b on a.pair = b.pair where a.id <> b.id"),
    ];
    let mut begun = 0;
    for (name, sql) in views {
        for operations in (0..).step_by(61) {
            let (db, store) = counted();
            script(&db, "create table heads (h int primary key, name varchar(5) not null);
                create table t (id int primary key, h int not null references heads, pair int, cardinality limit 200 (h),
                    cardinality limit 4 (pair));
                insert into heads values (0, 'a'), (1, 'b'), (2, 'a')");
            let rows: Vec<String> =
                (0..170).map(|at| format!("({}, {}, {})", at * 2, at % 3, at / 3)).collect();
            script(&db, &format!("insert into t values {}", rows.join(", ")));
            let create = format!("create materialized view {name} as {sql}");
            store.faults.crash_after(operations);
            let outcome = db.execute(&create, &[]);
            store.faults.recover();
            let server = Database::open(store.clone()).unwrap();
            begun +=
                usize::from(server.schema().tables().any(|table| table.view.is_some()) && outcome.is_err());
            // Near the beginning, in the middle, near the end; rows that meet across.
            for sql in [
                "insert into t values (5, 1, 56)",
                "insert into t values (201, 1, 0)",
                "insert into t values (333, 2, 33)",
                "delete from t where id = 6",
                "delete from t where id = 336",
                "update t set pair = 1, h = 0 where id = 300",
                "update t set pair = 55 where id = 8",
                "update heads set name = 'c' where h = 1",
            ] {
                assert!(write(&server, &store, sql), "{sql}");
            }
            if outcome.is_err() {
                let again = server.execute(&create, &[]).map(|_| ());
                let done = |error: &Error| error.to_string().contains("already");
                assert!(again.as_ref().err().is_none_or(done), "crash at {operations}: {again:?}");
            }
            same(&server, &[(name, sql)], &format!("crash at {operations}"));
            if outcome.is_ok() {
                break;
            }
        }
    }
    assert!(begun > 10, "{begun}");
}

#[test]
fn many_rows_from_before() {
    let (db, store) = counted();
    script(&db, "create table t (id int primary key, g int)");
    let insert = db.prepare("insert into t values (?, ?)").unwrap();
    // As many as there are pieces of, and one row more or less.
    for (name, rows) in [("exact", 128), ("less", 191), ("more", 193)] {
        for id in 0..rows {
            let _ = insert.call(&[id.into(), (id % 7).into()]);
        }
        let sql = "select g, count(*) as n from t group by g";
        make(&db, &[(name, sql)]);
        same(&db, &[(name, sql)], "when it was filled");
        assert!(
            write(&db, &store, "delete from t where id = 3")
                && write(&db, &store, "insert into t values (3, 5)")
        );
        same(&db, &[(name, sql)], "afterwards");
    }
}

#[test]
fn in_a_file_too() {
    let folder = std::env::temp_dir().join(format!("whimbrel-bounded-views-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("shop.redb");
    let mut dice = Dice(77);
    {
        let db = Database::open(EmbeddedStore::open(&path).unwrap()).unwrap();
        shop(&db);
        make(&db, &VIEWS);
    }
    let db = Database::open(EmbeddedStore::open(&path).unwrap()).unwrap();
    let done = (0..40).filter(|_| db.execute(&change(&mut dice), &[]).is_ok()).count();
    assert!(done > 10, "{done}");
    same(&db, &VIEWS, "in a file");
    drop(db);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_a_view_is_kept_by_stays() {
    let (db, _) = counted();
    script(
        &db,
        "create table items (i int primary key, code int not null, kind varchar(9));
        create unique index code on items (code);
        create index by_kind on items (kind);
        create table lines (l int primary key, code int not null, qty int, cardinality limit 5 (code));
        create materialized view sold as select i.kind, sum(l.qty) as sold
            from lines l join items i on i.code = l.code group by i.kind;
        drop index by_kind",
    );
    let error = db.execute("drop index code", &[]).unwrap_err().to_string();
    assert!(error.contains("writes of lines find the rows of the view sold by this index"), "{error}");
    let error = db.execute("drop table items", &[]).unwrap_err().to_string();
    assert!(error.contains("the view sold is made of items"), "{error}");
    script(&db, "insert into items values (1, 7, 'hat'); insert into lines values (1, 7, 3)");
    assert_eq!(kept(&db, "sold"), ["hat|3"]);
    script(&db, "drop materialized view sold; drop index code; drop table items");
}

#[test]
fn what_other_rows_decide_is_not_kept() {
    let (db, _) = counted();
    script(&db, FOLLOWS);
    script(&db, "create table users (name varchar(20) primary key, town varchar(20))");
    for sql in [
        "select owner from follows f where exists (select 1 from users where name = f.owner)",
        "select owner from follows where target not in (select name from users)",
        "select owner, (select u.town from users u where u.name = owner) as town from follows",
        "select target, count(*) as n from follows where owner in (select name from users) group by target",
        "select owner from follows where (select count(*) from users where name = target) = 0",
        "select distinct on (owner) owner, target from follows",
        "select owner from follows intersect select name from users",
    ] {
        let error = db.execute(&format!("create materialized view v as {sql}"), &[]).unwrap_err().to_string();
        assert!(error.contains("cannot be kept in a view"), "{sql}: {error}");
    }
}

#[test]
fn a_write_says_what_its_views_asked_and_returns_its_rows() {
    let (db, store) = counted();
    script(&db, FOLLOWS);
    script(&db, "create materialized view fans as select target, count(*) as n from follows group by target");
    for sql in [
        "insert into follows values ('ann', 'bob'), ('cid', 'bob') returning owner, target",
        "delete from follows where owner = 'ann' and target = 'bob' returning owner, target",
    ] {
        let write = db.prepare(sql).unwrap();
        store.take();
        let page = write.call(&[]).unwrap();
        let used = store.take();
        assert_eq!(page.spent, used, "{sql}");
        assert!(page.spent.requests > page.batch.num_rows() as u64 + 1, "{sql}: {used:?}");
        assert_eq!(rows(&page.batch)[0], "ann|bob");
    }
    assert_eq!(kept(&db, "fans"), ["bob|1"]);
    let explained = ask(&db, "explain insert into follows values (:owner, :target) returning owner", &[]);
    assert!(explained.iter().any(|line| line.starts_with("keeps fans")), "{explained:?}");
    db.close();
    let error = db.execute("insert into follows values ('a', 'b')", &[]).unwrap_err().to_string();
    assert!(error.contains("the database is closed"), "{error}");
}

const FOLLOWS: &str =
    "create table follows (owner varchar(20), target varchar(20), primary key (owner, target))";
