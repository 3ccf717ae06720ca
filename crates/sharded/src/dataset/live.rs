//! Live datasets, which grow while they are read.
//!
//! Each shard has one sender. Messages that are sent before the first query reads the shard are kept for
//! it, however many they are. Later a sender waits while the queue of a query is full. A query gets the
//! messages that are sent from its start on. A message goes to all queries or to none: a sender waits for
//! room in every queue before it fills one.
//!
//! A source may keep a journal: messages are on the disk before their sender returns, and jobs that
//! survive their process read them from there, from where they were on. No sender waits for such a job.

use super::journal::Journal;
use super::live_clock::{LiveTime, ShardClock, idle_promises, promise};
use super::{Dataset, ReplayableShard, Shard};
use crossbeam_channel::{Receiver, Select, SendTimeoutError, Sender, bounded, unbounded};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_err, plan_err};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;
use whimbrel_plan::{Source, SourceInfo};
use whimbrel_temporal::{INFINITY, Message, Time};

/// How many messages the queue of a query holds.
const CAPACITY: usize = 64;

/// How long a sender waits before it asks its patience again.
const WAIT_INTERVAL: Duration = Duration::from_millis(50);

/// Called at intervals while a sender waits; an error ends the wait.
pub type Patience<'a> = &'a mut dyn FnMut() -> Result<()>;

/// A source that [`LiveSender`]s feed.
///
/// ```
/// use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use std::sync::Arc;
/// use whimbrel_plan::Stream;
/// use whimbrel_sharded::dataset::LiveDataset;
/// use whimbrel_sharded::{Options, action};
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
/// let rows = RecordBatch::try_from_iter([("n", column)])?;
/// let (live, senders) = LiveDataset::new(rows.schema(), 1)?;
/// senders[0].push(rows)?;
/// senders[0].close();
/// let query = Stream::scan("numbers", live)?;
/// assert_eq!(action::collect(&query, &Options::default())?.wait()?.num_rows(), 3);
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub struct LiveDataset {
    schema: SchemaRef,
    feeds: Vec<Arc<ShardFeed>>,
}

/// The sending end of one shard.
///
/// Dropping it closes the shard.
pub struct LiveSender {
    /// The columns of the rows that are sent.
    schema: SchemaRef,
    /// Those of the source.
    columns: SchemaRef,
    feed: Arc<ShardFeed>,
}

/// The receiving end of one shard: its messages for one query.
pub struct LiveQueue {
    /// They end when the shard is closed.
    pub messages: Receiver<Message>,
    feed: Arc<ShardFeed>,
}

impl LiveQueue {
    /// Checks that what came is all, when the messages have ended.
    ///
    /// # Errors
    /// `Execution` if the query that publishes them has ended early.
    pub fn check_end(&self) -> Result<()> {
        match self.feed.needs_readers || self.feed.lock().finished {
            true => Ok(()),
            false => exec_err!(
                "the query that publishes these rows has failed or was stopped: its own error says why"
            ),
        }
    }
}

/// One shard: its readers, and the messages that wait for the first of them.
struct ShardFeed {
    journal: Option<Arc<Journal>>,
    clock: Option<ShardClock>,
    /// Whether sending fails when all queries that read it are over.
    needs_readers: bool,
    state: Mutex<State>,
    /// Held while sending, so that all readers get the messages of several threads in one order.
    sending: Mutex<()>,
}

/// The readers of a shard, and the messages for the first of them.
struct State {
    /// The process of the readers: a fork has none of their threads.
    process: u32,
    readers: Vec<Sender<Message>>,
    /// The messages for the first reader, until it comes.
    early: Option<Vec<Message>>,
    closed: bool,
    /// Whether it was closed by a call, and not because its sender was dropped.
    finished: bool,
}

impl LiveDataset {
    /// A source with so many shards, and the sender of each.
    ///
    /// # Errors
    /// `Plan` if there are no shards.
    pub fn new(schema: SchemaRef, shards: usize) -> Result<(Arc<LiveDataset>, Vec<LiveSender>)> {
        LiveDataset::open(schema, shards, None, None)
    }

