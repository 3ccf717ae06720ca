//! Changes of rows as one conditional commit.
//!
//! Invariant: the commit is made only if the schema has not changed, every row is as it was read, and all
//! constraints hold.

use super::change::{CountedRange, RowChange};
use super::kind::WriteOutcome;
use crate::catalog::version_entry;
use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::store::{Condition, Outcome, Store, Write};
use std::collections::{BTreeMap, BTreeSet};

/// What a failed condition means.
enum Failed {
    /// The schema was changed.
    OtherSchema,
    /// Something that was read was changed.
    Again,
    /// A constraint is violated, with the message.
    Data(String),
}

/// Commits changes and further writes, under the conditions of the changes and further ones. If one of the
/// further conditions fails, the caller reads again.
pub(crate) fn commit(
    store: &dyn Store,
    schema: &Schema,
    changes: &[RowChange],
    seen: Vec<Condition>,
    mut writes: Vec<Write>,
) -> Result<WriteOutcome> {
    let (key, value) = version_entry(schema.version);
    let mut conditions = vec![Condition::Same { key, value: Some(value) }];
    let mut meaning = vec![Failed::OtherSchema];
    let written: BTreeSet<&Vec<u8>> = changes.iter().filter(|c| c.after.is_some()).map(|c| &c.key).collect();
    let mut limits: BTreeMap<&[u8], (&CountedRange, u64)> = BTreeMap::new();
    for change in changes {
        conditions.push(Condition::Same { key: change.key.clone(), value: change.before.clone() });
        meaning.push(Failed::Again);
        for added in &change.added {
            if let Some(values) = &added.unique {
                conditions.push(Condition::Same { key: added.key.clone(), value: None });
                meaning.push(Failed::Data(format!("{} has a row with {values} already", change.table.name)));
            }
        }
        for (key, message) in change.references.iter().filter(|(key, _)| !written.contains(key)) {
            conditions.push(Condition::Exists(key.clone()));
            meaning.push(Failed::Data(message.clone()));
        }
        for (from, to, message) in &change.referring {
            conditions.push(Condition::AtMost { from: from.clone(), to: to.clone(), keys: 0 });
            meaning.push(Failed::Data(message.clone()));
        }
        for limit in &change.limits {
            let (_, more) = limits.entry(&limit.from).or_insert((limit, 0));
            *more += 1;
        }
        writes.extend(change.removed.iter().map(|removed| Write::Delete(removed.key.clone())));
        writes.extend(change.added.iter().map(|added| Write::Put(added.key.clone(), added.value.clone())));
        writes.push(match &change.after {
            Some(record) => Write::Put(change.key.clone(), record.clone()),
            None => Write::Delete(change.key.clone()),
        });
    }
    for (limit, more) in limits.into_values() {
        // The limit, less the rows that are added.
        let Some(room) = limit.rows.checked_sub(more) else { return Err(Error::Data(limit.message.clone())) };
        let (from, to) = (limit.from.clone(), limit.to.clone());
        conditions.push(Condition::AtMost { from, to, keys: room as usize });
        meaning.push(Failed::Data(limit.message.clone()));
    }
    meaning.extend(seen.iter().map(|_| Failed::Again));
    conditions.extend(seen);
    match store.commit(&conditions, &writes)? {
        Outcome::Done => Ok(WriteOutcome::Written),
        Outcome::Failed(at) => match meaning.into_iter().nth(at) {
            Some(Failed::OtherSchema) => Ok(WriteOutcome::OtherSchema),
            Some(Failed::Again) => Ok(WriteOutcome::Again),
            Some(Failed::Data(message)) => Err(Error::Data(message)),
            None => Err(Error::Internal("the store named a condition that it was not given".to_string())),
        },
    }
}
