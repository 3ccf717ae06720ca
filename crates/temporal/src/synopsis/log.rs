//! Rows that leave when time passes their ends, in the order in which they came.
//!
//! A row is added at the end, and one that came first and has ended goes from the front, so nobody looks for
//! it. The rows of a key are a chain from the last that came to the first: with lifetimes of one length, as
//! those of windows, a look at them meets living rows only, and the memory of a row is half a line.
//!
//! Invariants: entries are known by consecutive numbers. `heads` has the number of the last entry of each
//! group, and an entry that of the one before it in its group; if that one has gone, the number is of none,
//! or of an entry of another group. Rows that end by `past` have left. Entries of those that are not at the
//! front stay until a look passes them in the chain, and are taken out when there may be as many of them as
//! of others.

use super::RowRef;
use crate::time::{BEGINNING, Time};
use std::collections::VecDeque;

/// An entry of a row. It lies within one line of the processor's cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(super) struct LogEntry {
    pub start: Time,
    pub end: Time,
    pub row: RowRef,
    pub group: u32,
    /// The number of the entry before it in its group.
    previous: u32,
}

/// So many entries are not worth a look at all of them.
const FEW: usize = 1024;

/// The most groups of which entries are fetched at once, and the most entries of each.
const FETCHED: usize = 64;
const DEPTH: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Log {
    entries: VecDeque<LogEntry>,
    /// The number of the first entry. Numbers wrap around: what counts is the distance to this one.
    first: u32,
    heads: Vec<u32>,
    past: Time,
    /// How many entries there were when those that had left were taken out, or as few as there were since.
    swept: usize,
    /// Room for the living entries of a chain.
    chain: Vec<(Time, RowRef)>,
}

impl Default for Log {
    fn default() -> Log {
        let (entries, heads, chain) = (VecDeque::new(), Vec::new(), Vec::new());
        Log { entries, first: 0, heads, past: BEGINNING, swept: 0, chain }
    }
}

impl Log {
    /// How many entries there are, some of rows that have left.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of memory of entries and groups, without room to grow.
    pub fn memory(&self) -> usize {
        self.len() * size_of::<LogEntry>() + size_of_val(&self.heads[..])
    }

    /// Makes room for so many groups.
    pub fn grow(&mut self, groups: usize) {
        // Nothing is known of them: the number is of no entry, or of one of another group.
        self.heads.resize(groups.max(self.heads.len()), self.first.wrapping_sub(1));
    }

    /// The place of the last entry of a group.
    #[inline]
    fn head(&self, group: u32) -> Option<usize> {
        self.place(*self.heads.get(group as usize)?, group)
    }

    /// The place of the entry with this number, if it is of this group.
    #[inline]
    fn place(&self, number: u32, group: u32) -> Option<usize> {
        let place = number.wrapping_sub(self.first) as usize;
        (self.entries.get(place)?.group == group).then_some(place)
    }

    /// The place of the entry before this one in its group.
    #[inline]
    fn older(&self, place: usize) -> Option<usize> {
        let LogEntry { previous, group, .. } = self.entries[place];
        self.place(previous, group).filter(|older| *older < place)
    }

    /// Adds a row of a group for which there is room.
    #[inline]
    pub fn push(&mut self, group: u32, row: RowRef, start: Time, end: Time) {
        let number = self.first.wrapping_add(self.len() as u32);
        let previous = std::mem::replace(&mut self.heads[group as usize], number);
        self.entries.push_back(LogEntry { start, end, row, group, previous });
    }

