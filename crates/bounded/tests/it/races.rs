//! Writers that meet between any two steps: a unique key is one row's, what was acknowledged is there and in
//! every index, and who gave up wrote nothing.
//!
//! [`Turns`] lets one operation of a store happen at a time, and draws whose turn it is, so a seed is a way
//! in which the steps of some writers meet. The same is then asked of real servers.

use crate::stores::{Kind, everywhere, whole};
use crate::support::{Any, Dice, ask, rows, script};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use whimbrel_bounded::store::{Capabilities, Condition, Found, Outcome, Read, Write};
use whimbrel_bounded::{Argument, Database, Error, MemoryStore, Options, Prepared, Store};

/// A store in which the threads that take part ask one after the other, in an order that is drawn.
struct Turns {
    store: Any,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    dice: Dice,
    /// Threads that take part, and are not done.
    taking_part: BTreeSet<u64>,
    waiting: BTreeSet<u64>,
    turn: Option<u64>,
    known: Vec<ThreadId>,
}

impl Turns {
    fn new(store: impl Store + 'static, seed: u64) -> Turns {
        let state = State {
            dice: Dice(seed),
            taking_part: BTreeSet::new(),
            waiting: BTreeSet::new(),
            turn: None,
            known: vec![],
        };
        Turns { store: Box::new(store), state: Mutex::new(state), changed: Condvar::new() }
    }

    fn join(&self) -> u64 {
        let mut state = self.state.lock().unwrap();
        state.known.push(std::thread::current().id());
        let number = state.known.len() as u64 - 1;
        state.taking_part.insert(number);
        number
    }

    fn leave(&self, number: u64) {
        let mut state = self.state.lock().unwrap();
        state.taking_part.remove(&number);
        state.draw();
        self.changed.notify_all();
    }

    /// Waits for a turn, and takes it.
    fn in_turn<T>(&self, operation: impl FnOnce() -> T) -> T {
        let this = std::thread::current().id();
        let mut state = self.state.lock().unwrap();
        let Some(number) = state.known.iter().position(|known| *known == this) else { return operation() };
        let number = number as u64;
        state.waiting.insert(number);
        state.draw();
        self.changed.notify_all();
        while state.turn != Some(number) {
            // Who pauses because others are in its way does not keep them waiting.
            let (held, waited) = self.changed.wait_timeout(state, Duration::from_millis(1)).unwrap();
            state = held;
            if waited.timed_out() && state.turn.is_none() {
                state.turn = state.waiting.iter().next().copied();
                self.changed.notify_all();
            }
        }
        state.waiting.remove(&number);
        let done = operation();
        state.turn = None;
        state.draw();
        self.changed.notify_all();
        done
    }
}

impl State {
    /// Draws whose turn it is, once all that take part wait for theirs.
    fn draw(&mut self) {
        if self.turn.is_none() && !self.waiting.is_empty() && self.waiting.len() == self.taking_part.len() {
            let waiting: Vec<u64> = self.waiting.iter().copied().collect();
            self.turn = Some(*self.dice.one(&waiting));
        }
    }
}

