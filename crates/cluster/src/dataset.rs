//! Datasets in the memory of workers: the result of a job, read by other jobs and other applications
//! (quill.txt §5.2).
//!
//! A dataset that was lost with its worker is computed again from its lineage, as that of any job. What its
//! lineage reads may have been removed meanwhile: then that is computed again, too.

use crate::backup::QueueName;
use crate::error::{no_thread, of_store};
use crate::follow::{Followed, STORE_TIMEOUT, follow, unreachable_worker};
use crate::job::ClusterJob;
use crate::live_workers::{live_workers, pools};
use crate::placement::place;
use crate::plan::Plan;
use crate::pull::{OnUnreachable, Places, Puller, Unreachable};
use crate::records::{ChannelRecord, JobRecord, JobState, Lifetime, Tables, news};
use crossbeam_channel::{Receiver, Sender, unbounded};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result, exec_err};
use std::any::Any;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use whimbrel_control::Transaction;
use whimbrel_plan::{Source, SourceInfo, Stream};
use whimbrel_sharded::action::StoredResult;
use whimbrel_sharded::dataset::{Dataset, OpenSource, Reader, Shard};
use whimbrel_sharded::runtime::Frame;
use whimbrel_sharded::runtime::Item;

/// How long a result stays that was computed again for readers.
const REVIVED_SECONDS: u64 = 60;

/// How often a reader looks where the dataset is.
const POLL: Duration = Duration::from_millis(100);

/// The result of a job, as a source of others.
pub struct ClusterDataset {
    job: ClusterJob,
    stored: StoredResult,
    follower: Mutex<Weak<Follower>>,
}

impl ClusterDataset {
    /// The result of a job.
    ///
    /// # Errors
    /// `Execution` if the job is gone.
    pub fn of(job: ClusterJob) -> Result<ClusterDataset> {
        let stored = StoredResult::of(&job.stream()?, &job.plan().options);
        Ok(ClusterDataset { job, stored, follower: Mutex::default() })
    }

    /// The dataset that a source of a plan is, if it is one.
    pub fn behind(source: &dyn Source) -> Option<&ClusterDataset> {
        let source: &dyn Any = source;
        let open = source.downcast_ref::<OpenSource>()?;
        (open.0.as_ref() as &dyn Any).downcast_ref()
    }

    /// The job.
    pub fn job(&self) -> &ClusterJob {
        &self.job
    }

    /// A stream that reads the dataset: with the shards, the times and the key that it was stored with.
    ///
    /// # Errors
    /// `Plan` if its columns have no place in a stream.
    pub fn stream(self, name: &str) -> Result<Stream> {
        let stored = self.stored.clone();
        stored.stream(name, Arc::new(OpenSource(Arc::new(self))))
    }

    /// Where the dataset is; all readers of a process look together.
    fn follower(&self) -> Result<Arc<Follower>> {
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(follower) = follower.upgrade() {
            return Ok(follower);
        }
        let started = Follower::start(&self.job.connection().tables, self.job.plan())?;
        *follower = Arc::downgrade(&started);
        Ok(started)
    }
}

impl fmt::Debug for ClusterDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Source for ClusterDataset {
    fn info(&self) -> SourceInfo {
        let shards = self.job.plan().result().len();
        SourceInfo { schema: self.stored.schema(), bounded: true, shards, groups: 1 }
    }

    fn describe(&self) -> String {
        format!("the dataset of the job {}", self.job.name())
    }
}

impl Dataset for ClusterDataset {
    fn rows(&self) -> Option<u64> {
        None
    }

