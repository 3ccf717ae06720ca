//! Pages: complete, without doubles, unmoved by rows that come and go before them, and nobody else's.

use crate::scadr::fill;
use crate::stores::everywhere;
use crate::support::{counted, over, rows, script};
use crate::workloads::scadr::{FOLLOWED, MY_THOUGHTS, SCHEMA};
use datafusion::common::ScalarValue;
use std::sync::Arc;
use whimbrel_bounded::{
    Argument, Cursor, Database, EmbeddedStore, Executor, MemoryStore, Observed, Prepared,
};

fn all_pages(query: &Prepared, arguments: &[Argument], mut between: impl FnMut(usize)) -> Vec<String> {
    let (mut all, mut cursor, mut pages): (_, Option<Cursor>, _) = (Vec::new(), None, 0);
    loop {
        let page = query.page(arguments, cursor.as_ref()).unwrap();
        all.extend(rows(&page.batch));
        cursor = page.cursor;
        pages += 1;
        if cursor.is_none() {
            return all;
        }
        assert!(pages < 100, "pages without end");
        between(pages);
    }
}

#[test]
fn rows_that_come_in_between_move_nothing() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        script(&db, SCHEMA);
        fill(&db, 4, 2, 35);
        let before = rows(
            &db.execute(
                "select * from thoughts where owner = 'user00001' order by timestamp desc limit 100",
                &[],
            )
            .unwrap()
            .unwrap()
            .batch,
        );
        let query = db.prepare(MY_THOUGHTS).unwrap();
        let after = all_pages(&query, &["user00001".into()], |page| {
            let new = 100_000 + page as i32;
            db.execute("insert into thoughts values ('user00001', ?, 'new')", &[new.into()]).unwrap();
            // Rows that have been shown may go.
            db.execute(
                "delete from thoughts where owner = 'user00001' and timestamp = ?",
                &[((35 - page as i32) * 4 - 3 + 4).into()],
            )
            .unwrap();
        });
        assert_eq!(after, before);
    });
}

#[test]
fn pages_of_joins_have_every_row_once() {
    everywhere(|kind| {
        let (db, store) = over(kind.fresh());
        script(&db, SCHEMA);
        fill(&db, 12, 10, 7);
        let queries = [
            // A stop that went through a join by reference.
            (
                FOLLOWED,
                "select u.* from subscriptions s join users u on s.target = u.username where s.owner = ? order by s.target limit 1000",
            ),
            // Merged from many ranges.
            (
                "select t.* from subscriptions s join thoughts t on t.owner = s.target where s.owner = ? and s.approved order by t.timestamp desc paginate 7",
                "select t.* from subscriptions s join thoughts t on t.owner = s.target where s.owner = ? and s.approved order by t.timestamp desc limit 1000",
            ),
            // Sorted here.
            (
                "select target, approved from subscriptions where owner = ? order by approved desc, target paginate 3",
                "select target, approved from subscriptions where owner = ? order by approved desc, target limit 1000",
            ),
            // Grouped here.
            (
                "select s.approved, count(*) as n from subscriptions s where s.owner = ? group by s.approved order by n paginate 1",
                "select s.approved, count(*) as n from subscriptions s where s.owner = ? group by s.approved order by n limit 1000",
            ),
        ];
        for (paged, whole) in queries {
            let whole = rows(&db.execute(whole, &["user00002".into()]).unwrap().unwrap().batch);
            let query = db.prepare(paged).unwrap();
            let bound = query.plan().bound;
            store.take();
            let paged_rows = all_pages(&query, &["user00002".into()], |_| {
                let used = store.take();
                assert!(used.requests <= bound.requests, "{paged}: {used:?} above {bound}");
            });
            assert_eq!(paged_rows, whole, "{paged}\n{}", query.plan());
            assert!(!whole.is_empty());
        }
    });
}

#[test]
fn positions_that_are_equal_in_many_ranges_are_told_apart() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        script(
            &db,
            "create table f (o int, t int, primary key (o, t), cardinality limit 20 (o)); create table p (o int, at int, n int, primary key (o, at, n))",
        );
        for target in 0..9 {
            db.execute("insert into f values (1, ?)", &[target.into()]).unwrap();
            for n in 0..3 {
                // The same instants everywhere.
                db.execute(
                    "insert into p values (?, 7, ?), (?, 8, ?)",
                    &[target.into(), n.into(), target.into(), n.into()],
                )
                .unwrap();
            }
        }
        for direction in ["", " desc"] {
            let sql = format!(
                "select p.o, p.at, p.n from f join p on p.o = f.t where f.o = 1 order by p.at{direction} paginate 4"
            );
            let query = db.prepare(&sql).unwrap();
            let mut all = all_pages(&query, &[], |_| {});
            assert_eq!(all.len(), 54, "{}", query.plan());
            all.sort();
            all.dedup();
            assert_eq!(all.len(), 54);
        }
    });
}

fn message(query: &Prepared, arguments: &[Argument], cursor: &Cursor) -> String {
    query.page(arguments, Some(cursor)).unwrap_err().to_string()
}

