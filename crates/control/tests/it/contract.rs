//! What every store does.

use crate::places::{append, apply, everywhere, length, pop, publish, push, put, version};
use std::time::Duration;
use whimbrel_control::{
    Condition, ControlStore, Effect, Error, Found, Log, MemoryStore, Outcome, Queue, Read, Records, Row,
    Table, Transaction, TransactionId,
};

fn row(store: &dyn ControlStore, table: &str, row: &str) -> Option<Row> {
    store.read(&Read::Row { table: table.into(), row: row.into() }).unwrap().row().unwrap()
}

fn records(store: &dyn ControlStore, from: u64, limit: u64) -> Records {
    store.read(&Read::Records { log: "log".into(), from, limit }).unwrap().records().unwrap()
}

#[test]
fn rows_have_versions() {
    everywhere(|place| {
        let store = place.store.as_ref();
        assert_eq!(row(store, "t", "a"), None);
        let first = apply(store, vec![put("t", "a", b"1"), put("t", "b", b"")]);
        assert_eq!(row(store, "t", "a"), Some(Row { version: first, value: b"1".to_vec() }));
        let when = |version| Condition::Version { table: "t".into(), row: "a".into(), version };
        let absent = |row: &str| Condition::Absent { table: "t".into(), row: row.into() };
        let change =
            |condition| store.commit(&Transaction::new().when(condition).then(put("t", "a", b"2"))).unwrap();
        assert_eq!(change(absent("a")), Outcome::Conflict { condition: 0 });
        assert_eq!(change(when(first + 1)), Outcome::Conflict { condition: 0 });
        let second = version(change(when(first)));
        assert!(second > first);
        assert_eq!(change(when(first)), Outcome::Conflict { condition: 0 });
        let rows = store.read(&Read::Rows { table: "t".into() }).unwrap();
        let expected = [
            ("a".to_string(), Row { version: second, value: b"2".to_vec() }),
            ("b".to_string(), Row { version: first, value: vec![] }),
        ];
        assert_eq!(rows, Found::Rows(expected.to_vec()));
        // A row that comes again does not come with an old version.
        apply(store, vec![Effect::Delete { table: "t".into(), row: "a".into() }]);
        assert_eq!(row(store, "t", "a"), None);
        assert!(change(absent("a")).is_committed());
        assert_eq!(change(when(second)), Outcome::Conflict { condition: 0 });
        apply(store, vec![Effect::RemoveTable { table: "t".into() }]);
        assert_eq!(store.read(&Read::Rows { table: "t".into() }).unwrap(), Found::Rows(vec![]));
        assert!(change(absent("b")).is_committed());
    });
}

#[test]
fn logs_grow_at_their_end() {
    everywhere(|place| {
        let store = place.store.as_ref();
        let append_at = |at, record: &[u8]| {
            store.commit(&Transaction::new().when(length("log", at)).then(append("log", record))).unwrap()
        };
        assert_eq!(append_at(1, b"x"), Outcome::Conflict { condition: 0 });
        for at in 0..5 {
            assert!(append_at(at, &[u8::try_from(at).unwrap()]).is_committed());
        }
        assert_eq!(append_at(4, b"x"), Outcome::Conflict { condition: 0 });
        let of = |first, records: &[&[u8]]| Records {
            length: 5,
            first,
            records: records.iter().map(|record| record.to_vec()).collect(),
        };
        assert_eq!(records(store, 1, 2), of(1, &[&[1], &[2]]));
        assert_eq!(records(store, 4, u64::MAX), of(4, &[&[4]]));
        assert_eq!(records(store, 9, 1), of(9, &[]));
        assert_eq!(records(store, u64::MAX, u64::MAX), of(u64::MAX, &[]));
        let trim = |before| apply(store, vec![Effect::Trim { log: "log".into(), before }]);
        trim(3);
        assert_eq!(records(store, 0, 1), of(3, &[&[3]]));
        // Trimming never goes back, nor beyond the end.
        trim(1);
        assert_eq!(records(store, 0, 9), of(3, &[&[3], &[4]]));
        trim(u64::MAX);
        assert_eq!(records(store, 0, 9), of(5, &[]));
        assert_eq!(append_at(0, b"x"), Outcome::Conflict { condition: 0 });
        assert!(append_at(5, b"x").is_committed());
        apply(store, vec![Effect::RemoveLog { log: "log".into() }]);
        assert_eq!(records(store, 0, 9), Records { length: 0, first: 0, records: vec![] });
        assert!(append_at(0, b"x").is_committed());
    });
}

