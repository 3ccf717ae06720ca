//! Keys to dense group numbers.
//!
//! Invariants: a group number below `capacity()` is either in use or on the free list; every group in use but
//! that of no key and that of the null key has one of the `slots`. State beside the table is kept in columns
//! indexed by the group number, which is why this is not a map (DESIGN §7).

mod find;
mod intern;
mod key_columns;
mod lingering;
mod one_key;
mod slots;

pub(crate) use key_columns::KeyColumns;
pub(crate) use lingering::LingeringGroups;

use crate::key::{KeyForm, hash_bytes, hash_tuple, hash_word};
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use slots::Slots;

/// Stands for no group. No group has this number.
pub(crate) const NO_GROUP: u32 = u32::MAX;

/// How many slots of a table that is not in the nearest cache are fetched at once.
const AHEAD: usize = 32;

/// Keys by group number.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Keys {
    /// No key columns: at most one group, whose number is 0.
    Unit,
    /// The key of a group is `words[group]`; `null` is the group of the null key, or [`NO_GROUP`].
    Words { words: Vec<u64>, null: u32 },
    /// The keys of all groups, one after the other, each of `width` words.
    Tuples { width: usize, words: Vec<u64> },
    /// `spans[group]`: start and length of its key in `arena`; `garbage`: bytes of groups that are gone;
    /// `null`: as above, where keys are texts.
    Bytes { arena: Vec<u8>, spans: Vec<(u64, u32)>, garbage: usize, null: u32 },
}

/// Dense numbers for keys (trill.txt §5.2.2: FastDictionary, with removal).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Groups {
    slots: Slots,
    keys: Keys,
    /// How many numbers have been given out, those on the free list included.
    capacity: u32,
    /// The numbers of groups that are gone; the last of them is given out next.
    free: Vec<u32>,
}

