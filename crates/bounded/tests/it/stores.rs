//! Every kind of store: the tests' own way to them, and what all of them have to do alike.

use crate::outage::redis_cli;
use crate::support::Any;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard};
use whimbrel_bounded::store::{Atomicity, Condition, Found, Outcome, Read, Write};
use whimbrel_bounded::{
    Database, EmbeddedStore, Error, MemoryStore, Options, PostgresStore, RedisStore, Store,
};

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Memory,
    KeyByKey,
    Embedded,
    Postgres,
    Redis,
}

const ALL: [Kind; 5] = [Kind::Memory, Kind::KeyByKey, Kind::Embedded, Kind::Postgres, Kind::Redis];

/// Held for writing by who takes a node of the cluster away.
pub static REDIS_IS_WHOLE: RwLock<()> = RwLock::new(());

impl Kind {
    /// An empty store.
    pub fn fresh(self) -> Any {
        match self {
            Kind::Memory => Box::new(MemoryStore::default()),
            Kind::KeyByKey => Box::new(MemoryStore::key_by_key()),
            Kind::Embedded => Box::new(EmbeddedStore::in_memory().unwrap().without_waiting()),
            Kind::Postgres => Box::new(PostgresStore::open(&self.fresh_url()).unwrap()),
            Kind::Redis => Box::new(RedisStore::open(&self.fresh_url()).unwrap()),
        }
    }

    /// The address of an empty store of a server.
    pub fn fresh_url(self) -> String {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::SeqCst));
        let server = self.server().unwrap();
        match self {
            Kind::Postgres => format!("{server}&table={name}"),
            _ => format!("{server}?name={name}&partitions=16"),
        }
    }

    /// The address of its server, if it needs one and there is one.
    pub fn server(self) -> Option<String> {
        match self {
            Kind::Postgres => std::env::var("WHIMBREL_POSTGRES").ok(),
            Kind::Redis => std::env::var("WHIMBREL_REDIS").ok(),
            Kind::Memory | Kind::KeyByKey | Kind::Embedded => None,
        }
    }

    pub fn is_remote(self) -> bool {
        matches!(self, Kind::Postgres | Kind::Redis)
    }

    /// Whether it can be had here; says so if it cannot.
    pub fn is_there(self) -> bool {
        let there = !self.is_remote() || self.server().is_some();
        static SAID: [Once; 2] = [Once::new(), Once::new()];
        if !there {
            // Past the test's own output, which nobody sees.
            let text = format!("skipped on {self:?}: tests/servers starts one\n");
            let say = || drop(std::io::stderr().write_all(text.as_bytes()));
            SAID[usize::from(self == Kind::Redis)].call_once(say);
        }
        there
    }

    pub fn writes_key_by_key(self) -> bool {
        matches!(self, Kind::KeyByKey | Kind::Redis)
    }
}

/// Runs a test over every kind of store that can be had here.
pub fn everywhere(test: impl Fn(Kind)) {
    for kind in ALL.into_iter().filter(|kind| kind.is_there()) {
        let _whole = (kind == Kind::Redis).then(whole);
        test(kind);
    }
}

pub fn whole() -> RwLockReadGuard<'static, ()> {
    REDIS_IS_WHOLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn put(store: &Any, key: &[u8], value: &[u8]) {
    let done = store.commit(&[], &[Write::Put(key.to_vec(), value.to_vec())]).unwrap();
    assert_eq!(done, Outcome::Done);
}

fn get(store: &Any, key: &[u8]) -> Option<Vec<u8>> {
    match store.read(&[Read::Get(key.to_vec())]).unwrap().pop() {
        Some(Found::Value(value)) => value,
        other => panic!("{other:?}"),
    }
}

fn range(from: &[u8], to: &[u8], limit: usize, reverse: bool) -> Read {
    Read::Range { from: from.to_vec(), to: to.to_vec(), limit, reverse }
}

fn same(key: &[u8], value: Option<&[u8]>) -> Condition {
    Condition::Same { key: key.to_vec(), value: value.map(<[u8]>::to_vec) }
}

