//! Does the work of invocations: what a function is for.
//!
//! A function keeps nothing between invocations that an answer depends on. It does keep what takes time to
//! make again: the plans of the last queries, and connections to their buckets.

use crate::bucket::{Bucket, BucketAddress, Written};
use crate::carrier::{Inputs, ObjectCarrier, is_too_early, of_bucket};
use crate::hedged_store::Stragglers;
use crate::object::{Index, ObjectWriter, combine, index_bytes};
use crate::plan::Plan;
use crate::protocol::{
    Answer, Inline, Invocation, OutputPlace, Remedy, SpecAddress, Work, WorkError, WorkKind, WorkOutput,
};
use crate::tables::Tables;
use crate::usage::Usage;
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, exec_err, internal_datafusion_err};
use object_store::PutPayload;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use whimbrel_plan::References;
use whimbrel_sharded::JobSpec;
use whimbrel_sharded::error::{Failure, is_unavailable, panicked};
use whimbrel_sharded::runtime::{Halt, Network, Progress, Sink, run_channel};

/// Of how many queries a function keeps the plan.
const KEPT_PLANS: usize = 4;

/// How often an object is written whose key another attempt seems to have taken, and has not.
const WRITE_ATTEMPTS: usize = 5;

/// Does work, one piece after the other.
pub struct TaskRunner {
    network: Network,
    references: Arc<dyn References>,
    /// The requests of this process that read tables.
    tables: Arc<Tables>,
    plans: Mutex<VecDeque<(String, Arc<Plan>)>>,
    bucket: Mutex<Option<Arc<Bucket>>>,
}

/// An invocation that is being worked on.
struct Running<'a> {
    runner: &'a TaskRunner,
    invocation: &'a Invocation,
    bucket: Arc<Bucket>,
    progress: Progress,
    spec_gets: AtomicU64,
}

impl TaskRunner {
    /// A runner. `references` are what plans refer to.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no thread for the network.
    pub fn new(references: Arc<dyn References>, tables: Arc<Tables>) -> Result<TaskRunner> {
        Ok(TaskRunner {
            network: Network::start()?,
            references,
            tables,
            plans: Mutex::default(),
            bucket: Mutex::default(),
        })
    }