    /// A source that keeps a journal in a folder, which is made if need be. One that is there already
    /// goes on.
    ///
    /// # Errors
    /// `Plan` if there are no shards, or the journal has other columns; `Execution` if another process
    /// writes it, or it cannot be written.
    pub fn with_journal(
        schema: SchemaRef,
        shards: usize,
        folder: &Path,
    ) -> Result<(Arc<LiveDataset>, Vec<LiveSender>)> {
        LiveDataset::open(schema, shards, Some(folder), None)
    }

    /// A source whose rows are made for whoever reads it, also if nobody does: without a reader they are
    /// gone, but for those that wait for the first one.
    ///
    /// # Errors
    /// As [`new`](LiveDataset::new).
    pub(crate) fn published(schema: SchemaRef, shards: usize) -> Result<(Arc<LiveDataset>, Vec<LiveSender>)> {
        let feed = |_| ShardFeed { needs_readers: false, ..ShardFeed::new(None, None) };
        LiveDataset::of(&schema, &schema, (0..shards).map(feed).map(Arc::new).collect())
    }

    /// A source for rows with these columns, whose time may go on while none come.
    ///
    /// # Errors
    /// As [`with_journal`](LiveDataset::with_journal); `Plan` if `time` names a column that does not fit;
    /// `IoError` if there is no thread for its clock.
    pub fn open(
        sent: SchemaRef,
        shards: usize,
        journal: Option<&Path>,
        time: Option<LiveTime>,
    ) -> Result<(Arc<LiveDataset>, Vec<LiveSender>)> {
        let schema = time.as_ref().map_or_else(|| Ok(Arc::clone(&sent)), |time| time.schema(&sent))?;
        let feed = |shard: usize| {
            let folder = journal.map(|folder| folder.join(format!("shard-{shard}")));
            let journal = folder.map(|folder| Journal::open(&folder, &schema).map(Arc::new)).transpose()?;
            Ok(Arc::new(ShardFeed::new(journal, time.clone().map(ShardClock::new))))
        };
        let feeds = (0..shards).map(feed).collect::<Result<Vec<Arc<ShardFeed>>>>()?;
        if let Some(time) = time {
            let feeds: Vec<Weak<ShardFeed>> = feeds.iter().map(Arc::downgrade).collect();
            let interval = time.interval();
            std::thread::Builder::new()
                .name("live clock".to_string())
                .spawn(move || keep_time(&feeds, interval))?;
        }
        LiveDataset::of(&sent, &schema, feeds)
    }

    /// The source of these shards, and the senders of rows with the columns `sent`.
    fn of(
        sent: &SchemaRef,
        schema: &SchemaRef,
        feeds: Vec<Arc<ShardFeed>>,
    ) -> Result<(Arc<LiveDataset>, Vec<LiveSender>)> {
        if feeds.is_empty() {
            return plan_err!("a dataset has at least one shard");
        }
        let sender = |feed: &Arc<ShardFeed>| LiveSender {
            schema: Arc::clone(sent),
            columns: Arc::clone(schema),
            feed: Arc::clone(feed),
        };
        let senders = feeds.iter().map(sender).collect();
        Ok((Arc::new(LiveDataset { schema: Arc::clone(schema), feeds }), senders))
    }

    /// Whether all of its shards were closed by [`LiveSender::close`]. A sender that was dropped may have
    /// had more to send: an exception or an interrupt may have ended its program.
    pub fn is_finished(&self) -> bool {
        self.feeds.iter().all(|feed| feed.lock().finished)
    }

    /// The error of a job over a source without a journal.
    fn refuse_replay<T>(&self) -> Result<T> {
        plan_err!(
            "the rows of a live source are gone once they have been read, so a job over one cannot go on after a \
             crash; give the source a log (`wb.live(…, log=\"folder\")`), or follow files"
        )
    }

    /// One of its shards as a source of its own.
    pub(crate) fn shard(&self, number: usize) -> LiveDataset {
        LiveDataset { schema: self.schema.clone(), feeds: vec![self.feeds[number].clone()] }
    }
}

impl LiveSender {
    /// The columns of the rows that it sends.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Sends rows; waits while the queue is full.
    ///
    /// # Errors
    /// `Plan` if the rows have other columns than the source; `Execution` if the shard is closed, or all
    /// queries that read it have ended.
    pub fn push(&self, rows: RecordBatch) -> Result<()> {
        self.push_while(rows, &mut || Ok(()))
    }

