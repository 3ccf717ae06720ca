//! The library runtime: all channels run on the thread that waits for the job.
//!
//! It is driven by demand. The channels of the result step round-robin; one that needs a lane makes the
//! producer of that lane step, and so on down to a source. The queues between channels are unbounded: a
//! single thread cannot wait for itself.

use super::channel::Channel;
use super::lane::{Item, Poll};
use super::topology::Queue;
use super::{Control, Execution, Progress, Runtime, Wiring};
use crate::error::panicked;
use crossbeam_channel::Select;
use datafusion::common::Result;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use whimbrel_temporal::Message;

/// The runtime that runs a query on the thread that waits for it.
#[derive(Debug, Clone, Copy)]
pub struct Library;

impl Runtime for Library {
    fn start(&self, wiring: Wiring, progress: Progress) -> Result<Box<dyn Execution>> {
        let results = (0..wiring.channels.len()).filter(|i| wiring.channels[*i].has_sink()).collect();
        let ended = vec![false; wiring.channels.len()];
        let waiting = wiring.queues.iter().map(|_| VecDeque::new()).collect();
        Ok(Box::new(Schedule {
            channels: wiring.channels,
            queues: wiring.queues,
            ended,
            waiting,
            results,
            last: 0,
            out: Vec::new(),
            control: progress.control().clone(),
        }))
    }
}

/// A query that runs on one thread.
struct Schedule {
    channels: Vec<Channel>,
    queues: Vec<Queue>,
    /// Which channels have handed out everything, and said so.
    ended: Vec<bool>,
    /// The items in each queue.
    waiting: Vec<VecDeque<Item>>,
    /// The channels of the result.
    results: Vec<usize>,
    /// The channel of the result that stepped last.
    last: usize,
    out: Vec<(usize, Message)>,
    control: Arc<Control>,
}

/// Whether a channel could step.
enum Advance {
    /// It, or a producer, has stepped.
    Stepped,
    /// This channel waits for live sources.
    Idle(usize),
}

/// What a channel gets.
enum Fetched {
    /// An item of this lane.
    Item(usize, Item),
    /// Nothing yet: its lanes are live sources.
    Nothing,
    /// Nothing yet: this producer has to step first.
    Producer(usize),
}

impl Execution for Schedule {
    fn wait(&mut self, until: Option<Instant>) -> Result<bool> {
        let mut idle: Vec<usize> = Vec::new();
        loop {
            if self.control.is_stopped() {
                return Ok(true);
            }
            let Some(channel) = self.next_result() else { return Ok(true) };
            let advance = catch_unwind(AssertUnwindSafe(|| self.advance(channel)));
            match advance.unwrap_or_else(|panic| Err(panicked("the query", panic)))? {
                Advance::Stepped => idle.clear(),
                Advance::Idle(channel) => idle.push(channel),
            }
            if idle.len() > self.results.len() {
                self.sleep(&idle, until);
                idle.clear();
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
        }
    }
}

impl Schedule {
    /// The next channel of the result that has not ended.
    fn next_result(&mut self) -> Option<usize> {
        for _ in 0..self.results.len() {
            self.last = (self.last + 1) % self.results.len();
            let channel = self.results[self.last];
            if !self.ended[channel] {
                return Some(channel);
            }
        }
        None
    }

    /// Steps this channel, or the producer that it waits for.
    fn advance(&mut self, mut channel: usize) -> Result<Advance> {
        loop {
            if !self.channels[channel].wanted().is_empty() {
                match self.fetch(channel)? {
                    Fetched::Item(lane, item) => self.channels[channel].take(lane, item)?,
                    Fetched::Nothing => return Ok(Advance::Idle(channel)),
                    Fetched::Producer(producer) => {
                        channel = producer;
                        continue;
                    }
                }
            }
            self.step(channel)?;
            return Ok(Advance::Stepped);
        }
    }

    /// The next item of the first lane that has one, of those that a channel wants.
    fn fetch(&mut self, channel: usize) -> Result<Fetched> {
        for number in 0..self.channels[channel].wanted().len() {
            let lane = self.channels[channel].wanted()[number];
            let queue = match self.channels[channel].lanes[lane].poll(&self.control)? {
                Poll::Item(item) => return Ok(Fetched::Item(lane, item)),
                Poll::Queue(queue) => queue,
                Poll::Nothing => continue,
            };
            return Ok(match self.waiting[queue].pop_front() {
                Some(item) => Fetched::Item(lane, item),
                None => match self.queues[queue].producer {
                    producer if self.ended[producer] => Fetched::Item(lane, Item::End),
                    producer => Fetched::Producer(producer),
                },
            });
        }
        Ok(Fetched::Nothing)
    }

    /// Steps a channel and delivers what comes out.
    fn step(&mut self, channel: usize) -> Result<()> {
        let Schedule { channels, waiting, out, control, .. } = self;
        channels[channel].step(out, control, |queue, item| waiting[queue].push_back(item))?;
        self.ended[channel] = channels[channel].has_ended();
        Ok(())
    }

    /// Waits for something in a lane of these channels, for the job to stop, or until an instant.
    fn sleep(&self, idle: &[usize], until: Option<Instant>) {
        let mut select = Select::new();
        select.recv(self.control.stopped());
        for channel in idle.iter().map(|channel| &self.channels[*channel]) {
            channel.wanted().iter().for_each(|lane| channel.lanes[*lane].wake(&mut select));
        }
        let until = until.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        // The caller looks again, whatever ended the wait.
        let _ = select.ready_deadline(until);
    }
}
