//! Ends in buckets by time, for those that come in any order: a radix heap with 64 buckets a level.
//!
//! Invariants: no end in the buckets is at `base` or before it; an end is in the level of the highest six
//! bits in which its time differs from `base`, there in the bucket that these bits name. So all ends of a
//! level come before those of higher levels, and the buckets of a level are in order of time. When the first
//! bucket is due, its ends move to lower levels, or out: an end within 4096 instants of `base` moves twice.

use crate::time::Time;

/// How many bits tell the buckets of a level apart.
const BITS: u32 = 6;
const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;
const BUCKETS: usize = 1 << BITS;
/// A bucket that becomes empty keeps room for so many ends at most.
const ROOM: usize = 1024;

/// The buckets of a level.
#[derive(Debug)]
struct Level<T> {
    buckets: [Vec<(Time, T)>; BUCKETS],
    /// The buckets that are not empty, a bit for each.
    occupied: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Buckets<T> {
    base: u64,
    /// None: nothing was ever in this level.
    levels: [Option<Box<Level<T>>>; LEVELS],
    /// The levels that are not empty, a bit for each.
    occupied: u32,
    len: usize,
}

/// The time as a number without a sign, in the same order.
fn unsigned(time: Time) -> u64 {
    time as u64 ^ (1 << 63)
}

/// The reverse of [`unsigned`].
fn signed(number: u64) -> Time {
    (number ^ (1 << 63)) as Time
}

impl<T> Default for Buckets<T> {
    fn default() -> Buckets<T> {
        Buckets { base: 0, levels: [const { None }; LEVELS], occupied: 0, len: 0 }
    }
}

impl<T: Copy> Buckets<T> {
    /// How many ends there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds an end; returns it if it is not after what has moved out already.
    pub fn push(&mut self, end: (Time, T)) -> Option<(Time, T)> {
        let number = unsigned(end.0);
        if number <= self.base {
            return Some(end);
        }
        let level = ((number ^ self.base).ilog2() / BITS) as usize;
        let bucket = (number >> (level as u32 * BITS)) as usize % BUCKETS;
        let of_level = self.levels[level]
            .get_or_insert_with(|| Box::new(Level { buckets: [const { Vec::new() }; BUCKETS], occupied: 0 }));
        of_level.buckets[bucket].push(end);
        of_level.occupied |= 1 << bucket;
        self.occupied |= 1 << level;
        self.len += 1;
        None
    }

    /// No end is before this instant; none: there are no ends.
    pub fn earliest(&self) -> Option<Time> {
        let (level, bucket) = self.first()?;
        Some(signed(self.start(level, bucket)))
    }

    /// The first bucket that is not empty: its level, and its number there.
    fn first(&self) -> Option<(usize, usize)> {
        let level = (self.occupied > 0).then(|| self.occupied.trailing_zeros() as usize)?;
        let occupied = self.levels[level].as_ref()?.occupied;
        Some((level, occupied.trailing_zeros() as usize))
    }

    /// The first instant of a bucket.
    fn start(&self, level: usize, bucket: usize) -> u64 {
        let shift = level as u32 * BITS;
        // The bits of the level and of those below it.
        let low = u64::MAX >> (u64::BITS - (shift + BITS).min(u64::BITS));
        (self.base & !low) | ((bucket as u64) << shift)
    }

    /// Moves the first ends out, into `out`: at least one, in any order, and with each end all others at its
    /// instant. All that stay come after them.
    pub fn move_first(&mut self, out: &mut impl Extend<(Time, T)>) {
        let before = self.len;
        while self.len == before
            && let Some((level, bucket)) = self.first()
        {
            self.base = self.start(level, bucket);
            let Some(of_level) = &mut self.levels[level] else { return };
            let mut ends = std::mem::take(&mut of_level.buckets[bucket]);
            of_level.occupied &= !(1 << bucket);
            if of_level.occupied == 0 {
                self.occupied &= !(1 << level);
            }
            self.len -= ends.len();
            let due = ends.drain(..).filter_map(|end| self.push(end));
            out.extend(due);
            if ends.capacity() <= ROOM
                && let Some(of_level) = &mut self.levels[level]
            {
                of_level.buckets[bucket] = ends;
            }
        }
    }

    /// All ends, in any order.
    pub fn all(&self) -> impl Iterator<Item = (Time, T)> {
        self.levels.iter().flatten().flat_map(|level| level.buckets.iter().flatten().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::Buckets;
    use crate::time::{BEGINNING, INFINITY, Time};

    /// The times that come out when these go in, in the order in which they come.
    fn drained(buckets: &mut Buckets<u32>) -> Vec<Time> {
        let mut times = Vec::new();
        while buckets.len() > 0 {
            let earliest = buckets.earliest().unwrap();
            let mut out = Vec::new();
            buckets.move_first(&mut out);
            assert!(out.iter().all(|(time, _)| *time >= earliest) && !out.is_empty());
            out.sort_unstable();
            times.extend(out.into_iter().map(|(time, _)| time));
        }
        times
    }

    #[test]
    fn ends_at_both_ends_of_time_come_out_in_order() {
        let mut buckets = Buckets::default();
        let mut times =
            vec![INFINITY, 0, -1, 1, BEGINNING + 1, 63, 64, 4095, 4096, 1 << 40, -(1 << 40), 64, 0];
        for (number, time) in (0..).zip(&times) {
            assert_eq!(buckets.push((*time, number)), None);
        }
        assert_eq!(buckets.all().count(), times.len());
        times.sort_unstable();
        assert_eq!(drained(&mut buckets), times);
        assert_eq!((buckets.earliest(), buckets.len()), (None, 0));
        // All of it is past.
        assert_eq!(buckets.push((5, 0)), Some((5, 0)));
    }

    #[test]
    fn ends_that_come_between_come_out_between() {
        let mut buckets = Buckets::default();
        let mut random = 7_u64;
        let (mut now, mut waiting) = (0, Vec::new());
        for number in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let time = now + 1 + (random >> 33) as Time % if number % 10 == 0 { 1_000_000 } else { 300 };
            match buckets.push((time, number)) {
                None => waiting.push(time),
                Some(_) => panic!("{time} is after {now}"),
            }
            if number % 3 == 0 {
                let mut out = Vec::new();
                buckets.move_first(&mut out);
                let first = *waiting.iter().min().unwrap();
                assert!(out.iter().all(|(time, _)| *time == first));
                waiting.retain(|time| *time != first);
                now = first;
            }
        }
        waiting.sort_unstable();
        assert_eq!(drained(&mut buckets), waiting);
    }
}
