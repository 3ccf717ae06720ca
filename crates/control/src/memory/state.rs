//! What a store in memory holds, and what a transaction does to it.
//!
//! Invariant: nothing is empty. A table without rows, a queue without elements and a log of length 0 are not
//! kept.

use crate::read::{Found, Holding, Read, Records, Row};
use crate::relay::Message;
use crate::transaction::{Condition, Effect, Outcome, REMEMBERED, Token, Transaction, TransactionId};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// All that a store holds.
#[derive(Default)]
pub struct State {
    /// The version of the last transaction.
    version: u64,
    tables: HashMap<String, BTreeMap<String, Row>>,
    logs: HashMap<String, Records<Vec<u8>>>,
    queues: HashMap<String, VecDeque<Vec<u8>>>,
    leases: HashMap<String, Grant>,
    outcomes: Outcomes,
}

/// A lease, held or lapsed.
struct Grant {
    holder: String,
    token: Token,
    ttl: Duration,
    expires: Duration,
}

/// The outcomes that are remembered.
#[derive(Default)]
struct Outcomes {
    of: HashMap<TransactionId, Outcome>,
    /// When each is forgotten.
    until: VecDeque<(Duration, TransactionId)>,
}

impl State {
    /// Applies a transaction, or says what it met; adds what it published.
    pub fn commit(
        &mut self,
        transaction: &Transaction,
        now: Duration,
        published: &mut Vec<Message>,
    ) -> Outcome {
        self.outcomes.forget(now);
        if let Some(outcome) = self.outcomes.of.get(&transaction.id) {
            return outcome.clone();
        }
        let conflict = transaction.conditions.iter().position(|condition| !self.holds(condition, now));
        let outcome = match conflict {
            Some(condition) => Outcome::Conflict { condition },
            None => {
                self.version += 1;
                let mut popped = Vec::new();
                for effect in &transaction.effects {
                    self.apply(effect, now, &mut popped, published);
                }
                Outcome::Committed { version: self.version, popped }
            }
        };
        self.outcomes.remember(transaction.id, outcome.clone(), now);
        outcome
    }

    fn holds(&mut self, condition: &Condition, now: Duration) -> bool {
        match condition {
            Condition::Version { table, row, version } => {
                self.row(table, row).is_some_and(|row| row.version == *version)
            }
            Condition::Absent { table, row } => self.row(table, row).is_none(),
            Condition::Length { log, length } => {
                self.logs.get(log).map_or(0, |records| records.length) == *length
            }
            Condition::Held { lease, token } => {
                self.held(lease, now).is_some_and(|grant| grant.token == *token)
            }
            Condition::Free { lease } => self.held(lease, now).is_none(),
        }
    }

    fn apply(
        &mut self,
        effect: &Effect,
        now: Duration,
        popped: &mut Vec<Option<Vec<u8>>>,
        published: &mut Vec<Message>,
    ) {
        match effect {
            Effect::Put { table, row, value } => {
                let written = Row { version: self.version, value: value.clone() };
                self.tables.entry(table.clone()).or_default().insert(row.clone(), written);
            }
            Effect::Delete { table, row } => {
                if let Some(rows) = self.tables.get_mut(table) {
                    rows.remove(row);
                    if rows.is_empty() {
                        self.tables.remove(table);
                    }
                }
            }
            Effect::RemoveTable { table } => drop(self.tables.remove(table)),
            Effect::Append { log, record } => {
                let empty = || Records { length: 0, first: 0, records: vec![] };
                let log = self.logs.entry(log.clone()).or_insert_with(empty);
                log.records.push(record.clone());
                log.length += 1;
            }
            Effect::Trim { log, before } => {
                if let Some(log) = self.logs.get_mut(log) {
                    let first = (*before).clamp(log.first, log.length);
                    log.records.drain(..place(first - log.first));
                    log.first = first;
                }
            }
            Effect::RemoveLog { log } => drop(self.logs.remove(log)),
            Effect::Push { queue, element } => {
                self.queues.entry(queue.clone()).or_default().push_back(element.clone());
            }
            Effect::Pop { queue } => {
                popped.push(self.queues.get_mut(queue).and_then(VecDeque::pop_front));
                if self.waiting(queue) == 0 {
                    self.queues.remove(queue);
                }
            }
            Effect::RemoveQueue { queue } => drop(self.queues.remove(queue)),
            Effect::Publish { topic, payload } => {
                published.push(Message { topic: topic.clone(), payload: payload.clone() });
            }
            Effect::Grant { lease, holder, ttl } => {
                let token = Token(self.version);
                let grant = Grant { holder: holder.clone(), token, ttl: *ttl, expires: now + *ttl };
                self.leases.insert(lease.clone(), grant);
            }
            Effect::Renew { lease, ttl } => {
                if let Some(grant) = self.held(lease, now) {
                    (grant.ttl, grant.expires) = (*ttl, now + *ttl);
                }
            }
            Effect::Release { lease } => drop(self.leases.remove(lease)),
        }
    }

    /// What is asked for.
    pub fn read(&mut self, read: &Read, now: Duration) -> Found {
        match read {
            Read::Row { table, row } => Found::Row(self.row(table, row).cloned()),
            Read::Rows { table } => {
                let rows = self.tables.get(table).into_iter().flatten();
                Found::Rows(rows.map(|(key, row)| (key.clone(), row.clone())).collect())
            }
            Read::Records { log, from, limit } => Found::Records(self.records(log, *from, *limit)),
            Read::Waiting { queue } => Found::Waiting(self.waiting(queue) as u64),
            Read::Holding { lease } => Found::Holding(self.held(lease, now).map(|grant| Holding {
                holder: grant.holder.clone(),
                token: grant.token,
                remaining: grant.expires.saturating_sub(now),
            })),
        }
    }

    /// How many elements a queue has.
    pub fn waiting(&self, queue: &str) -> usize {
        self.queues.get(queue).map_or(0, VecDeque::len)
    }

    /// Removes all but what must not come twice.
    pub fn remove_all(&mut self) {
        let outcomes = std::mem::take(&mut self.outcomes);
        *self = State { version: self.version, outcomes, ..State::default() };
    }

    fn row(&self, table: &str, row: &str) -> Option<&Row> {
        self.tables.get(table)?.get(row)
    }

    fn records(&self, log: &str, from: u64, limit: u64) -> Records {
        let Some(log) = self.logs.get(log) else {
            return Records { length: 0, first: from, records: vec![] };
        };
        let first = from.max(log.first);
        let records = log.records.iter().skip(place(first - log.first)).take(place(limit));
        Records { length: log.length, first, records: records.cloned().collect() }
    }

    /// A lease that has not lapsed. If more of it is left than it was granted, the clock was set back: it
    /// lasts as long as it was granted from now on, and not until the clock is again where it was.
    fn held(&mut self, lease: &str, now: Duration) -> Option<&mut Grant> {
        let grant = self.leases.get_mut(lease)?;
        grant.expires = grant.expires.min(now + grant.ttl);
        (grant.expires > now).then_some(grant)
    }
}

impl Outcomes {
    fn remember(&mut self, id: TransactionId, outcome: Outcome, now: Duration) {
        self.of.insert(id, outcome);
        self.until.push_back((now + REMEMBERED, id));
    }

    fn forget(&mut self, now: Duration) {
        while let Some((_, id)) = self.until.pop_front_if(|(until, _)| *until <= now) {
            self.of.remove(&id);
        }
    }
}

/// A count that fits what is in memory.
fn place(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
