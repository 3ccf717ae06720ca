//! Write-ahead lineage: a choice of a channel is in the control store before anything that depends on it may
//! be consumed (quokka.txt §III, Algorithm 1).
//!
//! A channel reads its queues in turns, and that needs no record. Where it reads one out of turn, the choice
//! is logged, and what the channel sends from then on is withheld until the log has it. A channel that runs
//! again makes the logged choices again, and none of its own: its consumers may have what its predecessor
//! sent after the last of them, in turn.
//!
//! Invariant: a choice is logged only while the row of its channel is as it was when the run began, so a run
//! that was replaced logs nothing any more, and what it withholds is never announced.

use crate::backup::QueueBackup;
use crate::error::{no_thread, of_store};
use crate::records::{Choice, Tables, channel_key};
use crossbeam_channel::{Receiver, Sender, unbounded};
use datafusion::common::Result;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, sleep};
use std::time::Duration;
use whimbrel_control::Transaction;

/// After how long a commit is tried again while the store is away.
const RETRY: Duration = Duration::from_millis(50);

/// The thread that logs the choices of all channels of a worker, as many as there are in one round trip.
pub struct LineageLog {
    tables: Tables,
    choices: Sender<Logged>,
}

/// A choice that is to be logged.
struct Logged {
    job: String,
    choice: Choice,
    /// The version of the channel's row when the run began.
    version: u64,
    lineage: Arc<ChannelLineage>,
}

impl LineageLog {
    /// Starts the thread; it ends when nobody has choices any more.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is none.
    pub fn start(tables: &Tables) -> Result<LineageLog> {
        let (log, writer) = LineageLog::new(tables);
        Builder::new().name("lineage".into()).spawn(move || writer.run()).map_err(no_thread)?;
        Ok(log)
    }

    /// The log without its thread, and what that does.
    pub fn new(tables: &Tables) -> (LineageLog, LineageWriter) {
        let (choices, received) = unbounded();
        let writer = LineageWriter { tables: tables.clone(), choices: received, pending: vec![] };
        (LineageLog { tables: tables.clone(), choices }, writer)
    }

    /// The lineage of a run of a channel: what its predecessors have chosen, and where it logs its own
    /// choices if it may make some. The row of the channel has this version.
    ///
    /// # Errors
    /// Those of the store.
    pub fn of_channel(
        &self,
        job: &str,
        channel: usize,
        attempt: u32,
        version: u64,
        is_dynamic: bool,
    ) -> Result<Choices> {
        let replayed = match is_dynamic && attempt > 0 {
            true => self.tables.choices(job).read(0, u64::MAX).map_err(of_store)?.records,
            false => vec![],
        };
        let own = replayed.into_iter().filter(|choice| choice.channel == channel as u64);
        Ok(Choices {
            job: job.to_string(),
            channel: channel as u64,
            version,
            next: 0,
            replayed: own.map(|choice| (choice.position, choice.queue as usize)).collect(),
            is_free: is_dynamic && attempt == 0,
            log: self.choices.clone(),
            lineage: Arc::default(),
        })
    }
}

/// The choices of a run of a channel.
pub struct Choices {
    job: String,
    channel: u64,
    version: u64,
    /// How many there were.
    next: u64,
    /// The queues that a predecessor has read out of turn, by the numbers of the choices.
    replayed: BTreeMap<u64, usize>,
    is_free: bool,
    log: Sender<Logged>,
    lineage: Arc<ChannelLineage>,
}

/// What a choice has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The queue whose turn it is.
    Next,
    /// This queue.
    Queue(usize),
    /// Any queue that has something.
    Any,
}

impl Choices {
    /// Those of a channel that reads its queues in turns, and logs nothing.
    pub fn in_turns() -> Choices {
        Choices {
            job: String::new(),
            channel: 0,
            version: 0,
            next: 0,
            replayed: BTreeMap::new(),
            is_free: false,
            log: unbounded().0,
            lineage: Arc::default(),
        }
    }

    /// Whether the channel has to ask for its turns.
    pub fn are_needed(&self) -> bool {
        self.is_free || !self.replayed.is_empty()
    }

