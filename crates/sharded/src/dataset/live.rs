//! A dataset that grows while it is read.
//!
//! Each shard has one sender. What is sent before the first query reads the shard is kept for it, however
//! much it is; from then on a sender waits while a query's queue is full. Every query gets what is sent from
//! its start on.

use super::{Dataset, Shard};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_err, plan_err};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use whimbrel_plan::{Source, SourceInfo};
use whimbrel_temporal::{INFINITY, Message, Time};

/// How many messages may wait between a sender and a query.
const CAPACITY: usize = 64;

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
        super::memory::check_types(&self.schema, &rows)?;
        let rows = super::conform(rows, &self.schema)?;
        self.feed.send(crate::relation::always(rows))
    }

    /// Says that no row with a time before this will be sent: results up to there become final.
    ///
    /// # Errors
    /// As [`push`](LiveSender::push).
    pub fn advance(&self, time: Time) -> Result<()> {
        match time {
            INFINITY => self.close(),
            _ => self.feed.send(Message::Punctuation(time)),
        }
    }

    /// Says that nothing more will be sent.
    pub fn close(&self) -> Result<()> {
        if self.feed.lock().closed {
            return Ok(());
        }
        let sent = self.feed.send(Message::Punctuation(INFINITY));
        self.feed.lock().closed = true;
        // Nobody is left to be told: that is no failure of closing.
        sent.or(Ok(()))
    }
}

impl Drop for LiveSender {
    fn drop(&mut self) {
        // A reader that has gone away needs no news.
        let _ = self.close();
    }
}

impl Feed {
    fn new() -> Feed {
        let state = State { readers: Vec::new(), early: Some(Vec::new()), closed: false };
        Feed { state: Mutex::new(state), sending: Mutex::new(()) }
    }

    /// The state stays whole if a thread that held it panicked: every change to it is one step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, message: Message) -> Result<()> {
        let _order = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
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
        let gone: Vec<bool> = readers.iter().map(|r| r.send(message.clone()).is_err()).collect();
        let gone: Vec<&Sender<Message>> =
            readers.iter().zip(gone).filter(|(_, g)| *g).map(|(r, _)| r).collect();
        let mut state = self.lock();
        state.readers.retain(|r| !gone.iter().any(|g| g.same_channel(r)));
        match state.readers.is_empty() {
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
