//! The coordinator of a job: it cuts its input into epochs, follows each to the sink, and has checkpoints
//! taken.
//!
//! Invariants: an epoch is on the tape before it is read. The next epoch is cut when the last one has
//! been read, so epochs are as large as the job is slow, and as short as its sources are quiet. One
//! checkpoint is taken at a time; a slow one delays the next.

use crate::checkpoint::Checkpoint;
use crate::checkpoint_writer::CheckpointWriter;
use crate::committer::{Committer, CompleteEpoch};
use crate::recovery::Recovery;
use crate::tape::{Epoch, Tape};
use arrow::record_batch::RecordBatch;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use datafusion::common::{Result, exec_err};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use whimbrel_sharded::action::EpochQuery;
use whimbrel_sharded::dataset::Cut;
use whimbrel_sharded::program::ChannelId;
use whimbrel_sharded::{ChannelState, Marker, PacedSource, Report};

/// How often sources are asked for news while there are none.
const POLL: Duration = Duration::from_millis(10);

/// What the coordinator shares with the caller of the job.
#[derive(Default)]
pub struct Shared {
    /// Set to stop the job.
    pub is_stopped: Arc<AtomicBool>,
    /// The last epoch that was cut.
    pub epoch: AtomicU64,
    /// The last epoch that the sink has.
    pub committed: AtomicU64,
    /// When the last checkpoint was written, and of which epoch it is.
    pub checkpointed: Mutex<Option<(u64, SystemTime)>>,
}

/// When checkpoints are taken, and when the job ends.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The time between two checkpoints.
    pub every: Duration,
    /// After how long without news the job ends.
    pub stop_when_idle: Option<Duration>,
}

/// What the coordinator has to know of the checkpoint that its query goes on from; at the beginning of a
/// job, nothing.
#[derive(Debug, Default)]
pub struct Resumed {
    /// The epoch of the checkpoint.
    pub epoch: u64,
    /// The positions of the sources.
    pub positions: Option<Vec<Vec<u8>>>,
    /// Which lanes have ended, of the channels that have not.
    pub ended_lanes: BTreeMap<ChannelId, Vec<bool>>,
}

/// How the coordinator's work has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The query has ended, or failed: its own outcome says which.
    Query,
    /// There is nothing to do any more, or the caller has stopped the job.
    Stopped,
}

/// A source, and how far it has been read.
struct Source {
    paced: PacedSource,
    epochs_read: u64,
    is_drained: bool,
}

/// A checkpoint that is being taken.
struct Snapshot {
    epoch: u64,
    positions: Vec<Vec<u8>>,
    states: BTreeMap<ChannelId, ChannelState>,
}

/// The coordinator of a job.
pub struct Coordinator {
    sources: Vec<Source>,
    reports: Receiver<Report>,
    channels: Vec<ChannelId>,
    /// The shard of the result that a channel makes.
    shards: BTreeMap<ChannelId, usize>,
    /// The last epoch that each shard of the result has handed out completely.
    passed: Vec<u64>,
    /// The rows of epochs that are not complete, by epoch and shard.
    rows: BTreeMap<(u64, usize), Vec<RecordBatch>>,
    ended: BTreeSet<ChannelId>,
    generation: u64,
    /// The epoch before the first one of this run.
    first: u64,
    /// The last epoch that was cut, and the last that the sink was given.
    cut: u64,
    delivered: u64,
    /// How many epochs may be read before the first of them has come out.
    epochs_ahead: Option<u64>,
    /// The epochs that are committed as soon as they are complete.
    commits: BTreeSet<u64>,
    snapshot: Option<Snapshot>,
    /// The epoch of the last checkpoint that was begun, and when.
    snapshot_cut: (u64, Instant),
    /// When something new came last.
    news: Instant,
    pace: Pace,
    tape: Tape,
    writer: CheckpointWriter,
    committer: Committer,
    shared: Arc<Shared>,
}