#[test]
fn cursors_of_others_are_refused() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        script(&db, SCHEMA);
        fill(&db, 4, 2, 35);
        let query = db.prepare(MY_THOUGHTS).unwrap();
        let cursor = query.call(&["user00001".into()]).unwrap().cursor.unwrap();
        assert!(cursor.as_str().len() < 120, "{cursor}");
        assert!(message(&query, &["user00002".into()], &cursor).contains("other parameters"));
        let other = db
            .prepare("select text from thoughts where owner = ? order by timestamp desc paginate 10")
            .unwrap();
        assert!(message(&other, &["user00001".into()], &cursor).contains("another query"));
        let plain = db.prepare("select * from users where username = ?").unwrap();
        assert!(message(&plain, &["user00001".into()], &cursor).contains("paginate"));
        let mut changed = cursor.as_str().to_string().into_bytes();
        changed[40] = if changed[40] == b'A' { b'B' } else { b'A' };
        let changed: Cursor = String::from_utf8(changed).unwrap().parse().unwrap();
        assert!(message(&query, &["user00001".into()], &changed).contains("was changed"));
        // Another table's change is nobody's business; this one's is.
        script(&db, "create table other (a int primary key)");
        assert!(query.page(&["user00001".into()], Some(&cursor)).is_ok());
        script(&db, "alter table thoughts add column mood varchar(10)");
        assert!(message(&query, &["user00001".into()], &cursor).contains("change of the schema"));
    });
}

#[test]
fn any_server_goes_on() {
    everywhere(|kind| {
        let store = Arc::new(Observed::new(kind.fresh()));
        let first = Database::open(store.clone()).unwrap();
        script(&first, SCHEMA);
        fill(&first, 4, 2, 35);
        let arguments = ["user00001".into()];
        let cursor = first.prepare(MY_THOUGHTS).unwrap().call(&arguments).unwrap().cursor.unwrap();
        let second = Database::open(store).unwrap();
        let page = second
            .prepare(MY_THOUGHTS)
            .unwrap()
            .page(&arguments, Some(&cursor.to_string().parse().unwrap()))
            .unwrap();
        assert_eq!(page.batch.num_rows(), 10);
        // Another database has another key.
        let other = Database::open(EmbeddedStore::in_memory().unwrap()).unwrap();
        script(&other, SCHEMA);
        assert!(message(&other.prepare(MY_THOUGHTS).unwrap(), &arguments, &cursor).contains("another key"));
    });
}

#[test]
fn executors_agree_on_pages() {
    everywhere(|kind| {
        let store = Arc::new(Observed::new(kind.fresh()));
        let parallel = Database::open(store.clone()).unwrap();
        script(&parallel, SCHEMA);
        fill(&parallel, 12, 10, 7);
        let sql = "select t.* from subscriptions s join thoughts t on t.owner = s.target where s.owner = ? order by t.timestamp desc paginate 7";
        let expected = all_pages(&parallel.prepare(sql).unwrap(), &["user00002".into()], |_| {});
        for executor in [Executor::Simple, Executor::Lazy] {
            let options = whimbrel_bounded::Options { executor, ..Default::default() };
            let db = Database::open_with(store.clone(), options).unwrap();
            for sql in [sql, MY_THOUGHTS] {
                let query = db.prepare(sql).unwrap();
                store.take();
                query.call(&["user00002".into()]).unwrap();
                let used = store.take();
                assert_eq!(used.requests, used.rounds);
                assert!(used.requests <= query.plan().bound.requests);
            }
            assert_eq!(all_pages(&db.prepare(sql).unwrap(), &["user00002".into()], |_| {}), expected);
        }
    });
}

#[test]
fn a_cursor_carries_the_values_that_it_belongs_to() {
    let (db, store) = counted();
    script(&db, SCHEMA);
    fill(&db, 4, 2, 35);
    let query = db.prepare(MY_THOUGHTS).unwrap();
    let first = query.call(&["user00001".into()]).unwrap();
    assert_eq!((first.spent.requests, first.spent.rounds, first.spent.tuples), (1, 1, 10));
    let cursor = first.cursor.unwrap();
    let given = query.page(&["user00001".into()], Some(&cursor)).unwrap();
    store.take();
    let resumed = query.resume(&cursor).unwrap();
    assert_eq!(resumed.spent, store.take());
    assert_eq!(rows(&resumed.batch), rows(&given.batch));
    assert_eq!(resumed.cursor, given.cursor);
    // Lists too, as far as they are short; and the same values are the same whatever their types.
    let sql = "select target from subscriptions where owner in (? limit 50) and target <> ? order by target paginate 2";
    let query = db.prepare(sql).unwrap();
    let arguments = [Argument::list(["user00001", "user00002"]), "nobody".into()];
    let cursor = query.call(&arguments).unwrap().cursor.unwrap();
    let resumed = query.resume(&cursor).unwrap();
    assert_eq!(rows(&resumed.batch), rows(&query.page(&arguments, Some(&cursor)).unwrap().batch));
    assert!(!rows(&resumed.batch).is_empty());
    let long = [Argument::list(["user00001".to_string(), "x".repeat(600)]), "nobody".into()];
    let cursor = query.call(&long).unwrap().cursor.unwrap();
    assert!(cursor.as_str().len() < 200);
    assert!(query.resume(&cursor).unwrap_err().to_string().contains("give them again"));
    assert!(query.page(&long, Some(&cursor)).is_ok());
    assert!(message(&query, &arguments, &cursor).contains("other parameters"));
}

