//! Keys to dense group numbers.
//!
//! Invariants: a group number below `capacity()` is either in use or on the free list; `slots` is
//! open-addressed with linear probing at a load of at most a half, a slot holding the key's hash and its
//! group number plus one (0: empty), so that a probe compares hashes in one cache line before it looks at a
//! key. State beside the table is kept in columns indexed by the group number, which is why this is not a map
//! (DESIGN §7).

mod find;
mod key_columns;
mod lingering;

pub(crate) use key_columns::KeyColumns;
pub(crate) use lingering::LingeringGroups;

use crate::key::{Key, KeyValues, hash_bytes, hash_word, is_word};
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Stands for no group. No group has this number.
pub(crate) const NO_GROUP: u32 = u32::MAX;

/// What a slot holds.
#[inline(always)]
fn slot(hash: u32, group: u32) -> u64 {
    (hash as u64) << 32 | (group as u64 + 1)
}

/// The group in a slot that is not empty.
#[inline(always)]
fn group_of(slot: u64) -> u32 {
    slot as u32 - 1
}

/// Slots of a table that is in the nearest cache anyway.
const NEAR: usize = 2048;
/// How many slots of a larger one are fetched at once.
const AHEAD: usize = 32;
/// The most places by which words are found: they stay in the nearest cache.
const PLACES: usize = 4096;
/// How often a word comes at least, on an average, to be worth a place.
const TIMES: usize = 4;
/// Fewer words are not worth places.
const MANY: usize = 64;

/// Keys by group number.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Keys {
    /// No key columns: at most one group, whose number is 0.
    Unit,
    /// The key of a group is `words[group]`; `null` is the group of the null key, or [`NO_GROUP`].
    Words { words: Vec<u64>, null: u32 },
    /// `spans[group]`: start and length of its key in `arena`; `garbage`: bytes of groups that are gone.
    Bytes { arena: Vec<u8>, spans: Vec<(u64, u32)>, garbage: usize },
}

/// Dense numbers for keys (trill.txt §5.2.2: FastDictionary, with removal).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Groups {
    /// A power of two of them.
    slots: Vec<u64>,
    /// How many slots are not empty. The group of no key and that of the null key have none.
    used: usize,
    keys: Keys,
    /// How many numbers have been given out, those on the free list included.
    capacity: u32,
    /// The numbers of groups that are gone; the last of them is given out next.
    free: Vec<u32>,
}

impl Groups {
    /// An empty table for keys of these types.
    pub fn new(types: &[DataType]) -> Groups {
        let keys = match types {
            [] => Keys::Unit,
            _ if is_word(types) => Keys::Words { words: Vec::new(), null: NO_GROUP },
            _ => Keys::Bytes { arena: Vec::new(), spans: Vec::new(), garbage: 0 },
        };
        Groups { slots: vec![0; 16], used: 0, keys, capacity: 0, free: Vec::new() }
    }

