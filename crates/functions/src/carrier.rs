//! Carries the messages of a task: from the objects of its producers, into its own.
//!
//! Reads run in parallel, as many as a function profits from (starling.txt §3.3: 16). A partition comes in
//! pieces, one of which waits while the one before it is used, so a task holds no more of a large partition.
//! Partitions that lie side by side in an object are read together, and held as a whole. The task takes
//! whatever has come: its output is written at once or not at all, so its order does not have to be the same
//! in another attempt.

use crate::bucket::{Bucket, Read};
use crate::object::{Index, ObjectWriter, PartitionReader, index_bytes};
use crate::plan::Layout;
use crate::protocol::{Input, Section};
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};
use datafusion::common::{DataFusionError, Result, exec_err, internal_datafusion_err};
use object_store::Error;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;
use whimbrel_sharded::runtime::{Carrier, Halt, Item, QueueId};
use whimbrel_temporal::Message;

/// How many bytes one request reads at most (of 8 to 16 MiB they cost least: AnyBlob, VLDB 2023).
const PIECE: u64 = 16 << 20;

/// For how long an object that was written may not be seen by all: not at all by S3, but by others.
const VISIBLE: Duration = Duration::from_secs(2);

/// How long to wait before an object that is not there is asked for again, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// For how long an object that is expected is waited for. Its producer may have been lost, or not been begun,
/// and want the place of whoever waits.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the error of an object says that did not come in that time.
const TOO_EARLY: &str = "it was expected, and has not come";

/// How many pieces wait in a lane whose bytes are read together with those of others: they all have to be put
/// somewhere.
const SHARED_PIECES: usize = 1 << 16;

/// The lanes that work reads.
pub struct Inputs {
    lanes: Vec<Lane>,
    /// Has a message if a lane may have something new.
    arrivals: Receiver<()>,
    _reads: JoinSet<()>,
}

struct Lane {
    pieces: mpsc::Receiver<Result<Bytes>>,
    reader: PartitionReader,
}

/// The sending end of each lane.
type Senders = Vec<Option<mpsc::Sender<Result<Bytes>>>>;

impl Inputs {
    /// Begins to read so many lanes.
    ///
    /// # Errors
    /// `Execution` if an input is of no lane.
    pub fn open(
        network: &Handle,
        bucket: &Arc<Bucket>,
        lanes: usize,
        inputs: Vec<Input>,
        parallel_reads: usize,
    ) -> Result<Inputs> {
        let permits = Arc::new(Semaphore::new(parallel_reads.max(1)));
        let (arrived, arrivals) = bounded(1);
        let capacities = capacities(lanes, &inputs)?;
        let (mut senders, receivers): (Senders, Vec<_>) = capacities
            .into_iter()
            .map(|capacity| mpsc::channel(capacity))
            .map(|(sender, receiver)| (Some(sender), receiver))
            .unzip();
        let mut reads = JoinSet::new();
        for input in inputs {
            let own = lanes_of(&input).into_iter();
            let fetch = Fetch {
                bucket: Arc::clone(bucket),
                permits: Arc::clone(&permits),
                lanes: own.filter_map(|lane| Some((lane, senders[lane as usize].take()?))).collect(),
                arrived: arrived.clone(),
            };
            reads.spawn_on(fetch.run(input), network);
        }
        let lanes = receivers.into_iter().map(|pieces| Lane { pieces, reader: PartitionReader::default() });
        Ok(Inputs { lanes: lanes.collect(), arrivals, _reads: reads })
    }

    /// The next message of a lane; none at the end. Waits for it.
    ///
    /// # Errors
    /// Those of the bucket; `Execution` if the partition is damaged.
    pub fn next(&mut self, lane: usize) -> Result<Option<Message>> {
        self.lanes.get_mut(lane).map_or(Ok(None), Lane::next)
    }

    /// All bytes of a lane, in pieces. Waits for them.
    ///
    /// # Errors
    /// Those of the bucket.
    pub fn bytes(&mut self, lane: usize) -> Result<Vec<Bytes>> {
        let Some(lane) = self.lanes.get_mut(lane) else { return Ok(vec![]) };
        std::iter::from_fn(|| lane.pieces.blocking_recv()).collect()
    }

