//! The library runtime: all channels run on the thread that waits for the job.
//!
//! It is driven by demand. The channels of the result step round-robin; one that needs a lane makes the
//! producer of that lane step, and so on down to a source. The queues between channels are unbounded: a
//! single thread cannot wait for itself.
//!
//! With a scheduler, its threads run the query in turns with others (`scheduled`).

use super::channel::Channel;
use super::lane::{Item, Poll};
use super::topology::Queue;
use super::{Control, Execution, Progress, Runtime, Wiring};
use crate::error::panicked;
use crate::scheduler::Turn;
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
        Ok(Box::new(Schedule::new(wiring, progress.control().clone())))
    }
}

/// A query that runs on one thread at a time.
pub(super) struct Schedule {
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
    /// The channels that wait for live sources; empty after each step.
    idle: Vec<usize>,
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
        loop {
            match self.turn()? {
                Turn::Ended => return Ok(true),
                Turn::Waiting => self.sleep(until),
                Turn::Ready => {}
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
        }
    }
}

impl Schedule {
    /// The channels of a query.
    pub fn new(wiring: Wiring, control: Arc<Control>) -> Schedule {
        Schedule {
            results: (0..wiring.channels.len()).filter(|i| wiring.channels[*i].has_sink()).collect(),
            ended: vec![false; wiring.channels.len()],
            waiting: wiring.queues.iter().map(|_| VecDeque::new()).collect(),
            channels: wiring.channels,
            queues: wiring.queues,
            last: 0,
            idle: Vec::new(),
            out: Vec::new(),
            control,
        }
    }

    /// Lets the next channel of the result step.
    ///
    /// # Errors
    /// The first error of any channel, panics included.
    pub fn turn(&mut self) -> Result<Turn> {
        if self.idle.len() > self.results.len() {
            self.idle.clear();
        }
        let next = if self.control.is_stopped() { None } else { self.next_result() };
        let Some(channel) = next else { return Ok(Turn::Ended) };
        let advance = catch_unwind(AssertUnwindSafe(|| self.advance(channel)));
        match advance.unwrap_or_else(|panic| Err(panicked("the query", panic)))? {
            Advance::Stepped => self.idle.clear(),
            Advance::Idle(channel) => self.idle.push(channel),
        }
        Ok(if self.idle.len() > self.results.len() { Turn::Waiting } else { Turn::Ready })
    }

    /// Registers what the query waits for after a turn: an end, and something in the lanes of its channels;
    /// how many registrations that were.
    pub fn register<'a>(&'a self, select: &mut Select<'a>) -> usize {
        select.recv(self.control.stopped());
        let channels = self.idle.iter().map(|channel| &self.channels[*channel]);
        let lanes = channels.flat_map(|channel| channel.wanted().iter().map(|lane| &channel.lanes[*lane]));
        1 + lanes.map(|lane| lane.register(select)).sum::<usize>()
    }

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

    /// Waits for what it registers, or until an instant.
    fn sleep(&self, until: Option<Instant>) {
        let mut select = Select::new();
        self.register(&mut select);
        let until = until.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        // The caller looks again, whatever ended the wait.
        let _ = select.ready_deadline(until);
    }
}
