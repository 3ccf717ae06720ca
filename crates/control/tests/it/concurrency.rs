//! Many threads at one store.

use crate::places::{Place, append, length};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use whimbrel_control::{ControlStore, Lease, MemoryStore, Outcome, Read, Table, Token, Transaction};

const THREADS: u64 = 8;
const ROUNDS: u64 = 200;

/// Here time passes by itself.
fn everywhere(test: impl Fn(&Arc<dyn ControlStore>)) {
    let memory: Arc<dyn ControlStore> = Arc::new(MemoryStore::default());
    test(&memory);
    if let Some(place) = Place::redis() {
        test(&place.store);
    }
}

fn records(store: &dyn ControlStore) -> Vec<u64> {
    let found = store.read(&Read::Records { log: "log".into(), from: 0, limit: u64::MAX }).unwrap();
    let number = |record: &Vec<u8>| u64::from_be_bytes(record.as_slice().try_into().unwrap());
    found.records().unwrap().records.iter().map(number).collect()
}

#[test]
fn no_change_of_a_row_is_lost() {
    everywhere(|store| {
        thread::scope(|threads| {
            for _ in 0..THREADS {
                threads.spawn(|| {
                    let counts: Table<u64> = Table::new(store.clone(), "t");
                    for _ in 0..ROUNDS {
                        counts.update("n", |count| count.unwrap_or(0) + 1).unwrap();
                    }
                });
            }
        });
        let counts: Table<u64> = Table::new(store.clone(), "t");
        assert_eq!(counts.get("n").unwrap().unwrap().value, THREADS * ROUNDS);
    });
}

#[test]
fn a_position_of_a_log_is_given_once() {
    everywhere(|store| {
        let met = AtomicU64::new(0);
        let own: Vec<Vec<(u64, u64)>> = thread::scope(|threads| {
            let writers: Vec<_> = (0..THREADS)
                .map(|writer| {
                    let met = &met;
                    threads.spawn(move || {
                        let mut own = Vec::new();
                        let mut end = 0;
                        while (own.len() as u64) < ROUNDS / 4 {
                            let record = writer << 32 | own.len() as u64;
                            let transaction = Transaction::new()
                                .when(length("log", end))
                                .then(append("log", &record.to_be_bytes()));
                            if store.commit(&transaction).unwrap().is_committed() {
                                own.push((end, record));
                            } else {
                                met.fetch_add(1, Ordering::Relaxed);
                            }
                            let read = Read::Records { log: "log".into(), from: 0, limit: 0 };
                            end = store.read(&read).unwrap().records().unwrap().length;
                        }
                        own
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let mut expected: Vec<(u64, u64)> = own.into_iter().flatten().collect();
        expected.sort_unstable();
        let expected: Vec<u64> = expected.into_iter().map(|(_, record)| record).collect();
        assert_eq!(records(store.as_ref()), expected);
        assert_eq!(expected.len() as u64, THREADS * ROUNDS / 4);
        assert!(met.into_inner() > 0, "the threads never met");
    });
}

#[test]
fn holders_of_a_lease_commit_one_after_another() {
    const TTL: Duration = Duration::from_millis(15);
    everywhere(|store| {
        let (fenced, started) = (AtomicU64::new(0), Instant::now());
        let granted: Vec<Vec<u64>> = thread::scope(|threads| {
            let holders: Vec<_> = (0..THREADS)
                .map(|holder| {
                    let (name, fenced) = (format!("holder-{holder}"), &fenced);
                    threads.spawn(move || {
                        let mut granted = Vec::new();
                        while granted.len() < 12 {
                            let Some(lease) = Lease::acquire(store, "l", &name, TTL).unwrap() else {
                                assert!(started.elapsed() < Duration::from_secs(300), "it never lapses");
                                thread::sleep(Duration::from_millis(1));
                                continue;
                            };
                            let Token(token) = lease.token();
                            granted.push(token);
                            let write = |lease: &Lease| {
                                let record = append("log", &token.to_be_bytes());
                                store.commit(&Transaction::new().when(lease.held()).then(record)).unwrap()
                            };
                            let _ = write(&lease);
                            let _ = lease.renew(TTL).unwrap();
                            let _ = write(&lease);
                            // Every third time it falls asleep, and others steal the lease; it does not
                            // notice.
                            if granted.len() % 3 == 0 {
                                thread::sleep(TTL * 2);
                                assert_eq!(write(&lease), Outcome::Conflict { condition: 0 });
                                fenced.fetch_add(1, Ordering::Relaxed);
                            } else {
                                let _ = lease.release().unwrap();
                            }
                        }
                        granted
                    })
                })
                .collect();
            holders.into_iter().map(|holder| holder.join().unwrap()).collect()
        });
        let each_grows = granted.iter().all(|tokens| tokens.is_sorted_by(|one, next| one < next));
        let all: Vec<u64> = granted.into_iter().flatten().collect();
        assert!(each_grows);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "a token came twice");
        // Once a later holder has committed, no one before it has.
        let committed = records(store.as_ref());
        assert!(committed.is_sorted(), "{committed:?}");
        assert!(!committed.is_empty(), "nobody could commit");
        assert_eq!(fenced.into_inner(), THREADS * 4);
    });
}

#[test]
fn an_element_is_taken_once() {
    everywhere(|store| {
        let queue: whimbrel_control::Queue<u64> = whimbrel_control::Queue::new(store.clone(), "q");
        let mut taken: Vec<u64> = thread::scope(|threads| {
            let takers: Vec<_> = (0..THREADS)
                .map(|_| {
                    threads.spawn(|| {
                        let mut taken = Vec::new();
                        while let Some(element) = queue.pop_within(Duration::from_secs(60)).unwrap() {
                            if element == u64::MAX {
                                break;
                            }
                            taken.push(element);
                        }
                        taken
                    })
                })
                .collect();
            (0..ROUNDS).for_each(|element| queue.push(&element).unwrap());
            (0..THREADS).for_each(|_| queue.push(&u64::MAX).unwrap());
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        taken.sort_unstable();
        assert_eq!(taken, (0..ROUNDS).collect::<Vec<_>>());
    });
}