#[test]
fn queues_are_first_in_first_out() {
    everywhere(|place| {
        let queue: Queue<String> = Queue::new(place.store.clone(), "q");
        assert_eq!(queue.pop().unwrap(), None);
        assert_eq!(queue.pop_within(Duration::from_millis(20)).unwrap(), None);
        for element in ["a", "b", "c"] {
            queue.push(&element.to_string()).unwrap();
        }
        assert_eq!(queue.waiting().unwrap(), 3);
        assert_eq!(queue.pop().unwrap().as_deref(), Some("a"));
        assert_eq!(queue.pop_within(Duration::ZERO).unwrap().as_deref(), Some("b"));
        apply(place.store.as_ref(), vec![Effect::RemoveQueue { queue: "q".into() }]);
        assert_eq!(queue.pop().unwrap(), None);
    });
}

#[test]
fn who_waits_for_an_element_gets_it() {
    everywhere(|place| {
        let queue: Queue<u32> = Queue::new(place.store.clone(), "q");
        std::thread::scope(|threads| {
            let takers: Vec<_> = (0..3)
                .map(|_| threads.spawn(|| queue.pop_within(Duration::from_secs(60)).unwrap().unwrap()))
                .collect();
            for element in 0..3 {
                std::thread::sleep(Duration::from_millis(20));
                queue.push(&element).unwrap();
            }
            let mut taken: Vec<u32> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
            taken.sort_unstable();
            assert_eq!(taken, [0, 1, 2]);
        });
    });
}

#[test]
fn a_transaction_is_applied_whole_or_not_at_all() {
    everywhere(|place| {
        let store = place.store.as_ref();
        apply(store, vec![put("t", "a", b"1"), push("q", b"first"), push("q", b"second")]);
        let change = Transaction::new()
            .then(put("t", "b", b"2"))
            .then(append("log", b"r"))
            .then(pop("q"))
            .then(pop("q"))
            .then(pop("q"))
            .then(Effect::Delete { table: "t".into(), row: "a".into() });
        let blocked = Transaction { id: TransactionId::random(), ..change.clone() };
        let blocked = blocked
            .when(length("log", 0))
            .when(length("log", 7))
            .when(Condition::Absent { table: "t".into(), row: "a".into() });
        assert_eq!(store.commit(&blocked).unwrap(), Outcome::Conflict { condition: 1 });
        assert_eq!(records(store, 0, 9).length, 0);
        assert!(row(store, "t", "b").is_none() && row(store, "t", "a").is_some());
        let Outcome::Committed { version, popped } = store.commit(&change).unwrap() else { panic!() };
        assert_eq!(popped, [Some(b"first".to_vec()), Some(b"second".to_vec()), None]);
        assert_eq!(row(store, "t", "b"), Some(Row { version, value: b"2".to_vec() }));
        assert_eq!((records(store, 0, 9).length, row(store, "t", "a")), (1, None));
    });
}

#[test]
fn a_group_is_applied_in_order_with_an_outcome_each() {
    everywhere(|place| {
        let store = place.store.as_ref();
        let append_at = |at| Transaction::new().when(length("log", at)).then(append("log", b"r"));
        let group: Vec<_> = [0, 1, 5, 2].map(append_at).into();
        let outcomes = store.commit_all(&group).unwrap();
        let committed: Vec<_> = outcomes.iter().map(Outcome::is_committed).collect();
        assert_eq!(committed, [true, true, false, true]);
        assert_eq!(records(store, 0, 9).length, 3);
        assert_eq!(store.commit_all(&[]).unwrap(), []);
        assert_eq!(store.read_all(&[]).unwrap(), []);
        // One that is no transaction: none of the group is applied.
        let wrong = Transaction::new().then(append("", b"r"));
        assert!(matches!(store.commit_all(&[append_at(3), wrong]), Err(Error::Invalid(_))));
        assert_eq!(records(store, 0, 9).length, 3);
    });
}

#[test]
fn the_same_transaction_is_applied_once() {
    everywhere(|place| {
        let store = place.store.as_ref();
        apply(store, vec![push("q", b"first"), push("q", b"second")]);
        let take = Transaction::new().then(pop("q")).then(append("log", b"taken"));
        let first = store.commit(&take).unwrap();
        assert_eq!(store.commit_all(&[take.clone(), take]).unwrap(), [first.clone(), first]);
        assert_eq!(records(store, 0, 9).length, 1);
        // Also one that met a conflict: it may not be applied after its sender was told so.
        let early = Transaction::new().when(length("log", 2)).then(append("log", b"early"));
        assert_eq!(store.commit(&early).unwrap(), Outcome::Conflict { condition: 0 });
        apply(store, vec![append("log", b"other")]);
        assert_eq!(store.commit(&early).unwrap(), Outcome::Conflict { condition: 0 });
        // And it outlives what is removed, so that no straggler writes into an empty store.
        let late = Transaction::new().then(append("log", b"late"));
        let before = store.commit(&late).unwrap();
        store.remove_all().unwrap();
        assert_eq!(store.commit(&late).unwrap(), before);
        assert_eq!(records(store, 0, 9).length, 0);
        // What does the same under another id does it again.
        let other = Transaction { id: TransactionId::random(), ..late };
        assert!(store.commit(&other).unwrap().is_committed());
        assert_eq!(records(store, 0, 9).length, 1);
    });
}

