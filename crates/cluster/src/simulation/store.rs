//! The store as one process reaches it: requests and answers get lost, and others go on meanwhile.
//!
//! It also checks what is written: an attempt of a channel belongs to one worker, and only a new attempt
//! takes back that a channel has ended. With a [`Mutation`], it breaks a rule of the protocol on purpose.

use super::environment::{Environment, Host};
use crate::records::ChannelRecord;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use whimbrel_control::{
    Condition, ControlStore, Effect, Error, Found, MemoryStore, Outcome, Read, Result, Subscription,
    Transaction,
};

/// A rule of the protocol that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// None is.
    None,
    /// Whoever changes the row of a channel does it without the version that was read.
    Unfenced,
    /// A channel that is given to another worker keeps its attempt.
    SameAttempt,
    /// Choices are not logged, though their outcome says that they were.
    NoLineage,
}

/// What was written of channels, by the key of their rows.
pub type Ledger = Mutex<BTreeMap<(String, String), ChannelRecord>>;

/// The store of one process.
pub struct ProcessStore {
    pub environment: Arc<Environment>,
    /// The process; none is a client, which never hangs.
    pub host: Option<Arc<Host>>,
    pub inner: MemoryStore,
    pub ledger: Arc<Ledger>,
    pub mutation: Mutation,
}

impl ProcessStore {
    /// A request, or an answer, is on its way.
    fn travel(&self, lost: &str) -> Result<()> {
        if self.environment.fails(300) {
            self.environment.pause.get().iter().for_each(|pause| pause());
        }
        let is_cut_off = self.host.iter().any(|host| !host.reaches_store(self.environment.now()));
        let is_lost = self.environment.fails(80);
        if is_lost {
            let process = self.host.as_ref().map_or("a client", |host| &host.address);
            self.environment.note(format!("{lost} of {process} is lost"));
        }
        match is_cut_off || is_lost {
            true => Err(Error::Unavailable(format!("{lost} is lost"))),
            false => Ok(()),
        }
    }

    /// The transaction with the rule broken.
    fn mutated(&self, transaction: &Transaction) -> Transaction {
        let mut mutated = transaction.clone();
        match self.mutation {
            Mutation::None => {}
            Mutation::Unfenced => mutated.conditions.retain(
                |condition| !matches!(condition, Condition::Version { table, .. } if is_of_channels(table)),
            ),
            Mutation::SameAttempt => {
                for effect in &mut mutated.effects {
                    if let Effect::Put { table, value, .. } = effect
                        && is_of_channels(table)
                    {
                        let record: ChannelRecord = postcard::from_bytes(value).unwrap();
                        *value = postcard::to_allocvec(&ChannelRecord { attempt: 0, ..record }).unwrap();
                    }
                }
            }
            Mutation::NoLineage => mutated.effects.retain(
                |effect| !matches!(effect, Effect::Append { log, .. } if log.starts_with("choices/")),
            ),
        }
        mutated
    }

    /// Checks what a transaction has written.
    fn check(&self, transaction: &Transaction) {
        let mut ledger = self.ledger.lock().unwrap();
        for effect in &transaction.effects {
            match effect {
                Effect::Put { table, row, value } if is_of_channels(table) => {
                    let new: ChannelRecord = postcard::from_bytes(value).unwrap();
                    self.environment.note(format!("{table} {row}: {new:?}"));
                    let old = ledger.insert((table.clone(), row.clone()), new.clone());
                    if let Some(old) = old
                        && !may_follow(&old, &new)
                    {
                        self.environment.violate(format!("{new:?} follows {old:?} in {table} {row}"));
                    }
                }
                Effect::RemoveTable { table } => ledger.retain(|(of, _), _| of != table),
                _ => {}
            }
        }
    }
}

fn is_of_channels(table: &str) -> bool {
    table.starts_with("channels/")
}

fn may_follow(old: &ChannelRecord, new: &ChannelRecord) -> bool {
    let goes_on = old.attempt == new.attempt && old.worker == new.worker && old.ended <= new.ended;
    goes_on || (new.attempt == old.attempt + 1 && !new.ended)
}

impl ControlStore for ProcessStore {
    fn commit_all(&self, transactions: &[Transaction]) -> Result<Vec<Outcome>> {
        self.travel("a request")?;
        let mutated: Vec<Transaction> = transactions.iter().map(|one| self.mutated(one)).collect();
        let outcomes = self.inner.commit_all(&mutated)?;
        let committed = mutated.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_committed());
        committed.for_each(|(transaction, _)| self.check(transaction));
        self.travel("an answer")?;
        Ok(outcomes)
    }

    fn read_all(&self, reads: &[Read]) -> Result<Vec<Found>> {
        self.travel("a request")?;
        let found = self.inner.read_all(reads)?;
        self.travel("an answer")?;
        Ok(found)
    }

    fn wait_for_element(&self, _: &str, _: Duration) -> Result<()> {
        Err(Error::Invalid("a simulation does not wait".to_string()))
    }

    fn subscribe(&self, topics: &[&str]) -> Result<Subscription> {
        self.inner.subscribe(topics)
    }

    fn remove_all(&self) -> Result<()> {
        self.inner.remove_all()
    }

    fn describe(&self) -> String {
        "a simulated store".to_string()
    }
}
