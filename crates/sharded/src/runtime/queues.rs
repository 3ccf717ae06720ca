//! The queues between the threads of a job.
//!
//! Queues are bounded, so that no producer runs far ahead of its consumers. But bounded queues can
//! deadlock: a channel waits for rows of a second, which waits for room in the queue of a third, which
//! waits for rows of the first. How much buffering a query needs cannot be known beforehand (two paths of
//! different lengths from a source to a join; a skewed exchange). So a channel that is about to wait
//! checks whether that closes a cycle of waits. If it does, a full queue of the cycle gets room for one
//! more message (T. Parks, Bounded Scheduling of Process Networks, 1995); all others stay as they are. A
//! consumer that waits for one queue will need messages of each of its empty queues, so a cycle through
//! any of them counts: room is made before all channels have stopped.
//!
//! Invariants: a channel waits for a message in one queue, or for room in all of some queues; only the
//! channel itself clears its entry in `waits`; no cycle of waits lasts. The contents of a queue do not
//! depend on its bound. One lock guards everything: messages are batches, and few.

use super::lane::Item;
use super::topology::QueueId;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The job is stopping.
pub(super) struct Stopped;

/// All queues of a job.
pub(super) struct Queues {
    state: Mutex<State>,
    /// Wakes each channel.
    wake: Vec<Condvar>,
}

/// All that the lock guards.
struct State {
    queues: Vec<Queue>,
    /// The queues that each channel reads.
    reads: Vec<Vec<QueueId>>,
    /// What each channel waits for.
    waits: Vec<Wait>,
    stopped: bool,
}

/// A bounded queue from a producer to a consumer.
struct Queue {
    producer: usize,
    consumer: usize,
    items: VecDeque<Item>,
    capacity: usize,
    /// Whether the consumer has ended.
    closed: bool,
}

/// What a channel waits for: a message in a queue, or room in one of some queues.
enum Wait {
    Nothing,
    Message(QueueId),
    Room(Vec<QueueId>),
}

impl Queue {
    /// Whether a producer has to wait.
    fn is_full(&self) -> bool {
        self.items.len() >= self.capacity
    }
}

impl Queues {
    /// Empty queues between these producers and consumers, for so many channels.
    pub fn new(ends: &[super::topology::Queue], channels: usize, capacity: usize) -> Queues {
        let queue = |ends: &super::topology::Queue| Queue {
            producer: ends.producer,
            consumer: ends.consumer,
            items: VecDeque::new(),
            capacity,
            closed: false,
        };
        let mut reads = vec![vec![]; channels];
        for (number, queue) in ends.iter().enumerate() {
            reads[queue.consumer].push(number);
        }
        let queues = ends.iter().map(queue).collect();
        let waits = (0..channels).map(|_| Wait::Nothing).collect();
        let state = Mutex::new(State { queues, reads, waits, stopped: false });
        Queues { state, wake: (0..channels).map(|_| Condvar::new()).collect() }
    }

    /// No code that could panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next item of a queue; waits for it.
    ///
    /// # Errors
    /// [`Stopped`] if the job stops.
    pub fn receive(&self, queue: QueueId) -> Result<Item, Stopped> {
        let mut state = self.lock();
        let channel = state.queues[queue].consumer;
        loop {
            if state.stopped {
                return Err(Stopped);
            }
            let full = state.queues[queue].is_full();
            if let Some(item) = state.queues[queue].items.pop_front() {
                let producer = state.queues[queue].producer;
                if full && state.waits_for_room(producer, queue) {
                    self.wake[producer].notify_one();
                }
                return Ok(item);
            }
            state = self.wait(state, channel, Wait::Message(queue));
        }
    }