impl Coordinator {
    /// The coordinator of a query that has been started; it goes on as was recovered.
    ///
    /// # Errors
    /// Those of the sources, if they do not have the rows any more that are to be read again.
    pub fn new(
        query: EpochQuery,
        resumed: Resumed,
        recovery: Recovery,
        committer: Committer,
        tape: Tape,
        pace: Pace,
        shared: Arc<Shared>,
    ) -> Result<Coordinator> {
        let Resumed { epoch: first, positions, ended_lanes } = resumed;
        let has_ended = |channel: &&ChannelId| positions.is_some() && !ended_lanes.contains_key(channel);
        let ended = query.channels.iter().filter(has_ended).copied().collect();
        // A lane that has ended is not read any more.
        let is_drained = |source: &PacedSource| {
            let lanes = ended_lanes.get(&source.channel);
            lanes.is_some_and(|lanes| lanes.get(source.lane) == Some(&true))
        };
        let drained: Vec<bool> = query.sources.iter().map(is_drained).collect();
        if positions.as_ref().is_some_and(|positions| positions.len() != query.sources.len()) {
            return exec_err!("the checkpoint has another number of sources than the query");
        }
        let sources = query.sources.into_iter().zip(drained);
        let sources = sources.map(|(paced, is_drained)| Source { paced, epochs_read: 0, is_drained });
        let shards = (0..).zip(&query.results).map(|(shard, channel)| (*channel, shard)).collect();
        let mut coordinator = Coordinator {
            sources: sources.collect(),
            reports: query.reports,
            channels: query.channels,
            shards,
            passed: vec![first; query.results.len()],
            rows: BTreeMap::new(),
            ended,
            generation: recovery.generation.number(),
            first,
            cut: first,
            delivered: first,
            epochs_ahead: query.epochs_ahead,
            commits: BTreeSet::new(),
            snapshot: None,
            snapshot_cut: (first, Instant::now()),
            news: Instant::now(),
            pace,
            tape,
            writer: CheckpointWriter::start(recovery.generation, recovery.checkpoints, recovery.tape)?,
            committer,
            shared,
        };
        coordinator.seek(positions.as_deref())?;
        recovery.epochs.into_iter().try_for_each(|epoch| coordinator.replay(epoch))?;
        Ok(coordinator)
    }