    /// The first of several lanes that has something, or has ended; waits for it.
    fn wait_for_any(&mut self, lanes: &[usize]) -> usize {
        loop {
            let has_come = |lane: &usize| {
                let lane = self.lanes.get(*lane);
                lane.is_none_or(|lane| !lane.pieces.is_empty() || lane.pieces.is_closed())
            };
            if let Some(place) = lanes.iter().position(has_come) {
                return place;
            }
            // All reads have ended: then every lane is closed.
            let _ = self.arrivals.recv();
        }
    }
}

/// The lanes of an input.
fn lanes_of(input: &Input) -> Vec<u32> {
    match input {
        Input::Inline { sections, .. } | Input::Object { sections, .. } => {
            sections.iter().map(|section| section.lane).collect()
        }
        Input::Expected { lanes, .. } => lanes.clone(),
    }
}

/// How many pieces of each lane may wait.
fn capacities(lanes: usize, inputs: &[Input]) -> Result<Vec<usize>> {
    let mut capacities = vec![1; lanes];
    for input in inputs {
        let own = lanes_of(input);
        for lane in &own {
            match capacities.get_mut(*lane as usize) {
                Some(capacity) if own.len() > 1 => *capacity = SHARED_PIECES,
                Some(_) => {}
                None => {
                    return exec_err!("an invocation has an input for lane {lane}, and there are {lanes}");
                }
            }
        }
    }
    Ok(capacities)
}

impl Lane {
    /// The next message; none at the end.
    fn next(&mut self) -> Result<Option<Message>> {
        loop {
            if let Some(message) = self.reader.next()? {
                return Ok(Some(message));
            }
            match self.pieces.blocking_recv() {
                Some(piece) => self.reader.push(piece?),
                None => return self.reader.check_end().map(|()| None),
            }
        }
    }
}

/// Reads one input.
struct Fetch {
    bucket: Arc<Bucket>,
    permits: Arc<Semaphore>,
    lanes: Vec<(u32, mpsc::Sender<Result<Bytes>>)>,
    arrived: Sender<()>,
}

impl Fetch {
    async fn run(self, input: Input) {
        if let Err(error) = self.read(input).await {
            let error = Arc::new(error);
            for (_, lane) in &self.lanes {
                // Work that has ended needs no bytes.
                let _ = lane.send(Err(DataFusionError::Shared(Arc::clone(&error)))).await;
            }
        }
        let Fetch { lanes, arrived, .. } = self;
        drop(lanes);
        let _ = arrived.try_send(());
    }

    async fn read(&self, input: Input) -> Result<()> {
        match input {
            Input::Inline { bytes, sections } => {
                let end = sections.iter().map(|section| section.bytes).sum();
                self.hand_over(&sections, 0..end, 0, bytes.0).await
            }
            Input::Object { key, tag, start, sections } => {
                self.read_sections(&key, tag.as_deref(), start, &sections).await
            }
            Input::Expected { key, partitions, first, lanes } => {
                let read = self.read_index(&key, index_bytes(partitions as usize)).await?;
                let index = Index::read(read.bytes)?;
                let partitions = (first as usize..).zip(&lanes);
                let section = |(partition, lane): (usize, &u32)| {
                    let range = index.range(partition);
                    Section { lane: *lane, bytes: range.end - range.start }
                };
                let sections: Vec<Section> = partitions.map(section).collect();
                let start = index.range(first as usize).start;
                self.read_sections(&key, read.tag.as_deref(), start, &sections).await
            }
        }
    }

