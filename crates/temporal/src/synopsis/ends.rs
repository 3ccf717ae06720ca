//! Ends by time.
//!
//! Rows that live equally long end in the order in which they came: those wait in a queue. An end that comes
//! before the last of the queue waits in [`Buckets`], until time may come to it: then it goes to a heap,
//! which has few.

use super::buckets::Buckets;
use crate::time::{INFINITY, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// When something ends, the first of which comes out first; of those at one instant, the least.
#[derive(Debug)]
pub(crate) struct Ends<T> {
    queue: VecDeque<(Time, T)>,
    /// Ends that are not in order and may be the first. None of `later` is before one of them, nor at its
    /// instant.
    near: BinaryHeap<Reverse<(Time, T)>>,
    later: Buckets<T>,
    /// Room for ends on their way.
    due: Vec<(Time, T)>,
}

impl<T: Ord> Default for Ends<T> {
    fn default() -> Ends<T> {
        Ends { queue: VecDeque::new(), near: BinaryHeap::new(), later: Buckets::default(), due: Vec::new() }
    }
}

impl<T: Copy + Ord> Ends<T> {
    /// Adds an end, in constant time unless the first ends are known to be later.
    pub fn push(&mut self, end: (Time, T)) {
        match self.queue.back() {
            Some(last) if end < *last => self.near.extend(self.later.push(end).map(Reverse)),
            _ => self.queue.push_back(end),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.queue.len() + self.near.len() + self.later.len()
    }

    /// The bytes of memory of the ends.
    pub fn memory(&self) -> usize {
        self.len() * size_of::<(Time, T)>()
    }

    /// The first end.
    #[inline]
    pub fn first(&mut self) -> Option<(Time, T)> {
        self.first_until(INFINITY)
    }

    /// The first end, if it is at `time` or before it.
    #[inline]
    pub fn first_until(&mut self, time: Time) -> Option<(Time, T)> {
        if self.near.is_empty() && self.later.len() > 0 {
            self.approach(time);
        }
        let first = match (self.queue.front(), self.near.peek()) {
            (Some(queue), Some(Reverse(near))) => *queue.min(near),
            (Some(queue), None) => *queue,
            (None, near) => near.map(|Reverse(near)| *near)?,
        };
        (first.0 <= time).then_some(first)
    }

    /// Takes those out of the buckets that may be the first up to `time`.
    fn approach(&mut self, time: Time) {
        let limit = self.queue.front().map_or(time, |(first, _)| time.min(*first));
        while self.near.is_empty()
            && let Some(earliest) = self.later.earliest()
            && earliest <= limit
        {
            self.later.move_first(&mut self.due);
            self.near.extend(self.due.drain(..).map(Reverse));
        }
    }

    /// What ends next, of all that waits in the queue.
    pub fn next(&self) -> impl Iterator<Item = T> {
        self.queue.iter().map(|(_, what)| *what)
    }

    /// All ends, in any order.
    pub fn all(&self) -> impl Iterator<Item = (Time, T)> {
        let near = self.near.iter().map(|Reverse(end)| *end);
        self.queue.iter().copied().chain(near).chain(self.later.all())
    }

    /// Takes out the first end, which was looked at.
    #[inline]
    pub fn pop(&mut self) {
        match (self.queue.front(), self.near.peek()) {
            (Some(queue), Some(Reverse(near))) if near < queue => drop(self.near.pop()),
            (Some(_), _) => drop(self.queue.pop_front()),
            (None, _) => drop(self.near.pop()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Ends;

    #[test]
    fn ends_come_out_in_order_however_they_came_in() {
        let mut ends = Ends::default();
        let times = [5, 5, 9, 7, 7, 9, 12, 1, 11, 12, 3];
        let all: Vec<_> = times.iter().zip(0..).map(|(&t, number)| (t, number)).collect();
        all.iter().for_each(|end| ends.push(*end));
        let mut sorted = all;
        sorted.sort();
        for end in sorted {
            assert_eq!(ends.first(), Some(end));
            ends.pop();
        }
        assert_eq!(ends.first(), None);
    }
}
