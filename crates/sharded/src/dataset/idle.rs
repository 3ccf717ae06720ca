//! Shards of a growing source of which some have nothing new for long: they hold nobody back.
//!
//! A shard is *idle* when it has had nothing new for as long as its timeout. It then promises what the
//! slowest of the shards that are not idle has come to, less the reorder latency, so that results do not
//! wait for it. Rows that come into it later may be late. When all shards are idle, time stands still.
//!
//! Invariant: a promise is a slice of its shard, as its rows are. So it is on the tape of a job, and a job
//! that goes on after a crash sees the same.

use super::live_clock::latest;
use super::{Cut, Part, ReplayableShard, ShardLog, SliceReader};
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use whimbrel_temporal::checkpoint::{decode, encode};
use whimbrel_temporal::{BEGINNING, Message, Time};

/// All shards of a query that promise something while they are idle.
#[derive(Debug, Default)]
pub(crate) struct IdleShards {
    shards: Mutex<Vec<Progress>>,
}

/// How far a shard has come.
#[derive(Debug)]
struct Progress {
    timeout: Duration,
    /// The latest time of its rows, less the reorder latency, or what it has promised.
    reached: Time,
    /// Since when it has had nothing new whenever it was asked. A shard that nobody asks may have news.
    quiet_since: Option<Instant>,
    has_ended: bool,
}

impl Progress {
    fn is_active(&self) -> bool {
        !self.has_ended && self.quiet_since.is_none_or(|since| since.elapsed() < self.timeout)
    }
}

/// What a shard promises by, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Idleness {
    /// The place of the time in its rows.
    pub time: usize,
    /// After how long without rows it is idle.
    pub timeout: Duration,
    /// How late rows may be, in ticks.
    pub latency: i64,
}

impl IdleShards {
    /// The shard, with promises while it is idle.
    pub fn watch(self: &Arc<Self>, shard: ReplayableShard, idleness: Idleness) -> ReplayableShard {
        let log = IdleLog { log: shard.log, number: None, idleness, shards: Arc::clone(self) };
        let reader = IdleReader { reader: shard.reader, time: idleness.time, promise: None, latest: None };
        ReplayableShard { log: Box::new(log), reader: Box::new(reader) }
    }

    /// Adds a shard; its number.
    fn add(&self, timeout: Duration) -> usize {
        let mut shards = self.lock();
        shards.push(Progress { timeout, reached: BEGINNING, quiet_since: None, has_ended: false });
        shards.len() - 1
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Progress>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a shard promises that has nothing new, if it is idle and the others have gone on.
    fn promise(&self, number: usize) -> Option<Time> {
        let mut shards = self.lock();
        shards[number].quiet_since.get_or_insert_with(Instant::now);
        let slowest = shards.iter().filter(|shard| shard.is_active()).map(|shard| shard.reached).min()?;
        let own = &mut shards[number];
        let promised = !own.is_active() && slowest > own.reached;
        promised.then(|| {
            own.reached = slowest;
            slowest
        })
    }
}

/// A slice of a shard that may be idle.
#[derive(Serialize, Deserialize)]
enum Slice {
    /// A slice of its rows.
    Rows(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Nothing before this time will come.
    Promise(Time),
}

/// Cuts a shard, and promises for it.
struct IdleLog {
    log: Box<dyn ShardLog>,
    /// Its number, once it is asked for rows: logs that nobody asks are not waited for.
    number: Option<usize>,
    idleness: Idleness,
    shards: Arc<IdleShards>,
}

impl IdleLog {
    fn number(&mut self) -> usize {
        *self.number.get_or_insert_with(|| self.shards.add(self.idleness.timeout))
    }

    fn update(&mut self, change: impl FnOnce(&mut Progress)) {
        let number = self.number();
        change(&mut self.shards.lock()[number]);
    }
}

impl ShardLog for IdleLog {
    fn cut(&mut self) -> Result<Cut> {
        Ok(match self.log.cut()? {
            Cut::Slice(rows) => {
                self.update(|shard| shard.quiet_since = None);
                Cut::Slice(encode(&Slice::Rows(rows))?)
            }
            Cut::End => {
                self.update(|shard| shard.has_ended = true);
                Cut::End
            }
            Cut::Nothing => {
                let number = self.number();
                match self.shards.promise(number) {
                    Some(time) => Cut::Slice(encode(&Slice::Promise(time))?),
                    None => Cut::Nothing,
                }
            }
        })
    }

    fn position(&self) -> Result<Vec<u8>> {
        self.log.position()
    }

    fn seek(&mut self, position: Option<&[u8]>) -> Result<()> {
        self.number();
        self.log.seek(position)
    }

    fn skip(&mut self, slice: &[u8]) -> Result<()> {
        match decode(slice)? {
            Slice::Rows(rows) => self.log.skip(&rows),
            Slice::Promise(time) => {
                self.update(|shard| shard.reached = shard.reached.max(time));
                Ok(())
            }
        }
    }

