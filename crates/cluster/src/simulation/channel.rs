//! Channels of a simulation: small programs in the place of operators.
//!
//! A channel of the first stage makes numbered rows. Every other reads a message at a time, in turns or as
//! its lineage has it, and passes the row on with a digest of all that it has read so far. So what it sends
//! shows in which order it has read.

use super::environment::{Environment, Host};
use crate::backup::{Keeps, QueueName};
use crate::carrier::Outgoing;
use crate::lineage::{Choices, LineageLog, Turn};
use crate::plan::Plan;
use crate::pull::Places;
use crate::worker::launch::{Begin, Finished, Launcher, Run, RunCounts};
use crossbeam_channel::Sender;
use datafusion::common::Result;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use whimbrel_sharded::runtime::{Item, LaneOrigin};
use whimbrel_temporal::Message;

/// How many rows a channel of the first stage makes.
pub const ROWS: u64 = 12;

/// The row of a message without one.
const NO_ROW: u64 = 0xffff;

/// The channels that run on a worker, by the order in which they began.
pub type Channels = Arc<Mutex<BTreeMap<u64, Arc<Mutex<Channel>>>>>;

/// The row of a message, if it has one.
pub fn row(message: i64) -> Option<u64> {
    Some(message as u64 & 0xffff).filter(|row| *row != NO_ROW)
}

/// A channel that runs.
pub struct Channel {
    plan: Arc<Plan>,
    number: usize,
    attempt: u32,
    places: watch::Receiver<Places>,
    choices: Choices,
    /// What was decided about the next message that it reads.
    turn: Option<Turn>,
    /// The queues that it reads and that have not ended, that whose turn it is first: queue, producer, and
    /// how many frames were read.
    lanes: Vec<(usize, usize, u64)>,
    outgoing: Vec<Outgoing>,
    result: Option<Outgoing>,
    made: u64,
    digest: u64,
    has_sent_all: bool,
    finished: Option<Sender<Finished>>,
}

impl Channel {
    fn new(begin: Begin<'_>, host: &Host, choices: Choices, finished: Sender<Finished>) -> Result<Channel> {
        let Begin { plan, channel: number, attempt, places, .. } = begin;
        let topology = &plan.topology;
        let fill = |name| Outgoing::new(host.backup.begin(name, Keeps::All), choices.lineage(), true);
        let targets = topology.edges(number).iter().flat_map(|edge| &edge.targets);
        let outgoing =
            targets.map(|queue| fill(QueueName { job: plan.job.clone(), queue: *queue })).collect();
        let is_result = plan.result().contains(&number);
        let result = is_result.then(|| fill(QueueName::of_result(&plan.job, topology, number)));
        let lanes = topology.lanes(number).iter().filter_map(|lane| match lane {
            LaneOrigin::Queue(queue) => Some((*queue, topology.queues()[*queue].producer, 0)),
            LaneOrigin::Source { .. } => None,
        });
        let lanes = lanes.collect();
        let (plan, finished) = (Arc::clone(plan), Some(finished));
        let (turn, made, digest, has_sent_all) = (None, 0, 0, false);
        Ok(Channel {
            plan,
            number,
            attempt,
            places,
            choices,
            turn,
            lanes,
            outgoing,
            result,
            made,
            digest,
            has_sent_all,
            finished,
        })
    }

    /// Does one thing, if there is one to do.
    pub fn step(&mut self, environment: &Environment) {
        let is_source = self.plan.producers(self.number).next().is_none();
        if self.has_sent_all {
            self.end();
        } else if is_source && self.made < ROWS {
            let row = self.number as u64 * ROWS + self.made;
            self.made += 1;
            self.send(row);
        } else if self.lanes.is_empty() {
            self.outgoing
                .iter_mut()
                .chain(&mut self.result)
                .for_each(|queue| queue.append(Item::End).unwrap());
            self.has_sent_all = true;
        } else {
            self.receive(environment);
        }
    }

