//! The request arrived, the answer did not: what was done is done once.

use crate::places::{append, apply, fresh_namespace, length, pop, push};
use crate::proxy::{self, Faults};
use crate::server::Server;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use whimbrel_control::{
    ControlStore, Error, Lease, Outcome, Queue, Read, RedisOptions, RedisStore, Transaction, TransactionId,
};

/// A store behind a proxy; it has connected, so that the next answer is that of the next call.
fn behind_proxy(server: &Server, options: RedisOptions) -> (Arc<dyn ControlStore>, Arc<Faults>) {
    let (port, faults) = proxy::start(server.port);
    let url = format!("redis://127.0.0.1:{port}");
    (Arc::new(RedisStore::open(&url, &fresh_namespace(), options).unwrap()), faults)
}

fn log_length(store: &dyn ControlStore) -> u64 {
    let read = Read::Records { log: "log".into(), from: 0, limit: 0 };
    store.read(&read).unwrap().records().unwrap().length
}

#[test]
fn a_transaction_is_sent_again_and_applied_once() {
    let Some(server) = Server::start(&[]) else { return };
    let (store, faults) = behind_proxy(&server, RedisOptions::default());
    apply(store.as_ref(), vec![push("q", b"f"), push("q", b"s")]);

    faults.lose_answers.store(1, SeqCst);
    let take = Transaction::new().then(append("log", b"r")).then(pop("q"));
    let outcome = store.commit(&take).unwrap();
    assert!(matches!(&outcome, Outcome::Committed { popped, .. } if *popped == [Some(b"f".to_vec())]));
    assert_eq!((faults.lost.load(SeqCst), log_length(store.as_ref())), (1, 1));

    // A group, compare-and-append: the second attempt would meet a conflict if it were not known.
    faults.lose_answers.store(1, SeqCst);
    let at = |position| Transaction::new().when(length("log", position)).then(append("log", b"r"));
    let outcomes = store.commit_all(&[at(1), at(2), at(2)]).unwrap();
    assert_eq!(outcomes.iter().map(Outcome::is_committed).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!((faults.lost.load(SeqCst), log_length(store.as_ref())), (2, 3));

    // A lease, which the second attempt would find taken; an element, which would be lost.
    faults.lose_answers.store(1, SeqCst);
    let ttl = Duration::from_secs(3600);
    let lease = Lease::acquire(&store, "l", "a", ttl).unwrap().expect("nobody else has it");
    assert!(lease.renew(ttl).unwrap());
    faults.lose_answers.store(1, SeqCst);
    let queue: Queue<u8> = Queue::new(store.clone(), "q");
    assert_eq!(queue.pop().unwrap(), Some(b's'));
    assert_eq!(faults.lost.load(SeqCst), 4);
}

#[test]
fn a_request_that_arrives_late_is_not_applied_again() {
    let Some(server) = Server::start(&[]) else { return };
    let options = RedisOptions { timeout: Duration::from_millis(500), ..RedisOptions::default() };
    let (store, faults) = behind_proxy(&server, options);
    apply(store.as_ref(), vec![]);
    faults.keep_request.store(true, SeqCst);
    let write = Transaction::new().when(length("log", 0)).then(append("log", b"r"));
    // It gives up waiting for the first one, and sends a second one past it.
    assert!(store.commit(&write).unwrap().is_committed());
    faults.wait_for_request();
    apply(store.as_ref(), vec![whimbrel_control::Effect::RemoveLog { log: "log".into() }]);
    faults.let_go();
    assert_eq!(log_length(store.as_ref()), 0);
    // It would have been applied if it were another one.
    let other = Transaction { id: TransactionId::random(), ..write };
    assert!(store.commit(&other).unwrap().is_committed());
}

#[test]
fn whoever_gave_up_learns_later_what_became_of_it() {
    let Some(server) = Server::start(&[]) else { return };
    let options = RedisOptions { deadline: Duration::from_millis(100), ..RedisOptions::default() };
    let (store, faults) = behind_proxy(&server, options);
    apply(store.as_ref(), vec![]);
    faults.lose_every.store(1, SeqCst);
    let write = Transaction::new().when(length("log", 0)).then(append("log", b"r"));
    assert!(matches!(store.commit(&write), Err(Error::Unavailable(_))));
    assert!(faults.lost.load(SeqCst) > 0);
    faults.lose_every.store(0, SeqCst);
    assert!(store.commit(&write).unwrap().is_committed());
    assert_eq!(log_length(store.as_ref()), 1);
}

#[test]
fn many_threads_whose_connections_are_cut_all_the_time() {
    const THREADS: usize = 4;
    const RECORDS: usize = 50;
    let Some(server) = Server::start(&[]) else { return };
    let (store, faults) = behind_proxy(&server, RedisOptions::default());
    // A new connection takes some answers itself, so not every attempt may fail.
    faults.lose_every.store(13, SeqCst);
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let store = &store;
            threads.spawn(move || {
                for record in 0..RECORDS {
                    let record = u8::try_from(thread * RECORDS + record).unwrap();
                    apply(store.as_ref(), vec![append("log", &[record])]);
                }
            });
        }
    });
    faults.lose_every.store(0, SeqCst);
    let found = store.read(&Read::Records { log: "log".into(), from: 0, limit: 1000 }).unwrap();
    let mut records: Vec<usize> = found.records().unwrap().records.iter().map(|r| r[0].into()).collect();
    records.sort_unstable();
    assert_eq!(records, (0..THREADS * RECORDS).collect::<Vec<_>>());
    assert!(faults.lost.load(SeqCst) > 10, "hardly an answer was lost");
}