    /// A range of an object, once that is there; for at most this long.
    async fn get_visible(
        &self,
        key: &str,
        range: Range<u64>,
        tag: Option<&str>,
        patience: Duration,
    ) -> object_store::Result<Read> {
        let (began, mut pause) = (Instant::now(), PAUSES.0);
        loop {
            match self.bucket.get(key, range.clone(), tag).await {
                Err(Error::NotFound { .. }) if began.elapsed() < patience => sleep(pause).await,
                read => return read,
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// The index of an object that is expected.
    async fn read_index(&self, key: &str, bytes: u64) -> Result<Read> {
        self.get_visible(key, 0..bytes, None, PATIENCE).await.map_err(|error| {
            of_bucket(match error {
                Error::NotFound { path, .. } => Error::NotFound { path, source: TOO_EARLY.into() },
                other => other,
            })
        })
    }

    /// Reads consecutive sections of an object, in requests that are not too large.
    async fn read_sections(
        &self,
        key: &str,
        tag: Option<&str>,
        start: u64,
        sections: &[Section],
    ) -> Result<()> {
        let end = start + sections.iter().map(|section| section.bytes).sum::<u64>();
        let mut from = start;
        while from < end {
            let to = (from + PIECE).min(end);
            // Bytes are not asked for before there is room for them.
            if let [(_, only)] = self.lanes.as_slice() {
                drop(only.reserve().await.map_err(|_| no_longer_read())?);
            }
            let permit = self.permits.acquire().await.map_err(|_| no_longer_read())?;
            let read = self.get_visible(key, from..to, tag, VISIBLE).await.map_err(of_bucket)?;
            drop(permit);
            self.hand_over(sections, from - start..to - start, from - start, read.bytes).await?;
            from = to;
        }
        Ok(())
    }

    /// Gives each lane what a range has of its section. The bytes begin at `offset`, counted from the first
    /// section as the range is.
    async fn hand_over(
        &self,
        sections: &[Section],
        range: Range<u64>,
        offset: u64,
        bytes: Bytes,
    ) -> Result<()> {
        if (bytes.len() as u64) < range.end - offset {
            return exec_err!("an object of a query is shorter than it was");
        }
        let mut start = 0;
        for section in sections {
            let (from, to) = (start.max(range.start), (start + section.bytes).min(range.end));
            start += section.bytes;
            if from < to
                && let Some((_, lane)) = self.lanes.iter().find(|(lane, _)| *lane == section.lane)
            {
                let part = bytes.slice((from - offset) as usize..(to - offset) as usize);
                lane.send(Ok(part)).await.map_err(|_| no_longer_read())?;
                let _ = self.arrived.try_send(());
            }
        }
        Ok(())
    }
}

fn no_longer_read() -> DataFusionError {
    internal_datafusion_err!("work that has ended is still read for")
}

/// How many requests read so many bytes.
pub fn requests(bytes: u64) -> u64 {
    bytes.div_ceil(PIECE)
}

/// An error of a bucket, which another attempt may not meet.
pub fn of_bucket(error: Error) -> DataFusionError {
    DataFusionError::ObjectStore(Box::new(error))
}

/// Whether an object was expected that did not come.
pub fn is_too_early(error: &Error) -> bool {
    matches!(error, Error::NotFound { source, .. } if source.to_string() == TOO_EARLY)
}

/// Carries the messages of one task.
pub struct ObjectCarrier {
    /// What it reads.
    pub inputs: Inputs,
    /// The lane of each queue.
    pub lanes: BTreeMap<QueueId, usize>,
    /// What it writes.
    pub output: Arc<Mutex<ObjectWriter>>,
    /// The partitions of that.
    pub layout: Layout,
    /// What will be written next.
    pub waiting: Vec<(usize, Message)>,
}

impl ObjectCarrier {
    /// The lane of a queue; one that is not there is empty.
    fn lane(&self, queue: QueueId) -> usize {
        self.lanes.get(&queue).copied().unwrap_or(usize::MAX)
    }
}

impl Carrier for ObjectCarrier {
    fn receive(&mut self, queue: QueueId) -> Result<Item, Halt> {
        let lane = self.lane(queue);
        Ok(self.inputs.next(lane)?.map_or(Item::End, Item::Message))
    }

    fn chooses(&self) -> bool {
        true
    }

    fn choose(&mut self, queues: &[QueueId]) -> Result<usize, Halt> {
        let lanes: Vec<usize> = queues.iter().map(|queue| self.lane(*queue)).collect();
        // What a lane has read already comes first, so that no lane is held half used for long.
        let begun = |lane: &usize| self.inputs.lanes.get(*lane).is_some_and(|lane| lane.reader.has_bytes());
        match lanes.iter().position(begun) {
            Some(place) => Ok(place),
            None => Ok(self.inputs.wait_for_any(&lanes)),
        }
    }

    fn put(&mut self, queue: QueueId, item: Item) {
        // The end of a partition is the end of its bytes.
        let Item::Message(message) = item else { return };
        if let Some(partition) = self.layout.writers.get(&queue) {
            self.waiting.push((*partition, message));
        }
    }

    fn send(&mut self) -> Result<(), Halt> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.drain(..).try_for_each(|(partition, message)| output.append(partition, message))?;
        Ok(())
    }

    fn is_abandoned(&self) -> bool {
        false
    }
}