#[test]
fn versions_go_on_after_all_is_removed() {
    everywhere(|place| {
        let store = place.store.as_ref();
        let before = apply(store, vec![put("t", "a", b"1"), append("log", b"r"), push("q", b"e")]);
        store.remove_all().unwrap();
        let reads = [
            Read::Rows { table: "t".into() },
            Read::Records { log: "log".into(), from: 0, limit: 9 },
            Read::Waiting { queue: "q".into() },
        ];
        let nothing = [
            Found::Rows(vec![]),
            Found::Records(Records { length: 0, first: 0, records: vec![] }),
            Found::Waiting(0),
        ];
        assert_eq!(store.read_all(&reads).unwrap(), nothing);
        assert!(apply(store, vec![]) > before);
    });
}

#[test]
fn bytes_and_names_are_kept_as_they_are() {
    everywhere(|place| {
        let store = place.store.as_ref();
        let all: Vec<u8> = (0..=255).collect();
        let large = all.repeat(16 << 10);
        let odd = "a {b}:c\n\u{e9}\0 1";
        apply(store, vec![put(odd, odd, &all), append(odd, &large), push(odd, &large), push(odd, &[])]);
        assert_eq!(row(store, odd, odd).unwrap().value, all);
        let read = store.read(&Read::Records { log: odd.into(), from: 0, limit: 1 }).unwrap();
        assert!(read.records().unwrap().records == [large.clone()]);
        let take = Transaction::new().then(pop(odd)).then(pop(odd));
        let popped = |outcome| match outcome {
            Outcome::Committed { popped, .. } => popped,
            Outcome::Conflict { .. } => panic!(),
        };
        assert!(popped(store.commit(&take).unwrap()) == [Some(large.clone()), Some(vec![])]);
        assert!(popped(store.commit(&take).unwrap()) == [Some(large), Some(vec![])]);
    });
}

#[test]
fn what_is_wrong_is_refused() {
    everywhere(|place| {
        let store = place.store.as_ref();
        let grant = |ttl| crate::places::grant("l", "h", ttl);
        let wrong = [
            vec![put("", "a", b"")],
            vec![put("t", &"a".repeat(1025), b"")],
            vec![publish("", b"")],
            vec![grant(Duration::ZERO)],
            vec![grant(Duration::from_micros(1500))],
            vec![grant(Duration::MAX)],
            vec![grant(Duration::from_secs(1)), grant(Duration::from_secs(2))],
        ];
        for effects in wrong {
            let transaction = effects.into_iter().fold(Transaction::new(), Transaction::then);
            assert!(matches!(store.commit(&transaction), Err(Error::Invalid(_))), "{transaction:?}");
        }
        assert!(matches!(store.read(&Read::Rows { table: String::new() }), Err(Error::Invalid(_))));
        assert!(matches!(store.subscribe(&[]), Err(Error::Invalid(_))));
        assert!(matches!(store.wait_for_element("", Duration::ZERO), Err(Error::Invalid(_))));
    });
}

#[test]
fn typed_values() {
    everywhere(|place| {
        let table: Table<(u32, String)> = Table::new(place.store.clone(), "t");
        let updated = table.update("a", |old| old.unwrap_or((1, "x".to_string()))).unwrap();
        assert_eq!(table.get("a").unwrap(), Some(updated.clone()));
        assert_eq!(table.rows().unwrap(), [("a".to_string(), updated.clone())]);
        let stale = Transaction::new().when(table.unchanged("a", None)).then(table.delete("a"));
        assert!(!place.store.commit(&stale).unwrap().is_committed());
        let fresh =
            Transaction::new().when(table.unchanged("a", Some(updated.version))).then(table.delete("a"));
        assert!(place.store.commit(&fresh).unwrap().is_committed());

        let log: Log<u64> = Log::new(place.store.clone(), "log");
        assert!(log.append_at(0, &300).unwrap() && !log.append_at(0, &301).unwrap());
        assert_eq!((log.length().unwrap(), log.read(0, 9).unwrap().records), (1, vec![300]));
        let other: Log<String> = Log::new(place.store.clone(), "log");
        let error = other.read(0, 9).unwrap_err();
        assert!(matches!(&error, Error::Damaged(says) if says.contains("`log` at position 0")), "{error:?}");
    });
}

#[test]
fn outcomes_are_forgotten_after_a_while() {
    let clock = whimbrel_control::ManualClock::default();
    let store = MemoryStore::new(clock.clone());
    let transaction = Transaction::new().then(append("log", b"r"));
    let first = store.commit(&transaction).unwrap();
    clock.advance(whimbrel_control::REMEMBERED - Duration::from_millis(1));
    assert_eq!(store.commit(&transaction).unwrap(), first);
    clock.advance(Duration::from_millis(1));
    assert_ne!(store.commit(&transaction).unwrap(), first);
    assert_eq!(records(&store, 0, 9).length, 2);
}
