//! An ordered multiset that finds a value by its rank.
//!
//! Invariants: the entries, read block after block, are in order and all different; no block is empty, and
//! none has more than [`MOST`] entries; no count is 0. `count` is the sum of all counts, a block's that of
//! its own. A change takes time logarithmic in the entries, plus a move of at most a block and of the list of
//! blocks; a rank is found by a walk over the blocks and one of them.
//!
//! On the wire it is a map from keys to counts, whatever its blocks are.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The most entries of a block.
const MOST: usize = 128;

#[derive(Debug, Clone)]
struct Block<K> {
    count: i64,
    entries: Vec<(K, i64)>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Multiset<K> {
    blocks: Vec<Block<K>>,
    count: i64,
    distinct: usize,
}

impl<K> Default for Multiset<K> {
    fn default() -> Self {
        Multiset { blocks: Vec::new(), count: 0, distinct: 0 }
    }
}

impl<K: Ord> Multiset<K> {
    /// How many keys there are, equal ones included.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// How many different ones.
    pub fn distinct(&self) -> usize {
        self.distinct
    }

    /// So many more of a key, or fewer.
    pub fn change(&mut self, key: K, by: i64) {
        self.count += by;
        // Keys above all others belong to the last block.
        let behind = |block: &Block<K>| block.entries.last().is_some_and(|(last, _)| *last < key);
        let at = self.blocks.partition_point(behind).min(self.blocks.len().saturating_sub(1));
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(Block { count: by, entries: vec![(key, by)] });
            self.distinct += 1;
            return;
        };
        block.count += by;
        match block.entries.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(place) => {
                block.entries[place].1 += by;
                if block.entries[place].1 == 0 {
                    block.entries.remove(place);
                    self.distinct -= 1;
                    self.shrink(at);
                }
            }
            Err(place) => {
                block.entries.insert(place, (key, by));
                self.distinct += 1;
                if block.entries.len() > MOST {
                    self.split(at);
                }
            }
        }
    }

    fn split(&mut self, at: usize) {
        let block = &mut self.blocks[at];
        let entries = block.entries.split_off(MOST / 2);
        let count = entries.iter().map(|(_, count)| count).sum();
        block.count -= count;
        self.blocks.insert(at + 1, Block { count, entries });
    }

    /// Puts a small block and the next one together, and forgets an empty one.
    fn shrink(&mut self, at: usize) {
        let len = self.blocks[at].entries.len();
        let next = self.blocks.get(at + 1).map(|block| block.entries.len());
        if len == 0 {
            self.blocks.remove(at);
        } else if next.is_some_and(|next| len < MOST / 4 && len + next <= MOST / 2) {
            let mut next = self.blocks.remove(at + 1);
            let block = &mut self.blocks[at];
            block.entries.append(&mut next.entries);
            block.count += next.count;
        }
    }

    /// The key before which there are so many.
    pub fn nth(&self, mut before: i64) -> Option<&K> {
        let mut within = |count: i64| {
            let found = before < count;
            before -= if found { 0 } else { count };
            found
        };
        let block = self.blocks.iter().find(|block| within(block.count))?;
        block.entries.iter().find(|(_, count)| within(*count)).map(|(key, _)| key)
    }

    /// The different keys in order, and how many there are of each.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, i64)> {
        self.blocks.iter().flat_map(|block| block.entries.iter()).map(|(key, count)| (key, *count))
    }

    /// The smallest key, and how many there are of it.
    pub fn first(&self) -> Option<(&K, i64)> {
        self.iter().next()
    }

    /// The largest key, and how many there are of it.
    pub fn last(&self) -> Option<(&K, i64)> {
        self.iter().next_back()
    }
}

impl<K: Ord> FromIterator<(K, i64)> for Multiset<K> {
    fn from_iter<I: IntoIterator<Item = (K, i64)>>(entries: I) -> Self {
        let mut multiset = Multiset::default();
        entries.into_iter().for_each(|(key, count)| multiset.change(key, count));
        multiset
    }
}

impl<K: Ord + Serialize> Serialize for Multiset<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries: BTreeMap<&K, i64> = self.iter().collect();
        entries.serialize(serializer)
    }
}

impl<'de, K: Ord + Deserialize<'de>> Deserialize<'de> for Multiset<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::<K, i64>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::{decode, encode};

    fn check(multiset: &Multiset<u64>, expected: &BTreeMap<u64, i64>) {
        let found: Vec<(u64, i64)> = multiset.iter().map(|(key, count)| (*key, count)).collect();
        assert_eq!(found, expected.iter().map(|(key, count)| (*key, *count)).collect::<Vec<_>>());
        assert_eq!(multiset.distinct(), expected.len());
        assert_eq!(multiset.count(), expected.values().sum::<i64>());
        assert_eq!(multiset.first().map(|(key, _)| key), expected.keys().next());
        assert_eq!(multiset.last().map(|(key, _)| key), expected.keys().next_back());
        let keys = expected.iter().flat_map(|(key, count)| std::iter::repeat_n(key, *count as usize));
        let keys: Vec<&u64> = keys.collect();
        for before in (0..keys.len()).step_by(7) {
            assert_eq!(multiset.nth(before as i64), Some(keys[before]));
        }
        assert_eq!(multiset.nth(keys.len() as i64), None);
        for block in &multiset.blocks {
            assert!((1..=MOST).contains(&block.entries.len()));
            assert_eq!(block.count, block.entries.iter().map(|(_, count)| count).sum::<i64>());
        }
    }

    #[test]
    fn it_is_what_a_map_of_counts_is() {
        let (mut multiset, mut expected) = (Multiset::default(), BTreeMap::new());
        let mut word = 7_u64;
        for step in 0..6000 {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = (word >> 33) % 700;
            // It grows, shrinks to little, and grows again.
            let leaves = (step / 1500) % 2 == 1;
            let by = if leaves { -expected.get(&key).copied().unwrap_or(0).min(2) } else { 1 };
            if by != 0 {
                multiset.change(key, by);
                *expected.entry(key).or_insert(0) += by;
                expected.retain(|_, count| *count != 0);
            }
            if step % 100 == 0 {
                check(&multiset, &expected);
            }
        }
        let bytes = encode(&multiset).expect("encodes");
        assert_eq!(bytes, encode(&expected).expect("encodes"));
        check(&decode(&bytes).expect("decodes"), &expected);
        expected.iter().for_each(|(key, count)| multiset.change(*key, -count));
        check(&multiset, &BTreeMap::new());
        assert!(multiset.blocks.is_empty());
    }
}