    /// Sends rows; waits while the queue is full and `patience` lasts.
    ///
    /// # Errors
    /// As [`push`](LiveSender::push), and that of `patience`; then nothing was sent.
    pub fn push_while(&self, rows: RecordBatch, patience: Patience<'_>) -> Result<()> {
        super::memory::check_types(&self.schema, &rows)?;
        let rows = super::conform(rows, &self.schema)?;
        let stamped = || match &self.feed.clock {
            Some(clock) => clock.stamp(rows, &self.columns),
            None => Ok(rows),
        };
        self.feed.send(|| Ok(crate::relation::always(stamped()?)), patience)
    }

    /// Promises that no row before this time will be sent: results up to it become final.
    ///
    /// # Errors
    /// As [`push`](LiveSender::push).
    pub fn advance(&self, time: Time) -> Result<()> {
        self.advance_while(time, &mut || Ok(()))
    }

    /// Promises the same; waits while the queue is full and `patience` lasts.
    ///
    /// # Errors
    /// As [`push_while`](LiveSender::push_while).
    pub fn advance_while(&self, time: Time, patience: Patience<'_>) -> Result<()> {
        match time {
            INFINITY => {
                self.close();
                Ok(())
            }
            _ => {
                if let Some(clock) = &self.feed.clock {
                    if clock.is_arrival() {
                        return plan_err!(
                            "rows of this source have the time of their arrival, which goes on by itself"
                        );
                    }
                    clock.advance(time);
                }
                self.feed.send(|| Ok(Message::Punctuation(time)), patience)
            }
        }
    }

    /// Closes the shard. It does not wait: readers take the messages that are there, and then the end.
    pub fn close(&self) {
        if let (Some(journal), false) = (&self.feed.journal, self.feed.lock().closed) {
            // What cannot be written now is an error of the next sender, or no end.
            let _ = journal.append(&Message::Punctuation(INFINITY));
        }
        let mut state = self.feed.lock();
        state.finished |= !state.closed;
        state.close();
    }
}

impl Drop for LiveSender {
    fn drop(&mut self) {
        self.feed.lock().close();
    }
}

impl State {
    fn close(&mut self) {
        self.closed = true;
        self.readers.clear();
    }
}

impl ShardFeed {
    /// An open shard without readers.
    fn new(journal: Option<Arc<Journal>>, clock: Option<ShardClock>) -> ShardFeed {
        let process = std::process::id();
        let closed = journal.as_ref().is_some_and(|journal| journal.has_ended());
        let state = State { process, readers: Vec::new(), early: Some(Vec::new()), closed, finished: closed };
        let needs_readers = journal.is_none();
        ShardFeed { journal, clock, needs_readers, state: Mutex::new(state), sending: Mutex::new(()) }
    }

    /// A panic elsewhere leaves the state consistent: every change is made in one step.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.process != std::process::id() {
            state.process = std::process::id();
            state.readers.clear();
        }
        state
    }

    /// The lock for sending; a thread waits for it while its patience lasts.
    fn lock_sending(&self, patience: Patience<'_>) -> Result<MutexGuard<'_, ()>> {
        loop {
            match self.sending.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(guard)) => return Ok(guard.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    patience()?;
                    std::thread::sleep(WAIT_INTERVAL / 50);
                }
            }
        }
    }

    /// Sends a message to all readers. It is made when its turn has come.
    fn send(&self, message: impl FnOnce() -> Result<Message>, patience: Patience<'_>) -> Result<()> {
        let _order = self.lock_sending(patience)?;
        let message = message()?;
        let readers = {
            if self.lock().closed {
                return exec_err!("this shard of the live source has been closed");
            }
            if let Some(journal) = &self.journal {
                journal.append(&message)?;
            }
            let mut state = self.lock();
            if let Some(early) = &mut state.early {
                early.push(message);
                return Ok(());
            }
            state.readers.clone()
        };
        // The state is not locked while it waits: a new reader may come.
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
        match state.readers.is_empty() && !state.closed && self.needs_readers {
            true => exec_err!("every query that read this live source is over; its job says why"),
            false => Ok(()),
        }
    }

    /// Whether a query reads it, or will read its journal.
    fn has_readers(&self) -> bool {
        self.lock().early.is_none()
    }

    /// A new reader.
    fn read(&self) -> Receiver<Message> {
        let mut state = self.lock();
        if let Some(early) = state.early.take()
            && !early.is_empty()
        {
            return ShardFeed::first_reader(&mut state, early);
        }
        let (sender, receiver) = bounded(CAPACITY);
        if state.closed {
            // A new queue has room.
            let _ = sender.send(Message::Punctuation(INFINITY));
        } else {
            state.readers.push(sender);
        }
        receiver
    }

    /// The first reader. Its queue has room for the messages that were sent already.
    fn first_reader(state: &mut State, early: Vec<Message>) -> Receiver<Message> {
        let (sender, receiver) = match state.closed {
            true => unbounded(),
            false => bounded(CAPACITY + early.len()),
        };
        for message in early {
            // The queue has room, and its receiver exists.
            let _ = sender.send(message);
        }
        if !state.closed {
            state.readers.push(sender);
        }
        receiver
    }
}

