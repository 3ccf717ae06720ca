//! Measures commits on a server: one by one, and in groups of 64.
//!
//! `redis-server --port 7777 --save '' --appendonly yes &`
//! `cargo run --release -p whimbrel-control --example round_trips -- redis://127.0.0.1:7777`
//!
//! A commit is that of a task: two conditions (the lease is held, the log ends where it should) and three
//! effects (a record of 64 bytes, a row that is put, a row that is deleted).

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whimbrel_control::{ControlStore, Effect, Lease, Outcome, Read, RedisOptions, RedisStore, Transaction};

const ROUNDS: usize = 2000;
const GROUP: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("name a server: redis://127.0.0.1:6379")?;
    let redis = RedisStore::open(&url, "round-trips", RedisOptions::default())?;
    println!("{}; {}", redis.describe(), redis.durability()?);
    let store: Arc<dyn ControlStore> = Arc::new(redis);
    store.remove_all()?;
    let lease = Lease::acquire(&store, "channel", "worker", Duration::from_secs(600))?.ok_or("it is held")?;
    let commit = |at: usize| {
        let (table, row) = ("tasks".to_string(), format!("{at}"));
        let next = format!("{}", at + 1);
        Transaction::new()
            .when(lease.held())
            .when(whimbrel_control::Condition::Length { log: "lineage".to_string(), length: at as u64 })
            .then(Effect::Append { log: "lineage".to_string(), record: vec![7; 64] })
            .then(Effect::Delete { table: table.clone(), row })
            .then(Effect::Put { table, row: next, value: vec![7; 64] })
    };

    let read = Read::Records { log: "lineage".to_string(), from: 0, limit: 1 };
    report("a read of a log", 1, || store.read(&read).map(|_| ()))?;

    let mut at = 0;
    report("a commit", 1, || {
        let outcome = store.commit(&commit(at))?;
        at += usize::from(outcome.is_committed());
        Ok(())
    })?;
    report("a commit in a group of 64", GROUP, || {
        let group: Vec<_> = (at..at + GROUP).map(commit).collect();
        at += store.commit_all(&group)?.iter().filter(|outcome| outcome.is_committed()).count();
        Ok(())
    })?;
    // Half of the rounds of a report are to get warm, and are committed as well.
    assert_eq!(at, (ROUNDS + ROUNDS / 2) * (GROUP + 1), "a commit met a conflict");

    report("a commit of 1 MiB", 1, || {
        let put = Effect::Put { table: "large".to_string(), row: "a".to_string(), value: vec![7; 1 << 20] };
        store.commit(&Transaction::new().then(put)).map(|_: Outcome| ())
    })?;
    Ok(store.remove_all()?)
}

/// Calls something, and prints how long that takes: for each of the `share` things that a call does.
fn report(
    what: &str,
    share: usize,
    mut call: impl FnMut() -> whimbrel_control::Result<()>,
) -> whimbrel_control::Result<()> {
    for _ in 0..ROUNDS / 2 {
        call()?;
    }
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        call()?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / share as f64;
    println!(
        "{what:<28} median {:8.1} µs, 99 of 100 within {:8.1} µs",
        micros(times[ROUNDS / 2]),
        micros(times[ROUNDS * 99 / 100])
    );
    Ok(())
}
