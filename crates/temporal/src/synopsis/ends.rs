//! Ends by time.
//!
//! Rows that live equally long end in the order in which they came: those wait in a queue. Only an end that
//! comes before the last of the queue goes to the heap.

use crate::time::Time;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// When something ends, the first of which comes out first; of those at one instant, the least.
#[derive(Debug)]
pub(crate) struct Ends<T> {
    queue: VecDeque<(Time, T)>,
    heap: BinaryHeap<Reverse<(Time, T)>>,
}

impl<T: Ord> Default for Ends<T> {
    fn default() -> Ends<T> {
        Ends { queue: VecDeque::new(), heap: BinaryHeap::new() }
    }
}

impl<T: Copy + Ord> Ends<T> {
    /// Adds an end: in constant time if it comes after those in the queue, else in logarithmic time.
    pub fn push(&mut self, end: (Time, T)) {
        match self.queue.back() {
            Some(last) if end < *last => self.heap.push(Reverse(end)),
            _ => self.queue.push_back(end),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.queue.len() + self.heap.len()
    }

    /// The bytes of memory of the ends.
    pub fn memory(&self) -> usize {
        self.len() * size_of::<(Time, T)>()
    }

    /// The first end.
    #[inline]
    pub fn first(&self) -> Option<(Time, T)> {
        match (self.queue.front(), self.heap.peek()) {
            (Some(queue), Some(Reverse(heap))) => Some(*queue.min(heap)),
            (Some(queue), None) => Some(*queue),
            (None, heap) => heap.map(|Reverse(heap)| *heap),
        }
    }

    /// What ends next, of all that waits in the queue.
    pub fn next(&self) -> impl Iterator<Item = T> {
        self.queue.iter().map(|(_, what)| *what)
    }

    /// All ends, in any order.
    pub fn all(&self) -> impl Iterator<Item = (Time, T)> {
        self.queue.iter().copied().chain(self.heap.iter().map(|Reverse(end)| *end))
    }

    /// Takes out the first end.
    #[inline]
    pub fn pop(&mut self) {
        match (self.queue.front(), self.heap.peek()) {
            (Some(queue), Some(Reverse(heap))) if heap < queue => drop(self.heap.pop()),
            (Some(_), _) => drop(self.queue.pop_front()),
            (None, _) => drop(self.heap.pop()),
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