    fn note_time(&mut self, time: Time) {
        let time = time.saturating_sub(self.idleness.latency);
        self.update(|shard| shard.reached = shard.reached.max(time));
    }
}

/// Reads the rows of a shard, and its promises.
struct IdleReader {
    reader: Box<dyn SliceReader>,
    time: usize,
    /// The promise that the current slice is.
    promise: Option<Time>,
    /// The latest time that was read.
    latest: Option<Time>,
}

impl SliceReader for IdleReader {
    fn begin(&mut self, slice: &[u8]) -> Result<()> {
        match decode(slice)? {
            Slice::Rows(rows) => self.reader.begin(&rows),
            Slice::Promise(time) => {
                self.promise = Some(time);
                Ok(())
            }
        }
    }

    fn next(&mut self) -> Result<Option<Part>> {
        if let Some(time) = self.promise.take() {
            return Ok(Some(Part::Message(Message::Punctuation(time))));
        }
        let part = self.reader.next()?;
        let read = match &part {
            Some(Part::Message(Message::Batch(batch))) => latest(batch.rows.column(self.time))?,
            Some(Part::Message(Message::Punctuation(time))) => Some(*time),
            Some(Part::End) | None => None,
        };
        self.latest = self.latest.max(read);
        Ok(part)
    }

    fn latest(&self) -> Option<Time> {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, RecordBatch};
    use std::sync::atomic::{AtomicI64, Ordering};

    /// A shard whose slices are one row each, with these times.
    struct Times(Vec<i64>, Arc<AtomicI64>);

    impl ShardLog for Times {
        fn cut(&mut self) -> Result<Cut> {
            let next = self.1.load(Ordering::Relaxed) as usize;
            match self.0.get(next) {
                Some(time) => {
                    self.1.fetch_add(1, Ordering::Relaxed);
                    Ok(Cut::Slice(encode(time)?))
                }
                None => Ok(Cut::Nothing),
            }
        }
        fn position(&self) -> Result<Vec<u8>> {
            encode(&self.1.load(Ordering::Relaxed))
        }
        fn seek(&mut self, _: Option<&[u8]>) -> Result<()> {
            Ok(())
        }
        fn skip(&mut self, _: &[u8]) -> Result<()> {
            Ok(())
        }
    }

    /// Reads the slices of [`Times`].
    struct Rows(Option<i64>);

    impl SliceReader for Rows {
        fn begin(&mut self, slice: &[u8]) -> Result<()> {
            self.0 = Some(decode(slice)?);
            Ok(())
        }
        fn next(&mut self) -> Result<Option<Part>> {
            Ok(self.0.take().map(|time| {
                let times = Arc::new(Int64Array::from(vec![time]));
                let rows = RecordBatch::try_from_iter([("t", times as _)]).unwrap();
                Part::Message(crate::relation::always(rows))
            }))
        }
    }

    fn shard(shards: &Arc<IdleShards>, times: &[i64], timeout: Duration) -> ReplayableShard {
        let log = Box::new(Times(times.to_vec(), Arc::default()));
        let shard = ReplayableShard { log, reader: Box::new(Rows(None)) };
        shards.watch(shard, Idleness { time: 0, timeout, latency: 10 })
    }

    /// Reads what a shard has now; the promises in it.
    fn read(shard: &mut ReplayableShard) -> Vec<Time> {
        let mut promises = Vec::new();
        while let Cut::Slice(slice) = shard.log.cut().unwrap() {
            shard.reader.begin(&slice).unwrap();
            while let Some(part) = shard.reader.next().unwrap() {
                if let Part::Message(Message::Punctuation(time)) = part {
                    promises.push(time);
                }
            }
            shard.reader.latest().into_iter().for_each(|time| shard.log.note_time(time));
        }
        promises
    }

    #[test]
    fn an_idle_shard_promises_what_the_slowest_active_one_has_come_to() {
        let shards = Arc::<IdleShards>::default();
        let hour = Duration::from_secs(3600);
        let mut idle = shard(&shards, &[5], Duration::ZERO);
        let (mut slow, mut fast) = (shard(&shards, &[100], hour), shard(&shards, &[300], hour));
        assert!([&mut idle, &mut slow, &mut fast].into_iter().all(|shard| read(shard).is_empty()));
        assert_eq!(read(&mut idle), [90]);
        // It is promised once.
        assert!(read(&mut idle).is_empty());
    }

    #[test]
    fn time_stands_still_when_all_are_idle() {
        let shards = Arc::<IdleShards>::default();
        let mut all = [&[100], &[300]].map(|times| shard(&shards, times, Duration::ZERO));
        for _ in 0..3 {
            assert!(all.iter_mut().all(|shard| read(shard).is_empty()));
        }
    }
}