    /// Coordinates until the query ends or is to be stopped; everything that is complete has been
    /// committed then, if the query has ended.
    ///
    /// # Errors
    /// Those of sources, the sink and the store.
    pub fn run(mut self) -> Result<End> {
        loop {
            if self.shared.is_stopped.load(Ordering::Acquire) {
                return Ok(End::Stopped);
            }
            let has_news = self.can_cut() && self.cut()?;
            let wait = if has_news { Duration::ZERO } else { POLL };
            match self.reports.recv_timeout(wait) {
                Ok(report) => self.take(report),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
            while let Ok(report) = self.reports.try_recv() {
                self.take(report);
            }
            self.deliver()?;
            self.checkpoint()?;
            if self.is_idle() {
                self.committer.finish()?;
                return Ok(End::Stopped);
            }
        }
    }

    /// Moves the sources to where the job goes on.
    fn seek(&mut self, positions: Option<&[Vec<u8>]>) -> Result<()> {
        for (number, source) in self.sources.iter_mut().enumerate() {
            source.paced.log.seek(positions.map(|positions| positions[number].as_slice()))?;
        }
        Ok(())
    }

    /// Has an epoch read again that is on the tape.
    fn replay(&mut self, epoch: Epoch) -> Result<()> {
        if epoch.slices.len() != self.sources.len() {
            return exec_err!("epoch {} has another number of sources than the query", epoch.number);
        }
        for (source, slice) in self.sources.iter_mut().zip(&epoch.slices) {
            slice.iter().try_for_each(|slice| source.paced.log.skip(slice))?;
        }
        self.order(Epoch { snapshot: false, ..epoch });
        Ok(())
    }

    /// Whether all sources have been read as far as they were cut, and the result is not too far behind.
    fn can_cut(&self) -> bool {
        let complete = self.passed.iter().min().copied().unwrap_or(self.cut);
        if self.epochs_ahead.is_some_and(|ahead| self.cut.saturating_sub(complete) >= ahead) {
            return false;
        }
        let cut = self.cut - self.first;
        let open = || self.sources.iter().filter(|source| self.is_open(source));
        open().next().is_some() && open().all(|source| source.epochs_read == cut)
    }

    /// Whether a source is still read.
    fn is_open(&self, source: &Source) -> bool {
        !source.is_drained && !self.ended.contains(&source.paced.channel)
    }

    /// Cuts an epoch, if there is something new or a checkpoint is due; whether there was something new.
    fn cut(&mut self) -> Result<bool> {
        let mut slices = Vec::with_capacity(self.sources.len());
        let open: Vec<bool> = self.sources.iter().map(|source| self.is_open(source)).collect();
        for (source, is_open) in self.sources.iter_mut().zip(open) {
            slices.push(match is_open {
                false => None,
                true => match source.paced.log.cut()? {
                    Cut::Slice(slice) => Some(slice),
                    Cut::Nothing | Cut::End => None,
                },
            });
        }
        let has_news = slices.iter().any(Option::is_some);
        if has_news {
            self.news = Instant::now();
        }
        let snapshot = self.is_snapshot_due(has_news);
        if !has_news && !snapshot {
            return Ok(false);
        }
        let epoch = Epoch { number: self.cut + 1, generation: self.generation, snapshot, slices };
        self.tape.append(&epoch)?;
        if snapshot {
            let positions = self.sources.iter().map(|source| source.paced.log.position());
            let positions = positions.collect::<Result<_>>()?;
            self.snapshot = Some(Snapshot { epoch: epoch.number, positions, states: BTreeMap::new() });
            self.snapshot_cut = (epoch.number, Instant::now());
        }
        self.order(epoch);
        Ok(has_news)
    }

    /// Whether a checkpoint is taken at the end of the next epoch.
    fn is_snapshot_due(&self, has_news: bool) -> bool {
        let (last, when) = self.snapshot_cut;
        let is_free = self.snapshot.is_none() && !self.writer.is_busy;
        let is_behind = has_news || self.cut > last;
        is_free && is_behind && (when.elapsed() >= self.pace.every || self.is_quiet())
    }

    /// Whether nothing has come for as long as the job waits.
    fn is_quiet(&self) -> bool {
        self.pace.stop_when_idle.is_some_and(|idle| self.news.elapsed() >= idle)
    }

    /// Has an epoch read.
    fn order(&mut self, epoch: Epoch) {
        self.cut = epoch.number;
        self.shared.epoch.store(epoch.number, Ordering::Release);
        if epoch.snapshot {
            self.commits.insert(epoch.number);
        }
        let marker = Marker { epoch: epoch.number, snapshot: epoch.snapshot };
        for (source, slice) in self.sources.iter().zip(epoch.slices) {
            slice.into_iter().for_each(|slice| source.paced.read(slice));
            source.paced.mark(marker);
        }
    }

    /// Takes a report of the query.
    fn take(&mut self, report: Report) {
        match report {
            Report::Rows(shard, rows) => {
                let epoch = self.passed[shard].saturating_add(1);
                self.rows.entry((epoch, shard)).or_default().push(rows);
            }
            Report::Read(source, latest) => {
                let source = &mut self.sources[source];
                source.epochs_read += 1;
                latest.into_iter().for_each(|time| source.paced.log.note_time(time));
            }
            Report::Drained(source) => self.sources[source].is_drained = true,
            Report::Passed(channel, marker) => self.pass(channel, marker.epoch),
            Report::Ended(channel) => {
                self.ended.insert(channel);
                self.pass(channel, u64::MAX);
            }
            Report::Saved(channel, epoch, state) => {
                if let Some(snapshot) = self.snapshot.as_mut().filter(|snapshot| snapshot.epoch == epoch) {
                    snapshot.states.insert(channel, state);
                }
            }
        }
    }

    fn pass(&mut self, channel: ChannelId, epoch: u64) {
        if let Some(shard) = self.shards.get(&channel) {
            self.passed[*shard] = epoch;
        }
    }

    /// Gives the sink all epochs that are complete.
    fn deliver(&mut self) -> Result<()> {
        let complete = self.passed.iter().min().map_or(self.cut, |epoch| (*epoch).min(self.cut));
        while self.delivered < complete {
            let number = self.delivered + 1;
            let later = self.rows.split_off(&(number + 1, 0));
            let rows = std::mem::replace(&mut self.rows, later).into_values().flatten().collect();
            let commit = self.commits.remove(&number);
            self.committer.send(CompleteEpoch { number, rows, commit })?;
            self.delivered = number;
        }
        self.committer.check()?;
        self.shared.committed.store(self.committer.committed(), Ordering::Release);
        Ok(())
    }

    /// Has a checkpoint written once all states of it are there.
    fn checkpoint(&mut self) -> Result<()> {
        let is_complete = |snapshot: &mut Snapshot| {
            let has_state = |channel| snapshot.states.contains_key(channel) || self.ended.contains(channel);
            self.channels.iter().all(has_state)
        };
        if let Some(Snapshot { epoch, positions, states }) = self.snapshot.take_if(is_complete) {
            self.writer.begin((Checkpoint { epoch, positions, states }, self.committer.committed()));
        }
        if let Some(epoch) = self.writer.poll()? {
            *self.shared.checkpointed.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((epoch, SystemTime::now()));
        }
        Ok(())
    }

    /// Whether nothing has come for long enough, and all that came is in the sink and in a checkpoint.
    fn is_idle(&self) -> bool {
        let is_saved = self.snapshot.is_none() && !self.writer.is_busy && self.snapshot_cut.0 == self.cut;
        self.is_quiet() && is_saved && self.committer.committed() == self.cut
    }

    /// Commits what the query has handed out, if it has ended.
    fn finish(&mut self) -> Result<End> {
        if self.passed.iter().all(|epoch| *epoch == u64::MAX) {
            self.deliver()?;
            // The last epochs may be in the sink and not committed.
            self.committer.send(CompleteEpoch { number: self.cut, rows: vec![], commit: true })?;
            self.committer.finish()?;
            self.shared.committed.store(self.committer.committed(), Ordering::Release);
        }
        Ok(End::Query)
    }
}
