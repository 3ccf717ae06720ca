//! Groups by their keys, where no group is made.

use super::{AHEAD, Groups, Keys, NO_GROUP, span};
use crate::key::{Key, KeyValues, hash_word};

impl Groups {
    /// Appends the group numbers of the keys of all rows to `groups`, [`NO_GROUP`] where there is none.
    pub fn find(&self, key: &Key, groups: &mut Vec<u32>) {
        match (key.values(), &self.keys) {
            (KeyValues::Unit(rows), _) => {
                let only = if self.capacity > 0 { 0 } else { NO_GROUP };
                groups.extend(std::iter::repeat_n(only, *rows));
            }
            (KeyValues::Words(words, nulls), Keys::Words { null, .. }) => match nulls {
                None => self.find_words(words, groups),
                Some(nulls) => groups.extend(
                    words
                        .iter()
                        .zip(nulls)
                        .map(|(word, valid)| if valid { self.find_word(*word) } else { *null }),
                ),
            },
            (KeyValues::Bytes(bytes), Keys::Bytes { arena, spans, .. }) => {
                groups.extend(key.hashes().iter().enumerate().map(|(row, hash)| {
                    let same = |group: u32| span(arena, spans[group as usize]) == bytes.value(row);
                    self.probe(*hash, same).unwrap_or(NO_GROUP)
                }));
            }
            // Keys of another form are equal to none.
            _ => groups.extend(std::iter::repeat_n(NO_GROUP, key.len())),
        }
    }

    /// The same for words of which none is null. Slots are fetched as in [`intern`](Groups::intern).
    fn find_words(&self, wanted: &[u64], groups: &mut Vec<u32>) {
        let Keys::Words { words, .. } = &self.keys else { return };
        let mut slots = [0; AHEAD];
        for wanted in wanted.chunks(AHEAD) {
            for (slot, &word) in slots.iter_mut().zip(wanted) {
                *slot = self.slots[self.home(hash_word(word))];
            }
            for (&slot, &word) in slots.iter().zip(wanted) {
                let likely = (slot as u32).wrapping_sub(1);
                let found = words.get(likely as usize) == Some(&word);
                groups.push(if found { likely } else { self.find_word(word) });
            }
        }
    }

    /// The group of a word, if there is one.
    fn find_word(&self, word: u64) -> u32 {
        let Keys::Words { words, .. } = &self.keys else { return NO_GROUP };
        self.probe(hash_word(word), |group| words[group as usize] == word).unwrap_or(NO_GROUP)
    }
}
