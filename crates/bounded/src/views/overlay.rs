//! A store with the uncommitted writes of a statement over it, and a record of everything that was read.
//!
//! Invariant: if all [`conditions`](Overlay::conditions) hold, every answer is still what the store and the
//! writes over it say. So a commit under these conditions is serializable.

use crate::error::{Error, Result};
use crate::store::{Capabilities, Condition, Entries, Found, Outcome, Read, Store, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A store with uncommitted writes over it.
pub(super) struct Overlay<'s> {
    store: &'s dyn Store,
    state: Mutex<State>,
}

/// The writes, and what was read.
#[derive(Default)]
struct State {
    /// Keys that the statement writes, with their values; `None` for deleted keys.
    written: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Keys and values that were read.
    seen: BTreeSet<(Vec<u8>, Option<Vec<u8>>)>,
    /// Ranges that were read to the end, with the number of their keys.
    ranges: BTreeSet<(Vec<u8>, Vec<u8>, usize)>,
}

impl<'s> Overlay<'s> {
    /// A store without writes over it.
    pub fn new(store: &'s dyn Store) -> Overlay<'s> {
        Overlay { store, state: Mutex::default() }
    }

    /// Applies writes to the overlay.
    pub fn write(&self, writes: impl Iterator<Item = Write>) {
        let mut state = self.state();
        for write in writes {
            match write {
                Write::Put(key, value) => state.written.insert(key, Some(value)),
                Write::Delete(key) => state.written.insert(key, None),
            };
        }
    }

    /// The conditions under which all answers are still right.
    pub fn conditions(self) -> Vec<Condition> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let seen = state.seen.into_iter().map(|(key, value)| Condition::Same { key, value });
        let ranges = state.ranges.into_iter().map(|(from, to, keys)| Condition::AtMost { from, to, keys });
        seen.chain(ranges).collect()
    }

    /// The state, locked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The request to the store behind a request; `None` if the overlay has the answer.
    fn store_request(&self, request: &Read) -> Option<Read> {
        match request {
            Read::Get(key) => (!self.written.contains_key(key)).then(|| request.clone()),
            // Overwritten keys may be missing in the result, so as many more are read.
            Read::Range { from, to, limit, reverse } if from < to => {
                let hidden = self.written.range(from.clone()..to.clone()).count();
                let limit = limit.saturating_add(hidden);
                Some(Read::Range { from: from.clone(), to: to.clone(), limit, reverse: *reverse })
            }
            Read::Range { .. } | Read::Count { .. } => None,
        }
    }

    /// The answer to a request, with the writes applied.
    fn answer(&mut self, request: &Read, store_requests: Option<(Read, Found)>) -> Result<Found> {
        match (request, store_requests) {
            (Read::Get(key), None) => Ok(Found::Value(self.written.get(key).cloned().flatten())),
            (Read::Get(key), Some((_, Found::Value(value)))) => {
                self.seen.insert((key.clone(), value.clone()));
                Ok(Found::Value(value))
            }
            (Read::Range { .. }, None) => Ok(Found::Entries(Entries::default())),
            (Read::Range { from, to, limit, reverse }, Some((store_requests, Found::Entries(entries)))) => {
                self.note_range(&store_requests, &entries);
                let mut all: BTreeMap<&[u8], &[u8]> = entries.iter().collect();
                for (key, value) in self.written.range(from.clone()..to.clone()) {
                    match value {
                        Some(value) => all.insert(key, value),
                        None => all.remove(key.as_slice()),
                    };
                }
                let mut merged = Entries::default();
                let mut push = |(key, value): (&&[u8], &&[u8])| merged.push(key, value);
                match reverse {
                    false => all.iter().take(*limit).for_each(&mut push),
                    true => all.iter().rev().take(*limit).for_each(&mut push),
                }
                Ok(Found::Entries(merged))
            }
            _ => Err(Error::Internal("the store gave another answer than was asked for".to_string())),
        }
    }

    /// Notes a range that was read.
    fn note_range(&mut self, store_requests: &Read, entries: &Entries) {
        let Read::Range { from, to, limit, reverse } = store_requests else { return };
        let last = entries.iter().last().map(|(key, _)| key.to_vec()).filter(|_| entries.len() == *limit);
        // The range behind the last key was not read.
        let (from, to) = match (last, reverse) {
            (None, _) => (from.clone(), to.clone()),
            (Some(last), false) => (from.clone(), [last.as_slice(), &[0]].concat()),
            (Some(last), true) => (last, to.clone()),
        };
        self.ranges.insert((from, to, entries.len()));
        self.seen.extend(entries.iter().map(|(key, value)| (key.to_vec(), Some(value.to_vec()))));
    }
}

impl Store for Overlay<'_> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>> {
        let outer: Vec<Option<Read>> = {
            let state = self.state();
            requests.iter().map(|request| state.store_request(request)).collect()
        };
        let store_requests: Vec<Read> = outer.iter().flatten().cloned().collect();
        let mut found = match store_requests.is_empty() {
            true => vec![],
            false => self.store.read(&store_requests)?,
        }
        .into_iter();
        let mut state = self.state();
        let answers = requests.iter().zip(outer).map(|(request, store_requests)| {
            let store_requests =
                store_requests.and_then(|store_requests| Some((store_requests, found.next()?)));
            state.answer(request, store_requests)
        });
        answers.collect()
    }

    fn commit(&self, _: &[Condition], _: &[Write]) -> Result<Outcome> {
        Err(Error::Internal("what a view reads was asked to write".to_string()))
    }
}
