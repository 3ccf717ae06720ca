//! Pulling: a consumer reads a queue, wherever the channel that fills it runs at the moment.
//!
//! Channels are deterministic, so the frames of a queue are the same whoever sends them. A consumer that
//! loses its connection goes on with the next number, at the worker that has the channel then.

use crate::backup::{Backup, QueueName, next_frame};
use crate::flight::{Connections, Missing};
use crate::records::ChannelRecord;
use crate::statistics::add;
use crossbeam_channel::Sender;
use datafusion::common::Result;
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use whimbrel_sharded::runtime::Frame;

/// After how long a queue is tried again that could not be read.
const RETRY: Duration = Duration::from_millis(50);

/// After how long without a connection a worker is of no use to a job, though it may be alive.
const UNREACHABLE: Duration = Duration::from_secs(6);

/// How many frames of a queue wait for their consumer.
const CAPACITY: usize = 4;

/// Where the channels of a job are.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The channels, by their numbers.
    pub channels: Vec<ChannelRecord>,
    /// The address of each worker that is known; an empty one of those that are lost.
    pub addresses: BTreeMap<String, String>,
    /// Whether there is nothing to read any more: the job is gone.
    pub is_over: bool,
}

impl Places {
    /// The channels of a job that is gone.
    pub fn over() -> Places {
        Places { is_over: true, ..Places::default() }
    }

    /// The worker that runs a channel, and its address if it is known.
    pub fn of(&self, channel: usize) -> Option<(String, Option<String>)> {
        let worker = self.channels.get(channel).map(|record| record.worker.clone())?;
        let address = self.addresses.get(&worker).filter(|address| !address.is_empty()).cloned();
        Some((worker, address))
    }

    /// Whether this worker runs a channel.
    pub fn is_at(&self, channel: usize, worker: &str) -> bool {
        self.channels.get(channel).is_some_and(|record| record.worker == worker)
    }
}

/// Reads queues of a cluster.
#[derive(Clone)]
pub struct Puller {
    /// Runs what reads.
    pub network: Handle,
    /// The connections of this process.
    pub connections: Arc<Connections>,
    /// The queues that are filled in this process, if it is a worker.
    pub own: Option<OwnQueues>,
    /// What happens if a worker cannot be reached for so long that it is of no use to the job.
    pub unreachable: OnUnreachable,
}

/// The queues that are filled in a process.
#[derive(Clone)]
pub struct OwnQueues {
    /// Where others find them. The process keeps its address when it registers under another name.
    pub address: String,
    /// What keeps their frames.
    pub backup: Arc<Backup>,
}

/// What happens if a worker cannot be reached for long.
#[derive(Clone)]
pub enum OnUnreachable {
    /// It is tried again.
    Retry,
    /// It is tried again, and somebody is told.
    Tell(Sender<Unreachable>),
    /// Its queues are given up: their readers find them closed before their ends.
    GiveUp,
}

/// A worker that cannot be reached from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable {
    /// The job that needs it.
    pub job: String,
    /// The worker.
    pub worker: String,
}

/// The end of a queue that a puller fills.
#[derive(Clone)]
struct Arrivals {
    frames: mpsc::Sender<Frame>,
    /// Told of each frame, if somebody waits for several queues at once.
    notify: Option<Sender<()>>,
    /// How many bytes came from other workers.
    moved: Arc<AtomicU64>,
}

impl Puller {
    /// Reads a queue that a channel fills, as one of these tasks. What comes out ends early if the tasks do.
    /// `moved` counts the bytes that come from other workers; `notify` is told of each frame.
    pub fn pull(
        &self,
        tasks: &mut JoinSet<()>,
        name: QueueName,
        producer: usize,
        places: watch::Receiver<Places>,
        moved: &Arc<AtomicU64>,
        notify: Option<Sender<()>>,
    ) -> mpsc::Receiver<Frame> {
        let (sender, frames) = mpsc::channel(CAPACITY);
        let arrivals = Arrivals { frames: sender, notify, moved: Arc::clone(moved) };
        tasks.spawn_on(self.clone().pull_all(name, producer, places, arrivals), &self.network);
        frames
    }

