//! The home page of SCADr on every store that can be had, next to the same requests made by hand.
//!
//! By hand means: the rounds that the three queries ask for, with keys that are ready, handed to the store in
//! the same calls; what comes back are bytes, which nobody looks at. So the ratio is all that stands between
//! SQL and the store: arguments, keys, rows and their columns, sorting, the cursor. Nothing is recorded while
//! it is timed.
//!
//! `tests/servers cargo test --release -p whimbrel-bounded --test it -- --ignored --nocapture speed`

use crate::scadr::fill;
use crate::stores::{Kind, everywhere};
use crate::support::{Any, script};
use crate::workloads::scadr::{FIND_USER, FOLLOWED, SCHEMA, STREAM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use whimbrel_bounded::store::{Capabilities, Condition, Found, Outcome, Read, Write};
use whimbrel_bounded::{Argument, Database, Result, Store};

/// Keeps the requests of calls, while it is told to.
struct Recorded {
    store: Any,
    on: AtomicBool,
    calls: std::sync::Mutex<Vec<Vec<Read>>>,
}

impl Store for Recorded {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>> {
        if self.on.load(Ordering::Relaxed) {
            self.calls.lock().unwrap().push(requests.to_vec());
        }
        self.store.read(requests)
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome> {
        self.store.commit(conditions, writes)
    }
}

fn rate(mut call: impl FnMut(usize)) -> f64 {
    let (started, mut calls) = (Instant::now(), 0);
    while started.elapsed() < Duration::from_millis(200) {
        (0..50).for_each(|at| call(calls + at));
        calls += 50;
    }
    calls as f64 / started.elapsed().as_secs_f64()
}

fn user(at: usize, users: usize) -> Argument {
    Argument::from(format!("user{:05}", at * 7919 % users))
}

#[test]
#[ignore = "measures: run it alone, on a machine that does nothing else"]
fn home_page() {
    everywhere(measure);
}

fn measure(kind: Kind) {
    const USERS: usize = 1000;
    let store = Arc::new(Recorded { store: kind.fresh(), on: false.into(), calls: Default::default() });
    let db = Database::open(store.clone()).unwrap();
    let schema = SCHEMA.replace("limit 100 (owner)", "limit 10 (owner)");
    script(&db, &schema);
    fill(&db, USERS, 10, 20);
    let queries = [FIND_USER, STREAM, FOLLOWED].map(|sql| db.prepare(sql).unwrap());
    store.on.store(true, Ordering::Relaxed);
    let mut pages = Vec::new();
    for at in 0..200 {
        queries.iter().for_each(|query| {
            query.call(&[user(at, USERS)]).unwrap();
        });
        pages.push(std::mem::take(&mut *store.calls.lock().unwrap()));
    }
    store.on.store(false, Ordering::Relaxed);
    // In turns, so that whatever else the machine does is in both.
    let mut ratios = Vec::new();
    let (mut best_raw, mut best) = (0_f64, 0_f64);
    for _ in 0..15 {
        let raw = rate(|at| {
            for requests in &pages[at % 200] {
                store.store.read(requests).unwrap();
            }
        });
        let ours = rate(|at| {
            queries.iter().for_each(|query| {
                query.call(&[user(at % 200, USERS)]).unwrap();
            });
        });
        ratios.push(raw / ours);
        (best_raw, best) = (best_raw.max(raw), best.max(ours));
    }
    ratios.sort_by(f64::total_cmp);
    let each = queries.each_ref().map(|query| {
        rate(|at| {
            query.call(&[user(at % 200, USERS)]).unwrap();
        })
    });
    println!(
        "{kind:?}: home pages a second: {best:.0}; the same requests by hand: {best_raw:.0}; median ratio {:.2}",
        ratios[7]
    );
    println!("  calls a second: find user {:.0}, stream {:.0}, followed {:.0}", each[0], each[1], each[2]);
    let write = db.prepare("upsert into users values (?, 'town', 'secret')").unwrap();
    let written = rate(|at| drop(write.call(&[format!("new{}", at % 5000).into()]).unwrap()));
    let alone: Vec<Write> = (0..5000).map(|at| Write::Put(format!("\0{at}").into(), vec![0; 60])).collect();
    let raw = rate(|at| {
        store.store.commit(&[], &alone[at % 5000..][..1]).unwrap();
    });
    println!("  writes a second: {written:.0} rows; {raw:.0} keys by hand");
    let together = at_once(|thread, at| {
        let name = format!("at{thread}once{}", at % 5000);
        write.call(&[name.into()]).unwrap();
    });
    println!("  {THREADS} threads: {together:.0} rows a second");
    let together = at_once(|thread, at| {
        for query in &queries {
            query.call(&[user(at + thread * 100, USERS)]).unwrap();
        }
    });
    println!("  {THREADS} threads: {together:.0} home pages a second");
}

const THREADS: usize = 8;

/// Calls a second by some threads.
fn at_once(call: impl Fn(usize, usize) + Sync) -> f64 {
    std::thread::scope(|scope| {
        let call = &call;
        let threads = (0..THREADS).map(|thread| scope.spawn(move || rate(|at| call(thread, at))));
        threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}
