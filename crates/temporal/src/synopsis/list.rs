//! The entries of one group, in the order in which they came.
//!
//! Invariants: the first entry lies in the list itself, since most groups have one; the others lie together,
//! so that a look at all of them waits for memory once. Of the others, those that were removed stay at their
//! places until they are at an end or more than half; neither the first nor the last is a removed one.

use super::Entry;
use std::collections::VecDeque;

/// Lists with more room than this give back what they do not use.
const ROOM: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct List {
    /// Removed: the list is empty.
    first: Entry,
    rest: Rest,
}

/// The entries behind the first.
#[derive(Debug, Default)]
struct Rest {
    entries: VecDeque<Entry>,
    /// How many of them have been removed.
    removed: usize,
}

impl Default for List {
    fn default() -> List {
        List { first: Entry::REMOVED, rest: Rest::default() }
    }
}

impl List {
    /// Adds an entry that came after all others. It takes constant time on average.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        match self.is_empty() {
            true => self.first = entry,
            false => self.rest.entries.push_back(entry),
        }
    }

    /// The entry with this number, unless it has been removed. The first entry is found at once, others in
    /// logarithmic time.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&Entry> {
        let entry = match self.first.number == number {
            true => &self.first,
            false => self.rest.get(number)?,
        };
        (!entry.is_removed()).then_some(entry)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut Entry> {
        let entry = match self.first.number == number {
            true => &mut self.first,
            false => self.rest.get_mut(number)?,
        };
        (!entry.is_removed()).then_some(entry)
    }

    /// Removes the entry with this number, and returns it. It takes constant time on average if it is the
    /// first, else logarithmic time.
    #[inline]
    pub fn remove(&mut self, number: u64) -> Option<Entry> {
        if self.first.number != number {
            return self.rest.remove(number);
        }
        let next = self.rest.pop().unwrap_or(Entry::REMOVED);
        Some(std::mem::replace(&mut self.first, next)).filter(|entry| !entry.is_removed())
    }

    /// Removes all entries, and puts them behind `entries`, in order.
    fn drain(&mut self, entries: &mut Vec<Entry>) {
        let first = std::mem::replace(&mut self.first, Entry::REMOVED);
        let rest = self.rest.entries.drain(..);
        entries.extend(std::iter::once(first).chain(rest).filter(|entry| !entry.is_removed()));
        self.rest.removed = 0;
        self.rest.trim();
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_removed()
    }

    /// The entries that have not been removed.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        std::iter::once(&self.first).chain(self.rest.entries.iter()).filter(|entry| !entry.is_removed())
    }
}

impl Rest {
    fn get(&self, number: u64) -> Option<&Entry> {
        self.entries.get(self.entries.binary_search_by_key(&number, |entry| entry.number).ok()?)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Entry> {
        let place = self.entries.binary_search_by_key(&number, |entry| entry.number).ok()?;
        self.entries.get_mut(place)
    }

    /// Takes out the first of them.
    fn pop(&mut self) -> Option<Entry> {
        let first = self.entries.pop_front()?;
        self.trim();
        Some(first)
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.get_mut(number).filter(|entry| !entry.is_removed())?;
        let removed = Entry { number, ..Entry::REMOVED };
        let entry = std::mem::replace(entry, removed);
        self.removed += 1;
        self.trim();
        Some(entry)
    }

    /// Takes out removed entries where the invariants ask for it, and gives back room.
    fn trim(&mut self) {
        while self.removed > 0 && self.entries.front().is_some_and(Entry::is_removed) {
            self.entries.pop_front();
            self.removed -= 1;
        }
        while self.removed > 0 && self.entries.back().is_some_and(Entry::is_removed) {
            self.entries.pop_back();
            self.removed -= 1;
        }
        if self.removed * 2 > self.entries.len() {
            self.entries.retain(|entry| !entry.is_removed());
            self.removed = 0;
        }
        if self.entries.capacity() > ROOM && self.entries.len() * 4 < self.entries.capacity() {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }
}

/// Stands for no list.
const NONE: u32 = u32::MAX;

/// The most lists that are fetched at once.
const FETCHED: usize = 64;

/// The lists of all groups. A group without entries has none, so that what is looked at lies close together.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Where the list of each group is.
    places: Vec<u32>,
    lists: Vec<List>,
    /// Where lists are that are empty.
    free: Vec<u32>,
}

impl Lists {
    /// The bytes of memory of the lists, without room to grow.
    pub fn memory(&self) -> usize {
        let further: usize = self.lists.iter().map(|list| list.rest.entries.len()).sum();
        size_of_val(&self.places[..]) + size_of_val(&self.lists[..]) + further * size_of::<Entry>()
    }

