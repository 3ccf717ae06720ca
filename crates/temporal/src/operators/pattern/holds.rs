//! The times before which nothing may come out: a queue in which each holder may move to later times.
//!
//! Invariant: the queue has an item for each holder, not later than its time. Items are set right when they
//! are looked at, so a holder that moves costs nothing before that.

use crate::time::{INFINITY, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// So many items are kept beside twice those of holders.
const SPARE: usize = 1024;

/// A holder: its place, and a number that no other holder has at this place.
pub(crate) type Holder = (u32, u64);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    queue: BinaryHeap<Reverse<(Time, Holder)>>,
    holders: usize,
}

impl Holds {
    /// A new holder, at this time.
    pub fn add(&mut self, time: Time, holder: Holder) {
        self.holders += 1;
        self.queue.push(Reverse((time, holder)));
    }

    /// A holder is none any more.
    pub fn remove(&mut self) {
        self.holders -= 1;
    }

    /// The earliest time of a holder; `time_of` says where it is, or that it is none.
    pub fn earliest(&mut self, time_of: impl Fn(Holder) -> Option<Time>) -> Time {
        if self.queue.len() > SPARE + 2 * self.holders {
            self.queue.retain(|&Reverse((_, holder))| time_of(holder).is_some());
        }
        while let Some(&Reverse((time, holder))) = self.queue.peek() {
            match time_of(holder) {
                Some(now) if now == time => return time,
                Some(now) => {
                    self.queue.pop();
                    self.queue.push(Reverse((now, holder)));
                }
                None => {
                    self.queue.pop();
                }
            }
        }
        INFINITY
    }
}
