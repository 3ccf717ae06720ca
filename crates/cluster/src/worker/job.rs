//! A job on a worker: its programs, and the channels of it that run here.

use super::channel::ChannelRun;
use super::plan::{Finished, Plan};
use crate::error::of_store;
use crate::pull::{Places, Puller};
use crate::records::{ChannelRecord, Failure, JobRecord, NEWS, Tables, channel_key};
use crossbeam_channel::Sender;
use datafusion::common::{DataFusionError, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use whimbrel_control::{Effect, Transaction, Versioned};
use whimbrel_plan::References;

/// A job that runs on this worker, or may be given to it.
pub struct JobRun {
    /// What its channels share.
    pub plan: Arc<Plan>,
    /// Its row in the table of jobs.
    pub record: Versioned<JobRecord>,
    /// The rows of its channels, as they were read last.
    pub channels: Vec<Versioned<ChannelRecord>>,
    places: watch::Sender<Places>,
    running: BTreeMap<usize, ChannelRun>,
}

impl JobRun {
    /// Opens a job; none if it is over. One that cannot be opened has failed, which is written down.
    ///
    /// # Errors
    /// Those of the store.
    pub fn open(
        tables: &Tables,
        job: &str,
        record: Versioned<JobRecord>,
        references: &Arc<dyn References>,
    ) -> Result<Option<JobRun>> {
        let Some(spec) = tables.specs().get(job).map_err(of_store)? else { return Ok(None) };
        match Plan::of(job, &spec.value, references) {
            Ok(plan) => Ok(Some(JobRun {
                plan: Arc::new(plan),
                record,
                channels: vec![],
                places: watch::Sender::default(),
                running: BTreeMap::new(),
            })),
            Err(error) => {
                // A conflict means that another worker was faster, or the job is over.
                let failed = failed(tables, job, &record, &error)?;
                let _ = tables.store.commit(&failed).map_err(of_store)?;
                Ok(None)
            }
        }
    }

    /// Reads the rows of the channels, and begins and stops channels accordingly.
    ///
    /// # Errors
    /// Those of the store; `ResourcesExhausted` if there is no thread for a channel.
    pub fn update(
        &mut self,
        tables: &Tables,
        addresses: &BTreeMap<String, String>,
        own: &str,
        puller: &Puller,
        finished: &Sender<Finished>,
    ) -> Result<()> {
        let rows = tables.channels(&self.plan.job).rows().map_err(of_store)?;
        self.channels = rows.into_iter().map(|(_, row)| row).collect();
        let channels: Vec<ChannelRecord> = self.channels.iter().map(|row| row.value.clone()).collect();
        self.places.send_replace(Places { channels, addresses: addresses.clone() });
        for (number, Versioned { value: record, .. }) in self.channels.iter().enumerate() {
            let attempt = self.running.get(&number).map(|run| run.attempt);
            if record.worker != own {
                self.running.remove(&number);
            } else if !record.ended && attempt != Some(record.attempt) {
                self.running.remove(&number);
                let places = self.places.subscribe();
                let run = ChannelRun::start(&self.plan, number, record.attempt, puller, places, finished)?;
                self.running.insert(number, run);
            }
        }
        for (number, run) in &self.running {
            let edges = self.plan.topology.edges(*number).iter();
            let mut consumers = edges.flat_map(|edge| &edge.targets).map(|queue| {
                let consumer = self.plan.topology.queues()[*queue].consumer;
                self.channels.get(consumer).is_some_and(|row| row.value.ended)
            });
            run.set_abandoned(consumers.all(|ended| ended));
        }
        Ok(())
    }

    /// What writes down that a channel has ended.
    ///
    /// # Errors
    /// Those of the store.
    pub fn report(&self, tables: &Tables, own: &str, finished: &Finished) -> Result<Option<Transaction>> {
        let job = &self.plan.job;
        if let Some(error) = &finished.failure {
            return failed(tables, job, &self.record, error).map(Some);
        }
        let Some(Versioned { version, value }) = self.channels.get(finished.channel) else { return Ok(None) };
        if value.worker != own || value.attempt != finished.attempt {
            return Ok(None);
        }
        let (channels, key) = (tables.channels(job), channel_key(finished.channel));
        let ended = ChannelRecord { ended: true, ..value.clone() };
        let put = channels.put(&key, &ended).map_err(of_store)?;
        Ok(Some(Transaction::new().when(channels.unchanged(&key, Some(*version))).then(put)))
    }
}

/// What writes down that a job has failed.
fn failed(
    tables: &Tables,
    job: &str,
    record: &Versioned<JobRecord>,
    error: &DataFusionError,
) -> Result<Transaction> {
    let failed = JobRecord { failure: Some(Failure::of(error)) };
    Ok(Transaction::new()
        .when(tables.jobs().unchanged(job, Some(record.version)))
        .then(tables.jobs().put(job, &failed).map_err(of_store)?)
        .then(Effect::Publish { topic: NEWS.to_string(), payload: job.into() }))
}
