//! Servers that go and come back.
//!
//! A node of the Redis Cluster is killed: calls that need it say that it is away, soon; nothing wrong is read
//! in the meantime, and afterwards everything that was acknowledged is there. Slots move from node to node:
//! nobody notices. PostgreSQL closes all connections: reads do not notice, a write says so if it was at work.

use crate::stores::{Kind, REDIS_IS_WHOLE};
use crate::support::{ask, script};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use whimbrel_bounded::{Database, Error, Options};

/// The number of the process of a node, as the node itself says.
fn process(node: &str) -> String {
    let info = redis_cli(node, &["info", "server"]);
    info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().to_string()
}

#[test]
fn a_node_that_is_killed_comes_back() {
    if !Kind::Redis.is_there() {
        return;
    }
    let _alone = whole();
    let server = Kind::Redis.server().unwrap();
    let nodes: Vec<&str> = server.trim_start_matches("redis://").split(',').collect();
    // What is acknowledged has to last; a node that is started again is as it was before.
    nodes.iter().for_each(|node| drop(redis_cli(node, &["config", "set", "appendfsync", "always"])));
    let db = Database::open_url(&Kind::Redis.fresh_url(), Options::default()).unwrap();
    script(&db, "create table t (id int primary key, n int); create index t_n on t (n)");
    let write = db.prepare("upsert into t values (?, ?)").unwrap();
    let read = db.prepare("select n from t where id = ?").unwrap();
    // What was acknowledged, and what may have been written after that.
    let mut known: BTreeMap<i32, (i32, Vec<i32>)> = BTreeMap::new();
    for id in 0..40 {
        write.call(&[id.into(), 0.into()]).unwrap();
        known.insert(id, (0, vec![]));
    }
    signal("-KILL", &process(nodes[2]));
    let (started, mut away, mut round) = (Instant::now(), 0, 0);
    // Until a whole round of writes and reads goes well again.
    loop {
        round += 1;
        let before = away;
        for (id, (acknowledged, maybe)) in &mut known {
            let asked = Instant::now();
            match write.call(&[(*id).into(), round.into()]) {
                Ok(_) => (*acknowledged, *maybe) = (round, vec![]),
                Err(Error::Unavailable(text)) => {
                    assert!(text.contains("Redis"), "{text}");
                    maybe.push(round);
                    away += 1;
                }
                Err(other) => panic!("{other}"),
            }
            match read.call(&[(*id).into()]) {
                Ok(page) => {
                    let n: i32 = crate::support::rows(&page.batch)[0].parse().unwrap();
                    assert!(
                        n == *acknowledged || maybe.contains(&n),
                        "{id}: {n}, not {acknowledged} or {maybe:?}"
                    );
                }
                Err(Error::Unavailable(_)) => away += 1,
                Err(other) => panic!("{other}"),
            }
            assert!(asked.elapsed() < Duration::from_secs(120), "{:?}", asked.elapsed());
        }
        if away == before && round > 1 {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "it did not come back");
    }
    assert!(away > 0, "nothing was away");
    nodes.iter().for_each(|node| drop(redis_cli(node, &["config", "set", "appendfsync", "everysec"])));
    db.repair(Duration::ZERO).unwrap();
    for (id, (acknowledged, maybe)) in &known {
        let n: i32 = ask(&db, "select n from t where id = ?", &[(*id).into()])[0].parse().unwrap();
        assert!(n == *acknowledged || maybe.contains(&n), "{id}: {n}, not {acknowledged} or {maybe:?}");
        let by_n = ask(&db, "select id from t where n = ? order by id limit 100", &[n.into()]);
        assert!(by_n.contains(&id.to_string()), "{id}: {by_n:?}");
    }
}

fn whole() -> std::sync::RwLockWriteGuard<'static, ()> {
    REDIS_IS_WHOLE.write().unwrap_or_else(PoisonError::into_inner)
}

/// What is true until it is dropped, by a panic too: a thread that goes on as long as it is true ends with
/// the test.
struct Until<'f>(&'f AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

