//! Servers that are killed, forget scripts, lose their role or are somewhere else.

use crate::places::{append, apply, fresh_namespace, held, length, put};
use crate::server::Server;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use whimbrel_control::{
    ControlStore, Disk, Effect, Error, Found, Holding, Outcome, Read, RedisOptions, RedisStore, Transaction,
};

const NO_TIME: Duration = Duration::from_millis(300);

fn open(url: &str, replicas: usize) -> RedisStore {
    open_within(url, replicas, RedisOptions::default().deadline)
}

fn open_within(url: &str, replicas: usize, deadline: Duration) -> RedisStore {
    let options = RedisOptions { replicas, timeout: Duration::from_secs(2), deadline };
    RedisStore::open(url, &fresh_namespace(), options).unwrap()
}

fn records(store: &dyn ControlStore) -> Vec<u32> {
    let found = store.read(&Read::Records { log: "log".into(), from: 0, limit: u64::MAX }).unwrap();
    let number = |record: &Vec<u8>| u32::from_be_bytes(record.as_slice().try_into().unwrap());
    found.records().unwrap().records.iter().map(number).collect()
}

/// Asks until it is so.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} never comes");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Makes a server a replica, and waits until it is one that follows.
fn replicate(replica: &Server, master: &Server) {
    let _: String = replica.ask(&format!("REPLICAOF 127.0.0.1 {}", master.port));
    wait_until("the link to the master", || {
        replica.ask::<String>("INFO replication").contains("master_link_status:up")
    });
}

/// Writers that number their records; gives what was acknowledged while `during` ran and some time after.
fn write_while(store: &RedisStore, during: impl FnOnce(&dyn Fn(usize))) -> BTreeSet<u32> {
    let acknowledged = Mutex::new(BTreeSet::new());
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        for writer in 0..3_u32 {
            let (acknowledged, stop, done) = (&acknowledged, &stop, &done);
            threads.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let record = writer << 24 | number;
                    apply(store, vec![append("log", &record.to_be_bytes())]);
                    acknowledged.lock().unwrap().insert(record);
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let more = |records: usize| {
            let goal = done.load(Ordering::SeqCst) + records;
            wait_until("the next commit", || done.load(Ordering::SeqCst) >= goal);
        };
        during(&more);
        stop.store(true, Ordering::SeqCst);
    });
    acknowledged.into_inner().unwrap()
}

#[test]
fn a_server_that_is_killed_and_started_again_has_everything() {
    let Some(mut server) = Server::start(&[]) else { return };
    let store = open(&server.url(), 0);
    assert_eq!(store.durability().unwrap().disk, Disk::Always);
    let ttl = Duration::from_secs(3600);
    let grant = crate::places::grant("l", "a", ttl);
    let token = apply(&store, vec![put("t", "a", b"1"), crate::places::push("q", b"e"), grant]);
    let acknowledged = write_while(&store, |more| {
        more(50);
        server.kill();
        server.restart();
        more(50);
    });
    // In the log once, whatever was lost on the way.
    let found = records(&store);
    assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), acknowledged);
    assert_eq!(found.len(), acknowledged.len());
    let lease = Read::Holding { lease: "l".into() };
    let reads =
        [Read::Row { table: "t".into(), row: "a".into() }, Read::Waiting { queue: "q".into() }, lease];
    let [row, waiting, holding] = store.read_all(&reads).unwrap().try_into().unwrap();
    assert_eq!(row.row().unwrap().unwrap().version, token);
    assert_eq!(waiting, Found::Waiting(1));
    assert!(matches!(holding, Found::Holding(Some(Holding { token: held, .. })) if held.0 == token));
    assert!(store.commit(&Transaction::new().when(held("l", token))).unwrap().is_committed());
}

