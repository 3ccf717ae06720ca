//! The watermark of a view: the last driving row that the view has.

use crate::error::{Error, Result};
use crate::schema::Table;
use crate::store::{Condition, Found, Read, Store, Write};

/// The key of a view's watermark.
pub(super) fn watermark_key(view: &Table) -> Vec<u8> {
    [b"\0\0\0\0view ".as_slice(), &view.primary().prefix()].concat()
}

/// The key of the last driving row that is in a view; `None` if there is none yet.
pub(super) fn watermark(store: &dyn Store, view: &Table) -> Result<Option<Vec<u8>>> {
    match store.read(&[Read::Get(watermark_key(view))])?.pop() {
        Some(Found::Value(value)) => Ok(value),
        _ => Err(Error::Internal("the store gave another answer than was asked for".to_string())),
    }
}

/// Deletes the watermark.
pub(super) fn forget_watermark(store: &dyn Store, view: &Table) -> Result<()> {
    let none: [Condition; 0] = [];
    store.commit(&none, &[Write::Delete(watermark_key(view))]).map(|_| ())
}