impl Groups {
    /// An empty table for keys of these types.
    pub fn new(types: &[DataType]) -> Groups {
        let keys = match KeyForm::of(types) {
            KeyForm::Unit => Keys::Unit,
            KeyForm::Words => Keys::Words { words: Vec::new(), null: NO_GROUP },
            KeyForm::Tuples(width) => Keys::Tuples { width, words: Vec::new() },
            KeyForm::Texts | KeyForm::Mixed | KeyForm::Bytes => {
                Keys::Bytes { arena: Vec::new(), spans: Vec::new(), garbage: 0, null: NO_GROUP }
            }
        };
        Groups { slots: Slots::new(), keys, capacity: 0, free: Vec::new() }
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
            Keys::Words { words, .. } | Keys::Tuples { words, .. } => size_of_val(&words[..]),
            Keys::Bytes { arena, spans, .. } => arena.len() + size_of_val(&spans[..]),
        };
        keys + self.slots.memory() + size_of_val(&self.free[..])
    }

    /// Forgets all keys; the memory stays.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.capacity = 0;
        self.free.clear();
        match &mut self.keys {
            Keys::Unit => {}
            Keys::Words { words, null } => {
                words.clear();
                *null = NO_GROUP;
            }
            Keys::Tuples { words, .. } => words.clear(),
            Keys::Bytes { arena, spans, garbage, null } => {
                arena.clear();
                spans.clear();
                *garbage = 0;
                *null = NO_GROUP;
            }
        }
    }

    /// The number of the one group there is without a key.
    pub fn only(&mut self) -> u32 {
        debug_assert!(matches!(self.keys, Keys::Unit));
        self.capacity = 1;
        0
    }

    /// A number that is not in use; `ResourcesExhausted` if there is none.
    fn number(&mut self) -> Result<u32> {
        if let Some(group) = self.free.pop() {
            return Ok(group);
        }
        let group = self.capacity;
        if group == NO_GROUP - 1 {
            return Err(DataFusionError::ResourcesExhausted(
                "more than four thousand million groups are alive in one shard; use more shards".into(),
            ));
        }
        self.capacity += 1;
        Ok(group)
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
                self.slots.clear();
                let kept = kept.into_iter().filter(|group| *group != null);
                kept.for_each(|group| self.slots.add(hash_word(words[group as usize]), group));
                self.keys = Keys::Words { words, null };
            }
            // Their hashes are dear: those in the slots are used.
            Keys::Tuples { .. } | Keys::Bytes { .. } => {
                if let Keys::Bytes { null, .. } = &mut self.keys
                    && *null != NO_GROUP
                    && is_gone(*null)
                {
                    self.free.push(std::mem::replace(null, NO_GROUP));
                }
                self.slots.remove_all(is_gone).into_iter().for_each(|group| self.release(group));
                self.collect_garbage();
            }
        }
    }

    /// Takes back the number of a group that is in no slot any more.
    fn release(&mut self, group: u32) {
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
            Keys::Words { null, .. } | Keys::Bytes { null, .. } if *null == group => {
                *null = NO_GROUP;
                self.free.push(group);
                return;
            }
            Keys::Words { words, .. } => hash_word(words[group as usize]),
            Keys::Tuples { width, words } => hash_tuple(tuple(words, *width, group)),
            Keys::Bytes { arena, spans, .. } => hash_bytes(span(arena, spans[group as usize])),
        };
        if self.slots.remove(hash, group) {
            self.release(group);
            self.collect_garbage();
        }
    }

    /// Rewrites the arena once most of it belongs to removed groups.
    /// It copies no more bytes than were removed since the last time.
    fn collect_garbage(&mut self) {
        let Keys::Bytes { arena, spans, garbage, .. } = &mut self.keys else { return };
        if *garbage < 1 << 16 || *garbage * 2 < arena.len() {
            return;
        }
        let mut kept = Vec::with_capacity(arena.len() - *garbage);
        for group in self.slots.groups() {
            let at = &mut spans[group as usize];
            let start = kept.len() as u64;
            kept.extend_from_slice(span(arena, *at));
            *at = (start, at.1);
        }
        *arena = kept;
        *garbage = 0;
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
            (Keys::Tuples { width, words }, KeyColumns::Tuples(columns)) => {
                for (place, column) in columns.iter_mut().enumerate() {
                    column.extend(groups.iter().map(|&g| words[g as usize * width + place]));
                }
            }
            (Keys::Bytes { arena, spans, null, .. }, KeyColumns::Bytes(bytes)) => {
                groups.iter().for_each(|&g| match g == *null {
                    true => bytes.append_null(),
                    false => bytes.append_value(span(arena, spans[g as usize])),
                });
            }
            _ => {}
        }
    }
}

/// The words of a group's key; none if there is no such group.
#[inline(always)]
fn tuple(words: &[u64], width: usize, group: u32) -> &[u64] {
    let first = group as usize * width;
    words.get(first..first + width).unwrap_or_default()
}