    /// One more than the largest group number ever given out since the last clear.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.capacity() - self.free.len()
    }

    /// The bytes of memory of the table and the keys.
    pub fn memory(&self) -> usize {
        let keys = match &self.keys {
            Keys::Unit => 0,
            Keys::Words { words, .. } => size_of_val(&words[..]),
            Keys::Bytes { arena, spans, .. } => arena.len() + size_of_val(&spans[..]),
        };
        keys + size_of_val(&self.slots[..]) + size_of_val(&self.free[..])
    }

    /// Forgets all keys; the memory stays.
    pub fn clear(&mut self) {
        if self.used > 0 {
            self.slots.fill(0);
        }
        self.used = 0;
        self.capacity = 0;
        self.free.clear();
        match &mut self.keys {
            Keys::Unit => {}
            Keys::Words { words, null } => {
                words.clear();
                *null = NO_GROUP;
            }
            Keys::Bytes { arena, spans, garbage } => {
                arena.clear();
                spans.clear();
                *garbage = 0;
            }
        }
    }

    /// The number of the one group there is without a key.
    pub fn only(&mut self) -> u32 {
        debug_assert!(matches!(self.keys, Keys::Unit));
        self.capacity = 1;
        0
    }

    /// Appends the group numbers of these rows' keys to `groups`, making new groups where needed.
    /// A row takes constant time on average, besides the time to compare keys that are bytes.
    ///
    /// # Errors
    /// `ResourcesExhausted` if all numbers are in use; `Internal` if the table has keys of another form.
    pub fn intern(&mut self, key: &Key, rows: Range<usize>, groups: &mut Vec<u32>) -> Result<()> {
        groups.reserve(rows.len());
        match key.values() {
            KeyValues::Unit(_) => {
                let only = self.only();
                groups.extend(rows.map(|_| only));
            }
            KeyValues::Words(words, None) => self.intern_words(&words[rows], groups)?,
            KeyValues::Words(words, Some(nulls)) => {
                for i in rows {
                    let group = if nulls.is_valid(i) { self.word(words[i])? } else { self.null_group()? };
                    groups.push(group);
                }
            }
            KeyValues::Bytes(bytes) => {
                let hashes = key.hashes();
                for i in rows {
                    let group = self.bytes(bytes.value(i), hashes[i])?;
                    groups.push(group);
                }
            }
        }
        Ok(())
    }

    /// The same for words of which none is null. The three ways to do it give the same numbers.
    fn intern_words(&mut self, wanted: &[u64], groups: &mut Vec<u32>) -> Result<()> {
        if let Some(places) = places(wanted) {
            return self.intern_by_place(places, wanted, groups);
        }
        if self.slots.len() <= NEAR {
            return self.intern_near(wanted, groups);
        }
        // Slots are fetched before one of them decides anything, so that memory is waited for once for many
        // words.
        let mut slots = [0; AHEAD];
        for wanted in wanted.chunks(AHEAD) {
            for (slot, &word) in slots.iter_mut().zip(wanted) {
                *slot = self.slots[self.home(hash_word(word))];
            }
            for (&slot, &word) in slots.iter().zip(wanted) {
                let likely = (slot as u32).wrapping_sub(1);
                let found = matches!(&self.keys, Keys::Words { words, .. } if words.get(likely as usize) == Some(&word));
                groups.push(if found { likely } else { self.word(word)? });
            }
        }
        Ok(())
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
                *found = self.word(word)?;
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
                _ => self.word(word)?,
            };
            last = Some((word, group));
            groups.push(group);
        }
        Ok(())
    }

    /// The group of a word; it is made if there is none.
    #[inline(always)]
    fn word(&mut self, word: u64) -> Result<u32> {
        let hash = hash_word(word);
        let Keys::Words { words, .. } = &self.keys else { return internal_err!("the key is not a word") };
        match self.probe(hash, |g| words[g as usize] == word) {
            Ok(group) => Ok(group),
            Err(slot) => self.insert_word(word, hash, slot),
        }
    }

    /// Makes the group of a word; not inlined, so that the loop over known words stays small.
    #[inline(never)]
    fn insert_word(&mut self, word: u64, hash: u32, slot: usize) -> Result<u32> {
        let group = self.insert(hash, slot)?;
        if let Keys::Words { words, .. } = &mut self.keys {
            put(words, group, word);
        }
        Ok(group)
    }

    /// The group of the null key; it is made if there is none.
    fn null_group(&mut self) -> Result<u32> {
        if let Keys::Words { null, .. } = &self.keys
            && *null != NO_GROUP
        {
            return Ok(*null);
        }
        let group = self.number()?;
        if let Keys::Words { words, null } = &mut self.keys {
            *null = group;
            put(words, group, 0);
        }
        Ok(group)
    }

    /// The group of a key in bytes; it is made if there is none.
    fn bytes(&mut self, value: &[u8], hash: u32) -> Result<u32> {
        let Keys::Bytes { arena, spans, .. } = &self.keys else {
            return internal_err!("the key is not bytes");
        };
        match self.probe(hash, |g| span(arena, spans[g as usize]) == value) {
            Ok(group) => Ok(group),
            Err(slot) => {
                let group = self.insert(hash, slot)?;
                if let Keys::Bytes { arena, spans, .. } = &mut self.keys {
                    put(spans, group, (arena.len() as u64, value.len() as u32));
                    arena.extend_from_slice(value);
                }
                Ok(group)
            }
        }
    }

    /// The group with this hash for which `same` holds, or else the empty slot where it belongs.
    #[inline(always)]
    fn probe(&self, hash: u32, same: impl Fn(u32) -> bool) -> std::result::Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at & mask];
            if slot == 0 {
                return Err(at & mask);
            }
            if (slot >> 32) as u32 == hash {
                let group = slot as u32 - 1;
                if same(group) {
                    return Ok(group);
                }
            }
            at += 1;
        }
    }

    /// The slot where the search for a hash begins: its upper bits, because the lower ones tell shards apart.
    #[inline(always)]
    fn home(&self, hash: u32) -> usize {
        ((hash as u64 * self.slots.len() as u64) >> 32) as usize
    }

    /// Makes a group in the empty slot `at`, and doubles the table if its load passes a half. The caller
    /// notes the key.
    fn insert(&mut self, hash: u32, at: usize) -> Result<u32> {
        let group = self.number()?;
        self.slots[at] = slot(hash, group);
        self.used += 1;
        if self.used * 2 > self.slots.len() {
            self.grow();
        }
        Ok(group)
    }

    /// A number that is not in use; `ResourcesExhausted` if there is none.
    fn number(&mut self) -> Result<u32> {
        if let Some(group) = self.free.pop() {
            return Ok(group);
        }
        let group = self.capacity;
        if group == NO_GROUP - 1 {
            return Err(datafusion::common::DataFusionError::ResourcesExhausted(
                "more than four thousand million groups are alive in one shard; use more shards".into(),
            ));
        }
        self.capacity += 1;
        Ok(group)
    }

    /// Doubles the slots. They hold the hashes, so no key is read.
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![0; old.len() * 2];
        old.into_iter().filter(|&s| s != 0).for_each(|slot| self.place(slot));
    }

    /// Puts the content of a slot where a search for its hash finds it.
    fn place(&mut self, slot: u64) {
        let mask = self.slots.len() - 1;
        let mut at = self.home((slot >> 32) as u32);
        while self.slots[at & mask] != 0 {
            at += 1;
        }
        self.slots[at & mask] = slot;
    }

    /// Forgets the groups that are gone, in one pass: cheaper than one by one if they are many. Numbers that
    /// are not in use have to be gone, too.
    pub fn remove_all(&mut self, is_gone: impl Fn(u32) -> bool) {
        let all = self.capacity;
        match &mut self.keys {
            Keys::Unit if all > 0 && is_gone(0) => self.capacity = 0,
            Keys::Unit => {}
            Keys::Words { words, null } => {
                if *null != NO_GROUP && is_gone(*null) {
                    *null = NO_GROUP;
                }
                let (null, words) = (*null, std::mem::take(words));
                let (mut gone, kept) = partition(all, is_gone);
                // The lowest are given out first: what comes together then lies together.
                gone.reverse();
                self.free = gone;
                self.slots.fill(0);
                let kept = kept.into_iter().filter(|group| *group != null);
                self.used =
                    kept.map(|group| self.place(slot(hash_word(words[group as usize]), group))).count();
                self.keys = Keys::Words { words, null };
            }
            Keys::Bytes { .. } => self.remove_all_bytes(is_gone),
        }
    }

    /// The hash of bytes is dear: it is taken from the slots.
    fn remove_all_bytes(&mut self, is_gone: impl Fn(u32) -> bool) {
        let (lost, kept): (Vec<u64>, Vec<u64>) =
            self.slots.iter().filter(|slot| **slot != 0).partition(|slot| is_gone(group_of(**slot)));
        lost.into_iter().for_each(|slot| self.release(group_of(slot)));
        self.slots.fill(0);
        kept.into_iter().for_each(|slot| self.place(slot));
        self.collect_garbage();
    }

    /// Takes back the number of a group that is in no slot any more.
    fn release(&mut self, group: u32) {
        self.used -= 1;
        self.free.push(group);
        if let Keys::Bytes { spans, garbage, .. } = &mut self.keys {
            *garbage += std::mem::take(&mut spans[group as usize]).1 as usize;
        }
    }

    /// Forgets one group; its number will be given out again. A group that is forgotten already stays so.
    pub fn remove(&mut self, group: u32) {
        let hash = match &mut self.keys {
            Keys::Unit => {
                self.capacity = 0;
                return;
            }
            Keys::Words { null, .. } if *null == group => {
                *null = NO_GROUP;
                self.free.push(group);
                return;
            }
            Keys::Words { words, .. } => hash_word(words[group as usize]),
            Keys::Bytes { arena, spans, .. } => hash_bytes(span(arena, spans[group as usize])),
        };
        if let Ok(slot) = self.slot_of(hash, group) {
            self.vacate(slot);
            self.release(group);
            self.collect_garbage();
        }
    }

    /// The slot of a group whose key has this hash, or else the empty slot at which the search ends.
    fn slot_of(&self, hash: u32, group: u32) -> std::result::Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash) & mask;
        loop {
            match self.slots[at] {
                0 => return Err(at),
                slot if slot as u32 - 1 == group => return Ok(at),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Empties a slot and moves later ones of the same run back, so that no search is cut short.
    /// (Knuth, The Art of Computer Programming, volume 3, §6.4, algorithm R.)
    fn vacate(&mut self, slot: usize) {
        let mask = self.slots.len() - 1;
        let (mut hole, mut at) = (slot, slot);
        loop {
            at = (at + 1) & mask;
            let moved = self.slots[at];
            if moved == 0 {
                break;
            }
            let home = self.home((moved >> 32) as u32) & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = moved;
                hole = at;
            }
        }
        self.slots[hole] = 0;
    }

    /// Rewrites the arena once most of it belongs to removed groups.
    /// It copies no more bytes than were removed since the last time.
    fn collect_garbage(&mut self) {
        let Keys::Bytes { arena, spans, garbage } = &mut self.keys else { return };
        if *garbage < 1 << 16 || *garbage * 2 < arena.len() {
            return;
        }
        let mut kept = Vec::with_capacity(arena.len() - *garbage);
        for slot in self.slots.iter().filter(|&&s| s != 0) {
            let at = &mut spans[(*slot as u32 - 1) as usize];
            let start = kept.len() as u64;
            kept.extend_from_slice(span(arena, *at));
            *at = (start, at.1);
        }
        *arena = kept;
        *garbage = 0;
    }

    /// Appends to `groups` this table's numbers for all keys of `other`, by `other`'s numbers; nothing was
    /// ever removed from `other`.
    pub fn adopt(&mut self, other: &Groups, groups: &mut Vec<u32>) -> Result<()> {
        match &other.keys {
            Keys::Unit => {
                self.capacity = self.capacity.max(other.capacity);
                groups.extend(0..other.capacity);
            }
            Keys::Words { words, null: NO_GROUP } => self.intern_words(words, groups)?,
            Keys::Words { words, null } => {
                for (i, &word) in words.iter().enumerate() {
                    let group = if i as u32 == *null { self.null_group()? } else { self.word(word)? };
                    groups.push(group);
                }
            }
            Keys::Bytes { arena, spans, .. } => {
                for &at in spans {
                    let value = span(arena, at);
                    let group = self.bytes(value, hash_bytes(value))?;
                    groups.push(group);
                }
            }
        }
        Ok(())
    }

    /// Appends the keys of these groups to columns that are being built.
    pub fn append(&self, groups: &[u32], out: &mut KeyColumns) {
        match (&self.keys, out) {
            (Keys::Words { words, null }, KeyColumns::Words(values, nulls)) => {
                values.extend(groups.iter().map(|&g| words[g as usize]));
                match *null {
                    NO_GROUP => nulls.append_n_non_nulls(groups.len()),
                    null => groups.iter().for_each(|&g| nulls.append(g != null)),
                }
            }
            (Keys::Bytes { arena, spans, .. }, KeyColumns::Bytes(bytes)) => {
                groups.iter().for_each(|&g| bytes.append_value(span(arena, spans[g as usize])));
            }
            _ => {}
        }
    }
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

#[inline]
fn span(arena: &[u8], (start, len): (u64, u32)) -> &[u8] {
    &arena[start as usize..start as usize + len as usize]
}

/// The numbers below `all` that are gone, and those that are not. Each is written to both lists and counts in
/// one: what comes next is not to be foreseen.
fn partition(all: u32, is_gone: impl Fn(u32) -> bool) -> (Vec<u32>, Vec<u32>) {
    let (mut gone, mut kept) = (vec![0; all as usize], vec![0; all as usize]);
    let (mut next_gone, mut next_kept) = (0, 0);
    for number in 0..all {
        let is_gone = is_gone(number);
        gone[next_gone] = number;
        kept[next_kept] = number;
        next_gone += is_gone as usize;
        next_kept += !is_gone as usize;
    }
    gone.truncate(next_gone);
    kept.truncate(next_kept);
    (gone, kept)
}

/// `column[group] = value`, for a group that is new or was used before.
fn put<T: Clone>(column: &mut Vec<T>, group: u32, value: T) {
    match column.get_mut(group as usize) {
        Some(place) => *place = value,
        None => column.push(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