#[test]
fn connections_that_broke_together_are_not_tried_one_by_one() {
    let Some(mut server) = Server::start(&[]) else { return };
    // Time for a few attempts, and not for one with each of the connections.
    let store = open_within(&server.url(), 0, Duration::from_secs(2));
    std::thread::scope(|threads| {
        for _ in 0..16 {
            threads.spawn(|| store.wait_for_element("nothing comes", Duration::from_secs(1)).unwrap());
        }
    });
    let clients: String = server.ask("CLIENT LIST");
    assert!(clients.lines().count() > 12, "{clients}");
    server.kill();
    server.restart();
    assert!(store.commit(&Transaction::new()).unwrap().is_committed());
}

#[test]
fn a_server_that_stays_away_is_unavailable() {
    let Some(mut server) = Server::start(&[]) else { return };
    let store = open_within(&server.url(), 0, NO_TIME);
    server.kill();
    let error = store.commit(&Transaction::new()).unwrap_err();
    assert!(
        matches!(&error, Error::Unavailable(says) if says.contains(&server.port.to_string())),
        "{error:?}"
    );
    let late = RedisOptions { deadline: NO_TIME, ..RedisOptions::default() };
    let error = RedisStore::open(&server.url(), "n", late).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
}

#[test]
fn nothing_acknowledged_is_lost_by_a_failover() {
    let (Some(mut master), Some(replica)) = (Server::start(&[]), Server::start(&[])) else { return };
    let Some(next) = Server::start(&[]) else { return };
    replicate(&replica, &master);
    // The replica comes first: which one is the master has to be found out.
    let url = format!("redis://127.0.0.1:{},127.0.0.1:{}", replica.port, master.port);
    let options =
        RedisOptions { replicas: 1, timeout: Duration::from_millis(200), ..RedisOptions::default() };
    let store = RedisStore::open(&url, &fresh_namespace(), options).unwrap();
    let acknowledged = write_while(&store, |more| {
        more(50);
        let _: String = replica.ask("REPLICAOF NO ONE");
        // For a while both are masters, and what the old one is told gets lost with it: longer than anybody
        // waits for a replica.
        std::thread::sleep(Duration::from_millis(500));
        master.kill();
        replicate(&next, &replica);
        more(50);
    });
    let found = records(&store);
    let lost: Vec<_> = acknowledged.iter().filter(|record| !found.contains(record)).collect();
    assert_eq!(lost, Vec::<&u32>::new());
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "a record is there twice");
    assert!(store.describe().contains(&replica.port.to_string()));
}

#[test]
fn without_enough_replicas_nothing_is_acknowledged() {
    let (Some(master), Some(replica)) = (Server::start(&[]), Server::start(&[])) else { return };
    let store = open_within(&master.url(), 1, NO_TIME);
    let write = Transaction::new().then(append("log", &7_u32.to_be_bytes()));
    let error = store.commit(&write).unwrap_err();
    assert!(matches!(&error, Error::Unavailable(says) if says.contains("0 replicas")), "{error:?}");
    // The master has it, but nobody may be told so: it could be lost yet.
    let read = Read::Records { log: "log".into(), from: 0, limit: 1 };
    assert!(matches!(store.read(&read), Err(Error::Unavailable(_))));
    replicate(&replica, &master);
    assert!(store.commit(&write).unwrap().is_committed());
    assert_eq!(records(&store), [7]);
}

#[test]
fn a_master_that_became_a_replica_is_left() {
    let (Some(one), Some(other)) = (Server::start(&[]), Server::start(&[])) else { return };
    let store = open(&format!("redis://127.0.0.1:{},127.0.0.1:{}", one.port, other.port), 0);
    apply(&store, vec![append("log", &1_u32.to_be_bytes())]);
    replicate(&other, &one);
    let _: String = other.ask("REPLICAOF NO ONE");
    replicate(&one, &other);
    apply(&store, vec![append("log", &2_u32.to_be_bytes())]);
    assert_eq!(records(&store), [1, 2]);
    assert_eq!(records(&store).len(), 2);
}