    /// What the next choice has to be.
    pub fn next(&mut self) -> Turn {
        self.next += 1;
        match self.replayed.get(&(self.next - 1)) {
            Some(queue) => Turn::Queue(*queue),
            None if self.is_free => Turn::Any,
            None => Turn::Next,
        }
    }

    /// Logs that the last choice was a queue out of turn.
    pub fn log(&self, queue: usize) {
        let choice = Choice { channel: self.channel, position: self.next - 1, queue: queue as u64 };
        self.lineage.lock().logged += 1;
        let lineage = Arc::clone(&self.lineage);
        // Without the thread the worker has ended, and what depends on the choice stays withheld.
        let _ = self.log.send(Logged { job: self.job.clone(), choice, version: self.version, lineage });
    }

    /// The lineage, for those who announce what depends on it.
    pub fn lineage(&self) -> &Arc<ChannelLineage> {
        &self.lineage
    }
}

/// How much of the lineage of a run is in the store, and what waits for the rest.
#[derive(Default)]
pub struct ChannelLineage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many choices were handed to the log.
    logged: u64,
    /// How many of them are in the store.
    durable: u64,
    /// Whether the run was replaced.
    is_fenced: bool,
    /// How many choices have to be durable before a queue may have so many frames.
    withheld: VecDeque<(u64, Arc<QueueBackup>, u64)>,
}

impl State {
    /// Whether all choices so far are in the store, or never will be; none while that is not known.
    fn is_durable(&self) -> Option<bool> {
        match self.is_fenced {
            true => Some(false),
            false => (self.durable == self.logged).then_some(true),
        }
    }
}

impl ChannelLineage {
    /// Lets readers of a queue have so many frames, once all choices so far are durable.
    pub fn announce(&self, queue: &Arc<QueueBackup>, frames: u64) {
        let mut state = self.lock();
        match state.durable == state.logged {
            true => queue.announce(frames),
            false => {
                let logged = state.logged;
                state.withheld.push_back((logged, Arc::clone(queue), frames));
            }
        }
    }

    /// Waits until all choices so far are durable; whether they are, as the run may have been replaced.
    pub fn wait(&self) -> bool {
        let pending = |state: &mut State| state.is_durable().is_none();
        let state = self.changed.wait_while(self.lock(), pending).unwrap_or_else(PoisonError::into_inner);
        !state.is_fenced
    }

    /// Whether all choices so far are durable; none while that is not known.
    #[cfg(test)]
    pub fn is_durable(&self) -> Option<bool> {
        self.lock().is_durable()
    }

