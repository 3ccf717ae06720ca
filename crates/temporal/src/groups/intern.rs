//! The groups of keys, which are made where there are none.

use super::one_key::{HashedBytes, MixedRow, OneKey};
use super::slots::group_of;
use super::{AHEAD, Groups, Keys, NO_GROUP, put, span};
use crate::key::{Key, KeyValues, Tuples, by_layout, by_width};
use arrow::buffer::NullBuffer;
use datafusion::common::{Result, internal_err};
use std::ops::Range;

/// Slots of a table that is in the nearest cache anyway.
const NEAR: usize = 2048;
/// The most places by which words are found: they stay in the nearest cache.
const PLACES: usize = 4096;
/// How often a word comes at least, on an average, to be worth a place.
const TIMES: usize = 4;
/// Fewer words are not worth places.
const MANY: usize = 64;

impl Groups {
    /// Appends the group numbers of these rows' keys to `groups`, making new groups where needed.
    /// A row takes constant time on average, besides the time to compare keys that are bytes.
    ///
    /// # Errors
    /// `ResourcesExhausted` if all numbers are in use; `Internal` if the table has keys of another form.
    pub fn intern(&mut self, key: &Key, rows: Range<usize>, groups: &mut Vec<u32>) -> Result<()> {
        groups.reserve(rows.len());
        match (key.values(), &self.keys) {
            (KeyValues::Unit(_), Keys::Unit) => {
                let only = self.only();
                groups.extend(rows.map(|_| only));
                Ok(())
            }
            (KeyValues::Words(words, None), Keys::Words { .. }) => self.intern_words(&words[rows], groups),
            (KeyValues::Words(words, nulls), Keys::Words { .. }) => {
                self.intern_with_nulls(rows, |row| words[row], nulls.as_ref(), groups)
            }
            (KeyValues::Tuples(tuples), Keys::Tuples { width, .. }) if tuples.width() == *width => {
                by_width!(tuples.width(), self.intern_tuples(tuples, rows, groups), other_form())
            }
            (KeyValues::Texts(texts), Keys::Bytes { .. }) => {
                let hashes = key.hashes();
                by_layout!(texts, value => {
                    let key = |row| HashedBytes { bytes: value(row), hash: hashes[row] };
                    self.intern_with_nulls(rows, key, texts.nulls(), groups)
                })
            }
            (KeyValues::Mixed(mixed), Keys::Bytes { .. }) => {
                let hashes = key.hashes();
                let key = |row| MixedRow { rows: mixed, row, hash: hashes[row] };
                self.intern_each(rows, key, groups)
            }
            (KeyValues::Bytes(bytes), Keys::Bytes { .. }) => {
                let hashes = key.hashes();
                let key = |row| HashedBytes { bytes: bytes.value(row), hash: hashes[row] };
                self.intern_each(rows, key, groups)
            }
            _ => other_form(),
        }
    }

    /// The groups of words of which none is null. The three ways to do it give the same numbers.
    fn intern_words(&mut self, wanted: &[u64], groups: &mut Vec<u32>) -> Result<()> {
        if let Some(places) = places(wanted) {
            return self.intern_by_place(places, wanted, groups);
        }
        if self.slots.len() <= NEAR {
            return self.intern_near(wanted, groups);
        }
        self.intern_each(0..wanted.len(), |row| wanted[row], groups)
    }

    /// Of words that agree in all but some lower bits: each looks at the place that these bits name, instead
    /// of at a slot and at the key of its group.
    fn intern_by_place(&mut self, places: usize, wanted: &[u64], groups: &mut Vec<u32>) -> Result<()> {
        let mut found = vec![NO_GROUP; places];
        let first = groups.len();
        groups.resize(first + wanted.len(), NO_GROUP);
        for (group, &word) in groups[first..].iter_mut().zip(wanted) {
            let found = &mut found[word as usize & (places - 1)];
            if *found == NO_GROUP {
                *found = self.one(word)?;
            }
            *group = *found;
        }
        Ok(())
    }

    /// The same in a table that is in the nearest cache; a word that repeats the one before is not looked up.
    fn intern_near(&mut self, wanted: &[u64], groups: &mut Vec<u32>) -> Result<()> {
        let mut last = None;
        for &word in wanted {
            let group = match last {
                Some((last, group)) if last == word => group,
                _ => self.one(word)?,
            };
            last = Some((word, group));
            groups.push(group);
        }
        Ok(())
    }

    fn intern_tuples<const W: usize>(
        &mut self,
        tuples: &Tuples,
        rows: Range<usize>,
        groups: &mut Vec<u32>,
    ) -> Result<()> {
        match tuples.columns::<W>() {
            Some(columns) => self.intern_each(rows, |row| columns.map(|column| column[row]), groups),
            None => other_form(),
        }
    }

    /// The groups of rows of which some may be null.
    fn intern_with_nulls<K: OneKey>(
        &mut self,
        rows: Range<usize>,
        key: impl Fn(usize) -> K,
        nulls: Option<&NullBuffer>,
        groups: &mut Vec<u32>,
    ) -> Result<()> {
        let Some(nulls) = nulls else { return self.intern_each(rows, key, groups) };
        for row in rows {
            let group = if nulls.is_valid(row) { self.one(key(row))? } else { self.null_group()? };
            groups.push(group);
        }
        Ok(())
    }

