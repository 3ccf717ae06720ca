//! The queries of SCADr (piql.txt §8.1.2): plan, bound, verdict, answers.

use crate::support::{ask, bound, counted, refusal, script};
use whimbrel_bounded::{Argument, Database};

pub const SCHEMA: &str = "
    create table users (username varchar(20) primary key, home_town varchar(40), password varchar(40));
    create table thoughts (owner varchar(20) references users, timestamp int, text varchar(140),
        primary key (owner, timestamp));
    create table subscriptions (owner varchar(20) references users, target varchar(20) references users,
        approved boolean, primary key (owner, target), cardinality limit 100 (owner));
    create table tags (owner varchar(20), timestamp int, word varchar(20),
        primary key (owner, timestamp, word), cardinality limit 20 (owner, timestamp))";

pub const FIND_USER: &str = "select * from users where username = ?";
pub const MY_THOUGHTS: &str = "select * from thoughts where owner = ? order by timestamp desc paginate 10";
pub const FOLLOWED: &str =
    "select u.* from subscriptions s join users u on s.target = u.username where s.owner = ? paginate 10";
pub const STREAM: &str = "select t.* from subscriptions s join thoughts t on t.owner = s.target
    where s.owner = ? and s.approved order by t.timestamp desc limit 10";
const FOLLOWING: &str =
    "select u.* from subscriptions s join users u on u.username = s.owner where s.target = ? paginate 10";
const SUBSCRIPTION: &str = "select * from subscriptions where owner = ? and target = ?";
const INTERSECTION: &str = "select * from subscriptions where target = ? and owner in (? limit 50)";
const TWO_TAGS: &str = "select t1.owner, t1.timestamp from tags t1 join tags t2 using (owner, timestamp)
    where t1.word = ? and t2.word = ?";

fn plan(db: &Database, sql: &str) -> String {
    db.compile(sql).unwrap_or_else(|error| panic!("{sql}\n{error}")).to_string()
}

#[test]
fn bounds() {
    let (db, _) = counted();
    script(&db, SCHEMA);
    assert_eq!(bound(&db, FIND_USER), (1, 1));
    assert_eq!(bound(&db, MY_THOUGHTS), (1, 1));
    assert_eq!(bound(&db, FOLLOWED), (1 + 10, 2));
    assert_eq!(bound(&db, STREAM), (1 + 100, 2));
    assert_eq!(bound(&db, FOLLOWING), (1 + 10, 2));
    assert_eq!(bound(&db, SUBSCRIPTION), (1, 1));
    assert_eq!(bound(&db, INTERSECTION), (50, 1));
    let stream = db.compile(STREAM).unwrap().plan.bound;
    assert_eq!(stream.tuples, 100 + 100 * 10);
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
    let fix = refused.fixes.iter().find(|fix| fix.changes_schema).unwrap_or_else(|| panic!("{refused}"));
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
    let mut seen = Vec::new();
    // Times 1, 10, 100 and 1000.
    for users in [12, 120, 1_200, 12_000] {
        let (db, store) = counted();
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
    assert_eq!(seen[0], [(1, 1, 1), (1, 1, 10), (11, 2, 10), (9, 2, 10), (11, 2, 10)]);
}

#[test]
fn the_stream_is_right() {
    let (db, _) = counted();
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
    let query =
        "select owner from subscriptions where target = 'user00003' and owner in (? limit 50) order by owner";
    assert_eq!(ask(&db, query, &[both]), ["user00001", "user00002"]);
}