    /// Says that it has ended, once its choices are durable.
    fn end(&mut self) {
        let Some(is_durable) = self.choices.lineage().is_durable() else { return };
        if let Some(finished) = self.finished.take().filter(|_| is_durable) {
            let (job, channel, attempt) = (self.plan.job.clone(), self.number, self.attempt);
            let _ = finished.send(Finished { job, channel, attempt, failure: None });
        }
    }

    /// Reads a message, if there is one that it may read now.
    fn receive(&mut self, environment: &Environment) {
        let turn = match self.turn.take() {
            Some(turn) => turn,
            None if self.choices.are_needed() => self.choices.next(),
            None => Turn::Next,
        };
        let read = |place: usize| Some((place, self.fetch(environment, place)?));
        let found = match turn {
            Turn::Next => read(0),
            Turn::Queue(queue) => match self.lanes.iter().position(|lane| lane.0 == queue) {
                Some(place) => read(place),
                None => return environment.violate(format!("queue {queue} is no candidate of a replay")),
            },
            // It is patient now and then.
            Turn::Any => {
                read(0).or_else(|| (1..self.lanes.len()).find_map(read).filter(|_| environment.happens(2)))
            }
        };
        let Some((place, message)) = found else { return self.turn = Some(turn) };
        if turn == Turn::Any && place != 0 {
            self.choices.log(self.lanes[place].0);
        }
        self.lanes[place].2 += 1;
        self.lanes.rotate_left(place + 1);
        self.digest = (self.digest ^ place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        match message {
            Some(message) => {
                self.digest ^= message as u64;
                self.send(row(message).unwrap_or(NO_ROW));
            }
            None => _ = self.lanes.pop(),
        }
    }

    /// The next message of a lane, if it is there; of an end, none.
    fn fetch(&self, environment: &Environment, place: usize) -> Option<Option<i64>> {
        let (queue, producer, next) = self.lanes[place];
        let (_, address) = self.places.borrow().of(producer)?;
        environment.fetch(&address?, &QueueName { job: self.plan.job.clone(), queue }, next)
    }

    /// Sends a row to one consumer, and a message without one to the others.
    fn send(&mut self, row: u64) {
        let digest = self.digest << 16;
        let message = |row: u64| Item::Message(Message::Punctuation((digest | row) as i64));
        let targets = self.outgoing.len().max(1) as u64;
        for (target, queue) in self.outgoing.iter_mut().enumerate() {
            let is_there = row == NO_ROW || row % targets != target as u64;
            queue.append(message(if is_there { NO_ROW } else { row })).unwrap();
        }
        if let Some(queue) = &mut self.result {
            queue.append(message(row)).unwrap();
        }
    }
}

/// Starts channels on a worker.
pub struct SimulatedLauncher {
    pub host: Arc<Host>,
    pub log: LineageLog,
    pub channels: Channels,
    pub finished: Sender<Finished>,
    pub next: AtomicU64,
}

impl Launcher for SimulatedLauncher {
    fn start(&self, _: &str, begin: Begin<'_>) -> Result<Box<dyn Run>> {
        let Begin { channel, attempt, version, schedule, .. } = begin;
        let choices = self.log.of_channel(&begin.plan.job, channel, attempt, version, schedule.is_dynamic)?;
        let started = Channel::new(begin, &self.host, choices, self.finished.clone())?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.channels.lock().unwrap().insert(id, Arc::new(Mutex::new(started)));
        Ok(Box::new(SimulatedRun { id, channels: Arc::clone(&self.channels) }))
    }

    fn remove_queue(&self, job: &str, queue: usize) {
        self.host.backup.remove_queue(&QueueName { job: job.to_string(), queue });
    }

    fn remove_job(&self, job: &str) {
        self.host.backup.remove(job);
    }
}

/// A channel of a worker; dropping it stops the channel.
struct SimulatedRun {
    id: u64,
    channels: Channels,
}

impl Run for SimulatedRun {
    fn set_abandoned(&self, _: bool) {}

    fn counts(&self) -> RunCounts {
        RunCounts::default()
    }
}

impl Drop for SimulatedRun {
    fn drop(&mut self) {
        self.channels.lock().unwrap().remove(&self.id);
    }
}