    /// Learns that so many more choices are in the store, or that they never will be.
    fn resolve(&self, choices: Option<u64>) {
        let mut state = self.lock();
        match choices {
            Some(choices) if !state.is_fenced => state.durable += choices,
            _ => state.is_fenced = true,
        }
        while let Some((needed, queue, frames)) = state.withheld.pop_front() {
            if needed > state.durable {
                state.withheld.push_front((needed, queue, frames));
                break;
            }
            queue.announce(frames);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves the counts consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the choices of the channels of a worker to the store.
pub struct LineageWriter {
    tables: Tables,
    choices: Receiver<Logged>,
    /// What is committed until its outcome is known: a transaction that is committed again has the same one.
    pending: Vec<(Vec<Logged>, Transaction)>,
}

impl LineageWriter {
    /// Writes choices until nobody has some any more.
    fn run(mut self) {
        while let Ok(first) = self.choices.recv() {
            self.prepare(Some(first));
            while !self.commit() {
                sleep(RETRY);
            }
        }
    }

    /// Writes what there is; false if the store is away, and this is to be called again.
    #[cfg(test)]
    pub fn step(&mut self) -> bool {
        if self.pending.is_empty() {
            self.prepare(None);
        }
        self.commit()
    }

    /// Takes all choices that wait. Those of one run are in one transaction: all of them are logged, or none.
    fn prepare(&mut self, first: Option<Logged>) {
        let mut runs: BTreeMap<(String, u64, u64), Vec<Logged>> = BTreeMap::new();
        for logged in first.into_iter().chain(self.choices.try_iter()) {
            let run = (logged.job.clone(), logged.choice.channel, logged.version);
            runs.entry(run).or_default().push(logged);
        }
        for run in runs.into_values() {
            match transaction(&self.tables, &run) {
                Ok(transaction) => self.pending.push((run, transaction)),
                Err(_) => run[0].lineage.resolve(None),
            }
        }
    }

    /// Commits what is pending; false if the store is away.
    fn commit(&mut self) -> bool {
        if self.pending.is_empty() {
            return true;
        }
        let transactions: Vec<Transaction> = self.pending.iter().map(|(_, commit)| commit.clone()).collect();
        let outcomes = match self.tables.store.commit_all(&transactions) {
            Ok(outcomes) => outcomes,
            Err(whimbrel_control::Error::Unavailable(_)) => return false,
            Err(_) => {
                self.pending.drain(..).for_each(|(run, _)| run[0].lineage.resolve(None));
                return true;
            }
        };
        for ((run, _), outcome) in self.pending.drain(..).zip(outcomes) {
            let committed = outcome.is_committed().then_some(run.len() as u64);
            run[0].lineage.resolve(committed);
        }
        true
    }
}

/// What logs the choices of one run.
fn transaction(tables: &Tables, run: &[Logged]) -> Result<Transaction> {
    let Logged { job, choice, version, .. } = &run[0];
    let unchanged = tables.channels(job).unchanged(&channel_key(choice.channel as usize), Some(*version));
    let log = tables.choices(job);
    run.iter().try_fold(Transaction::new().when(unchanged), |transaction, logged| {
        Ok(transaction.then(log.append(&logged.choice).map_err(of_store)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::{Backup, Keeps, QueueName};
    use crate::records::ChannelRecord;
    use whimbrel_control::{MemoryStore, Outcome};
    use whimbrel_sharded::runtime::Frame;
    use whimbrel_sharded::runtime::Item;

    fn tables() -> (Tables, u64) {
        let tables = Tables { store: Arc::new(MemoryStore::default()) };
        let version = put_channel(&tables, 0);
        (tables, version)
    }

    fn put_channel(tables: &Tables, attempt: u32) -> u64 {
        let record = ChannelRecord { worker: "a".into(), attempt, ended: false };
        let put = Transaction::new().then(tables.channels("job").put(&channel_key(3), &record).unwrap());
        let Outcome::Committed { version, .. } = tables.store.commit(&put).unwrap() else {
            panic!("there are no conditions");
        };
        version
    }

    fn queue() -> Arc<QueueBackup> {
        let backup = Backup::new(&std::env::temp_dir(), 1 << 20, None);
        let queue = backup.begin(QueueName { job: "job".into(), queue: 0 }, Keeps::All);
        queue.append(Frame::of(0, Item::End)).unwrap();
        queue
    }

    fn announced(queue: &QueueBackup) -> u64 {
        queue.length().borrow().frames()
    }

    #[test]
    fn what_depends_on_a_choice_waits_until_it_is_logged() {
        let (tables, version) = tables();
        let log = LineageLog::start(&tables).unwrap();
        let mut choices = log.of_channel("job", 3, 0, version, true).unwrap();
        assert_eq!(choices.next(), Turn::Any);
        assert_eq!(choices.next(), Turn::Any);
        choices.log(7);
        let queue = queue();
        choices.lineage().announce(&queue, 1);
        assert!(choices.lineage().wait());
        assert_eq!(announced(&queue), 1);
        let version = put_channel(&tables, 1);
        let mut again = log.of_channel("job", 3, 1, version, true).unwrap();
        assert!(again.are_needed());
        let turns = [again.next(), again.next(), again.next()];
        assert_eq!(turns, [Turn::Next, Turn::Queue(7), Turn::Next]);
        assert!(!log.of_channel("job", 4, 1, version, true).unwrap().are_needed());
    }

    #[test]
    fn a_run_that_was_replaced_announces_nothing_more() {
        let (tables, version) = tables();
        let log = LineageLog::start(&tables).unwrap();
        let mut choices = log.of_channel("job", 3, 0, version, true).unwrap();
        put_channel(&tables, 1);
        assert_eq!(choices.next(), Turn::Any);
        choices.log(7);
        let queue = queue();
        choices.lineage().announce(&queue, 1);
        assert!(!choices.lineage().wait());
        assert_eq!(announced(&queue), 0);
        assert_eq!(tables.choices("job").length().unwrap(), 0);
    }
}
