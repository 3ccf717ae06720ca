//! Random transactions against a model that is as plain as can be.
//!
//! The model keeps everything in one list of facts and looks through all of it each time.

use crate::places::{Place, fresh_namespace, redis};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::time::Duration;
use whimbrel_control::{
    Condition, ControlStore, Effect, Found, Holding, Outcome, REMEMBERED, Read, Records, RedisOptions,
    RedisStore, Row, Token, Transaction,
};

const NAMES: [&str; 2] = ["x", "y"];

/// What is done to a store.
#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<(Vec<Condition>, Vec<Effect>)>),
    /// Commits one of the transactions of before once more.
    Again(usize),
    Pass(Duration),
    RemoveAll,
}

#[derive(Default)]
struct Model {
    now: Duration,
    version: u64,
    rows: Vec<(String, String, Row)>,
    /// The log, the position, and the record if it was not trimmed.
    records: Vec<(String, u64, Option<Vec<u8>>)>,
    elements: Vec<(String, Vec<u8>)>,
    /// The lease, the holder, the token and when it lapses.
    leases: Vec<(String, String, u64, Duration)>,
    sent: Vec<(Transaction, Outcome, Duration)>,
}

impl Model {
    fn row(&self, table: &str, row: &str) -> Option<&Row> {
        self.rows.iter().find(|(t, r, _)| t == table && r == row).map(|(_, _, row)| row)
    }

    fn length(&self, log: &str) -> u64 {
        self.records.iter().filter(|(name, ..)| name == log).count() as u64
    }

    fn holding(&self, lease: &str) -> Option<Holding> {
        let (_, holder, token, lapses) =
            self.leases.iter().find(|(name, _, _, lapses)| name == lease && *lapses > self.now)?;
        Some(Holding { holder: holder.clone(), token: Token(*token), remaining: *lapses - self.now })
    }

    fn holds(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Version { table, row, version } => {
                self.row(table, row).is_some_and(|row| row.version == *version)
            }
            Condition::Absent { table, row } => self.row(table, row).is_none(),
            Condition::Length { log, length } => self.length(log) == *length,
            Condition::Held { lease, token } => self.holding(lease).is_some_and(|held| held.token == *token),
            Condition::Free { lease } => self.holding(lease).is_none(),
        }
    }

    fn commit(&mut self, transaction: &Transaction) -> Outcome {
        let known = |(sent, _, at): &&(Transaction, Outcome, Duration)| {
            sent.id == transaction.id && self.now - *at < REMEMBERED
        };
        if let Some((_, outcome, _)) = self.sent.iter().rev().find(known) {
            return outcome.clone();
        }
        let outcome = match transaction.conditions.iter().position(|condition| !self.holds(condition)) {
            Some(condition) => Outcome::Conflict { condition },
            None => {
                self.version += 1;
                let popped = transaction.effects.iter().filter_map(|effect| self.apply(effect)).collect();
                Outcome::Committed { version: self.version, popped }
            }
        };
        self.sent.push((transaction.clone(), outcome.clone(), self.now));
        outcome
    }

    /// Gives what was popped.
    fn apply(&mut self, effect: &Effect) -> Option<Option<Vec<u8>>> {
        match effect.clone() {
            Effect::Put { table, row, value } => {
                self.rows.retain(|(t, r, _)| *t != table || *r != row);
                self.rows.push((table, row, Row { version: self.version, value }));
            }
            Effect::Delete { table, row } => self.rows.retain(|(t, r, _)| *t != table || *r != row),
            Effect::RemoveTable { table } => self.rows.retain(|(t, ..)| *t != table),
            Effect::Append { log, record } => {
                let position = self.length(&log);
                self.records.push((log, position, Some(record)));
            }
            Effect::Trim { log, before } => {
                for (name, position, record) in &mut self.records {
                    if *name == log && *position < before {
                        *record = None;
                    }
                }
            }
            Effect::RemoveLog { log } => self.records.retain(|(name, ..)| *name != log),
            Effect::Push { queue, element } => self.elements.push((queue, element)),
            Effect::Pop { queue } => {
                let first = self.elements.iter().position(|(name, _)| *name == queue);
                return Some(first.map(|at| self.elements.remove(at).1));
            }
            Effect::RemoveQueue { queue } => self.elements.retain(|(name, _)| *name != queue),
            Effect::Publish { .. } => {}
            Effect::Grant { lease, holder, ttl } => {
                self.leases.retain(|(name, ..)| *name != lease);
                self.leases.push((lease, holder, self.version, self.now + ttl));
            }
            Effect::Renew { lease, ttl } => {
                for (name, _, _, lapses) in &mut self.leases {
                    if *name == lease && *lapses > self.now {
                        *lapses = self.now + ttl;
                    }
                }
            }
            Effect::Release { lease } => self.leases.retain(|(name, ..)| *name != lease),
        }
        None
    }

    fn read(&self, read: &Read) -> Found {
        match read {
            Read::Row { table, row } => Found::Row(self.row(table, row).cloned()),
            Read::Rows { table } => {
                let rows = self.rows.iter().filter(|(name, ..)| name == table);
                let mut rows: Vec<_> = rows.map(|(_, key, row)| (key.clone(), row.clone())).collect();
                rows.sort_by(|(one, _), (other, _)| one.cmp(other));
                Found::Rows(rows)
            }
            Read::Records { log, from, limit } => {
                let kept = self.records.iter().filter(|(name, _, record)| name == log && record.is_some());
                let kept: Vec<_> = kept.filter(|(_, position, _)| position >= from).collect();
                let all_trimmed = self.length(log).max(*from);
                let first = kept.first().map_or(all_trimmed, |(_, position, _)| *position);
                let records = kept.iter().take(usize::try_from(*limit).unwrap());
                let records = records.filter_map(|(_, _, record)| record.clone()).collect();
                Found::Records(Records { length: self.length(log), first, records })
            }
            Read::Waiting { queue } => {
                Found::Waiting(self.elements.iter().filter(|(name, _)| name == queue).count() as u64)
            }
            Read::Holding { lease } => Found::Holding(self.holding(lease)),
        }
    }
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_string)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..4)
}

