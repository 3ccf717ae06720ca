//! Transactions: conditions and effects, applied all or none.
//!
//! Invariants:
//! - Every committed transaction has a number of its own, its *version*, larger than all before it. The rows
//!   that it puts carry it as their version; the leases that it grants have it as their token. So neither a
//!   version nor a token ever comes twice, also not after what carried it was removed.
//! - A transaction has an id. A store applies an id once, and answers it with its first outcome as long as it
//!   remembers it ([`REMEMBERED`]). To do the same thing twice takes two transactions.
//! - If the conditions hold, the effects cannot fail.

use crate::error::{Error, Result};
use crate::name::check_name;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a store remembers the outcome of a transaction, by its own clock.
pub const REMEMBERED: Duration = Duration::from_secs(120);

/// The largest value, record, element or message, in bytes: half of what Redis takes.
const PAYLOAD_MAX: usize = 256 << 20;
/// The longest lease.
const LEASE_MAX: Duration = Duration::from_hours(24 * 365);

/// Says of a transaction that it is the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TransactionId(pub u128);

impl TransactionId {
    /// An id that no other transaction has.
    #[must_use]
    pub fn random() -> TransactionId {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .expect("without random numbers two transactions could pass for one, and hash maps do not work");
        TransactionId(u128::from_ne_bytes(bytes))
    }
}

/// Fences a lease: each grant of a lease has a larger one than those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Token(pub u64);

/// What has to be so for a transaction to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// A row is there and has this version.
    Version {
        /// The table.
        table: String,
        /// The key of the row.
        row: String,
        /// The version.
        version: u64,
    },
    /// A row is not there.
    Absent {
        /// The table.
        table: String,
        /// The key of the row.
        row: String,
    },
    /// A log has so many records, those that were trimmed included.
    Length {
        /// The log.
        log: String,
        /// How many records.
        length: u64,
    },
    /// A lease is held under this token at this moment, by the time of the store.
    Held {
        /// The lease.
        lease: String,
        /// The token.
        token: Token,
    },
    /// Nobody holds a lease at this moment.
    Free {
        /// The lease.
        lease: String,
    },
}

/// What a transaction does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Writes a row.
    Put {
        /// The table.
        table: String,
        /// The key of the row.
        row: String,
        /// What it holds.
        value: Vec<u8>,
    },
    /// Deletes a row, if it is there.
    Delete {
        /// The table.
        table: String,
        /// The key of the row.
        row: String,
    },
    /// Removes a table with all rows.
    RemoveTable {
        /// The table.
        table: String,
    },
    /// Appends a record to a log.
    Append {
        /// The log.
        log: String,
        /// The record.
        record: Vec<u8>,
    },
    /// Drops the records of a log before a position. The others keep their positions.
    Trim {
        /// The log.
        log: String,
        /// The position of the first record that stays; not more than all are dropped.
        before: u64,
    },
    /// Removes a log: it is as if it had never been, and has length 0.
    RemoveLog {
        /// The log.
        log: String,
    },
    /// Puts an element at the end of a queue.
    Push {
        /// The queue.
        queue: String,
        /// The element.
        element: Vec<u8>,
    },
    /// Takes the first element of a queue; it is in the outcome.
    Pop {
        /// The queue.
        queue: String,
    },
    /// Removes a queue with all elements.
    RemoveQueue {
        /// The queue.
        queue: String,
    },
    /// Tells whoever listens.
    Publish {
        /// Where.
        topic: String,
        /// What.
        payload: Vec<u8>,
    },
    /// Gives a lease to a holder, whoever had it before; its token is the version of the transaction.
    Grant {
        /// The lease.
        lease: String,
        /// Who gets it.
        holder: String,
        /// How long it is held if it is not renewed: whole milliseconds.
        ttl: Duration,
    },
    /// Lets a lease that is held last so long from now.
    Renew {
        /// The lease.
        lease: String,
        /// How long: whole milliseconds.
        ttl: Duration,
    },
    /// Takes a lease from whoever holds it.
    Release {
        /// The lease.
        lease: String,
    },
}

