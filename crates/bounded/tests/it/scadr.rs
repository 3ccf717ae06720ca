//! The queries of SCADr (piql.txt §8.1.2): plan, bound, verdict, answers.

use crate::stores::{Kind, everywhere};
use crate::support::{ask, bound, counted, over, refusal, script};
use crate::workloads::scadr::{FIND_USER, FOLLOWED, FOLLOWING, MY_THOUGHTS, SCHEMA, STREAM, WORKLOAD};
use whimbrel_bounded::store::{Atomicity, Capabilities, Order};
use whimbrel_bounded::{Argument, Database, MemoryStore, Store};

const TWO_TAGS: &str = "select t1.owner, t1.timestamp from tags t1 join tags t2 using (owner, timestamp)
    where t1.word = ? and t2.word = ?";

fn plan(db: &Database, sql: &str) -> String {
    db.compile(sql).unwrap_or_else(|error| panic!("{sql}\n{error}")).to_string()
}

#[test]
fn bounds() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    for query in WORKLOAD.queries {
        assert_eq!(bound(&db, query.sql), query.bound, "{}", query.sql);
    }
    let stream = db.compile(STREAM).unwrap().plan.bound;
    assert_eq!(stream.tuples, 100 + 100 * 10);
}

#[test]
fn the_home_page_asks_one_partition_at_a_time() {
    let capabilities = Capabilities {
        order: Order::WithinPartition { partitions: 64 },
        atomicity: Atomicity::Key,
        batched_ranges: true,
        counts: true,
    };
    let (db, _) = over(MemoryStore::new(capabilities));
    script(&db, SCHEMA);
    let bounds = [FIND_USER, MY_THOUGHTS, FOLLOWED, STREAM].map(|sql| bound(&db, sql));
    assert_eq!(bounds, [(1, 1), (1, 1), (1 + 10, 2), (1 + 100, 2)]);
}

#[test]
fn plans() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    let stream = plan(&db, STREAM);
    let lines: Vec<&str> = stream.lines().map(|line| line.split('(').next().unwrap()).collect();
    assert_eq!(
        lines[..6],
        ["LocalProjection", "Stop", "LocalSort", "SortedIndexJoin", "LocalSelection", "IndexScan"],
        "{stream}"
    );
    assert!(stream.contains("backwards, limit hint 10"), "{stream}");
    assert!(stream.contains("cardinality limit 100"), "{stream}");
    // The paper's reason for a data-stop: no index on `approved` is needed.
    assert!(db.compile(STREAM).unwrap().plan.new_indexes.is_empty());
    let following = db.compile(FOLLOWING).unwrap().plan;
    assert_eq!(
        following.new_indexes[0].1.describe(db.schema().table("subscriptions").unwrap()),
        "subscriptions(target)"
    );
    assert!(plan(&db, FOLLOWED).contains("IndexFKJoin"));
    assert!(plan(&db, FIND_USER).contains("Get(users"));
}

#[test]
fn without_a_limit_the_stream_is_refused() {
    let (db, _) = counted();
    script(&db, &SCHEMA.replace(", cardinality limit 100 (owner)", ""));
    let refusal = refusal(&db, STREAM);
    assert!(
        refusal.reason.contains("nothing limits how many rows of subscriptions s have the same owner"),
        "{refusal}"
    );
    let fix = refusal
        .fixes
        .iter()
        .find(|fix| fix.paste == "alter table subscriptions add cardinality limit 100 (owner);");
    assert_eq!(fix.unwrap_or_else(|| panic!("{refusal}")).bound.requests, 101);
    assert!(refusal.drawing.contains("subscriptions s   <-- no limit here"), "{refusal}");
}

#[test]
fn two_tags_are_refused_and_a_fix_lets_them_pass() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    let refused = refusal(&db, TWO_TAGS);
    assert!(refused.reason.contains("the same word"), "{refused}");
    let fix = refused
        .fixes
        .iter()
        .find(|fix| fix.paste.starts_with("alter"))
        .unwrap_or_else(|| panic!("{refused}"));
    script(&db, &fix.paste);
    assert_eq!(db.compile(TWO_TAGS).unwrap().plan.bound, fix.bound);
}

pub fn fill(db: &Database, users: usize, follows: usize, thoughts: usize) {
    let user = db.prepare("insert into users values (?, 'town', 'secret')").unwrap();
    let follow = db.prepare("insert into subscriptions values (?, ?, ?)").unwrap();
    let think = db.prepare("insert into thoughts values (?, ?, ?)").unwrap();
    let name = |at: usize| Argument::from(format!("user{:05}", at % users));
    for at in 0..users {
        user.call(&[name(at)]).unwrap();
    }
    for at in 0..users {
        for other in 1..=follows {
            follow.call(&[name(at), name(at + other), (other % 5 != 0).into()]).unwrap();
        }
        for time in 0..thoughts {
            think
                .call(&[name(at), ((time * users + at) as i32).into(), format!("thought {time}").into()])
                .unwrap();
        }
    }
}