    /// Puts all items into their queues: first those that there is room for, the others as room comes.
    ///
    /// # Errors
    /// [`Stopped`] if the job stops.
    pub fn send(&self, channel: usize, outgoing: &mut [(QueueId, VecDeque<Item>)]) -> Result<(), Stopped> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return Err(Stopped);
            }
            for (queue, items) in outgoing.iter_mut() {
                self.fill(&mut state, *queue, items);
            }
            let left = outgoing.iter().filter(|(_, items)| !items.is_empty());
            let left: Vec<QueueId> = left.map(|(queue, _)| *queue).collect();
            if left.is_empty() {
                return Ok(());
            }
            state = self.wait(state, channel, Wait::Room(left));
        }
    }

    /// Moves items into a queue while it has room. Those for a closed queue are dropped.
    fn fill(&self, state: &mut State, number: QueueId, items: &mut VecDeque<Item>) {
        let queue = &mut state.queues[number];
        if queue.closed {
            items.clear();
        }
        let was_empty = queue.items.is_empty();
        while !queue.is_full()
            && let Some(item) = items.pop_front()
        {
            queue.items.push_back(item);
        }
        let consumer = queue.consumer;
        if was_empty && matches!(state.waits[consumer], Wait::Message(awaited) if awaited == number) {
            self.wake[consumer].notify_one();
        }
    }

    /// Waits until another channel wakes this one.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        channel: usize,
        wait: Wait,
    ) -> MutexGuard<'a, State> {
        state.waits[channel] = wait;
        if let Some(unblocked) = state.break_cycles(channel) {
            for producer in unblocked {
                self.wake[producer].notify_one();
            }
            if state.room_for(channel) {
                state.waits[channel] = Wait::Nothing;
                return state;
            }
        }
        let mut state = self.wake[channel].wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waits[channel] = Wait::Nothing;
        state
    }

    /// Closes all queues that a channel reads: it has ended.
    pub fn close(&self, channel: usize) {
        let mut state = self.lock();
        for number in 0..state.queues.len() {
            if state.queues[number].consumer != channel {
                continue;
            }
            state.queues[number].closed = true;
            state.queues[number].items.clear();
            let producer = state.queues[number].producer;
            if state.waits_for_room(producer, number) {
                self.wake[producer].notify_one();
            }
        }
    }

    /// Whether all of these queues are closed.
    pub fn are_closed(&self, queues: impl IntoIterator<Item = QueueId>) -> bool {
        let state = self.lock();
        queues.into_iter().all(|queue| state.queues[queue].closed)
    }

    /// Wakes all channels to stop.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.wake.iter().for_each(Condvar::notify_one);
    }
}

impl State {
    /// Whether a channel waits for room in a queue.
    fn waits_for_room(&self, channel: usize, queue: QueueId) -> bool {
        matches!(&self.waits[channel], Wait::Room(queues) if queues.contains(&queue))
    }

    /// Whether one of the queues that a channel waits for has room.
    fn room_for(&self, channel: usize) -> bool {
        match &self.waits[channel] {
            Wait::Room(queues) => queues.iter().any(|q| !self.queues[*q].is_full()),
            _ => false,
        }
    }

    /// Makes room in every cycle of waits through this channel; returns the producers that have room now.
    fn break_cycles(&mut self, channel: usize) -> Option<Vec<usize>> {
        let mut unblocked = Vec::new();
        while let Some(queue) = self.cycle(channel) {
            self.queues[queue].capacity = self.queues[queue].items.len() + 1;
            unblocked.push(self.queues[queue].producer);
        }
        (!unblocked.is_empty()).then_some(unblocked)
    }

    /// The shortest full queue of a cycle of waits through this channel.
    fn cycle(&self, channel: usize) -> Option<QueueId> {
        let mut visited = vec![false; self.waits.len()];
        let mut path = Vec::new();
        self.search(channel, channel, &mut visited, &mut path)
            .then(|| path.into_iter().min_by_key(|queue| self.queues[*queue].items.len()))?
    }

    /// Whether the waits of `from` lead to `target`; collects the full queues on the way in `path`.
    fn search(&self, from: usize, target: usize, visited: &mut [bool], path: &mut Vec<QueueId>) -> bool {
        let full = match &self.waits[from] {
            Wait::Nothing => return false,
            Wait::Message(queue) if !self.queues[*queue].items.is_empty() => return false,
            Wait::Message(_) => {
                let mut empty = self.reads[from].iter().filter(|q| self.queues[**q].items.is_empty());
                return empty.any(|queue| self.leads(self.queues[*queue].producer, target, visited, path));
            }
            Wait::Room(queues) => queues,
        };
        for queue in full.iter().filter(|q| self.queues[**q].is_full() && !self.queues[**q].closed) {
            path.push(*queue);
            if self.leads(self.queues[*queue].consumer, target, visited, path) {
                return true;
            }
            path.pop();
        }
        false
    }