    /// The groups of the keys of some rows. Slots are fetched before one of them decides anything, so that
    /// memory is waited for once for many keys.
    fn intern_each<K: OneKey>(
        &mut self,
        rows: Range<usize>,
        key: impl Fn(usize) -> K,
        groups: &mut Vec<u32>,
    ) -> Result<()> {
        let mut slots = [0; AHEAD];
        for first in rows.clone().step_by(AHEAD) {
            let fetched = first..rows.end.min(first + AHEAD);
            for (slot, row) in slots.iter_mut().zip(fetched.clone()) {
                *slot = self.slots.first(key(row).hash());
            }
            for (slot, row) in slots.iter().zip(fetched) {
                let (key, likely) = (key(row), group_of(*slot));
                groups.push(if key.is_of(&self.keys, likely) { likely } else { self.one(key)? });
            }
        }
        Ok(())
    }

    /// The group of a key; it is made if there is none.
    #[inline(always)]
    fn one<K: OneKey>(&mut self, key: K) -> Result<u32> {
        match self.slots.probe(key.hash(), |group| key.is_of(&self.keys, group)) {
            Ok(group) => Ok(group),
            Err(slot) => self.insert(key, slot),
        }
    }

    /// Makes the group of a key whose slot is empty; not inlined, so that the loop over known keys stays
    /// small.
    #[inline(never)]
    fn insert<K: OneKey>(&mut self, key: K, slot: usize) -> Result<u32> {
        let group = self.number()?;
        self.slots.insert(key.hash(), group, slot);
        key.put(&mut self.keys, group);
        Ok(group)
    }

    /// The group of the null key; it is made if there is none.
    fn null_group(&mut self) -> Result<u32> {
        if let Keys::Words { null, .. } | Keys::Bytes { null, .. } = &self.keys
            && *null != NO_GROUP
        {
            return Ok(*null);
        }
        let group = self.number()?;
        match &mut self.keys {
            Keys::Words { words, null } => {
                *null = group;
                put(words, group, 0);
            }
            Keys::Bytes { spans, null, .. } => {
                *null = group;
                put(spans, group, (0, 0));
            }
            Keys::Unit | Keys::Tuples { .. } => return other_form(),
        }
        Ok(group)
    }

    /// Appends to `groups` this table's numbers for all keys of `other`, by `other`'s numbers; nothing was
    /// ever removed from `other`.
    pub fn adopt(&mut self, other: &Groups, groups: &mut Vec<u32>) -> Result<()> {
        match &other.keys {
            Keys::Unit => {
                self.capacity = self.capacity.max(other.capacity);
                groups.extend(0..other.capacity);
                Ok(())
            }
            Keys::Words { words, null: NO_GROUP } => self.intern_words(words, groups),
            Keys::Words { words, null } => {
                let word = |(number, word): (usize, &u64)| (number as u32 != *null).then_some(*word);
                self.adopt_with_null(words.iter().enumerate().map(word), groups)
            }
            Keys::Tuples { width, words } => {
                by_width!(*width, self.adopt_tuples(words, groups), other_form())
            }
            Keys::Bytes { arena, spans, null, .. } => {
                let key = |(number, at): (usize, &(u64, u32))| {
                    (number as u32 != *null).then(|| HashedBytes::of(span(arena, *at)))
                };
                self.adopt_with_null(spans.iter().enumerate().map(key), groups)
            }
        }
    }

    fn adopt_tuples<const W: usize>(&mut self, words: &[u64], groups: &mut Vec<u32>) -> Result<()> {
        let tuples = words.as_chunks::<W>().0;
        self.intern_each(0..tuples.len(), |number| tuples[number], groups)
    }

    /// Appends the groups of keys of which one may be null.
    fn adopt_with_null<K: OneKey>(
        &mut self,
        keys: impl Iterator<Item = Option<K>>,
        groups: &mut Vec<u32>,
    ) -> Result<()> {
        for key in keys {
            let group = match key {
                Some(key) => self.one(key)?,
                None => self.null_group()?,
            };
            groups.push(group);
        }
        Ok(())
    }
}

fn other_form<T>() -> Result<T> {
    internal_err!("the keys of the table have another form")
}

/// How many places it takes to find words by the lower bits in which they differ, if that is worth it.
fn places(words: &[u64]) -> Option<usize> {
    let most = PLACES.min(words.len() / TIMES);
    let places = |words: &[u64]| {
        let differing = words.iter().fold(0, |all, word| all | (word ^ words[0]));
        let places = 1usize.checked_shl(u64::BITS - differing.leading_zeros());
        places.filter(|places| *places <= most)
    };
    // Where words differ much, the first of them say so.
    places(words.get(..MANY)?)?;
    places(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;

    /// Words get the numbers that they had before, and new ones in the order in which they come.
    fn check(runs: &[Vec<u64>]) {
        let mut groups = Groups::new(&[DataType::UInt64]);
        let mut words: Vec<u64> = vec![];
        for run in runs {
            let mut found = vec![];
            groups.intern_words(run, &mut found).unwrap();
            for (word, group) in run.iter().zip(&found) {
                if !words.contains(word) {
                    words.push(*word);
                }
                assert_eq!(words[*group as usize], *word);
            }
            assert_eq!((found.len(), groups.len()), (run.len(), words.len()));
        }
    }

    #[test]
    fn words_that_differ_in_lower_bits_are_found_by_place() {
        let run = |first: u64, step: u64, words: u64| -> Vec<u64> {
            (0..900).map(|i| first.wrapping_add(i * 7 % words * step)).collect()
        };
        assert_eq!(places(&run(1000, 1, 10)), Some(32));
        assert_eq!(places(&[9; 64]), Some(1));
        assert_eq!(places(&[9; 63]), None);
        assert_eq!(places(&run(0, 1, 900)), None);
        assert_eq!(places(&run(0, 1 << 40, 2)), None);
        assert_eq!(places(&run(u64::MAX - 1, 1, 3)), None);
        // By place, by hash, and what both know.
        check(&[run(5, 1, 20), run(u64::MAX - 1, 1, 3), run(0, 1, 30), vec![3], run(0, 1 << 40, 7), vec![]]);
    }
}