/// Conditions, and effects that happen in order if all of them hold.
///
/// ```
/// use whimbrel_control::{Condition, ControlStore, Effect, MemoryStore, Outcome, Transaction};
///
/// let store = MemoryStore::default();
/// let append = |length, record: &[u8]| {
///     Transaction::new()
///         .when(Condition::Length { log: "lineage".into(), length })
///         .then(Effect::Append { log: "lineage".into(), record: record.into() })
/// };
/// assert!(store.commit(&append(0, b"first"))?.is_committed());
/// assert_eq!(store.commit(&append(0, b"late"))?, Outcome::Conflict { condition: 0 });
/// # Ok::<(), whimbrel_control::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    /// What makes it the same one when it is sent again.
    pub id: TransactionId,
    /// All of these have to hold.
    pub conditions: Vec<Condition>,
    /// What is done then, in this order.
    pub effects: Vec<Effect>,
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a transaction may have met a conflict, and done nothing"]
pub enum Outcome {
    /// It was applied.
    Committed {
        /// Its version.
        version: u64,
        /// The element that each [`Effect::Pop`] took, in order; none if the queue was empty.
        popped: Vec<Option<Vec<u8>>>,
    },
    /// It was not applied, and has no effect.
    Conflict {
        /// The first condition that did not hold, by its place in the transaction.
        condition: usize,
    },
}

impl Outcome {
    /// Whether the transaction was applied.
    pub fn is_committed(&self) -> bool {
        matches!(self, Outcome::Committed { .. })
    }
}

impl Default for Transaction {
    fn default() -> Transaction {
        Transaction::new()
    }
}

impl Transaction {
    /// A transaction without conditions and effects, and with an id of its own.
    pub fn new() -> Transaction {
        Transaction::with_id(TransactionId::random())
    }

    /// The same with an id that is given: one made from the name of a task also holds if the task is started
    /// again, within [`REMEMBERED`].
    pub fn with_id(id: TransactionId) -> Transaction {
        Transaction { id, conditions: vec![], effects: vec![] }
    }

    /// Adds a condition.
    pub fn when(mut self, condition: Condition) -> Transaction {
        self.conditions.push(condition);
        self
    }

    /// Adds an effect.
    pub fn then(mut self, effect: Effect) -> Transaction {
        self.effects.push(effect);
        self
    }

    /// What every store checks before it applies anything of a group.
    ///
    /// # Errors
    /// `Invalid` if a name is empty or too long, a payload too large, the time of a lease none, or a lease is
    /// granted twice, which would give two holders one token.
    pub(crate) fn check(&self) -> Result<()> {
        self.conditions
            .iter()
            .try_for_each(|condition| condition.names().into_iter().try_for_each(check_name))?;
        let mut granted = Vec::new();
        for effect in &self.effects {
            effect.names().into_iter().try_for_each(check_name)?;
            effect.payload().map_or(Ok(()), check_payload)?;
            match effect {
                Effect::Grant { lease, ttl, .. } => {
                    check_ttl(lease, *ttl)?;
                    if granted.contains(&lease) {
                        return Err(Error::Invalid(format!(
                            "a transaction grants the lease `{lease}` twice: make it two transactions"
                        )));
                    }
                    granted.push(lease);
                }
                Effect::Renew { lease, ttl } => check_ttl(lease, *ttl)?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl Condition {
    /// The names in it.
    fn names(&self) -> Vec<&str> {
        match self {
            Condition::Version { table, row, .. } | Condition::Absent { table, row } => vec![table, row],
            Condition::Length { log: name, .. }
            | Condition::Held { lease: name, .. }
            | Condition::Free { lease: name } => vec![name],
        }
    }
}

impl Effect {
    /// The names in it.
    fn names(&self) -> Vec<&str> {
        match self {
            Effect::Put { table, row, .. } | Effect::Delete { table, row } => vec![table, row],
            Effect::Grant { lease, holder, .. } => vec![lease, holder],
            Effect::RemoveTable { table: name }
            | Effect::Append { log: name, .. }
            | Effect::Trim { log: name, .. }
            | Effect::RemoveLog { log: name }
            | Effect::Push { queue: name, .. }
            | Effect::Pop { queue: name }
            | Effect::RemoveQueue { queue: name }
            | Effect::Publish { topic: name, .. }
            | Effect::Renew { lease: name, .. }
            | Effect::Release { lease: name } => vec![name],
        }
    }

    /// The bytes that it carries.
    fn payload(&self) -> Option<&[u8]> {
        match self {
            Effect::Put { value: bytes, .. }
            | Effect::Append { record: bytes, .. }
            | Effect::Push { element: bytes, .. }
            | Effect::Publish { payload: bytes, .. } => Some(bytes),
            _ => None,
        }
    }
}

fn check_payload(bytes: &[u8]) -> Result<()> {
    match bytes.len() <= PAYLOAD_MAX {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "{} bytes are too many for one value of the control store: {PAYLOAD_MAX} are the most",
            bytes.len()
        ))),
    }
}

fn check_ttl(lease: &str, ttl: Duration) -> Result<()> {
    match ttl.subsec_nanos().is_multiple_of(1_000_000) && !ttl.is_zero() && ttl <= LEASE_MAX {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "the lease `{lease}` cannot last {ttl:?}: whole milliseconds, from one to a year"
        ))),
    }
}