#[inline(always)]
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
    use crate::key::Key;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow::compute::cast;
    use arrow::datatypes::{Field, Schema};
    use std::collections::HashMap;
    use std::sync::Arc;

    /// Pseudorandom numbers.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    /// Columns of these types that tell the numbers apart; every seventh number is null in the last of them.
    fn columns(numbers: &[u64], types: &[DataType]) -> RecordBatch {
        let column = |(place, of): (usize, &DataType)| -> ArrayRef {
            let number = |number: &u64| {
                let is_null = place + 1 == types.len() && number % 7 == 3;
                (!is_null).then_some(if place == 0 { *number as i64 } else { (*number % 3) as i64 })
            };
            let numbers: Vec<Option<i64>> = numbers.iter().map(number).collect();
            match of {
                DataType::Utf8 | DataType::Utf8View => {
                    let text = |n: i64| format!("text {}", "x".repeat(n as usize % 40)) + &n.to_string();
                    let texts: StringArray = numbers.into_iter().map(|n| n.map(text)).collect();
                    cast(&texts, of).unwrap()
                }
                of => cast(&Int64Array::from(numbers), of).unwrap(),
            }
        };
        let fields = types.iter().map(|of| Field::new("key", of.clone(), true)).collect::<Vec<_>>();
        let arrays = types.iter().enumerate().map(column).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
    }

    /// The keys that `columns` makes of two numbers are equal exactly if these are.
    fn key_of(number: u64, columns: usize) -> u64 {
        // A null makes all numbers the same, where there is one column.
        if columns == 1 && number % 7 == 3 { 3 } else { number }
    }

    /// Keys of every form come, are found, and go, one by one and many at once, as in a map.
    #[test]
    fn groups_are_those_of_a_map() {
        use DataType::*;
        let forms = [
            vec![Int64],
            vec![Float64],
            vec![Int64, Int32],
            vec![Int32, Date32, Int64],
            vec![Int64, Boolean, UInt8, Float64],
            vec![Utf8],
            vec![Utf8View],
            vec![Utf8, Int64],
            vec![Int64, Utf8View],
            vec![Utf8, Utf8View, Date32],
            vec![Utf8, Decimal128(20, 0)],
            vec![Int64; 5],
        ];
        for types in forms {
            let mut random = Random(types.len() as u64);
            let mut groups = Groups::new(&types);
            let mut known: HashMap<u64, u32> = HashMap::new();
            for round in 0..60 {
                let wanted: Vec<u64> = (0..random.below(300)).map(|_| random.below(2_000)).collect();
                let rows = columns(&wanted, &types);
                let all: Vec<usize> = (0..types.len()).collect();
                let key = Key::of(&rows, &all).unwrap();
                let (mut found, mut numbers) = (vec![], vec![]);
                groups.find(&key, &mut found);
                let before = known.clone();
                groups.intern(&key, 0..wanted.len(), &mut numbers).unwrap();
                for ((number, found), group) in wanted.iter().zip(found).zip(&numbers) {
                    let number = key_of(*number, types.len());
                    let expected = before.get(&number).copied().unwrap_or(NO_GROUP);
                    assert_eq!(found, expected, "{types:?}, {round}");
                    assert_eq!(known.insert(number, *group).unwrap_or(*group), *group, "{types:?}, {round}");
                }
                let mut out = KeyColumns::new(&types);
                groups.append(&numbers, &mut out);
                assert_eq!(out.finish(&types).unwrap(), rows.columns(), "{types:?}, {round}");
                if round % 5 == 4 {
                    let is_kept: Vec<bool> = (0..groups.capacity()).map(|_| random.below(3) == 0).collect();
                    known.retain(|_, group| is_kept[*group as usize]);
                    let alive: Vec<u32> = known.values().copied().collect();
                    groups.remove_all(|group| !alive.contains(&group));
                } else {
                    let gone: Vec<u64> = known.keys().filter(|_| random.below(4) == 0).copied().collect();
                    gone.iter()
                        .filter_map(|number| known.remove(number))
                        .for_each(|group| groups.remove(group));
                }
                assert_eq!(groups.len(), known.len(), "{types:?}, {round}");
                let saved = postcard::to_stdvec(&groups).unwrap();
                groups = postcard::from_bytes(&saved).unwrap();
            }
            let mut other = Groups::new(&types);
            let rows = columns(&[5, 9, 3, 5], &types);
            let all: Vec<usize> = (0..types.len()).collect();
            let key = Key::of(&rows, &all).unwrap();
            let (mut numbers, mut adopted, mut expected) = (vec![], vec![], vec![]);
            other.intern(&key, 0..4, &mut numbers).unwrap();
            groups.adopt(&other, &mut adopted).unwrap();
            groups.intern(&key, 0..3, &mut expected).unwrap();
            assert_eq!(adopted, expected, "{types:?}");
        }
    }
}
