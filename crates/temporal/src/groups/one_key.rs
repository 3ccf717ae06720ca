//! A single key in each of the forms that tables of groups know.

use super::{Keys, put, span, tuple};
use crate::key::{MixedRows, equal_bytes, hash_bytes, hash_tuple, hash_word};

/// A key that is looked up. Keys of another form than the table's are equal to none; the callers see to it
/// that none of these is put in.
pub(super) trait OneKey: Copy {
    /// Its hash.
    fn hash(self) -> u32;

    /// Whether it is that of a group. There may be no group of this number.
    fn is_of(self, keys: &Keys, group: u32) -> bool;

    /// Makes it that of a group.
    fn put(self, keys: &mut Keys, group: u32);
}

/// A word that is not null.
impl OneKey for u64 {
    #[inline(always)]
    fn hash(self) -> u32 {
        hash_word(self)
    }
    #[inline(always)]
    fn is_of(self, keys: &Keys, group: u32) -> bool {
        matches!(keys, Keys::Words { words, .. } if words.get(group as usize) == Some(&self))
    }
    fn put(self, keys: &mut Keys, group: u32) {
        if let Keys::Words { words, .. } = keys {
            put(words, group, self);
        }
    }
}

/// A tuple of words.
impl<const W: usize> OneKey for [u64; W] {
    #[inline(always)]
    fn hash(self) -> u32 {
        hash_tuple(&self)
    }
    #[inline(always)]
    fn is_of(self, keys: &Keys, group: u32) -> bool {
        let Keys::Tuples { words, .. } = keys else { return false };
        // Word by word: what is compared stays in registers.
        tuple(words, W, group)
            .first_chunk::<W>()
            .is_some_and(|own| (0..W).all(|place| own[place] == self[place]))
    }
    fn put(self, keys: &mut Keys, group: u32) {
        if let Keys::Tuples { words, .. } = keys {
            let first = group as usize * W;
            words.resize(words.len().max(first + W), 0);
            words[first..first + W].copy_from_slice(&self);
        }
    }
}

/// Bytes that are not null, and their hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashedBytes<'a> {
    pub bytes: &'a [u8],
    pub hash: u32,
}

impl<'a> HashedBytes<'a> {
    pub fn of(bytes: &'a [u8]) -> HashedBytes<'a> {
        HashedBytes { bytes, hash: hash_bytes(bytes) }
    }
}

impl OneKey for HashedBytes<'_> {
    #[inline(always)]
    fn hash(self) -> u32 {
        self.hash
    }
    #[inline(always)]
    fn is_of(self, keys: &Keys, group: u32) -> bool {
        let Keys::Bytes { arena, spans, .. } = keys else { return false };
        match spans.get(group as usize) {
            Some(at) => equal_bytes(span(arena, *at), self.bytes),
            None => false,
        }
    }
    fn put(self, keys: &mut Keys, group: u32) {
        if let Keys::Bytes { arena, spans, .. } = keys {
            put(spans, group, (arena.len() as u64, self.bytes.len() as u32));
            arena.extend_from_slice(self.bytes);
        }
    }
}

/// A row of several columns, and its hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct MixedRow<'a> {
    pub rows: &'a MixedRows,
    pub row: usize,
    pub hash: u32,
}

impl OneKey for MixedRow<'_> {
    #[inline(always)]
    fn hash(self) -> u32 {
        self.hash
    }
    #[inline(always)]
    fn is_of(self, keys: &Keys, group: u32) -> bool {
        let Keys::Bytes { arena, spans, .. } = keys else { return false };
        spans.get(group as usize).is_some_and(|at| self.rows.is_encoded(self.row, span(arena, *at)))
    }
    fn put(self, keys: &mut Keys, group: u32) {
        if let Keys::Bytes { arena, spans, .. } = keys {
            let start = arena.len();
            self.rows.encode(self.row, arena);
            put(spans, group, (start as u64, (arena.len() - start) as u32));
        }
    }
}