    /// Makes room for so many groups.
    pub fn grow(&mut self, groups: usize) {
        self.places.resize(groups.max(self.places.len()), NONE);
    }

    /// How many groups there may be.
    pub fn groups(&self) -> u32 {
        self.places.len() as u32
    }

    /// The list of a group, if it has entries.
    #[inline]
    pub fn of(&self, group: u32) -> Option<&List> {
        self.lists.get(*self.places.get(group as usize)? as usize)
    }

    #[inline]
    pub fn of_mut(&mut self, group: u32) -> Option<&mut List> {
        self.lists.get_mut(*self.places.get(group as usize)? as usize)
    }

    /// Adds an entry to the list of a group for which there is room.
    #[inline]
    pub fn push(&mut self, group: u32, entry: Entry) {
        let place = &mut self.places[group as usize];
        if *place == NONE {
            *place = self.free.pop().unwrap_or_else(|| {
                self.lists.push(List::default());
                self.lists.len() as u32 - 1
            });
        }
        self.lists[*place as usize].push(entry);
    }

    /// Removes an entry of a group, and returns it.
    #[inline]
    pub fn remove(&mut self, group: u32, number: u64) -> Option<Entry> {
        let list = self.of_mut(group)?;
        let entry = list.remove(number)?;
        if list.is_empty() {
            self.free.push(std::mem::replace(&mut self.places[group as usize], NONE));
        }
        Some(entry)
    }

    /// Removes all entries of a group, and puts them behind `entries`, in order.
    pub fn take(&mut self, group: u32, entries: &mut Vec<Entry>) {
        let Some(list) = self.of_mut(group) else { return };
        list.drain(entries);
        self.free.push(std::mem::replace(&mut self.places[group as usize], NONE));
    }

    /// Fetches the lists of some groups, of the first 64 at most, so that memory is waited for once.
    pub fn fetch(&self, groups: impl Iterator<Item = u32>) {
        let mut places = [NONE; FETCHED];
        let mut count = 0;
        for (place, group) in places.iter_mut().zip(groups) {
            *place = self.places[group as usize];
            count += 1;
        }
        let lists = || places[..count].iter().filter_map(|place| self.lists.get(*place as usize));
        std::hint::black_box(lists().fold(0, |all, list| all ^ list.first.number ^ list.rest.removed as u64));
        let next = lists().filter_map(|list| list.rest.entries.front());
        std::hint::black_box(next.fold(0, |all, entry| all ^ entry.number));
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, List};

    #[test]
    fn entries_leave_in_any_order() {
        let mut list = List::default();
        for number in 0..1000 {
            list.push(Entry { start: 0, end: 1, note: 0, row: (0, 0), number });
        }
        let mut left: Vec<u64> = (0..1000).collect();
        for step in 0..1000_u64 {
            let number = left.remove((step * 7919 % (1000 - step)) as usize);
            assert_eq!(list.remove(number).map(|entry| entry.number), Some(number));
            assert!(list.remove(number).is_none() && list.get(number).is_none());
            assert!(list.iter().map(|entry| entry.number).eq(left.iter().copied()));
            assert!(list.rest.removed * 2 <= list.rest.entries.len());
        }
        assert!(list.is_empty() && list.rest.entries.capacity() <= 64);
    }
}