/// Small numbers, for those of a new store are small, too.
fn number() -> impl Strategy<Value = u64> {
    0..12_u64
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        2 => (name(), name(), number())
            .prop_map(|(table, row, version)| Condition::Version { table, row, version }),
        2 => (name(), name()).prop_map(|(table, row)| Condition::Absent { table, row }),
        2 => (name(), 0..4_u64).prop_map(|(log, length)| Condition::Length { log, length }),
        2 => (name(), number()).prop_map(|(lease, token)| Condition::Held { lease, token: Token(token) }),
        2 => name().prop_map(|lease| Condition::Free { lease }),
    ]
}

fn effect(ttl: Duration) -> impl Strategy<Value = Effect> {
    prop_oneof![
        4 => (name(), name(), bytes()).prop_map(|(table, row, value)| Effect::Put { table, row, value }),
        1 => (name(), name()).prop_map(|(table, row)| Effect::Delete { table, row }),
        1 => name().prop_map(|table| Effect::RemoveTable { table }),
        4 => (name(), bytes()).prop_map(|(log, record)| Effect::Append { log, record }),
        1 => (name(), 0..5_u64).prop_map(|(log, before)| Effect::Trim { log, before }),
        1 => name().prop_map(|log| Effect::RemoveLog { log }),
        3 => (name(), bytes()).prop_map(|(queue, element)| Effect::Push { queue, element }),
        2 => name().prop_map(|queue| Effect::Pop { queue }),
        1 => name().prop_map(|queue| Effect::RemoveQueue { queue }),
        1 => (name(), bytes()).prop_map(|(topic, payload)| Effect::Publish { topic, payload }),
        2 => (name(), name(), 1..4_u32)
            .prop_map(move |(lease, holder, n)| Effect::Grant { lease, holder, ttl: ttl * n }),
        1 => (name(), 1..4_u32).prop_map(move |(lease, n)| Effect::Renew { lease, ttl: ttl * n }),
        1 => name().prop_map(|lease| Effect::Release { lease }),
    ]
}

