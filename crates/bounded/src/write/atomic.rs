//! A statement as one conditional commit.

use super::Written;
use super::change::{Change, Limited};
use crate::database::schema_version;
use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::store::{Condition, Outcome, Store, Write};
use std::collections::{BTreeMap, BTreeSet};

/// What it means that a condition was not true.
enum Failed {
    OtherSchema,
    Again,
    Data(String),
}

/// Makes changes under their own conditions and more, together with more writes; whoever finds one of the other
/// conditions not true looks again.
pub(crate) fn apply(
    store: &dyn Store,
    schema: &Schema,
    changes: &[Change],
    seen: Vec<Condition>,
    mut writes: Vec<Write>,
) -> Result<Written> {
    let (key, value) = schema_version(schema.version);
    let mut conditions = vec![Condition::Same { key, value: Some(value) }];
    let mut meaning = vec![Failed::OtherSchema];
    let written: BTreeSet<&Vec<u8>> = changes.iter().filter(|c| c.after.is_some()).map(|c| &c.key).collect();
    let mut limits: BTreeMap<&[u8], (&Limited, u64)> = BTreeMap::new();
    for change in changes {
        conditions.push(Condition::Same { key: change.key.clone(), value: change.before.clone() });
        meaning.push(Failed::Again);
        for added in &change.added {
            if let Some(values) = &added.unique {
                conditions.push(Condition::Same { key: added.key.clone(), value: None });
                meaning.push(Failed::Data(format!("{} has a row with {values} already", change.table.name)));
            }
        }
        for (key, says) in change.references.iter().filter(|(key, _)| !written.contains(key)) {
            conditions.push(Condition::Exists(key.clone()));
            meaning.push(Failed::Data(says.clone()));
        }
        for (from, to, says) in &change.referring {
            conditions.push(Condition::AtMost { from: from.clone(), to: to.clone(), keys: 0 });
            meaning.push(Failed::Data(says.clone()));
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
        // So many rows may be there before these come.
        let Some(room) = limit.rows.checked_sub(more) else { return Err(Error::Data(limit.says.clone())) };
        let (from, to) = (limit.from.clone(), limit.to.clone());
        conditions.push(Condition::AtMost { from, to, keys: room as usize });
        meaning.push(Failed::Data(limit.says.clone()));
    }
    meaning.extend(seen.iter().map(|_| Failed::Again));
    conditions.extend(seen);
    match store.commit(&conditions, &writes)? {
        Outcome::Done => Ok(Written::Rows(changes.len() as u64)),
        Outcome::Failed(at) => match meaning.into_iter().nth(at) {
            Some(Failed::OtherSchema) => Ok(Written::OtherSchema),
            Some(Failed::Again) => Ok(Written::Again),
            Some(Failed::Data(says)) => Err(Error::Data(says)),
            None => Err(Error::Internal("the store named a condition that it was not given".to_string())),
        },
    }
}
