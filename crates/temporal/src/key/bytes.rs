//! Bytes of any length, hashed and compared a word at a time: a call for each takes longer than most of them.

use super::words::fold;

/// Mixes words. Saved tables of groups hold these hashes, see [`hash_word`](super::words::hash_word).
#[derive(Debug, Clone, Copy)]
pub(super) struct WordHasher {
    state: u64,
}

impl WordHasher {
    #[inline(always)]
    pub fn new() -> WordHasher {
        WordHasher { state: 0x1319_8a2e_0370_7344 }
    }

    #[inline(always)]
    pub fn add(&mut self, word: u64) {
        self.state = fold(self.state ^ word);
    }

    /// The hash of so many bytes, whose [last word](last_word) this is: zeros at the end make a difference.
    #[inline(always)]
    pub fn finish(self, last: u64, bytes: usize) -> u32 {
        (fold(fold(self.state ^ last) ^ bytes as u64) >> 32) as u32
    }
}

/// Mixes bytes.
#[inline(always)]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u32 {
    let mut hasher = WordHasher::new();
    bytes.as_chunks().0.iter().for_each(|word| hasher.add(u64::from_le_bytes(*word)));
    hasher.finish(last_word(bytes), bytes.len())
}

/// Whether bytes are the same.
#[inline(always)]
pub(crate) fn equal_bytes(one: &[u8], other: &[u8]) -> bool {
    let (words, others) = (one.as_chunks::<8>().0, other.as_chunks::<8>().0);
    one.len() == other.len()
        && words.iter().zip(others).all(|(one, other)| u64::from_le_bytes(*one) == u64::from_le_bytes(*other))
        && last_word(one) == last_word(other)
}

/// The last eight bytes; of fewer, these, with zeros in the place of those that are missing.
#[inline(always)]
pub(super) fn last_word(bytes: &[u8]) -> u64 {
    if let Some(last) = bytes.last_chunk() {
        return u64::from_le_bytes(*last);
    }
    // Parts overlap; what is in both is the same.
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (bytes.len() - 4));
    }
    let (middle, last) = (bytes.len() / 2, bytes.len().saturating_sub(1));
    let byte = |at: usize| bytes.get(at).map_or(0, |byte| u64::from(*byte) << (8 * at));
    byte(0) | byte(middle) | byte(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn bytes_that_differ_anywhere_differ() {
        let whole: Vec<u8> = (1..=40).collect();
        let mut all: Vec<Vec<u8>> = (0..=40).map(|len| whole[..len].to_vec()).collect();
        for len in 0..=40 {
            for at in 0..len {
                let mut other = whole[..len].to_vec();
                other[at] ^= 0x80;
                all.push(other);
            }
            all.push([&whole[..len], &[0]].concat());
        }
        let mut hashes: HashMap<u32, Vec<u8>> = HashMap::new();
        for one in &all {
            assert!(all.iter().all(|other| equal_bytes(one, other) == (one == other)), "{one:?}");
            let first = hashes.entry(hash_bytes(one)).or_insert_with(|| one.clone());
            assert_eq!(first, one, "the hashes of a few bytes collide");
        }
    }
}
