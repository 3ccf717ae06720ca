//! A store in memory, for tests and temporary data.
//!
//! It can claim fewer capabilities than it has, so that plans and writes for lesser stores can be tested.

use super::interface::{
    Atomicity, Capabilities, Condition, Entries, Found, Order, Outcome, Read, Store, Write,
};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// A store in memory.
#[derive(Debug)]
pub struct MemoryStore {
    map: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
    capabilities: Capabilities,
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new(Capabilities {
            order: Order::Global,
            atomicity: Atomicity::Batch,
            batched_ranges: true,
            counts: true,
        })
    }
}

impl MemoryStore {
    /// A store that says it can do this, and no more.
    pub fn new(capabilities: Capabilities) -> MemoryStore {
        MemoryStore { map: RwLock::default(), capabilities }
    }

    /// A store that writes one key at a time.
    pub fn key_by_key() -> MemoryStore {
        let capabilities = MemoryStore::default().capabilities;
        MemoryStore::new(Capabilities { atomicity: Atomicity::Key, ..capabilities })
    }
}

/// The keys and values.
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The answer to a request.
fn answer(map: &Map, request: &Read) -> Found {
    match request {
        Read::Get(key) => Found::Value(map.get(key).cloned()),
        Read::Range { from, to, .. } if from >= to => Found::Entries(Entries::default()),
        Read::Range { from, to, limit, reverse } => {
            let range = map.range(from.clone()..to.clone());
            let mut entries = Entries::default();
            match reverse {
                false => range.take(*limit).for_each(|(key, value)| entries.push(key, value)),
                true => range.rev().take(*limit).for_each(|(key, value)| entries.push(key, value)),
            }
            Found::Entries(entries)
        }
        Read::Count { from, to, up_to } => Found::Count(count(map, from, to, *up_to)),
    }
}

/// How many keys are in a range, up to a number.
fn count(map: &Map, from: &[u8], to: &[u8], up_to: usize) -> usize {
    if from >= to {
        return 0;
    }
    map.range(from.to_vec()..to.to_vec()).take(up_to).count()
}

/// Whether a condition is true.
fn holds(map: &Map, condition: &Condition) -> bool {
    match condition {
        Condition::Same { key, value } => map.get(key) == value.as_ref(),
        Condition::Exists(key) => map.contains_key(key),
        Condition::AtMost { from, to, keys } => count(map, from, to, keys + 1) <= *keys,
    }
}

/// What a store that writes key by key may be asked for.
pub(super) fn check_key_by_key(conditions: &[Condition], writes: &[Write]) -> Result<()> {
    let one_key = match (conditions, writes) {
        ([], _) => true,
        (conditions, [write]) => conditions
            .iter()
            .all(|c| matches!(c, Condition::Same { key, .. } if key.as_slice() == write.key())),
        _ => false,
    };
    match one_key {
        true => Ok(()),
        false => Err(Error::Internal("a store that writes key by key was asked for more".to_string())),
    }
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        Ok(requests.iter().map(|request| answer(&map, request)).collect())
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome> {
        if self.capabilities.atomicity == Atomicity::Key {
            check_key_by_key(conditions, writes)?;
        }
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(failed) = conditions.iter().position(|condition| !holds(&map, condition)) {
            return Ok(Outcome::Failed(failed));
        }
        for write in writes {
            match write {
                Write::Put(key, value) => map.insert(key.clone(), value.clone()),
                Write::Delete(key) => map.remove(key),
            };
        }
        Ok(Outcome::Done)
    }
}