    fn open(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Shard> {
        let (plan, follower) = (self.job.plan(), self.follower()?);
        let Some(channel) = plan.result().into_iter().nth(shard) else {
            return exec_err!("{} has no shard {shard}", self.describe());
        };
        let name = QueueName::of_result(&plan.job, &plan.topology, channel);
        let (mut pulls, moved) = (JoinSet::new(), Arc::new(AtomicU64::new(0)));
        let unreachable = OnUnreachable::Tell(follower.complain.clone());
        let puller = Puller { unreachable, ..self.job.connection().puller() };
        let frames = puller.pull(&mut pulls, name, channel, follower.places.subscribe(), &moved, None);
        Ok(Shard::Reader(Box::new(DatasetReader {
            frames,
            follower,
            _pulls: pulls,
            stored: self.stored.clone(),
            projection: projection.map(<[usize]>::to_vec),
            batch_rows,
            rest: None,
            has_ended: false,
        })))
    }

    fn identity(&self) -> Option<Vec<u8>> {
        Some(self.job.name().as_bytes().to_vec())
    }
}

/// Keeps track of where a dataset is, as long as it is read.
struct Follower {
    places: watch::Sender<Places>,
    /// Told of workers that its readers cannot reach for long.
    complain: Sender<Unreachable>,
    /// Why there is no more to read.
    error: Mutex<Option<DataFusionError>>,
}

impl Follower {
    /// Looks, and goes on looking on a thread.
    fn start(tables: &Tables, plan: &Arc<Plan>) -> Result<Arc<Follower>> {
        let (complain, complaints) = unbounded();
        let places = watch::Sender::default();
        let follower = Arc::new(Follower { places, complain, error: Mutex::default() });
        if let Some(error) = follower.look(tables, plan, &complaints)? {
            return Err(error);
        }
        let (tables, plan, followed) = (tables.clone(), Arc::clone(plan), Arc::downgrade(&follower));
        let look = move || {
            let mut heard = Instant::now();
            while let Some(follower) = followed.upgrade() {
                match follower.look(&tables, &plan, &complaints) {
                    Ok(None) => heard = Instant::now(),
                    // The workers go on without the store for a while.
                    Err(_) if heard.elapsed() < STORE_TIMEOUT => {}
                    Ok(Some(error)) | Err(error) => return follower.fail(error),
                }
                drop(follower);
                sleep(POLL);
            }
        };
        Builder::new().name("dataset".into()).spawn(look).map_err(no_thread)?;
        Ok(follower)
    }

    /// Looks where the dataset is, and has it computed again if it was given up; the error if it cannot be
    /// read any more.
    fn look(
        &self,
        tables: &Tables,
        plan: &Plan,
        complaints: &Receiver<Unreachable>,
    ) -> Result<Option<DataFusionError>> {
        match follow(tables, &plan.job, &self.places)? {
            Followed::There => unreachable_worker(tables, complaints),
            Followed::Over(error) => Ok(Some(error)),
            Followed::Released => revive(tables, plan).map(|()| None),
        }
    }

    /// Ends all readers.
    fn fail(&self, error: DataFusionError) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.places.send_replace(Places::over());
    }

    fn error(&self) -> DataFusionError {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.unwrap_or_else(|| DataFusionError::Execution("a dataset cannot be read any more".to_string()))
    }
}

/// Has a job compute its result again, for who reads it as a part of their lineage.
fn revive(tables: &Tables, plan: &Plan) -> Result<()> {
    let name = &plan.job;
    let Some(row) = tables.jobs().get(name).map_err(of_store)? else { return Ok(()) };
    let old = tables.channels(name).rows().map_err(of_store)?;
    let pools = pools(&live_workers(tables)?);
    let state = JobState::Running;
    let record = JobRecord { state, lifetime: Lifetime::Seconds(REVIVED_SECONDS), ..row.value };
    let mut transaction = Transaction::new()
        .when(tables.jobs().unchanged(name, Some(row.version)))
        .then(tables.jobs().put(name, &record).map_err(of_store)?);
    let placed = place(&plan.topology, &pools.available(&plan.locations), &pools)?;
    for ((key, old), new) in old.iter().zip(placed) {
        let record = ChannelRecord { attempt: old.value.attempt + 1, ..new };
        transaction = transaction.then(tables.channels(name).put(key, &record).map_err(of_store)?);
    }
    // A conflict means that another reader was faster.
    let _ = tables.store.commit(&transaction.then(news(name))).map_err(of_store)?;
    Ok(())
}

/// Reads a shard of a dataset.
struct DatasetReader {
    frames: mpsc::Receiver<Frame>,
    follower: Arc<Follower>,
    /// What reads the queue; it ends with the reader.
    _pulls: JoinSet<()>,
    stored: StoredResult,
    projection: Option<Vec<usize>>,
    batch_rows: usize,
    /// Rows that were too many for one batch.
    rest: Option<RecordBatch>,
    has_ended: bool,
}

impl DatasetReader {
    /// The rows of the next frame that has some.
    fn receive(&mut self) -> Result<Option<RecordBatch>> {
        while !self.has_ended {
            let Some(frame) = self.frames.blocking_recv() else { return Err(self.follower.error()) };
            match frame.item()? {
                Item::Message(message) => {
                    if let Some(rows) = self.stored.table(&message)? {
                        return match &self.projection {
                            Some(columns) => Ok(Some(rows.project(columns)?)),
                            None => Ok(Some(rows)),
                        };
                    }
                }
                _ => self.has_ended = true,
            }
        }
        Ok(None)
    }
}

impl Reader for DatasetReader {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let rows = match self.rest.take() {
            Some(rows) => Some(rows),
            None => self.receive()?,
        };
        Ok(rows.map(|rows| {
            let taken = rows.num_rows().min(self.batch_rows);
            if taken < rows.num_rows() {
                self.rest = Some(rows.slice(taken, rows.num_rows() - taken));
            }
            rows.slice(0, taken)
        }))
    }
}