/// Keys of all kinds: short ones, long ones, with zeros and ones, with parts as the database makes them and
/// without.
fn awkward_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = vec![
        vec![],
        vec![0],
        vec![0, 0],
        vec![0, 0, 0, 16],
        vec![0xFF],
        vec![0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        b"plain \" ' \\ $1 % {} \r\n text".to_vec(),
        vec![0x80; 300],
    ];
    for id in [16_u8, 17] {
        for first in [
            &[1_u8, 0][..],
            &[1, 1],
            &[8, 0x80, 0, 0, 0, 0, 0, 0, 5],
            &[32, b'a', 0, 0xFF, b'b', 0, 0],
            &[64],
        ] {
            for rest in [&[][..], &[0], &[0xFF], &[0xFF, 0xFF], b"x"] {
                keys.push([&[0, 0, 0, id], first, rest].concat());
            }
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

#[test]
fn reads_are_those_of_an_ordered_map() {
    everywhere(|kind| {
        let store = kind.fresh();
        let map: BTreeMap<Vec<u8>, Vec<u8>> =
            awkward_keys().into_iter().map(|key| (key.clone(), [&[0, 0xFF][..], &key].concat())).collect();
        map.iter().for_each(|(key, value)| put(&store, key, value));
        put(&store, b"\0\0\0\x10\x01\x01empty", b"");
        assert_eq!(get(&store, b"\0\0\0\x10\x01\x01empty"), Some(vec![]));
        store.commit(&[], &[Write::Delete(b"\0\0\0\x10\x01\x01empty".to_vec())]).unwrap();
        let mut ends: Vec<&[u8]> = map.keys().map(Vec::as_slice).collect();
        ends.push(&[0, 0, 0, 17]);
        ends.push(&[0, 0, 0, 18]);
        let mut requests = Vec::new();
        let mut expected = Vec::new();
        for key in &ends {
            requests.push(Read::Get(key.to_vec()));
            expected.push(Found::Value(map.get(*key).cloned()));
        }
        for from in &ends {
            for to in ends.iter().step_by(3) {
                let within: Vec<_> =
                    map.iter().filter(|(key, _)| *from <= key.as_slice() && key.as_slice() < *to).collect();
                for (limit, reverse) in [(0, false), (1, true), (3, false), (usize::MAX, true)] {
                    requests.push(range(from, to, limit, reverse));
                    let mut entries = whimbrel_bounded::store::Entries::default();
                    let mut push = |(key, value): &(&Vec<u8>, &Vec<u8>)| entries.push(key, value);
                    match reverse {
                        false => within.iter().take(limit).for_each(&mut push),
                        true => within.iter().rev().take(limit).for_each(&mut push),
                    }
                    expected.push(Found::Entries(entries));
                }
                requests.push(Read::Count { from: from.to_vec(), to: to.to_vec(), up_to: 4 });
                expected.push(Found::Count(within.len().min(4)));
            }
        }
        // One round, and small ones.
        assert_eq!(store.read(&requests).unwrap(), expected, "{kind:?}");
        for (requests, expected) in requests.chunks(97).zip(expected.chunks(97)) {
            assert_eq!(store.read(requests).unwrap(), expected, "{kind:?}");
        }
        assert_eq!(store.read(&[]).unwrap(), []);
    });
}

#[test]
fn conditions_of_one_key() {
    everywhere(|kind| {
        let store = kind.fresh();
        let set = |condition: &[Condition], value: &[u8]| {
            store.commit(condition, &[Write::Put(b"\0k".to_vec(), value.to_vec())]).unwrap()
        };
        assert_eq!(set(&[same(b"\0k", Some(b""))], b"1"), Outcome::Failed(0));
        assert_eq!(set(&[same(b"\0k", None)], b""), Outcome::Done);
        assert_eq!(set(&[same(b"\0k", None)], b"2"), Outcome::Failed(0));
        assert_eq!(set(&[same(b"\0k", Some(b""))], b"\0\xFF"), Outcome::Done);
        let twice = [same(b"\0k", Some(b"\0\xFF")), same(b"\0k", None)];
        assert_eq!(set(&twice, b"3"), Outcome::Failed(1));
        let delete =
            |condition: &[Condition]| store.commit(condition, &[Write::Delete(b"\0k".to_vec())]).unwrap();
        assert_eq!(delete(&[same(b"\0k", Some(b"0"))]), Outcome::Failed(0));
        assert_eq!(get(&store, b"\0k"), Some(b"\0\xFF".to_vec()));
        assert_eq!(delete(&[same(b"\0k", Some(b"\0\xFF"))]), Outcome::Done);
        assert_eq!(delete(&[same(b"\0k", None)]), Outcome::Done);
        assert_eq!(get(&store, b"\0k"), None);
    });
}

#[test]
fn a_commit_is_all_or_nothing() {
    everywhere(|kind| {
        let store = kind.fresh();
        let writes = |value: &[u8]| -> Vec<Write> {
            (0..50).map(|at| Write::Put(vec![7, at], value.to_vec())).collect()
        };
        assert_eq!(store.commit(&[], &writes(b"a")).unwrap(), Outcome::Done);
        let conditions = [
            same(&[7, 3], Some(b"a")),
            Condition::Exists(vec![7, 4]),
            Condition::AtMost { from: vec![7], to: vec![8], keys: 50 },
            Condition::AtMost { from: vec![7, 40], to: vec![8], keys: 9 },
            Condition::Exists(vec![9]),
        ];
        if kind.writes_key_by_key() {
            assert_eq!(store.capabilities().atomicity, Atomicity::Key);
            assert!(matches!(store.commit(&conditions, &writes(b"b")), Err(Error::Internal(_))));
            return;
        }
        for (given, failed) in [(&conditions[..], 3), (&conditions[4..], 0), (&conditions[2..4], 1)] {
            assert_eq!(store.commit(given, &writes(b"b")).unwrap(), Outcome::Failed(failed));
        }
        assert!((0..50).all(|at| get(&store, &[7, at]) == Some(b"a".to_vec())));
        assert_eq!(store.commit(&conditions[..3], &writes(b"b")).unwrap(), Outcome::Done);
        assert!((0..50).all(|at| get(&store, &[7, at]) == Some(b"b".to_vec())));
        // The last write of a key stays.
        let (delete, put) = (Write::Delete(vec![7, 1]), Write::Put(vec![7, 1], b"c".to_vec()));
        store.commit(&[], &[put.clone(), delete.clone(), put.clone()]).unwrap();
        assert_eq!(get(&store, &[7, 1]), Some(b"c".to_vec()));
        store.commit(&[], &[put, delete]).unwrap();
        assert_eq!(get(&store, &[7, 1]), None);
        assert_eq!(store.commit(&conditions[..1], &[]).unwrap(), Outcome::Failed(0));
    });
}

#[test]
fn many_count_to_a_number_together() {
    everywhere(|kind| {
        let store = kind.fresh();
        let (threads, each) = (6, 20);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..each {
                        loop {
                            let held = get(&store, b"\0n");
                            let number = held.as_ref().map_or(0, |held| held[0]);
                            let put = Write::Put(b"\0n".to_vec(), vec![number + 1]);
                            if store.commit(&[same(b"\0n", held.as_deref())], &[put]).unwrap()
                                == Outcome::Done
                            {
                                break;
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(get(&store, b"\0n"), Some(vec![threads * each]), "{kind:?}");
    });
}

#[test]
fn a_range_that_is_counted_takes_no_more() {
    everywhere(|kind| {
        if kind.writes_key_by_key() {
            return;
        }
        let store = kind.fresh();
        let done = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (store, done) = (&store, &done);
                scope.spawn(move || {
                    for at in 0..10 {
                        let room = Condition::AtMost { from: vec![5], to: vec![6], keys: 24 };
                        let put = Write::Put(vec![5, thread, at], vec![]);
                        if store.commit(&[room], &[put]).unwrap() == Outcome::Done {
                            done.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 25, "{kind:?}");
        let count = Read::Count { from: vec![5], to: vec![6], up_to: 100 };
        assert_eq!(store.read(&[count]).unwrap(), [Found::Count(25)]);
    });
}

#[test]
fn a_call_may_come_from_an_asynchronous_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    everywhere(|kind| {
        runtime.block_on(async {
            let store = kind.fresh();
            put(&store, b"\0k", b"v");
            assert_eq!(get(&store, b"\0k"), Some(b"v".to_vec()), "{kind:?}");
        });
    });
}

#[test]
fn threads_wait_for_connections() {
    everywhere(|kind| {
        if !kind.is_remote() {
            return;
        }
        let url = format!("{}&connections=2", kind.fresh_url());
        let db = opened(&url).unwrap();
        crate::support::script(&db, "create table t (id int primary key)");
        std::thread::scope(|scope| {
            for thread in 0..12 {
                let db = &db;
                scope.spawn(move || {
                    let insert = db.prepare("insert into t values (?)").unwrap();
                    (0..10).for_each(|at| drop(insert.call(&[(thread * 100 + at).into()]).unwrap()));
                });
            }
        });
        assert_eq!(crate::support::ask(&db, "select count(*) from t allow unbounded 'test'", &[]), ["120"]);
    });
}

/// More than a script of Redis can pass on at once, and values that are large.
#[test]
fn a_range_of_many_and_large_values() {
    everywhere(|kind| {
        let store = kind.fresh();
        let keys: Vec<Vec<u8>> =
            (0..12_000_u32).map(|at| [b"\0\0\0\x10\x01\x01", &at.to_be_bytes()[..]].concat()).collect();
        for some in keys.chunks(1000) {
            store
                .commit(
                    &[],
                    &some.iter().map(|key| Write::Put(key.clone(), key[8..].to_vec())).collect::<Vec<_>>(),
                )
                .unwrap();
        }
        let Some(Found::Entries(all)) =
            store.read(&[range(b"\0\0\0\x10", b"\0\0\0\x11", usize::MAX, false)]).unwrap().pop()
        else {
            panic!("no entries")
        };
        assert!(all.iter().eq(keys.iter().map(|key| (key.as_slice(), &key[8..]))), "{kind:?}");
        let large: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
        put(&store, b"\0large", &large);
        assert_eq!(get(&store, b"\0large"), Some(large));
    });
}

fn opened(url: &str) -> Result<Database, Error> {
    Database::open_url(url, Options::default())
}

fn says(url: &str) -> String {
    match opened(url) {
        Err(Error::Invalid(error)) => error.to_string(),
        Err(other) => panic!("{url}: {other}"),
        Ok(_) => panic!("{url} was opened"),
    }
}

#[test]
fn addresses_that_are_none_are_refused() {
    for url in ["", "mysql://me:secret@host/app", "mem:", "rediss://host:1"] {
        let text = says(url);
        assert!(
            text.contains("`memory:`") && text.contains("postgres://") && text.contains("redis://"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
    }
    assert!(says("postgres://here/app?table=a b").contains("`table=a b`"));
    assert!(says("redis://here:1?partitions=0").contains("1 to 65535"));
    assert!(says("redis://here:1?table=x").contains("`name`"));
    assert!(says("redis://here:x").contains("host:port"));
    let text = says("postgres://me:secret@here:x/app");
    assert!(text.contains("port") && !text.contains("secret"), "{text}");
}

#[test]
fn servers_that_are_away_are_said_to_be() {
    for url in ["redis://127.0.0.1:1,127.0.0.1:2", "postgres://me@127.0.0.1:1/app"] {
        match opened(url).map(|_| ()) {
            Err(Error::Unavailable(text)) => assert!(text.contains("refused"), "{text}"),
            other => panic!("{url}: {other:?}"),
        }
    }
}

#[test]
fn a_store_is_found_again_by_its_address() {
    everywhere(|kind| {
        if !kind.is_remote() {
            return;
        }
        let url = kind.fresh_url();
        let first = opened(&url).unwrap();
        first.execute("create table t (id int primary key)", &[]).unwrap();
        first.execute("insert into t values (1)", &[]).unwrap();
        let second = opened(&url).unwrap();
        assert_eq!(crate::support::ask(&second, "select id from t where id = 1", &[]), ["1"]);
        // Another name is another store.
        let other = opened(&kind.fresh_url()).unwrap();
        assert!(other.execute("select id from t where id = 1", &[]).is_err());
        if kind == Kind::Redis {
            assert!(
                says(&url.replace("partitions=16", "partitions=17")).contains("has 16 partitions, not 17")
            );
            assert!(opened(&url.replace("&partitions=16", "")).is_ok());
        }
    });
}

/// Commands for requests that the nodes of the cluster have run.
fn commands() -> u64 {
    let server = Kind::Redis.server().unwrap();
    let nodes = server.trim_start_matches("redis://").split(',');
    let statistics: String = nodes.map(|node| redis_cli(node, &["info", "commandstats"]) + "\n").collect();
    let calls = |line: &str| {
        let (command, numbers) = line.trim().strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let asks = ["eval", "hget", "zlexcount"].contains(&command);
        asks.then(|| numbers.split(',').next()?.parse::<u64>().ok()).flatten()
    };
    statistics.lines().filter_map(calls).sum()
}

#[test]
fn a_cluster_is_asked_what_the_bound_says() {
    if !Kind::Redis.is_there() {
        return;
    }
    let _alone = REDIS_IS_WHOLE.write().unwrap_or_else(PoisonError::into_inner);
    let db = opened(&Kind::Redis.fresh_url()).unwrap();
    let schema = "create table f (o int, t int, n int, primary key (o, t), cardinality limit 5 (o)); create table u (id int primary key, n int)";
    crate::support::script(&db, schema);
    for at in 0..5 {
        crate::support::script(
            &db,
            &format!("insert into f values (1, {at}, {at}); insert into u values ({at}, {at})"),
        );
    }
    for (sql, requests) in [
        ("select * from u where id = 1", 1),
        ("select u.* from f join u on u.id = f.t where f.o = 1", 1 + 5),
        // No part of the key is known: all partitions are asked.
        ("select * from u order by id limit 5", 16),
        ("select * from u where id > 0 order by id desc limit 3", 16),
        (
            "select o.id from f join u on u.id = f.t join u o on o.n = u.n where f.o = 1 order by f.t limit 5",
            1 + 5 + 5 + 5,
        ),
    ] {
        let query = db.prepare(sql).unwrap();
        let before = commands();
        assert!(query.call(&[]).unwrap().batch.num_rows() > 0);
        let asked = commands() - before;
        assert!(asked <= query.plan().bound.requests, "{sql}: {asked}\n{}", query.plan());
        assert_eq!(asked, requests, "{sql}\n{}", query.plan());
    }
}
