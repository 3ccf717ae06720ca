//! Several processes write at once: limits and unique keys hold, indexes say what the table says, and no
//! write that was acknowledged is lost.
//!
//! A process is this very program, told to run the one test `a_writer` by a variable of its environment.

use crate::stores::{Kind, whole};
use crate::support::{ask, script};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use whimbrel_bounded::{Argument, Database, Error, Options, Repaired};

const STORE: &str = "WHIMBREL_TEST_STORE";
const WRITER: &str = "WHIMBREL_TEST_WRITER";
const WRITERS: u32 = 4;
const OWNERS: u32 = 4;
const LIMIT: usize = 12;

const SCHEMA: &str = "
    create table owners (id int primary key, wins int);
    create table seats (owner int not null references owners, writer int, no int, mail varchar(10),
        primary key (owner, writer, no), unique (mail), cardinality limit 12 (owner));
    create index owners_by_wins on owners (wins);
    insert into owners values (0, 0), (1, 0), (2, 0), (3, 0)";

/// What a writer did, and heard that it was done.
#[derive(Debug, Default)]
struct Heard {
    seats: BTreeSet<String>,
    gone: BTreeSet<String>,
    wins: BTreeMap<u32, i64>,
    /// Writes of which it does not know: the store was busy.
    unknown: u32,
}

#[test]
fn a_writer() {
    let (Ok(url), Ok(writer)) = (std::env::var(STORE), std::env::var(WRITER)) else { return };
    let writer: u32 = writer.parse().unwrap();
    let db = Database::open_url(&url, Options::default()).unwrap();
    let insert = db.prepare("insert into seats values (?, ?, ?, ?)").unwrap();
    let delete = db.prepare("delete from seats where owner = ? and writer = ? and no = ?").unwrap();
    let win = db.prepare("update owners set wins = wins + 1 where id = ?").unwrap();
    let say = |what: &str, outcome: Result<_, Error>| match outcome {
        Ok(_) => println!("\nheard {what}"),
        Err(Error::Data(_) | Error::Conflict(_)) => {}
        Err(Error::Unavailable(_)) => println!("\nheard unknown"),
        Err(other) => panic!("{what}: {other}"),
    };
    for no in 0..40_u32 {
        let owner = (no * 7 + writer) % OWNERS;
        // Everybody wants the same few addresses.
        let mail = format!("m{}", (no * 5 + writer * 3) % 60);
        let number = |n: u32| Argument::from(n as i32);
        let seat = format!("{owner}|{writer}|{no}|{mail}");
        let seated = insert.call(&[number(owner), number(writer), number(no), mail.into()]);
        let is_seated = seated.is_ok();
        say(&format!("seat {seat}"), seated);
        if is_seated && no % 3 == 0 {
            say(&format!("gone {seat}"), delete.call(&[number(owner), number(writer), number(no)]));
        }
        say(&format!("win {owner}"), win.call(&[number(owner)]));
    }
}

fn start(url: &str, writer: u32) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::a_writer", "--nocapture"])
        .env(STORE, url)
        .env(WRITER, writer.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn listen(writers: Vec<std::process::Child>) -> Heard {
    let mut heard = Heard::default();
    for writer in writers {
        let output = writer.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        for line in text.lines().filter_map(|line| line.strip_prefix("heard ")) {
            match line.split_once(' ') {
                Some(("seat", seat)) => drop(heard.seats.insert(seat.to_string())),
                Some(("gone", seat)) => drop(heard.gone.insert(seat.to_string())),
                Some(("win", owner)) => *heard.wins.entry(owner.parse().unwrap()).or_default() += 1,
                _ => heard.unknown += 1,
            }
        }
    }
    heard
}

fn write_together(kind: Kind) {
    let url = kind.fresh_url();
    let db = Database::open_url(&url, Options::default()).unwrap();
    script(&db, SCHEMA);
    let heard = listen((0..WRITERS).map(|writer| start(&url, writer)).collect());
    let repaired = db.repair(Duration::ZERO).unwrap();
    if kind == Kind::Postgres {
        assert_eq!(repaired, Repaired::default());
        assert_eq!(heard.unknown, 0);
    }
    // What was acknowledged is there, and nothing else, but for what nobody heard of.
    let table = ask(&db, "select owner, writer, no, mail from seats allow unbounded 'test'", &[]);
    let there: BTreeSet<String> = table.iter().cloned().collect();
    let expected: BTreeSet<String> = heard.seats.difference(&heard.gone).cloned().collect();
    let differ = there.symmetric_difference(&expected).count();
    assert!(differ <= heard.unknown as usize, "{differ} of {} differ: {heard:?}\n{there:?}", there.len());
    assert!(heard.seats.len() >= LIMIT * OWNERS as usize / 2, "{heard:?}");
    // The limit and the unique key.
    let mut by_owner = BTreeSet::new();
    for owner in 0..OWNERS as i32 {
        let seats = ask(&db, "select owner, writer, no, mail from seats where owner = ?", &[owner.into()]);
        assert!(seats.len() <= LIMIT, "{seats:?}");
        by_owner.extend(seats);
    }
    assert_eq!(by_owner, there);
    let mails: BTreeSet<&str> = there.iter().filter_map(|seat| seat.rsplit('|').next()).collect();
    assert_eq!(mails.len(), there.len(), "{there:?}");
    let mut by_mail = BTreeSet::new();
    for mail in (0..60).map(|mail| format!("m{mail}")) {
        by_mail.extend(ask(&db, "select owner, writer, no, mail from seats where mail = ?", &[mail.into()]));
    }
    assert_eq!(by_mail, there);
    // No update was lost, and the index has every owner once.
    for (owner, wins) in &heard.wins {
        let known = ask(&db, "select wins from owners where id = ?", &[(*owner as i32).into()]);
        let known: i64 = known[0].parse().unwrap();
        assert!(
            (*wins..=*wins + i64::from(heard.unknown)).contains(&known),
            "{wins} heard, {known} there: {heard:?}"
        );
        let by_wins =
            ask(&db, "select id from owners where wins = ? order by id limit 9", &[(known as i32).into()]);
        assert!(by_wins.contains(&owner.to_string()), "{by_wins:?}");
    }
    assert_eq!(db.repair(Duration::ZERO).unwrap(), Repaired::default());
}

#[test]
fn on_postgres() {
    if Kind::Postgres.is_there() {
        write_together(Kind::Postgres);
    }
}

#[test]
fn on_redis() {
    if Kind::Redis.is_there() {
        let _whole = whole();
        write_together(Kind::Redis);
    }
}

/// A process that is stopped and goes on hears of all its writes: what it waited for comes in any case.
#[test]
fn on_redis_with_signals() {
    if !Kind::Redis.is_there() {
        return;
    }
    let _whole = whole();
    let url = Kind::Redis.fresh_url();
    let db = Database::open_url(&url, Options::default()).unwrap();
    script(&db, SCHEMA);
    let writer = start(&url, 0);
    let (process, is_done) = (writer.id().to_string(), AtomicBool::new(false));
    let heard = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                for signal in ["-STOP", "-CONT"] {
                    // The writer may have ended.
                    let _ = Command::new("kill").args([signal, &process]).stderr(Stdio::null()).status();
                }
            }
        });
        let heard = listen(vec![writer]);
        is_done.store(true, Ordering::SeqCst);
        heard
    });
    assert!(heard.unknown == 0 && !heard.seats.is_empty(), "{heard:?}");
}
