//! A dataset that grows while it is read.
//!
//! Each shard has one sender. What is sent before the first query reads the shard is kept for it, however
//! much it is; from then on a sender waits while a query's queue is full. Every query gets what is sent from
//! its start on. A message is sent to all queries or to none: a sender waits for room in every queue before it
//! puts anything into one.

use super::{Dataset, Shard};
use crossbeam_channel::{Receiver, Select, SendTimeoutError, Sender, bounded, unbounded};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_err, plan_err};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use whimbrel_plan::{Source, SourceInfo};
use whimbrel_temporal::{INFINITY, Message, Time};

/// How many messages may wait between a sender and a query.
const CAPACITY: usize = 64;

/// How long a sender waits before it asks whether to go on waiting.
const SLICE: Duration = Duration::from_millis(50);

/// Asked now and then while a sender waits; an error ends the wait.
pub type Patience<'a> = &'a mut dyn FnMut() -> Result<()>;

/// A source that is fed by [`LiveSender`]s.
pub struct LiveDataset {
    schema: SchemaRef,
    feeds: Vec<Arc<Feed>>,
}

/// The sending end of one shard.
///
/// Dropping it closes the shard.
pub struct LiveSender {
    schema: SchemaRef,
    feed: Arc<Feed>,
}

/// One shard: who reads it, and what waits for its first reader.
struct Feed {
    state: Mutex<State>,
    /// Held while sending, so that what several threads send to one shard has one order for all readers.
    sending: Mutex<()>,
}

struct State {
    /// The process that the readers are in: a fork of it has none of their threads.
    process: u32,
    readers: Vec<Sender<Message>>,
    /// Until the first reader comes.
    early: Option<Vec<Message>>,
    closed: bool,
}

impl LiveDataset {
    /// A source of so many shards, and their senders.
    pub fn new(schema: SchemaRef, shards: usize) -> Result<(Arc<LiveDataset>, Vec<LiveSender>)> {
        if shards == 0 {
            return plan_err!("a dataset has at least one shard");
        }
        let feeds: Vec<Arc<Feed>> = (0..shards).map(|_| Arc::new(Feed::new())).collect();
        let sender = |feed: &Arc<Feed>| LiveSender { schema: schema.clone(), feed: feed.clone() };
        let senders = feeds.iter().map(sender).collect();
        Ok((Arc::new(LiveDataset { schema, feeds }), senders))
    }

    /// Whether nothing more will be sent to any of its shards.
    pub fn closed(&self) -> bool {
        self.feeds.iter().all(|feed| feed.lock().closed)
    }

    /// One of its shards as a source of its own.
    pub(crate) fn shard(&self, number: usize) -> LiveDataset {
        LiveDataset { schema: self.schema.clone(), feeds: vec![self.feeds[number].clone()] }
    }
}

impl LiveSender {
    /// The columns that rows have to have.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Sends rows; waits while the queue is full.
    ///
    /// # Errors
    /// `Plan` if the columns are not the source's; `Execution` if every query that read the source is over,
    /// or the shard was closed.
    pub fn push(&self, rows: RecordBatch) -> Result<()> {
        self.push_while(rows, &mut || Ok(()))
    }

    /// Sends rows; waits while the queue is full and `patience` lasts.
    ///
    /// # Errors
    /// As [`push`](LiveSender::push), and that of `patience`: then nothing was sent.
    pub fn push_while(&self, rows: RecordBatch, patience: Patience<'_>) -> Result<()> {
        super::memory::check_types(&self.schema, &rows)?;
        let rows = super::conform(rows, &self.schema)?;
        self.feed.send(crate::relation::always(rows), patience)
    }

    /// Says that no row with a time before this will be sent: results up to there become final.
    ///
    /// # Errors
    /// As [`push`](LiveSender::push).
    pub fn advance(&self, time: Time) -> Result<()> {
        self.advance_while(time, &mut || Ok(()))
    }

    /// The same, as long as `patience` lasts.
    ///
    /// # Errors
    /// As [`push_while`](LiveSender::push_while).
    pub fn advance_while(&self, time: Time, patience: Patience<'_>) -> Result<()> {
        match time {
            INFINITY => {
                self.close();
                Ok(())
            }
            _ => self.feed.send(Message::Punctuation(time), patience),
        }
    }