#[test]
fn a_master_that_hangs_is_left() {
    let (Some(one), Some(other)) = (Server::start(&[]), Server::start(&[])) else { return };
    replicate(&other, &one);
    let timeout = Duration::from_millis(300);
    let options = RedisOptions { timeout, ..RedisOptions::default() };
    let url = format!("redis://127.0.0.1:{},127.0.0.1:{}", one.port, other.port);
    let store = RedisStore::open(&url, &fresh_namespace(), options).unwrap();
    let heard = store.subscribe(&["a"]).unwrap();
    one.hang();
    let _: String = other.ask("REPLICAOF NO ONE");
    // Nothing tells the one who listens; it has to ask.
    let message = (0..600).find_map(|_| {
        apply(&store, vec![crate::places::publish("a", b"hint")]);
        heard.next(Duration::from_millis(100))
    });
    assert_eq!(message.unwrap().payload, b"hint");
}

#[test]
fn scripts_that_were_forgotten_are_sent_again() {
    let Some(server) = Server::start(&[]) else { return };
    // At once: there is no time for another attempt, whose new connection would bring the scripts.
    let store = open_within(&server.url(), 0, Duration::ZERO);
    for record in 0..3_u32 {
        let _: String = server.ask("SCRIPT FLUSH SYNC");
        let at =
            Transaction::new().when(length("log", record.into())).then(append("log", &record.to_be_bytes()));
        assert!(store.commit(&at).unwrap().is_committed());
    }
    let _: String = server.ask("SCRIPT FLUSH SYNC");
    assert_eq!(records(&store), [0, 1, 2]);
    let _: String = server.ask("SCRIPT FLUSH SYNC");
    store.remove_all().unwrap();
    assert_eq!(records(&store), [0_u32; 0]);
}

#[test]
fn a_cluster_is_followed_to_the_node_that_has_the_slot() {
    let cluster = ["--cluster-enabled", "yes"];
    let (Some(owner), Some(other)) = (Server::start(&cluster), Server::start(&cluster)) else { return };
    let _: String = owner.ask("CLUSTER ADDSLOTSRANGE 0 16383");
    let _: String = other.ask(&format!("CLUSTER MEET 127.0.0.1 {}", owner.port));
    for server in [&owner, &other] {
        wait_until("the cluster", || server.ask::<String>("CLUSTER INFO").contains("cluster_state:ok"));
    }
    let store = open(&other.url(), 0);
    let heard = store.subscribe(&["a"]).unwrap();
    apply(&store, vec![put("t", "a", b"1"), append("log", &1_u32.to_be_bytes())]);
    assert_eq!(records(&store), [1]);
    let publish = Transaction::new().then(crate::places::publish("a", b"hint"));
    assert!(store.commit(&publish).unwrap().is_committed());
    assert_eq!(heard.next(Duration::from_secs(60)).unwrap().payload, b"hint");
    assert!(owner.ask::<u64>("DBSIZE") > 0);
}

#[test]
fn a_full_server_applies_nothing_of_a_transaction() {
    let Some(server) = Server::start(&[]) else { return };
    let store = open_within(&server.url(), 0, NO_TIME);
    apply(&store, vec![append("log", &1_u32.to_be_bytes())]);
    let _: String = server.ask("CONFIG SET maxmemory 1");
    let write = Transaction::new()
        .then(Effect::Delete { table: "t".into(), row: "a".into() })
        .then(append("log", &2_u32.to_be_bytes()));
    let error = store.commit(&write).unwrap_err();
    assert!(matches!(&error, Error::Unavailable(says) if says.contains("OOM")), "{error:?}");
    assert_eq!(records(&store), [1]);
    let _: String = server.ask("CONFIG SET maxmemory 0");
    assert!(matches!(store.commit(&write).unwrap(), Outcome::Committed { .. }));
    assert_eq!(records(&store), [1, 2]);
}
