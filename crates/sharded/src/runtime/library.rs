//! The library runtime: all channels run on the thread that waits for the job.
//!
//! It is driven by demand. The channels of the result step round-robin; one that needs a lane makes the
//! producer of that lane step, and so on down to a source. The queues between channels are unbounded: a
//! single thread cannot wait for itself.

use super::wiring::{Channel, Lane, Queue};
use super::{Control, Execution, Progress, Runtime, Wiring};
use crate::error::panicked;
use crate::program::Step;
use crossbeam_channel::{Select, TryRecvError};
use datafusion::common::{Result, internal_err};
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
        let steps = vec![Step::Ready; wiring.channels.len()];
        let waiting = wiring.queues.iter().map(|_| VecDeque::new()).collect();
        Ok(Box::new(Schedule {
            channels: wiring.channels,
            queues: wiring.queues,
            waiting,
            steps,
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
    /// The messages in each queue.
    waiting: Vec<VecDeque<Message>>,
    /// What each channel needs after its last step.
    steps: Vec<Step>,
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
    /// It waits for live sources: the channel that reads them, and its lanes.
    Idle(usize, Vec<usize>),
}

/// What a lane has.
enum Fetched {
    Message(Message),
    End,
    /// Nothing yet: the lane is a live source.
    Nothing,
    /// Nothing yet: this producer has to step first.
    Producer(usize),
}

impl Execution for Schedule {
    fn wait(&mut self, until: Option<Instant>) -> Result<bool> {
        let mut idle: Vec<(usize, Vec<usize>)> = Vec::new();
        loop {
            if self.control.is_stopped() {
                return Ok(true);
            }
            let Some(channel) = self.next_result() else { return Ok(true) };
            let advance = catch_unwind(AssertUnwindSafe(|| self.advance(channel)));
            match advance.unwrap_or_else(|panic| Err(panicked("the query", panic)))? {
                Advance::Stepped => idle.clear(),
                Advance::Idle(channel, lanes) => idle.push((channel, lanes)),
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
            if self.steps[channel] != Step::Ended {
                return Some(channel);
            }
        }
        None
    }

    /// Steps this channel, or the producer that it waits for.
    fn advance(&mut self, mut channel: usize) -> Result<Advance> {
        loop {
            let lanes = match self.steps[channel] {
                Step::Needs(lane) => vec![lane],
                Step::NeedsAny => self.channels[channel].program.candidate_lanes(),
                Step::Ready => {
                    self.step(channel)?;
                    return Ok(Advance::Stepped);
                }
                Step::Ended => return internal_err!("a channel waits for one that has ended"),
            };
            match self.fetch_any(channel, &lanes)? {
                (lane, Fetched::Message(message)) => self.channels[channel].program.push(lane, message)?,
                (lane, Fetched::End) => self.channels[channel].program.end(lane)?,
                (_, Fetched::Nothing) => return Ok(Advance::Idle(channel, lanes)),
                (_, Fetched::Producer(producer)) => {
                    channel = producer;
                    continue;
                }
            }
            self.step(channel)?;
            return Ok(Advance::Stepped);
        }
    }

    /// The next message of the first of these lanes that has one.
    fn fetch_any(&mut self, channel: usize, lanes: &[usize]) -> Result<(usize, Fetched)> {
        for lane in lanes {
            match self.fetch(channel, *lane)? {
                Fetched::Nothing => {}
                fetched => return Ok((*lane, fetched)),
            }
        }
        Ok((0, Fetched::Nothing))
    }

    /// The next message of a lane.
    fn fetch(&mut self, channel: usize, lane: usize) -> Result<Fetched> {
        let control = &self.control;
        Ok(match &mut self.channels[channel].lanes[lane] {
            reader @ Lane::Reader(_) => match reader.read(control)? {
                Some(message) => Fetched::Message(message),
                None => Fetched::End,
            },
            Lane::Live { queue, columns } => {
                let message = match queue.try_recv() {
                    Ok(message) => Some(message),
                    Err(TryRecvError::Disconnected) => None,
                    Err(TryRecvError::Empty) => return Ok(Fetched::Nothing),
                };
                match super::wiring::live_message(message, columns.as_deref(), control)? {
                    Some(message) => Fetched::Message(message),
                    None => Fetched::End,
                }
            }
            Lane::Queue(queue) => match self.waiting[*queue].pop_front() {
                Some(message) => Fetched::Message(message),
                None => match self.queues[*queue].producer {
                    producer if self.steps[producer] == Step::Ended => Fetched::End,
                    producer => Fetched::Producer(producer),
                },
            },
        })
    }

    /// Steps a channel and delivers what comes out.
    fn step(&mut self, channel: usize) -> Result<()> {
        let Schedule { channels, waiting, out, control, .. } = self;
        let step = channels[channel].step(out, control)?;
        channels[channel].deliver(out, control, |queue, message| waiting[queue].push_back(message))?;
        self.steps[channel] = step;
        Ok(())
    }

    /// Waits for a message of these live lanes, for the job to stop, or until an instant.
    fn sleep(&self, idle: &[(usize, Vec<usize>)], until: Option<Instant>) {
        let mut select = Select::new();
        select.recv(self.control.stopped());
        let lanes = idle.iter().flat_map(|(channel, lanes)| lanes.iter().map(move |lane| (channel, lane)));
        for (channel, lane) in lanes {
            if let Lane::Live { queue, .. } = &self.channels[*channel].lanes[*lane] {
                select.recv(queue);
            }
        }
        let until = until.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        // The caller looks again, whatever ended the wait.
        let _ = select.ready_deadline(until);
    }
}
