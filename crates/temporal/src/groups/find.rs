//! Groups by their keys, where no group is made.

use super::one_key::{HashedBytes, MixedRow, OneKey};
use super::slots::group_of;
use super::{AHEAD, Groups, Keys, NO_GROUP};
use crate::key::{Key, KeyValues, Tuples, by_layout, by_width};
use arrow::buffer::NullBuffer;

impl Groups {
    /// Appends the group numbers of the keys of all rows to `groups`, [`NO_GROUP`] where there is none.
    pub fn find(&self, key: &Key, groups: &mut Vec<u32>) {
        match (key.values(), &self.keys) {
            (KeyValues::Unit(rows), _) => {
                let only = if self.capacity > 0 { 0 } else { NO_GROUP };
                groups.extend(std::iter::repeat_n(only, *rows));
            }
            (KeyValues::Words(words, nulls), Keys::Words { null, .. }) => {
                self.find_with_nulls(words.len(), |row| words[row], nulls.as_ref(), *null, groups);
            }
            (KeyValues::Tuples(tuples), Keys::Tuples { .. }) => {
                by_width!(tuples.width(), self.find_tuples(tuples, groups), ());
            }
            (KeyValues::Texts(texts), Keys::Bytes { null, .. }) => {
                let hashes = key.hashes();
                by_layout!(texts, value => {
                    let key = |row| HashedBytes { bytes: value(row), hash: hashes[row] };
                    self.find_with_nulls(texts.len(), key, texts.nulls(), *null, groups);
                });
            }
            (KeyValues::Mixed(mixed), Keys::Bytes { .. }) => {
                let hashes = key.hashes();
                let key = |row| MixedRow { rows: mixed, row, hash: hashes[row] };
                self.find_each(mixed.len(), key, groups);
            }
            (KeyValues::Bytes(bytes), Keys::Bytes { .. }) => {
                let hashes = key.hashes();
                let key = |row| HashedBytes { bytes: bytes.value(row), hash: hashes[row] };
                self.find_each(hashes.len(), key, groups);
            }
            // Keys of another form are equal to none.
            _ => groups.extend(std::iter::repeat_n(NO_GROUP, key.len())),
        }
    }

    fn find_tuples<const W: usize>(&self, tuples: &Tuples, groups: &mut Vec<u32>) {
        if let Some(columns) = tuples.columns::<W>() {
            self.find_each(tuples.len(), |row| columns.map(|column| column[row]), groups);
        }
    }

    /// The groups of rows of which some may be null, which is the key of the group `null`.
    fn find_with_nulls<K: OneKey>(
        &self,
        rows: usize,
        key: impl Fn(usize) -> K,
        nulls: Option<&NullBuffer>,
        null: u32,
        groups: &mut Vec<u32>,
    ) {
        let Some(nulls) = nulls else { return self.find_each(rows, key, groups) };
        groups.extend(
            nulls.iter().enumerate().map(|(row, valid)| if valid { self.find_one(key(row)) } else { null }),
        );
    }

    /// The groups of the keys of so many rows. Slots are fetched as in [`intern`](Groups::intern).
    fn find_each<K: OneKey>(&self, rows: usize, key: impl Fn(usize) -> K, groups: &mut Vec<u32>) {
        let mut slots = [0; AHEAD];
        for first in (0..rows).step_by(AHEAD) {
            let fetched = first..rows.min(first + AHEAD);
            for (slot, row) in slots.iter_mut().zip(fetched.clone()) {
                *slot = self.slots.first(key(row).hash());
            }
            for (slot, row) in slots.iter().zip(fetched) {
                let (key, likely) = (key(row), group_of(*slot));
                groups.push(if key.is_of(&self.keys, likely) { likely } else { self.find_one(key) });
            }
        }
    }

    /// The group of a key, if there is one.
    fn find_one<K: OneKey>(&self, key: K) -> u32 {
        self.slots.probe(key.hash(), |group| key.is_of(&self.keys, group)).unwrap_or(NO_GROUP)
    }
}