    /// Says that nothing more will be sent. Does not wait: readers take what is there, then find the end.
    pub fn close(&self) {
        let mut state = self.feed.lock();
        state.closed = true;
        state.readers.clear();
    }
}

impl Drop for LiveSender {
    fn drop(&mut self) {
        self.close();
    }
}

impl Feed {
    fn new() -> Feed {
        let process = std::process::id();
        let state = State { process, readers: Vec::new(), early: Some(Vec::new()), closed: false };
        Feed { state: Mutex::new(state), sending: Mutex::new(()) }
    }

    /// The state stays whole if a thread that held it panicked: every change to it is one step.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.process != std::process::id() {
            state.process = std::process::id();
            state.readers.clear();
        }
        state
    }

    /// The right to send; nobody waits for it without being asked whether to.
    fn turn(&self, patience: Patience<'_>) -> Result<MutexGuard<'_, ()>> {
        loop {
            match self.sending.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    patience()?;
                    std::thread::sleep(SLICE / 50);
                }
            }
        }
    }

    fn send(&self, message: Message, patience: Patience<'_>) -> Result<()> {
        let _order = self.turn(patience)?;
        let readers = {
            let mut state = self.lock();
            if state.closed {
                return exec_err!("this shard of the live source has been closed");
            }
            if let Some(early) = &mut state.early {
                early.push(message);
                return Ok(());
            }
            state.readers.clone()
        };
        // Readers are waited for without the lock: a new one may come meanwhile.
        for reader in &readers {
            wait_for_room(reader, patience)?;
        }
        let mut gone = Vec::new();
        for reader in &readers {
            if !put(reader, &message, patience)? {
                gone.push(reader);
            }
        }
        let mut state = self.lock();
        state.readers.retain(|r| !gone.iter().any(|g| g.same_channel(r)));
        match state.readers.is_empty() && !state.closed {
            true => exec_err!("every query that read this live source is over; its job says why"),
            false => Ok(()),
        }
    }

    fn read(&self) -> Receiver<Message> {
        let mut state = self.lock();
        if let Some(early) = state.early.take()
            && !early.is_empty()
        {
            return Feed::first(&mut state, early);
        }
        let (sender, receiver) = bounded(CAPACITY);
        if state.closed {
            // There is room: the queue is new.
            let _ = sender.send(Message::Punctuation(INFINITY));
        } else {
            state.readers.push(sender);
        }
        receiver
    }

    /// The queue of the first reader has to hold what has been sent already, so its bound is above that.
    fn first(state: &mut State, early: Vec<Message>) -> Receiver<Message> {
        let (sender, receiver) = match state.closed {
            true => unbounded(),
            false => bounded(CAPACITY + early.len()),
        };
        for message in early {
            // There is room, and the receiver is here.
            let _ = sender.send(message);
        }
        if !state.closed {
            state.readers.push(sender);
        }
        receiver
    }
}

/// Waits until a queue has room or no reader. The room stays: only who has the turn fills queues.
fn wait_for_room(reader: &Sender<Message>, patience: Patience<'_>) -> Result<()> {
    let mut select = Select::new();
    select.send(reader);
    while reader.is_full() && select.ready_timeout(SLICE).is_err() {
        patience()?;
    }
    Ok(())
}

/// Puts a message into a queue; false: it has no reader.
fn put(reader: &Sender<Message>, message: &Message, patience: Patience<'_>) -> Result<bool> {
    loop {
        match reader.send_timeout(message.clone(), SLICE) {
            Ok(()) => return Ok(true),
            Err(SendTimeoutError::Disconnected(_)) => return Ok(false),
            // Being ready may have been a false alarm.
            Err(SendTimeoutError::Timeout(_)) => patience()?,
        }
    }
}

impl std::fmt::Debug for LiveDataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Source for LiveDataset {
    fn info(&self) -> SourceInfo {
        SourceInfo { schema: self.schema.clone(), bounded: false, shards: self.feeds.len(), groups: 1 }
    }

    fn describe(&self) -> String {
        "live".to_string()
    }
}

impl Dataset for LiveDataset {
    fn rows(&self) -> Option<u64> {
        None
    }

    fn open(&self, shard: usize, _projection: Option<&[usize]>, _batch_rows: usize) -> Result<Shard> {
        Ok(Shard::Queue(self.feeds[shard].read()))
    }
}