    /// Time passes: rows that end by now leave. Shows those whose entries go.
    #[inline]
    pub fn expire(&mut self, now: Time, mut see: impl FnMut(RowRef)) {
        self.past = now;
        while let Some(entry) = self.entries.front()
            && entry.end <= now
        {
            see(entry.row);
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Shows the ends and rows of a group, in the order in which they came.
    #[inline]
    pub fn visit(&mut self, group: u32, mut see: impl FnMut(Time, RowRef)) {
        let Some(mut place) = self.head(group) else { return };
        self.chain.clear();
        let mut newer = None;
        loop {
            let LogEntry { end, row, previous, .. } = self.entries[place];
            match newer {
                _ if end > self.past => {
                    self.chain.push((end, row));
                    newer = Some(place);
                }
                // Nobody has to pass it again.
                Some(newer) => self.entries[newer].previous = previous,
                None => self.heads[group as usize] = previous,
            }
            let Some(older) = self.older(place) else { break };
            place = older;
        }
        self.chain.iter().rev().for_each(|(end, row)| see(*end, *row));
    }

    /// Whether a group has no rows.
    pub fn is_empty(&self, group: u32) -> bool {
        let mut place = self.head(group);
        while let Some(entry) = place.map(|place| &self.entries[place]) {
            if entry.end > self.past {
                return false;
            }
            place = place.and_then(|place| self.older(place));
        }
        true
    }

    /// The entries of rows that have not left, in the order in which they came.
    pub fn living(&self) -> impl Iterator<Item = &LogEntry> {
        self.entries.iter().filter(|entry| entry.end > self.past)
    }

    /// Sets where the row of each entry is; `locate` tells it by where it was.
    pub fn relocate(&mut self, mut locate: impl FnMut(RowRef) -> RowRef) {
        self.entries.iter_mut().for_each(|entry| entry.row = locate(entry.row));
    }

    /// Takes out the entries of rows that have left, if they may be as many as the others. Shows their rows.
    pub fn tidy(&mut self, see: impl FnMut(RowRef)) {
        self.swept = self.swept.min(self.len());
        if self.len() > 2 * self.swept + FEW {
            self.sweep(see);
        }
    }

    /// Takes out the entries of rows that have left. Shows their rows.
    pub fn sweep(&mut self, mut see: impl FnMut(RowRef)) {
        let room = VecDeque::with_capacity(self.entries.len());
        let entries = std::mem::replace(&mut self.entries, room);
        for entry in entries {
            match entry.end > self.past {
                true => self.push(entry.group, entry.row, entry.start, entry.end),
                false => see(entry.row),
            }
        }
        self.swept = self.len();
    }

    /// Fetches the last entries of some groups, of the first 64 at most, so that memory is waited for once.
    pub fn fetch(&self, groups: impl Iterator<Item = u32>) {
        let mut places = [0; FETCHED];
        let mut count = 0;
        for head in groups.take(FETCHED).filter_map(|group| self.head(group)) {
            places[count] = head;
            count += 1;
        }
        for _ in 1..DEPTH {
            let mut left = 0;
            for i in 0..count {
                if let Some(older) = self.older(places[i]) {
                    places[left] = older;
                    left += 1;
                }
            }
            count = left;
        }
        std::hint::black_box(places);
    }
}

#[cfg(test)]
mod tests {
    use super::{FEW, Log, LogEntry};
    use crate::time::Time;

    /// Random numbers, the same each time.
    fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |sides| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % sides
        }
    }

    /// What a log is to hold: group, end and number of each row, in order.
    type Rows = Vec<(u32, Time, u32)>;

    /// Compares a log with the rows that are alive, and those that have left with those it let go.
    fn check(log: &mut Log, alive: &Rows, let_go: usize, all: usize) {
        for group in 0..8 {
            let mut seen = Vec::new();
            log.visit(group, |end, row| seen.push((group, end, row.1)));
            assert!(seen.iter().eq(alive.iter().filter(|row| row.0 == group)));
            assert_eq!(log.is_empty(group), seen.is_empty());
        }
        assert!(
            log.living()
                .map(|LogEntry { group, end, row, .. }| (*group, *end, row.1))
                .eq(alive.iter().copied())
        );
        assert_eq!(log.len() + let_go, all);
    }

    /// Rows of random lifetimes come and leave, in a log whose numbers begin with `first`.
    fn live(first: u32, seed: u64, lifetime: impl Fn(u64) -> Time) {
        let mut log = Log { first, ..Log::default() };
        log.grow(8);
        let (mut roll, mut alive, mut let_go) = (dice(seed), Rows::new(), 0);
        for number in 0..6000 {
            let now = number as Time / 3;
            log.expire(now, |_| let_go += 1);
            alive.retain(|row| row.1 > now);
            let (group, end) = (roll(8) as u32, now + lifetime(roll(100)));
            log.push(group, (0, number), now, end);
            alive.push((group, end, number));
            if number % 7 == 0 {
                log.fetch(0..8);
                log.tidy(|_| let_go += 1);
                assert!(log.len() <= 2 * log.swept + FEW);
            }
            if number % 50 == 0 {
                check(&mut log, &alive, let_go, number as usize + 1);
            }
        }
        log.sweep(|_| let_go += 1);
        check(&mut log, &alive, let_go, 6000);
        assert_eq!(log.len(), alive.len());
    }

    #[test]
    fn rows_leave_when_time_passes_their_ends() {
        for first in [0, u32::MAX - 2000, u32::MAX] {
            // All as long, any lifetime, and some that outlive all others.
            live(first, 3, |_| 40);
            live(first, 5, |roll| 1 + roll as Time);
            live(first, 7, |roll| if roll == 0 { 100_000 } else { 1 + roll as Time % 5 });
        }
    }

    #[test]
    fn a_group_whose_number_is_used_again_has_none_of_the_old_rows() {
        let mut log = Log::default();
        log.grow(1);
        log.push(0, (0, 0), 0, 100);
        log.push(0, (0, 1), 0, 5);
        log.expire(5, |_| panic!("the first lives longer"));
        log.expire(100, |_| {});
        log.push(0, (0, 2), 100, 200);
        let mut seen = Vec::new();
        log.visit(0, |end, row| seen.push((end, row.1)));
        assert_eq!(seen, [(200, 2)]);
    }
}