    /// Whether a channel is the target, or its waits lead there. A channel is searched once.
    fn leads(&self, next: usize, target: usize, visited: &mut [bool], path: &mut Vec<QueueId>) -> bool {
        next == target
            || !std::mem::replace(&mut visited[next], true) && self.search(next, target, visited, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::topology::Queue;
    use std::sync::Arc;
    use std::thread::spawn;
    use whimbrel_temporal::Message;

    fn some(n: usize) -> VecDeque<Item> {
        (0..n).map(|i| Item::Message(Message::Punctuation(i as i64))).collect()
    }

    fn queues(ends: &[(usize, usize)], channels: usize) -> Arc<Queues> {
        let ends: Vec<Queue> =
            ends.iter().map(|&(producer, consumer)| Queue { producer, consumer }).collect();
        Arc::new(Queues::new(&ends, channels, 1))
    }

    fn received(queues: &Queues, queue: QueueId, n: usize) -> usize {
        (0..n).filter(|_| queues.receive(queue).is_ok()).count()
    }

    #[test]
    fn a_cycle_of_waits_is_broken() {
        // 0 feeds 1 and 2, 2 feeds 1; 1 wants all of 2 before it takes anything from 0, which sends to 1
        // first.
        let queues = queues(&[(0, 1), (0, 2), (2, 1)], 3);
        let (first, second) = (queues.clone(), queues.clone());
        let source = spawn(move || {
            assert!(first.send(0, &mut [(0, some(20))]).is_ok());
            assert!(first.send(0, &mut [(1, some(1))]).is_ok());
        });
        let between = spawn(move || {
            assert_eq!(received(&second, 1, 1), 1);
            assert!(second.send(2, &mut [(2, some(3))]).is_ok());
        });
        assert_eq!(received(&queues, 2, 3), 3);
        assert_eq!(received(&queues, 0, 20), 20);
        source.join().unwrap();
        between.join().unwrap();
        let capacities: Vec<usize> = queues.lock().queues.iter().map(|q| q.capacity).collect();
        assert_eq!(capacities, [20, 1, 1], "only the queue that was in the way has grown");
    }

    #[test]
    fn a_cycle_through_a_queue_that_is_needed_later_is_broken_too() {
        // 2 wants something of 0 and then of 1; 3 wants something of 2 before it takes anything from 1,
        // which sends to 3 first.
        let queues = queues(&[(0, 2), (1, 2), (2, 3), (1, 3)], 4);
        let (first, second, last) = (queues.clone(), queues.clone(), queues.clone());
        let between = spawn(move || {
            assert_eq!(received(&first, 0, 1) + received(&first, 1, 1), 2);
            assert!(first.send(2, &mut [(2, some(1))]).is_ok());
        });
        let end = spawn(move || assert_eq!(received(&last, 2, 1) + received(&last, 3, 20), 21));
        let source = spawn(move || {
            assert!(second.send(1, &mut [(3, some(20))]).is_ok());
            assert!(second.send(1, &mut [(1, some(1))]).is_ok());
        });
        source.join().unwrap();
        assert!(queues.send(0, &mut [(0, some(1))]).is_ok(), "the slow one has sent nothing before");
        between.join().unwrap();
        end.join().unwrap();
    }

    #[test]
    fn a_bound_holds_without_a_cycle() {
        let queues = queues(&[(0, 1)], 2);
        let sender = queues.clone();
        let source = spawn(move || assert!(sender.send(0, &mut [(0, some(50))]).is_ok()));
        for _ in 0..50 {
            assert!(queues.receive(0).is_ok());
            assert!(queues.lock().queues[0].items.len() <= 1);
        }
        source.join().unwrap();
    }

    #[test]
    fn a_bound_holds_where_a_reader_waits_for_a_slower_one() {
        let queues = queues(&[(0, 2), (1, 2)], 3);
        let (fast, reader) = (queues.clone(), queues.clone());
        let source = spawn(move || assert!(fast.send(1, &mut [(1, some(20))]).is_ok()));
        let turns = spawn(move || (0..20).all(|_| received(&reader, 0, 1) + received(&reader, 1, 1) == 2));
        for _ in 0..20 {
            assert!(queues.send(0, &mut [(0, some(1))]).is_ok());
            assert!(queues.lock().queues[1].items.len() <= 1);
        }
        source.join().unwrap();
        assert!(turns.join().unwrap());
    }

    #[test]
    fn a_waiting_channel_is_woken_by_a_stop_and_by_a_closed_queue() {
        let queues = queues(&[(0, 1)], 2);
        let sender = queues.clone();
        let source = spawn(move || sender.send(0, &mut [(0, some(2))]).is_ok());
        queues.close(1);
        assert!(source.join().unwrap(), "a queue without a reader is closed");
        assert!(queues.are_closed([0]));
        let waiter = queues.clone();
        let reader = spawn(move || waiter.receive(0).is_ok());
        queues.stop();
        assert!(!reader.join().unwrap());
    }
}
