//! Hashes to group numbers.
//!
//! Invariants: open-addressed with linear probing at a load of at most a half, and less where there are few.
//! A slot holds the key's hash and its group number plus one (0: empty), so that a probe compares hashes in
//! one cache line before it looks at a key.

use serde::{Deserialize, Serialize};

/// What a slot holds.
#[inline(always)]
fn slot(hash: u32, group: u32) -> u64 {
    (hash as u64) << 32 | (group as u64 + 1)
}

/// The group in a slot that is not empty. In an empty one there is none: no group has the number of this.
#[inline(always)]
pub(super) fn group_of(slot: u64) -> u32 {
    (slot as u32).wrapping_sub(1)
}

/// A table of fewer slots is in a near cache, and at most a quarter of it is used: few keys are found in
/// another slot than the first, which is what a processor cannot foresee.
const SMALL: usize = 1 << 15;

/// See the module.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Slots {
    /// A power of two of them.
    slots: Vec<u64>,
    /// How many are not empty.
    used: usize,
}

impl Slots {
    /// Empty slots.
    pub fn new() -> Slots {
        Slots { slots: vec![0; 16], used: 0 }
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The bytes of memory.
    pub fn memory(&self) -> usize {
        size_of_val(&self.slots[..])
    }

    /// The groups in all slots.
    pub fn groups(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().filter(|slot| **slot != 0).map(|slot| group_of(*slot))
    }

    /// Empties all slots.
    pub fn clear(&mut self) {
        if self.used > 0 {
            self.slots.fill(0);
        }
        self.used = 0;
    }

    /// What is in the slot where the search for a hash begins.
    #[inline(always)]
    pub fn first(&self, hash: u32) -> u64 {
        self.slots[self.home(hash)]
    }

    /// The group with this hash for which `same` holds, or else the empty slot where it belongs.
    #[inline(always)]
    pub fn probe(&self, hash: u32, same: impl Fn(u32) -> bool) -> std::result::Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at & mask];
            if slot == 0 {
                return Err(at & mask);
            }
            if (slot >> 32) as u32 == hash {
                let group = group_of(slot);
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

    /// Puts a group in the empty slot `at`, and doubles the table if its load is too high.
    pub fn insert(&mut self, hash: u32, group: u32, at: usize) {
        self.slots[at] = slot(hash, group);
        self.used += 1;
        let slots_a_group = if self.slots.len() < SMALL { 4 } else { 2 };
        if self.used * slots_a_group > self.slots.len() {
            self.grow();
        }
    }

    /// Doubles the slots. They hold the hashes, so no key is read.
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![0; old.len() * 2];
        old.into_iter().filter(|&s| s != 0).for_each(|slot| self.place(slot));
    }

    /// Puts in a group that is in no slot, where there is room.
    pub fn add(&mut self, hash: u32, group: u32) {
        self.place(slot(hash, group));
        self.used += 1;
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

    /// Empties the slots of the groups that are gone, and returns these groups.
    pub fn remove_all(&mut self, is_gone: impl Fn(u32) -> bool) -> Vec<u32> {
        let (lost, kept): (Vec<u64>, Vec<u64>) =
            self.slots.iter().filter(|slot| **slot != 0).partition(|slot| is_gone(group_of(**slot)));
        self.slots.fill(0);
        self.used = kept.len();
        kept.into_iter().for_each(|slot| self.place(slot));
        lost.into_iter().map(group_of).collect()
    }

    /// Empties the slot of a group whose key has this hash; whether it had one.
    pub fn remove(&mut self, hash: u32, group: u32) -> bool {
        let Some(slot) = self.slot_of(hash, group) else { return false };
        self.vacate(slot);
        self.used -= 1;
        true
    }

    /// The slot of a group whose key has this hash.
    fn slot_of(&self, hash: u32, group: u32) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash) & mask;
        loop {
            match self.slots[at] {
                0 => return None,
                slot if group_of(slot) == group => return Some(at),
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
}