/// Steps of a run; time passes only where it can be made to.
fn steps(ttl: Duration, time_passes: bool) -> impl Strategy<Value = Vec<Step>> {
    let conditions = prop::collection::vec(condition(), 0..3);
    let transaction = (conditions, prop::collection::vec(effect(ttl), 0..4));
    let pass = move |time: Duration| if time_passes { Step::Pass(time) } else { Step::Commit(vec![]) };
    let step = prop_oneof![
        12 => prop::collection::vec(transaction, 0..4).prop_map(Step::Commit),
        3 => any::<prop::sample::Index>().prop_map(|index| Step::Again(index.index(1000))),
        3 => (0..3_u32).prop_map(move |n| pass(ttl * n)),
        1 => Just(pass(REMEMBERED)),
        1 => Just(Step::RemoveAll),
    ];
    prop::collection::vec(step, 1..24)
}

/// All that can be read.
fn everything() -> Vec<Read> {
    let mut reads = Vec::new();
    for name in NAMES.map(str::to_string) {
        let all = |from, limit| Read::Records { log: name.clone(), from, limit };
        reads.extend([all(0, 100), all(2, 1), Read::Rows { table: name.clone() }]);
        reads.extend(NAMES.map(|row| Read::Row { table: name.clone(), row: row.to_string() }));
        reads.extend([Read::Waiting { queue: name.clone() }, Read::Holding { lease: name }]);
    }
    reads
}

/// Without how long a lease is still held, where time passes by itself.
fn timeless(mut found: Vec<Found>) -> Vec<Found> {
    for found in &mut found {
        if let Found::Holding(Some(holding)) = found {
            holding.remaining = Duration::ZERO;
        }
    }
    found
}

/// A lease that is granted twice makes no transaction.
fn granted_once(effects: Vec<Effect>) -> Vec<Effect> {
    let mut granted = Vec::new();
    let once = |effect: &Effect| match effect {
        Effect::Grant { lease, .. } if granted.contains(lease) => false,
        Effect::Grant { lease, .. } => {
            granted.push(lease.clone());
            true
        }
        _ => true,
    };
    effects.into_iter().filter(once).collect()
}

/// Runs steps on a store and on the model.
fn compare(store: &dyn ControlStore, pass: impl Fn(Duration), exact: bool, steps: Vec<Step>) {
    let mut model = Model::default();
    for step in steps {
        let group: Vec<Transaction> = match step {
            Step::Pass(time) => {
                pass(time);
                model.now += time;
                vec![]
            }
            Step::RemoveAll => {
                store.remove_all().unwrap();
                let (now, version, sent) = (model.now, model.version, model.sent);
                model = Model { now, version, sent, ..Model::default() };
                vec![]
            }
            Step::Again(_) if model.sent.is_empty() => vec![],
            Step::Again(at) => vec![model.sent[at % model.sent.len()].0.clone()],
            Step::Commit(group) => group
                .into_iter()
                .map(|(conditions, effects)| Transaction {
                    conditions,
                    effects: granted_once(effects),
                    ..Transaction::new()
                })
                .collect(),
        };
        let expected: Vec<Outcome> = group.iter().map(|transaction| model.commit(transaction)).collect();
        assert_eq!(store.commit_all(&group).unwrap(), expected);
        let reads = everything();
        let found = store.read_all(&reads).unwrap();
        let expected: Vec<_> = reads.iter().map(|read| model.read(read)).collect();
        match exact {
            true => assert_eq!(found, expected),
            false => assert_eq!(timeless(found), timeless(expected)),
        }
    }
}

#[test]
fn memory_does_what_the_model_does() {
    let steps = steps(Duration::from_secs(1), true);
    TestRunner::new(Config::with_cases(2000))
        .run(&steps, |steps| {
            let place = Place::memory();
            compare(place.store.as_ref(), |time| place.pass(time), true, steps);
            Ok(())
        })
        .unwrap();
}

#[test]
fn redis_does_what_the_model_does() {
    let Some((_server, url)) = redis() else { return };
    let steps = steps(Duration::from_secs(3600), false);
    TestRunner::new(Config::with_cases(300))
        .run(&steps, |steps| {
            let store = RedisStore::open(&url, &fresh_namespace(), RedisOptions::default()).unwrap();
            compare(&store, |_| (), false, steps);
            store.remove_all().unwrap();
            Ok(())
        })
        .unwrap();
}
