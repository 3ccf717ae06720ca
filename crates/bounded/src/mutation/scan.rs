//! All keys of an index, read in pieces.

use crate::error::Result;
use crate::keys;
use crate::store::{Entries, Found, Read, Store};

/// How many keys are read at once.
const PIECE: usize = 256;

/// Calls a function with all keys that have a prefix, piece by piece, in order.
pub(crate) fn each_piece(
    store: &dyn Store,
    prefix: &[u8],
    mut each: impl FnMut(&Entries) -> Result<()>,
) -> Result<()> {
    let (mut from, to) = (prefix.to_vec(), keys::prefix_end(prefix));
    loop {
        let range = Read::Range { from: from.clone(), to: to.clone(), limit: PIECE, reverse: false };
        let Some(Found::Entries(entries)) = store.read(&[range])?.pop() else { return Ok(()) };
        each(&entries)?;
        match entries.iter().last() {
            Some((last, _)) if entries.len() == PIECE => from = [last, &[0]].concat(),
            _ => return Ok(()),
        }
    }
}