pub fn redis_cli(node: &str, arguments: &[&str]) -> String {
    let (host, port) = node.split_once(':').unwrap();
    let output = Command::new("redis-cli").args(["-h", host, "-p", port]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

/// A process that does nothing until this is dropped.
struct Frozen(String);

impl Frozen {
    fn new(process: String) -> Frozen {
        signal("-STOP", &process);
        Frozen(process)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

fn signal(signal: &str, process: &str) {
    assert!(Command::new("kill").args([signal, process]).status().unwrap().success());
}

#[test]
fn a_node_that_is_silent_is_not_waited_for_long() {
    if !Kind::Redis.is_there() {
        return;
    }
    let _alone = whole();
    let url = format!("{}&timeout=1", Kind::Redis.fresh_url());
    let db = Database::open_url(&url, Options::default()).unwrap();
    script(&db, "create table t (id int primary key)");
    (0..20).for_each(|id| script(&db, &format!("insert into t values ({id})")));
    let read = db.prepare("select id from t where id = ?").unwrap();
    let server = Kind::Redis.server().unwrap();
    let ask = |id: i32| {
        let asked = Instant::now();
        let answer = read.call(&[id.into()]);
        assert!(asked.elapsed() < Duration::from_secs(60), "{:?}", asked.elapsed());
        match answer {
            Ok(page) => assert_eq!(page.batch.num_rows(), 1),
            Err(Error::Unavailable(_)) => return false,
            Err(other) => panic!("{other}"),
        }
        true
    };
    let frozen = Frozen::new(process(server.trim_start_matches("redis://").split(',').next().unwrap()));
    assert!(!(0..20).all(ask));
    drop(frozen);
    let since = Instant::now();
    while !(0..20).all(ask) {
        assert!(since.elapsed() < Duration::from_secs(120));
    }
}

#[test]
fn slots_that_move_are_followed() {
    if !Kind::Redis.is_there() {
        return;
    }
    let _alone = whole();
    let db = Database::open_url(&Kind::Redis.fresh_url(), Options::default()).unwrap();
    script(&db, "create table t (id int primary key, n int); create index t_n on t (n)");
    let server = Kind::Redis.server().unwrap();
    let nodes: Vec<&str> = server.trim_start_matches("redis://").split(',').collect();
    let moving = AtomicBool::new(true);
    let written = std::thread::scope(|scope| {
        let until = Until(&moving);
        let writer = scope.spawn(|| {
            let add = db.prepare("upsert into t values (?, ?)").unwrap();
            let read = db.prepare("select n from t where id = ?").unwrap();
            let mut at = 0;
            while moving.load(Ordering::SeqCst) {
                add.call(&[(at % 50).into(), at.into()]).unwrap();
                assert_eq!(
                    crate::support::rows(&read.call(&[(at % 50).into()]).unwrap().batch),
                    [at.to_string()]
                );
                at += 1;
            }
            at
        });
        // Most slots of the first node go to the second, and as many back. A node without any would become a
        // replica.
        let [first, second] = [nodes[0], nodes[1]].map(|node| redis_cli(node, &["cluster", "myid"]));
        for (from, to) in [(&first, &second), (&second, &first)] {
            let moved = [
                "--cluster",
                "reshard",
                nodes[0],
                "--cluster-from",
                from,
                "--cluster-to",
                to,
                "--cluster-slots",
                "5000",
                "--cluster-yes",
                "--cluster-pipeline",
                "100",
            ];
            redis_cli(nodes[0], &moved);
        }
        drop(until);
        writer.join().unwrap()
    });
    assert!(written > 50, "{written}");
    let count = ask(
        &db,
        "select count(*) from t where id in (? limit 50)",
        &[whimbrel_bounded::Argument::list(0..50)],
    );
    assert_eq!(count, ["50"]);
}

#[test]
fn connections_that_are_closed_are_opened_again() {
    if !Kind::Postgres.is_there() {
        return;
    }
    let url = format!("{}&application_name=closed", Kind::Postgres.fresh_url());
    let db = Database::open_url(&url, Options::default()).unwrap();
    script(&db, "create table t (id int primary key, n int); insert into t values (1, 0)");
    let add = db.prepare("update t set n = n + 1 where id = 1").unwrap();
    let close = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server: tokio_postgres::Config = Kind::Postgres.server().unwrap().parse().unwrap();
            let (client, connection) = server.connect(tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(async move { drop(connection.await) });
            let close =
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'closed'";
            client.execute(close, &[]).await.unwrap();
        });
    };
    let (mut acknowledged, mut unknown) = (0, 0);
    for _ in 0..20 {
        close();
        assert_eq!(ask(&db, "select id from t where id = 1", &[]), ["1"]);
    }
    let writing = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let _until = Until(&writing);
        scope.spawn(|| {
            while writing.load(Ordering::SeqCst) {
                close();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        for _ in 0..300 {
            match add.call(&[]) {
                Ok(_) => acknowledged += 1,
                Err(Error::Unavailable(_)) => unknown += 1,
                Err(other) => panic!("{other}"),
            }
        }
    });
    let n: i32 = ask(&db, "select n from t where id = 1", &[])[0].parse().unwrap();
    assert!((acknowledged..=acknowledged + unknown).contains(&n), "{acknowledged} + {unknown}: {n}");
    assert!(acknowledged > 0, "{unknown}");
}
