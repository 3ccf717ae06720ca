//! The catalog: where a store keeps the schema, its version, and the key that cursors are signed with.
//!
//! Invariant: the version is never above that of the schema. Writes are conditional on it, so a server that
//! has not heard of a change of the schema reads it again before it writes.

use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::store::{Atomicity, Condition, Found, Outcome, Read, Store, Write};

/// The key of the schema.
const SCHEMA: &[u8] = b"\0\0\0\0schema";

/// The key of the schema's version.
const VERSION: &[u8] = b"\0\0\0\0version";

/// The key under which the secret of the cursors stands.
const CURSOR_KEY: &[u8] = b"\0\0\0\0cursor key";

/// Where the store keeps the version of the schema, and what stands there.
pub(crate) fn version_entry(version: u64) -> (Vec<u8>, Vec<u8>) {
    (VERSION.to_vec(), version.to_be_bytes().to_vec())
}

/// The value of a key.
fn value(store: &dyn Store, key: &[u8]) -> Result<Option<Vec<u8>>> {
    match store.read(&[Read::Get(key.to_vec())])?.pop() {
        Some(Found::Value(value)) => Ok(value),
        _ => Err(Error::Internal("the store gave another answer than was asked for".to_string())),
    }
}

/// The schema and its version are two keys: a crash between them leaves the older version there.
fn repair_version(store: &dyn Store, schema: &Schema) -> Result<()> {
    let (key, version) = version_entry(schema.version);
    let held = value(store, &key)?;
    if held.as_ref().is_some_and(|held| *held < version) {
        let condition = Condition::Same { key: key.clone(), value: held };
        store.commit(&[condition], &[Write::Put(key, version)])?;
    }
    Ok(())
}

/// The key that all servers of this store sign cursors with; the first makes it.
pub(crate) fn cursor_key(store: &dyn Store) -> Result<[u8; 32]> {
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(|error| Error::Unavailable(format!("no random numbers: {error}")))?;
    let absent = Condition::Same { key: CURSOR_KEY.to_vec(), value: None };
    store.commit(&[absent], &[Write::Put(CURSOR_KEY.to_vec(), fresh.to_vec())])?;
    let kept = value(store, CURSOR_KEY)?.and_then(|kept| kept.try_into().ok());
    kept.ok_or_else(|| Error::Internal("the store keeps no key for cursors".to_string()))
}

/// Reads the schema; `None` from an empty store.
pub(crate) fn load(store: &dyn Store) -> Result<Option<Schema>> {
    let Some(bytes) = value(store, SCHEMA)? else { return Ok(None) };
    let schema = Schema::from_bytes(&bytes)?;
    repair_version(store, &schema)?;
    Ok(Some(schema))
}

/// The schema of a store; an empty store gets an empty one.
pub(crate) fn open(store: &dyn Store) -> Result<Schema> {
    if let Some(schema) = load(store)? {
        return Ok(schema);
    }
    let empty = Schema::empty();
    let (key, value) = version_entry(empty.version);
    store.commit(&[Condition::Same { key: key.clone(), value: None }], &[Write::Put(key, value)])?;
    Ok(empty)
}

/// Writes a schema in place of another; `Failed` if the store has a third one.
pub(crate) fn replace(store: &dyn Store, old: &Schema, new: &Schema) -> Result<Outcome> {
    let before = if old.version == 0 { None } else { Some(old.to_bytes()?) };
    let condition = Condition::Same { key: SCHEMA.to_vec(), value: before };
    let schema = Write::Put(SCHEMA.to_vec(), new.to_bytes()?);
    let (key, value) = version_entry(new.version);
    let version = Write::Put(key, value);
    match store.capabilities().atomicity {
        Atomicity::Batch => store.commit(&[condition], &[schema, version]),
        Atomicity::Key => match store.commit(&[condition], &[schema])? {
            Outcome::Done => store.commit(&[], &[version]),
            failed => Ok(failed),
        },
    }
}