impl Store for Turns {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>, Error> {
        self.in_turn(|| self.store.read(requests))
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome, Error> {
        self.in_turn(|| self.store.commit(conditions, writes))
    }
}

const SCHEMA: &str = "
    create table towns (name varchar(4) primary key);
    create table users (id int primary key, mail varchar(4), town varchar(4) references towns, age int not null,
        unique (mail), cardinality limit 2 (town));
    create index users_by_age on users (age);
    insert into towns values ('a'), ('b')";

const WRITERS: u64 = 3;

/// Rows by the table, and by every index.
fn consistent(db: &Database, shown: &str) -> Vec<String> {
    let columns = "select id, mail, town, age from users";
    let table = ask(db, &format!("{columns} order by id allow unbounded 'test'"), &[]);
    let mut ways = [Vec::new(), Vec::new(), Vec::new()];
    for mail in ["m0", "m1", "m2"] {
        ways[0].extend(ask(db, &format!("{columns} where mail = '{mail}'"), &[]));
    }
    for town in ["a", "b"] {
        ways[1].extend(ask(db, &format!("{columns} where town = '{town}'"), &[]));
    }
    for age in 0..3 {
        ways[2].extend(ask(db, &format!("{columns} where age = {age} limit 100"), &[]));
    }
    for (way, name) in ways.iter_mut().zip(["mail", "town", "age"]) {
        way.sort();
        assert_eq!(*way, table, "by {name}; {shown}");
    }
    table
}

/// A statement of a writer: an insert, mostly; what it would make true.
fn statement(dice: &mut Dice, only_inserts: bool) -> (String, Option<String>) {
    let (id, mail, town) = (dice.roll(3), dice.roll(3), ["a", "b"][dice.roll(2) as usize]);
    let age = dice.roll(3);
    match dice.roll(if only_inserts { 1 } else { 5 }) {
        0 | 1 => (
            format!("insert into users values ({id}, 'm{mail}', '{town}', {age})"),
            Some(format!("{id}|m{mail}|{town}|{age}")),
        ),
        2 => (format!("update users set mail = 'm{mail}' where id = {id}"), None),
        3 => (format!("update users set age = {age} where id = {id}"), None),
        _ => (format!("delete from users where id = {id}"), None),
    }
}

/// Some writers, in one order of their steps.
fn race(seed: u64, only_inserts: bool, conflict_timeout: Duration) -> u64 {
    let store = Arc::new(Turns::new(MemoryStore::key_by_key(), seed));
    let options = Options { conflict_timeout, ..Options::default() };
    let db = Database::open_with(store.clone(), options).unwrap();
    script(&db, SCHEMA);
    consistent(&db, "made");
    let mut dice = Dice(seed ^ 0x5eed);
    let scripts: Vec<Vec<(String, Option<String>)>> =
        (0..WRITERS).map(|_| (0..3).map(|_| statement(&mut dice, only_inserts)).collect()).collect();
    let shown = format!("seed {seed}: {scripts:?}");
    let mut acknowledged = Vec::new();
    let together = Barrier::new(scripts.len());
    std::thread::scope(|scope| {
        let writers: Vec<_> = scripts
            .iter()
            .map(|statements| {
                let (db, store, together) = (&db, &store, &together);
                let ready: Vec<Prepared> =
                    statements.iter().map(|(sql, _)| db.prepare(sql).unwrap()).collect();
                scope.spawn(move || {
                    let number = store.join();
                    together.wait();
                    let mut done = Vec::new();
                    for (write, (sql, row)) in ready.iter().zip(statements) {
                        match write.call(&[]) {
                            Ok(_) => done.extend(row.clone()),
                            Err(Error::Data(_) | Error::Conflict(_)) => {}
                            Err(other) => panic!("{sql}: {other}"),
                        }
                    }
                    store.leave(number);
                    done
                })
            })
            .collect();
        for writer in writers {
            acknowledged.extend(writer.join().unwrap());
        }
    });
    let table = consistent(&db, &shown);
    let mails: BTreeSet<&str> = table.iter().filter_map(|row| row.split('|').nth(1)).collect();
    assert_eq!(mails.len(), table.len(), "{table:?}; {shown}");
    if only_inserts {
        acknowledged.sort();
        assert_eq!(acknowledged, table, "{shown}");
    }
    let repaired = db.repair(Duration::ZERO).unwrap();
    assert_eq!((repaired.added, repaired.duplicates), (0, vec![]), "{shown}");
    acknowledged.len() as u64
}

#[test]
fn a_unique_key_is_one_row_s_however_the_steps_meet() {
    let seeds = std::env::var("WHIMBREL_RACES").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let acknowledged: u64 = (0..seeds).map(|seed| race(seed, true, Duration::from_secs(5))).sum();
    assert!(acknowledged > seeds, "{acknowledged}");
}

/// Claims count as abandoned so soon that writers which are at work lose them.
#[test]
fn a_claim_that_is_taken_from_a_slow_writer_is_lost_to_it() {
    let acknowledged: u64 = (0..150).map(|seed| race(1000 + seed, true, Duration::from_millis(3))).sum();
    assert!(acknowledged > 150, "{acknowledged}");
}

#[test]
fn rows_that_change_and_go_keep_their_keys() {
    let acknowledged: u64 = (0..150).map(|seed| race(2000 + seed, false, Duration::from_secs(5))).sum();
    assert!(acknowledged > 150, "{acknowledged}");
}

/// Everybody wants the same values at the same time.
fn want_the_same(kind: Kind, url: Option<&str>, values: u32) {
    let open = || match url {
        Some(url) => Database::open_url(url, Options::default()).unwrap(),
        None => unreachable!("a store that is asked by its address"),
    };
    let db = open();
    script(&db, "create table users (id int primary key, mail int not null, unique (mail))");
    let acknowledged: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u32)
            .map(|writer| {
                // Each is a server of its own.
                let db = open();
                scope.spawn(move || {
                    let insert = db.prepare("insert into users values (?, ?)").unwrap();
                    let taken = |mail: u32| {
                        let id = (mail * 4 + writer) as i32;
                        match insert.call(&[id.into(), (mail as i32).into()]) {
                            Ok(_) => true,
                            Err(Error::Data(_)) => false,
                            Err(other) => panic!("{other}"),
                        }
                    };
                    (0..values).filter(|mail| taken(*mail)).count()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    let mails = ask(&db, "select mail from users allow unbounded 'test'", &[]);
    let different: BTreeSet<&String> = mails.iter().collect();
    assert_eq!((mails.len(), different.len()), (acknowledged, acknowledged), "{kind:?}");
    // Somebody has each of them, but for those that two wanted and a third one's crash kept: nobody crashed.
    assert_eq!(acknowledged, values as usize, "{kind:?}");
    assert_eq!(db.repair(Duration::ZERO).unwrap().duplicates, Vec::<String>::new());
}

#[test]
fn a_thousand_values_that_four_servers_want() {
    for kind in [Kind::Postgres, Kind::Redis].into_iter().filter(|kind| kind.is_there()) {
        let _whole = (kind == Kind::Redis).then(whole);
        let values = if kind == Kind::Redis { 1000 } else { 100 };
        want_the_same(kind, Some(&kind.fresh_url()), values);
    }
}

#[test]
fn repair_names_rows_that_have_the_same_unique_key() {
    let store = Arc::new(MemoryStore::key_by_key());
    let db = Database::open(store.clone()).unwrap();
    script(
        &db,
        "create table users (id int primary key, mail varchar(4), unique (mail)); insert into users values (1, 'a')",
    );
    // What an earlier release could leave: the entry is the second row's, and the first is there still.
    let mail = db.schema().table("users").unwrap().indexes[1].prefix();
    let behind = [mail.as_slice(), &[0xFF]].concat();
    let entry = Read::Range { from: mail, to: behind, limit: 10, reverse: false };
    let Some(Found::Entries(entries)) = store.read(&[entry]).unwrap().pop() else { panic!() };
    let (key, held) = entries.iter().next().map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap();
    store.commit(&[], &[Write::Delete(key)]).unwrap();
    db.execute("insert into users values (2, 'a')", &[]).unwrap();
    let _ = held;
    let repaired = db.repair(Duration::ZERO).unwrap();
    assert_eq!(repaired.duplicates, ["users has two rows with mail = 'a': id = 1; and id = 2"]);
    assert_eq!((repaired.removed, repaired.added), (0, 0));
    db.execute("delete from users where id = 2", &[]).unwrap();
    let repaired = db.repair(Duration::ZERO).unwrap();
    assert_eq!((repaired.added, repaired.duplicates), (1, vec![]));
    assert_eq!(ask(&db, "select id from users where mail = 'a'", &[]), ["1"]);
}

/// A store that is always a moment too late, but for the first writes of rows.
struct Late {
    store: Any,
    in_time: AtomicUsize,
}

impl Store for Late {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>, Error> {
        self.store.read(requests)
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome, Error> {
        let of_rows = conditions.iter().any(|condition| match condition {
            Condition::Same { key, value } => value.is_some() && key.len() > 4 && key[..4] != [0; 4],
            _ => false,
        });
        let less = |left: usize| left.checked_sub(1);
        match of_rows && self.in_time.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err() {
            true => Ok(Outcome::Failed(conditions.len() - 1)),
            false => self.store.commit(conditions, writes),
        }
    }
}

#[test]
fn who_gives_up_says_that_nothing_was_written() {
    for store in [MemoryStore::default(), MemoryStore::key_by_key()] {
        let conflict_timeout = Duration::from_millis(150);
        let options = Options { conflict_timeout, ..Options::default() };
        let late = Late { store: Box::new(store), in_time: AtomicUsize::new(0) };
        let db = Database::open_with(late, options).unwrap();
        script(&db, "create table n (id int primary key, n int); insert into n values (1, 0)");
        let began = Instant::now();
        let error = db.execute("update n set n = n + 1 where id = 1", &[]).unwrap_err();
        assert!(matches!(error, Error::Conflict(_)), "{error:?}");
        assert!(error.to_string().contains("nothing was written"), "{error}");
        assert!(began.elapsed() >= conflict_timeout, "{:?}", began.elapsed());
        assert_eq!(ask(&db, "select n from n where id = 1", &[]), ["0"]);
    }
}

/// More writers of one row than there were tries.
#[test]
fn many_writers_of_one_row_all_get_their_turn() {
    everywhere(|kind| {
        if kind == Kind::Postgres {
            return; // It waits by itself: `stores` and `outage` have it.
        }
        let db = Database::open(kind.fresh()).unwrap();
        script(&db, "create table n (id int primary key, n int); insert into n values (1, 0)");
        let writers = 24_i32;
        std::thread::scope(|scope| {
            for _ in 0..writers {
                let db = &db;
                scope.spawn(move || {
                    let add = db.prepare("update n set n = n + ? where id = 1").unwrap();
                    for _ in 0..10 {
                        add.call(&[Argument::from(1)]).unwrap();
                    }
                });
            }
        });
        assert_eq!(ask(&db, "select n from n where id = 1", &[]), [(writers * 10).to_string()]);
    });
}

#[test]
fn who_gives_up_between_two_rows_says_how_many_were_written() {
    let conflict_timeout = Duration::from_millis(150);
    let options = Options { conflict_timeout, ..Options::default() };
    let late = Late { store: Box::new(MemoryStore::key_by_key()), in_time: AtomicUsize::new(1) };
    let db = Database::open_with(late, options).unwrap();
    script(&db, "create table n (id int primary key, n int); insert into n values (1, 0), (2, 0), (3, 0)");
    let began = Instant::now();
    let error = db.execute("update n set n = n + 1 where id in (1, 2, 3)", &[]).unwrap_err();
    let says = error.to_string();
    assert!(matches!(error, Error::Conflict(_)) && says.contains("1 of 3 rows were written"), "{error:?}");
    assert!(says.contains("not safe to repeat") && !says.contains("try again later"), "{says}");
    assert!(began.elapsed() >= conflict_timeout, "{:?}", began.elapsed());
    assert_eq!(ask(&db, "select n from n where id in (1, 2, 3) order by id", &[]), ["1", "0", "0"]);
}

/// A row that others changed is read again, and the rows before it are not written a second time.
#[test]
fn many_writers_of_several_rows_all_get_their_turn() {
    everywhere(|kind| {
        if kind == Kind::Postgres {
            return; // It waits by itself: `stores` and `outage` have it.
        }
        let db = Database::open(kind.fresh()).unwrap();
        script(
            &db,
            "create table n (id int primary key, n int); insert into n values (1, 0), (2, 0), (3, 0)",
        );
        let (writers, times) = (4_i32, 50);
        std::thread::scope(|scope| {
            for _ in 0..writers {
                let db = &db;
                scope.spawn(move || {
                    let add = "update n set n = n + 1 where id in (1, 2, 3) returning id, n";
                    let add = db.prepare(add).unwrap();
                    for _ in 0..times {
                        let written = rows(&add.call(&[]).unwrap().batch);
                        let ids: BTreeSet<&str> =
                            written.iter().filter_map(|row| row.split('|').next()).collect();
                        assert_eq!((written.len(), ids.len()), (3, 3), "{written:?}");
                    }
                });
            }
        });
        let n = (writers * times).to_string();
        let expected = [n.clone(), n.clone(), n];
        assert_eq!(ask(&db, "select n from n where id in (1, 2, 3) order by id", &[]), expected, "{kind:?}");
    });
}

/// What is wrong with a later row is said together with what was written before it.
#[test]
fn an_error_between_two_rows_says_how_many_were_written() {
    let db = Database::open(MemoryStore::key_by_key()).unwrap();
    script(&db, "create table n (id int primary key, n int unique); insert into n values (9, 2)");
    let error = db.execute("insert into n values (1, 1), (2, 2), (3, 3)", &[]).unwrap_err().to_string();
    assert!(error.contains("n = 2") && error.contains("1 of 3 rows were written"), "{error}");
    assert_eq!(ask(&db, "select id from n where id in (1, 2, 3)", &[]), ["1"]);
}
