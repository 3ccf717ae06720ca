//! Several clusters on one server, and others who use it.

use crate::places::{append, apply, grant, push, put};
use crate::server::Server;
use std::collections::BTreeSet;
use std::time::Duration;
use whimbrel_control::{ControlStore, Effect, Error, Found, Read, RedisOptions, RedisStore};

const LONG: Duration = Duration::from_secs(3600);

fn fill(store: &dyn ControlStore) {
    let names: Vec<String> = (0..1500).map(|number| format!("log-{number}")).collect();
    let mut effects: Vec<_> = names.iter().map(|name| append(name, b"r")).collect();
    effects.extend([put("t", "a", b"1"), push("q", b"e"), grant("l", "a", LONG), append("log", b"r")]);
    effects.push(Effect::Trim { log: "log".into(), before: 1 });
    apply(store, effects);
}

fn look(store: &dyn ControlStore) -> Vec<Found> {
    let lease = Read::Holding { lease: "l".into() };
    let log = |log: &str| Read::Records { log: log.into(), from: 0, limit: 9 };
    let reads = [
        Read::Rows { table: "t".into() },
        Read::Waiting { queue: "q".into() },
        log("log"),
        log("log-1499"),
        lease,
    ];
    let mut found = store.read_all(&reads).unwrap();
    if let Some(Found::Holding(Some(holding))) = found.last_mut() {
        holding.remaining = Duration::ZERO;
    }
    found
}

#[test]
fn namespaces_do_not_see_each_other() {
    let Some(server) = Server::start(&[]) else { return };
    let open = |name| RedisStore::open(&server.url(), name, RedisOptions::default()).unwrap();
    // Names of which one begins with the other.
    let (one, other, empty) = (open("n"), open("n.2"), open("n-3"));
    let nothing = look(&empty);
    fill(&one);
    assert_eq!(look(&other), nothing);
    let heard = other.subscribe(&["topic"]).unwrap();
    apply(&one, vec![crate::places::publish("topic", b"for others")]);
    apply(&other, vec![crate::places::publish("topic", b"for us")]);
    assert_eq!(heard.next(LONG).unwrap().payload, b"for us");
    fill(&other);
    let before = look(&other);
    one.remove_all().unwrap();
    assert_eq!((look(&one), look(&other)), (nothing, before));
}

#[test]
fn what_is_removed_is_all_that_is_ours_and_nothing_else() {
    let Some(server) = Server::start(&[]) else { return };
    for foreign in ["SET foreign 1", "SET {n}x:table:t 1", "HSET {n2}:table:t a 1", "RPUSH n:log:log-1 1"] {
        let _: redis::Value = server.ask(foreign);
    }
    let keys = || server.ask::<Vec<String>>("KEYS *").into_iter().collect::<BTreeSet<_>>();
    let foreign = keys();
    assert_eq!(foreign.len(), 4);
    let store = RedisStore::open(&server.url(), "n", RedisOptions::default()).unwrap();
    fill(&store);
    assert!(keys().len() > 1500);
    store.remove_all().unwrap();
    // What stays: the counter, so that no token comes twice, and an outcome that goes by itself.
    let left: Vec<_> = keys().difference(&foreign).cloned().collect();
    let [counter, outcome] = left.as_slice() else { panic!("{left:?}") };
    assert!(counter == "{n}:counter" && outcome.starts_with("{n}:outcome:"), "{left:?}");
    assert!(server.ask::<i64>(&format!("PTTL {outcome}")) > 0);
    assert!(keys().is_superset(&foreign));
}

#[test]
fn what_others_wrote_is_damage() {
    let Some(server) = Server::start(&[]) else { return };
    let store = RedisStore::open(&server.url(), "n", RedisOptions::default()).unwrap();
    let _: String = server.ask("SET {n}:table:t 1");
    let error = store.read(&Read::Rows { table: "t".into() }).unwrap_err();
    assert!(matches!(error, Error::Damaged(_)), "{error:?}");
    let _: u64 = server.ask("HSET {n}:table:u a not-a-row");
    let error = store.read(&Read::Row { table: "u".into(), row: "a".into() }).unwrap_err();
    assert!(matches!(error, Error::Damaged(_)), "{error:?}");
}

#[test]
fn names_of_namespaces() {
    for name in ["", "a b", "{a}", "a:b"] {
        let error = RedisStore::open("redis://127.0.0.1:1", name, RedisOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{name}: {error:?}");
    }
}