#[test]
fn answers_and_requests_do_not_depend_on_how_much_there_is() {
    everywhere(|kind| {
        // Times 1, 10, 100 and 1000; a server takes its time for rows.
        let sizes: &[usize] = if kind.is_remote() { &[12, 120] } else { &[12, 120, 1_200, 12_000] };
        same_at_all(kind, sizes);
    });
}

fn same_at_all(kind: Kind, sizes: &[usize]) {
    let mut seen = Vec::new();
    for users in sizes.iter().copied() {
        let (db, store) = over(kind.fresh());
        script(&db, SCHEMA);
        fill(&db, users, 10, 12);
        let mut counts = Vec::new();
        for sql in [FIND_USER, MY_THOUGHTS, FOLLOWED, STREAM, FOLLOWING] {
            let query = db.prepare(sql).unwrap();
            store.take();
            let page = query.call(&["user00003".into()]).unwrap();
            let used = store.take();
            let bound = query.plan().bound;
            assert!(
                used.requests <= bound.requests && used.rounds <= bound.rounds,
                "{sql}: {used:?} above {bound}"
            );
            assert!(used.tuples <= bound.tuples, "{sql}");
            counts.push((used.requests, used.rounds, page.batch.num_rows()));
        }
        seen.push(counts);
    }
    assert!(seen.iter().all(|counts| *counts == seen[0]), "{seen:?}");
    // An entry alone may be left from a crash, where a store writes key by key: its record is read too.
    let following = if kind.writes_key_by_key() { (21, 3, 10) } else { (11, 2, 10) };
    assert_eq!(seen[0], [(1, 1, 1), (1, 1, 10), (11, 2, 10), (9, 2, 10), following]);
}

#[test]
fn the_stream_is_right() {
    everywhere(|kind| {
        let (db, _) = over(kind.fresh());
        script(&db, SCHEMA);
        fill(&db, 12, 10, 12);
        // Of all that user 3 follows with approval, the last.
        let stream = ask(
            &db,
            "select t.owner, t.timestamp from subscriptions s join thoughts t on t.owner = s.target
        where s.owner = 'user00003' and s.approved order by t.timestamp desc limit 3",
            &[],
        );
        assert_eq!(stream, ["user00011|143", "user00010|142", "user00009|141"]);
        let both = Argument::list(["user00001", "user00002", "user00002", "nobody"]);
        let query = "select owner from subscriptions where target = 'user00003' and owner in (? limit 50) order by owner";
        assert_eq!(ask(&db, query, &[both]), ["user00001", "user00002"]);
    });
}

/// Entries are merged before rows are looked up: those that are not among the first are never asked for.
#[test]
fn rows_behind_the_limit_are_not_looked_up() {
    for store in [MemoryStore::default(), MemoryStore::key_by_key()] {
        let (db, store) = crate::support::over(store);
        script(
            &db,
            "create table subscriptions (owner varchar(9), target varchar(9), primary key (owner, target),
                cardinality limit 100 (owner));
             create table thoughts (id int primary key, owner varchar(9) not null, at int not null, text varchar(20))",
        );
        let stream = "select t.id, t.text from subscriptions s join thoughts t on t.owner = s.target
            where s.owner = ? order by t.at desc limit 10";
        assert_eq!(bound(&db, stream), (111, 3), "{}", db.compile(stream).unwrap());
        assert!(db.compile(stream).unwrap().plan.to_string().contains("then the first 10 records"));
        let pages = db.prepare(&stream.replace("limit", "paginate")).unwrap();
        let stream = db.prepare(stream).unwrap();
        let insert = db.prepare("insert into thoughts values (?, ?, ?, 'x')").unwrap();
        for target in 0..20 {
            let name = format!("t{target}");
            db.execute("insert into subscriptions values ('me', ?)", &[name.as_str().into()]).unwrap();
            for at in 0..12 {
                let (id, at) = (target * 12 + at, (at * 37 + target * 11) % 101);
                insert.call(&[id.into(), name.as_str().into(), at.into()]).unwrap();
            }
        }
        let latest =
            "select id, text from thoughts order by at desc, id desc limit 300 allow unbounded 'test'";
        let all = ask(&db, latest, &[]);
        for executor in 0..2 {
            store.take();
            let page = match executor {
                0 => stream.call(&["me".into()]).unwrap(),
                _ => pages.call(&["me".into()]).unwrap(),
            };
            assert_eq!(crate::support::rows(&page.batch).len(), 10);
            assert_eq!(store.take().requests, 1 + 20 + 10);
        }
        // Entries without rows among the first are passed over, whichever key they are of.
        if store.capabilities().atomicity == Atomicity::Key {
            for n in 0..15 {
                store.faults.crash_after(3);
                let owner = format!("t{}", n % 3);
                assert!(insert.call(&[(1000 + n).into(), owner.as_str().into(), (200 + n).into()]).is_err());
                store.faults.recover();
            }
        }
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = pages.page(&["me".into()], cursor.as_ref()).unwrap();
            seen.extend(crate::support::rows(&page.batch));
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, all);
    }
}
