//! The keys of dropped indexes and views are deleted.
//!
//! The schema without the index is published first, and the number of an index is never reused. So keys that
//! a crash leaves behind are never read.

use super::scan::each_piece;
use crate::error::Result;
use crate::schema::Index;
use crate::store::{Store, Write};

/// Deletes all keys of some indexes.
pub(crate) fn erase(store: &dyn Store, indexes: &[Index]) -> Result<()> {
    for index in indexes {
        each_piece(store, &index.prefix(), |entries| {
            let gone: Vec<Write> = entries.iter().map(|(key, _)| Write::Delete(key.to_vec())).collect();
            if !gone.is_empty() {
                store.commit(&[], &gone)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