/// Keeps the time of shards going until all are closed.
fn keep_time(feeds: &[Weak<ShardFeed>], interval: Duration) {
    loop {
        std::thread::sleep(interval);
        let feeds: Vec<Arc<ShardFeed>> = feeds.iter().filter_map(Weak::upgrade).collect();
        if feeds.iter().all(|feed| feed.lock().closed) {
            return;
        }
        let open = |feed: &Arc<ShardFeed>| !feed.lock().closed;
        let clocks: Vec<Option<&ShardClock>> =
            feeds.iter().map(|feed| feed.clock.as_ref().filter(|_| open(feed))).collect();
        let (time, idle) = idle_promises(&clocks);
        for (place, feed) in feeds.iter().enumerate() {
            let Some(clock) = clocks[place].filter(|_| feed.has_readers()) else { continue };
            // Who has no room now is told at the next time; a source that nobody reads is none of ours.
            let mut patience = || exec_err!("there is no room");
            let _ = match (clock.is_arrival(), idle.contains(&place)) {
                (true, _) => feed.send(|| Ok(Message::Punctuation(clock.now())), &mut patience),
                (false, true) => {
                    promise(clock, time);
                    feed.send(|| Ok(Message::Punctuation(time)), &mut patience)
                }
                (false, false) => Ok(()),
            };
        }
    }
}

/// Waits until a queue has room, or no reader. The room stays: only the thread that holds the lock fills
/// queues.
fn wait_for_room(reader: &Sender<Message>, patience: Patience<'_>) -> Result<()> {
    let mut select = Select::new();
    select.send(reader);
    while reader.is_full() && select.ready_timeout(WAIT_INTERVAL).is_err() {
        patience()?;
    }
    Ok(())
}

/// Puts a message into a queue; false if it has no reader.
fn put(reader: &Sender<Message>, message: &Message, patience: Patience<'_>) -> Result<bool> {
    loop {
        match reader.send_timeout(message.clone(), WAIT_INTERVAL) {
            Ok(()) => return Ok(true),
            Err(SendTimeoutError::Disconnected(_)) => return Ok(false),
            // The queue may not have been ready after all.
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
        match self.feeds.first().and_then(|feed| feed.journal.as_ref()) {
            Some(journal) => format!("live with a log in {}", journal.folder().display()),
            None => "live".to_string(),
        }
    }
}

impl Dataset for LiveDataset {
    fn rows(&self) -> Option<u64> {
        None
    }

    fn open(&self, shard: usize, _projection: Option<&[usize]>, _batch_rows: usize) -> Result<Shard> {
        let feed = &self.feeds[shard];
        Ok(Shard::Queue(LiveQueue { messages: feed.read(), feed: Arc::clone(feed) }))
    }

    fn check_replayable(&self) -> Result<()> {
        match self.feeds.iter().all(|feed| feed.journal.is_some()) {
            true => Ok(()),
            false => self.refuse_replay(),
        }
    }

    fn replayable(
        &self,
        shard: usize,
        projection: Option<&[usize]>,
        batch_rows: usize,
    ) -> Result<ReplayableShard> {
        let feed = &self.feeds[shard];
        let Some(journal) = &feed.journal else { return self.refuse_replay() };
        // The journal keeps what this query reads; nothing has to wait for it in memory.
        feed.lock().early = None;
        Ok(journal.shard(projection.map(<[usize]>::to_vec), batch_rows))
    }
}