#[test]
fn a_database_that_was_closed_answers_nothing_and_holds_nothing() {
    let store = Arc::new(Observed::new(MemoryStore::default()));
    let db = Database::open(store.clone()).unwrap();
    script(&db, "create table t (a int primary key); create table if not exists t (a int primary key)");
    let query = db.prepare("select a from t where a = 1").unwrap();
    assert_eq!(Arc::strong_count(&store), 2);
    db.close();
    assert_eq!(Arc::strong_count(&store), 1);
    assert!(query.call(&[]).unwrap_err().to_string().contains("closed"));
}

#[test]
fn pages_of_distinct_on_come_in_its_order() {
    let (db, _) = counted();
    script(
        &db,
        "create table c (id int primary key, post int, score int, cardinality limit 9 (post));
         insert into c values (1, 1, 5), (2, 1, 7), (3, 2, 6), (4, 3, 1)",
    );
    let sql = "select distinct on (post) post, score from c where post in (1, 2, 3) order by post desc, score desc paginate 2";
    let query = db.prepare(sql).unwrap();
    let first = query.call(&[]).unwrap();
    assert_eq!(rows(&first.batch), ["3|1", "2|6"]);
    assert_eq!(rows(&query.page(&[], first.cursor.as_ref()).unwrap().batch), ["1|7"]);
}

#[test]
fn a_cursor_is_written_in_one_way_however_long_its_key_is() {
    let (db, _) = counted();
    script(&db, "create table k (name text primary key)");
    let long = |letter: &str| letter.repeat(60_000);
    for letter in ["a", "b", "c"] {
        db.execute("insert into k values (?)", &[long(letter).as_str().into()]).unwrap();
    }
    let query = db.prepare("select name from k order by name paginate 1").unwrap();
    let page = query.call(&[]).unwrap();
    let cursor = page.cursor.unwrap();
    assert_eq!(rows(&query.page(&[], Some(&cursor)).unwrap().batch), [long("b")]);

    script(&db, "create table s (id int primary key); insert into s values (1), (2), (3)");
    let query = db.prepare("select id from s order by id paginate 1").unwrap();
    let cursor = query.call(&[]).unwrap().cursor.unwrap();
    let (start, last) = cursor.as_str().split_at(cursor.as_str().len() - 1);
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for letter in letters.chars().filter(|letter| !last.starts_with(*letter)) {
        let changed: Cursor = format!("{start}{letter}").parse().unwrap();
        assert!(query.page(&[], Some(&changed)).is_err(), "{letter}");
    }
}

/// What a call gives: where to go on, if it is not the beginning, and how many rows it wants.
#[test]
fn the_beginning_and_the_number_of_rows_can_be_given() {
    let (db, _) = over(MemoryStore::default());
    script(
        &db,
        "create table n (g int, at int, i int, x int, primary key (g, at, i)); create index n_x on n (g, x)",
    );
    let insert = db.prepare("insert into n values (1, ?, ?, ?)").unwrap();
    for i in 0..20 {
        let x = if i % 4 == 0 { Argument::One(ScalarValue::Int32(None)) } else { (i % 7).into() };
        insert.call(&[(i / 3).into(), i.into(), x]).unwrap();
    }
    let null = || Argument::One(ScalarValue::Null);
    let page = "select i from n where g = 1 and ($1 is null or (at, i) > ($1, $2)) order by at, i limit $3 at most 9";
    let page = db.prepare(page).unwrap();
    assert_eq!((page.plan().bound.requests, page.plan().bound.rows), (1, 9));
    let asked = |after: [Argument; 2], wanted: i64| {
        let [at, i] = after;
        rows(&page.call(&[at, i, wanted.into()]).unwrap().batch)
    };
    assert_eq!(asked([null(), null()], 3), ["0", "1", "2"]);
    assert_eq!(asked([0.into(), 2.into()], 2), ["3", "4"]);
    assert_eq!(asked([2.into(), 7.into()], 9).len(), 9);
    // Without a value for the second column the first decides alone.
    assert_eq!(asked([2.into(), null()], 1), ["9"]);
    assert_eq!(asked([null(), 5.into()], 0), Vec::<String>::new());
    for wrong in [10.into(), (-1).into(), null()] {
        let error = page.call(&[null(), null(), wrong]).unwrap_err().to_string();
        assert!(error.contains("0 to 9"), "{error}");
    }
    // Where no end is given nulls are there too, as the query says.
    let by_x =
        db.prepare("select x from n where g = 1 and ($1 is null or x >= $1) order by x limit 30").unwrap();
    assert_eq!(by_x.plan().bound.requests, 1, "{}", by_x.plan());
    let count = |from: Argument| by_x.call(&[from]).unwrap().batch.num_rows();
    assert_eq!((count(null()), count(0.into()), count(6.into())), (20, 15, 2));
}