    /// Does all work of an invocation. Whatever happens is in the answer.
    pub fn run(&self, invocation: &Invocation) -> Answer {
        let (began, progress) = (Instant::now(), Progress::default());
        let tables = self.tables.usage();
        let (outcomes, mut usage, spec_gets) = match self.bucket(&invocation.bucket, invocation.stragglers) {
            Ok(bucket) => {
                let before = bucket.usage();
                let (progress, spec_gets) = (progress.clone(), AtomicU64::new(0));
                let running = Running { runner: self, invocation, bucket, progress, spec_gets };
                let outcomes = running.outcomes();
                (outcomes, running.bucket.usage().since(before), running.spec_gets.into_inner())
            }
            Err(error) => (vec![Err(work_error(&error))], Usage::default(), 0),
        };
        let of_tables = self.tables.usage().since(tables);
        usage += Usage { table_gets: of_tables.gets, ..of_tables };
        Answer {
            outcomes,
            usage,
            spec_gets,
            rows_read: progress.rows_read(),
            rows_late: progress.rows_late(),
            milliseconds: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The bucket at an address.
    fn bucket(&self, address: &BucketAddress, stragglers: Stragglers) -> Result<Arc<Bucket>> {
        let mut kept = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref().filter(|bucket| bucket.address() == address && bucket.stragglers() == stragglers)
        {
            Some(bucket) => Ok(Arc::clone(bucket)),
            None => {
                let bucket = Arc::new(Bucket::open(address, stragglers)?);
                *kept = Some(Arc::clone(&bucket));
                Ok(bucket)
            }
        }
    }
}

impl Running<'_> {
    /// What came of each piece of work, up to the first failure.
    fn outcomes(&self) -> Vec<Result<WorkOutput, WorkError>> {
        let mut outcomes = Vec::new();
        for work in &self.invocation.work {
            let outcome = catch_unwind(AssertUnwindSafe(|| self.outcome(work)));
            let outcome = outcome.unwrap_or_else(|panic| Err(panicked("a function", panic)));
            let failed = outcome.is_err();
            outcomes.push(outcome.map_err(|error| work_error(&error)));
            if failed {
                break;
            }
        }
        outcomes
    }

    fn outcome(&self, work: &Work) -> Result<WorkOutput> {
        let (payload, index) = match work.kind {
            WorkKind::Task(task) => self.run_task(work, task as usize)?,
            WorkKind::Combine => self.combine(work)?,
        };
        self.publish(work, payload, index)
    }

    fn inputs(&self, work: &Work, lanes: usize) -> Result<Inputs> {
        let (network, parallel) = (self.runner.network.handle(), self.invocation.parallel_reads as usize);
        Inputs::open(network, &self.bucket, lanes, work.inputs.clone(), parallel)
    }

    fn run_task(&self, work: &Work, task: usize) -> Result<(PutPayload, Index)> {
        let plan = self.plan()?;
        if task >= plan.tasks() {
            return exec_err!("an invocation is of no task of its query");
        }
        let layout = plan.layout(task);
        if layout.partitions != work.partitions as usize {
            return exec_err!(
                "a function has cut a query otherwise than its client; deploy the function of the client's release"
            );
        }
        let output = Arc::new(Mutex::new(ObjectWriter::new(work.attempt_id(), layout.partitions)));
        let sink = layout.result.map(|partition| -> Sink {
            let output = Arc::clone(&output);
            Box::new(move |message| {
                output.lock().unwrap_or_else(PoisonError::into_inner).append(partition, message)
            })
        });
        let lanes: BTreeMap<_, _> =
            plan.inputs(task).enumerate().map(|(lane, queue)| (queue, lane)).collect();
        let inputs = self.inputs(work, lanes.len())?;
        let output_of_carrier = Arc::clone(&output);
        let mut carrier = ObjectCarrier { inputs, lanes, output: output_of_carrier, layout, waiting: vec![] };
        let Plan { programs, topology, options } = plan.as_ref();
        match run_channel(programs, topology, task, options, sink, &mut carrier, &self.progress) {
            Ok(()) => {}
            Err(Halt::Failed(error)) => return Err(error),
            Err(Halt::Stopped) => return Err(internal_datafusion_err!("a task was stopped")),
        }
        drop(carrier);
        let Some(output) = Arc::into_inner(output) else {
            return Err(internal_datafusion_err!("a task that has ended still writes"));
        };
        output.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
    }

    /// Puts the bytes of all lanes into one object.
    fn combine(&self, work: &Work) -> Result<(PutPayload, Index)> {
        let partitions = work.partitions as usize;
        let mut inputs = self.inputs(work, partitions)?;
        let pieces = (0..partitions).map(|lane| inputs.bytes(lane)).collect::<Result<_>>()?;
        Ok(combine(work.attempt_id(), pieces))
    }

    /// Puts the output where consumers find it.
    fn publish(&self, work: &Work, payload: PutPayload, index: Index) -> Result<WorkOutput> {
        if payload.content_length() as u64 <= work.inline_bytes {
            return Ok(output(OutputPlace::Inline(Inline(Bytes::from(payload))), index));
        }
        let (key, bucket) = (work.output.clone(), Arc::clone(&self.bucket));
        self.runner.network.wait(async move { write(&bucket, key, &payload, index).await })
    }

    /// The plan of the query: the one that is kept, or a new one.
    fn plan(&self) -> Result<Arc<Plan>> {
        let mut plans = self.runner.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = plans.iter().find(|(job, _)| *job == self.invocation.job) {
            return Ok(Arc::clone(plan));
        }
        let bytes = match &self.invocation.spec {
            SpecAddress::Inline(bytes) => bytes.0.clone(),
            SpecAddress::Object(key, bytes) => {
                let (bucket, key, bytes) = (Arc::clone(&self.bucket), key.clone(), *bytes);
                self.spec_gets.fetch_add(1, Ordering::Relaxed);
                self.runner.network.wait(async move {
                    Ok(bucket.get(&key, 0..bytes, None).await.map_err(of_bucket)?.bytes)
                })?
            }
        };
        let plan = Arc::new(Plan::of(&JobSpec::from_bytes(&bytes)?, &self.runner.references)?);
        plans.push_back((self.invocation.job.clone(), Arc::clone(&plan)));
        if plans.len() > KEPT_PLANS {
            plans.pop_front();
        }
        Ok(plan)
    }
}

/// An output with its partitions.
fn output(place: OutputPlace, index: Index) -> WorkOutput {
    WorkOutput { place, start: index.start(), ends: index.into_ends() }
}

/// Writes an object, or finds the one of another attempt: the first one counts, for all consumers.
pub async fn write(bucket: &Bucket, key: String, payload: &PutPayload, index: Index) -> Result<WorkOutput> {
    for _ in 0..WRITE_ATTEMPTS {
        if let Written::Created(tag) = bucket.put_new(&key, payload).await.map_err(of_bucket)? {
            return Ok(output(OutputPlace::Object { key, tag }, index));
        }
        let bytes = index_bytes(index.partitions());
        match bucket.get(&key, 0..bytes, None).await {
            Ok(read) => {
                let index = Index::read(read.bytes)?;
                return Ok(output(OutputPlace::Object { key, tag: read.tag }, index));
            }
            // A store may refuse one of two writers although the other one fails.
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(of_bucket(error)),
        }
    }
    Err(of_bucket(object_store::Error::NotFound {
        path: key,
        source: "it can neither be written nor read".into(),
    }))
}

fn work_error(error: &DataFusionError) -> WorkError {
    let remedy = match error.find_root() {
        DataFusionError::ObjectStore(error) if is_too_early(error) => Remedy::Later,
        // The store knows who asks, and says no.
        DataFusionError::ObjectStore(error) if is_forbidden(error) => Remedy::None,
        DataFusionError::ObjectStore(_) => Remedy::AnotherAttempt,
        // A source did not answer.
        error if is_unavailable(error) => Remedy::AnotherAttempt,
        _ => Remedy::None,
    };
    WorkError { failure: Failure::of(error), remedy }
}

fn is_forbidden(error: &object_store::Error) -> bool {
    use object_store::Error::{PermissionDenied, Unauthenticated};
    matches!(error, PermissionDenied { .. } | Unauthenticated { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use whimbrel_sharded::error::unavailable;

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let not_found =
            object_store::Error::NotFound { path: "object".into(), source: "it is not there".into() };
        let forbidden =
            object_store::Error::PermissionDenied { path: "object".into(), source: "it is read only".into() };
        for (error, remedy) in [
            (forbidden.into(), Remedy::None),
            (unavailable("`s3://bucket/table`: 503".to_string()), Remedy::AnotherAttempt),
            (not_found.into(), Remedy::AnotherAttempt),
            (DataFusionError::Execution("a bad cast".to_string()), Remedy::None),
            (DataFusionError::Plan("no such column".to_string()), Remedy::None),
        ] {
            assert_eq!(work_error(&error).remedy, remedy, "{error}");
        }
    }
}
