//! The keys of indexes, and views, that were dropped.
//!
//! The schema without it is there before the first key goes, and its number is never given again: what a crash
//! leaves is read by nobody.

use super::scan::each_piece;
use crate::error::Result;
use crate::schema::Index;
use crate::store::{Store, Write};

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