    /// Reads a queue until its end.
    async fn pull_all(
        self,
        name: QueueName,
        producer: usize,
        mut places: watch::Receiver<Places>,
        to: Arrivals,
    ) {
        let (mut next, mut missed) = (0, None);
        loop {
            let place = {
                let places = places.borrow_and_update();
                if places.is_over {
                    return;
                }
                places.of(producer)
            };
            if let Some((worker, address)) = place {
                match self.frames(address, &name, next, &to.moved).await {
                    Ok(frames) => {
                        missed = None;
                        let is_here = |places: &Places| places.is_at(producer, &worker);
                        if forward(frames, &mut next, &to, &mut places, is_here).await.is_break() {
                            return;
                        }
                    }
                    Err(Missing::Queue) => missed = None,
                    // They will not come again: whoever reads finds the queue closed before its end.
                    Err(Missing::Frames) => return,
                    Err(Missing::Worker) => {
                        let since = *missed.get_or_insert_with(Instant::now);
                        if since.elapsed() > UNREACHABLE {
                            missed = None;
                            match &self.unreachable {
                                OnUnreachable::Retry => {}
                                OnUnreachable::Tell(reports) => {
                                    // A worker that has ended needs no reports.
                                    let _ = reports.send(Unreachable { job: name.job.clone(), worker });
                                }
                                OnUnreachable::GiveUp => return,
                            }
                        }
                    }
                }
            }
            tokio::select! {
                changed = places.changed() => if changed.is_err() { return },
                () = sleep(RETRY) => {}
                () = to.frames.closed() => return,
            }
        }
    }

    /// The frames of a queue from a number on, until the connection is lost.
    async fn frames(
        &self,
        address: Option<String>,
        name: &QueueName,
        from: u64,
        moved: &Arc<AtomicU64>,
    ) -> Result<BoxStream<'static, Result<Frame>>, Missing> {
        match (&self.own, address) {
            (Some(own), Some(address)) if own.address == address => {
                let Some(queue) = own.backup.wait_for_queue(name).await else { return Err(Missing::Queue) };
                if !queue.keeps_from(from) {
                    return Err(Missing::Frames);
                }
                let length = queue.length();
                Ok(stream::unfold((queue, length, from), |(queue, mut length, sequence)| async move {
                    let frame = next_frame(&queue, &mut length, sequence).await;
                    Some((frame, (queue, length, sequence + 1)))
                })
                .boxed())
            }
            (_, Some(address)) => {
                let moved = Arc::clone(moved);
                let frames = self.connections.frames(&address, name, from).await?;
                Ok(frames
                    .inspect(move |frame| frame.iter().for_each(|frame| add(&moved, frame.size())))
                    .boxed())
            }
            // It is lost, which others find out, or has just come.
            (_, None) => Err(Missing::Queue),
        }
    }
}

/// Forwards frames from a number on. It goes on if the connection is lost, or the channel is somewhere else;
/// it breaks at the end of the queue, and if nobody wants its frames.
async fn forward(
    mut frames: BoxStream<'static, Result<Frame>>,
    next: &mut u64,
    to: &Arrivals,
    places: &mut watch::Receiver<Places>,
    is_here: impl Fn(&Places) -> bool,
) -> ControlFlow<()> {
    loop {
        let frame = tokio::select! {
            frame = frames.next() => frame,
            changed = places.changed() => match changed {
                Ok(()) if is_here(&places.borrow_and_update()) => continue,
                Ok(()) => return ControlFlow::Continue(()),
                Err(_) => return ControlFlow::Break(()),
            },
        };
        let Some(Ok(frame)) = frame else { return ControlFlow::Continue(()) };
        if frame.sequence() != *next {
            return ControlFlow::Continue(());
        }
        *next += 1;
        let is_end = frame.is_end();
        if to.send(frame).await.is_err() || is_end {
            return ControlFlow::Break(());
        }
    }
}

impl Arrivals {
    /// Hands a frame on; an error if nobody wants it.
    async fn send(&self, frame: Frame) -> std::result::Result<(), mpsc::error::SendError<Frame>> {
        self.frames.send(frame).await?;
        // A notice that waits already says the same.
        let _ = self.notify.as_ref().map(|notify| notify.try_send(()));
        Ok(())
    }
}
