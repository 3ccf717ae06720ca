//! A job on a worker: its programs, and the channels of it that run here.

use super::launch::{Begin, Finished, Launcher, Run, RunCounts};
use crate::error::of_store;
use crate::plan::Plan;
use crate::pull::Places;
use crate::records::{
    ChannelRecord, JobRecord, JobState, Lifetime, RunRecord, Tables, channel_key, news, now, run_key,
};
use datafusion::common::Result;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use whimbrel_control::{Transaction, Versioned};
use whimbrel_plan::References;
use whimbrel_sharded::error::Failure;

/// A job that runs on this worker, or may be given to it.
pub struct JobRun {
    /// What its channels share.
    pub plan: Arc<Plan>,
    /// Its row in the table of jobs.
    pub record: Versioned<JobRecord>,
    /// The rows of its channels, as they were read last.
    pub channels: Vec<Versioned<ChannelRecord>>,
    places: watch::Sender<Places>,
    running: BTreeMap<usize, Running>,
}

/// A channel that runs here.
struct Running {
    attempt: u32,
    began: u64,
    run: Box<dyn Run>,
    /// What was written down of it last.
    written: Option<RunCounts>,
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
        match Plan::read(job, &record.value, &spec.value, references) {
            Ok(plan) => Ok(Some(JobRun {
                plan: Arc::new(plan),
                record,
                channels: vec![],
                places: watch::Sender::default(),
                running: BTreeMap::new(),
            })),
            Err(error) => {
                // A conflict means that another worker was faster, or the job is over.
                let state = JobState::Failed(Failure::of(&error));
                let failed = tables.set_state(job, &record.value, record.version, state)?;
                let _ = tables.store.commit(&failed).map_err(of_store)?;
                Ok(None)
            }
        }
    }

    /// Reads the rows of the channels.
    ///
    /// # Errors
    /// Those of the store.
    pub fn read(&mut self, tables: &Tables) -> Result<()> {
        let rows = tables.channels(&self.plan.job).rows().map_err(of_store)?;
        self.channels = rows.into_iter().map(|(_, row)| row).collect();
        Ok(())
    }

    /// The workers of its channels.
    pub fn workers(&self) -> impl Iterator<Item = &String> {
        self.channels.iter().map(|row| &row.value.worker)
    }

    /// Begins and stops channels as their rows say, and gives up what nobody needs.
    ///
    /// # Errors
    /// Those of the store; `ResourcesExhausted` if there is no thread for a channel.
    pub fn update(
        &mut self,
        addresses: &BTreeMap<String, String>,
        own: &str,
        launcher: &dyn Launcher,
    ) -> Result<()> {
        let channels: Vec<ChannelRecord> = self.channels.iter().map(|row| row.value.clone()).collect();
        self.places.send_replace(Places { channels, addresses: addresses.clone(), is_over: false });
        for number in 0..self.channels.len() {
            let Versioned { value: record, version } = &self.channels[number];
            let attempt = self.running.get(&number).map(|running| running.attempt);
            if record.worker != own {
                self.running.remove(&number);
            } else if !record.ended && attempt != Some(record.attempt) && self.may_begin(number) {
                // The run before must not append to queues that are begun again.
                self.running.remove(&number);
                let begin = Begin {
                    plan: &self.plan,
                    channel: number,
                    attempt: record.attempt,
                    version: *version,
                    schedule: self.record.value.schedule,
                    places: self.places.subscribe(),
                };
                let (attempt, run) = (record.attempt, launcher.start(own, begin)?);
                self.running.insert(number, Running { attempt, began: now(), run, written: None });
            }
        }
        for (number, running) in &self.running {
            running.run.set_abandoned(self.plan.consumers(*number).all(|consumer| self.has_ended(consumer)));
        }
        if self.record.value.state == JobState::Ended {
            self.give_up_queues(launcher);
        }
        Ok(())
    }

    fn has_ended(&self, channel: usize) -> bool {
        self.channels.get(channel).is_some_and(|row| row.value.ended)
    }

    /// Whether a channel may begin: stage by stage, those that it reads have ended.
    fn may_begin(&self, channel: usize) -> bool {
        self.record.value.schedule.is_pipelined
            || self.plan.producers(channel).all(|producer| self.has_ended(producer))
    }

    /// Gives up queues whose consumers have ended, as the job has.
    fn give_up_queues(&self, launcher: &dyn Launcher) {
        for (number, queue) in self.plan.topology.queues().iter().enumerate() {
            if self.has_ended(queue.consumer) {
                launcher.remove_queue(&self.plan.job, number);
            }
        }
    }

    /// What writes down that the result is there, if it is and nobody has yet.
    ///
    /// # Errors
    /// `Plan` if the record is too large.
    pub fn conclude(&self, tables: &Tables) -> Result<Option<Transaction>> {
        let Versioned { value: record, version } = &self.record;
        let is_there = self.plan.result().into_iter().all(|channel| self.has_ended(channel));
        match record.state == JobState::Running && is_there {
            true => tables.set_state(&self.plan.job, record, *version, JobState::Ended).map(Some),
            false => Ok(None),
        }
    }

    /// What writes down that a channel has ended.
    ///
    /// # Errors
    /// Those of the store.
    pub fn report(&self, tables: &Tables, own: &str, finished: &Finished) -> Result<Option<Transaction>> {
        let job = &self.plan.job;
        if let Some(error) = &finished.failure {
            let state = JobState::Failed(Failure::of(error));
            return tables.set_state(job, &self.record.value, self.record.version, state).map(Some);
        }
        let Some(Versioned { version, value }) = self.channels.get(finished.channel) else { return Ok(None) };
        if value.worker != own || value.attempt != finished.attempt {
            return Ok(None);
        }
        let (channels, key) = (tables.channels(job), channel_key(finished.channel));
        let ended = ChannelRecord { ended: true, ..value.clone() };
        let put = channels.put(&key, &ended).map_err(of_store)?;
        let mut transaction = Transaction::new().when(channels.unchanged(&key, Some(*version))).then(put);
        let JobRecord { schedule, lifetime, .. } = &self.record.value;
        let is_result = self.plan.result().contains(&finished.channel);
        if !schedule.is_pipelined || (is_result && *lifetime != Lifetime::Client) {
            // The stages behind it may begin, or the job may have ended.
            transaction = transaction.then(news(job));
        }
        if let Some(running) = self.running.get(&finished.channel) {
            let record = running.record(finished.channel, own, true);
            let put = tables.runs(job).put(&run_key(finished.channel, finished.attempt), &record);
            transaction = transaction.then(put.map_err(of_store)?);
        }
        Ok(Some(transaction))
    }

    /// What writes down what the channels have done since the last time.
    ///
    /// # Errors
    /// `Plan` if a record is too large.
    pub fn report_runs(&mut self, tables: &Tables, own: &str) -> Result<Option<Transaction>> {
        let mut transaction = Transaction::new();
        let is_there = tables.jobs().unchanged(&self.plan.job, Some(self.record.version));
        for (channel, running) in &mut self.running {
            let counts = running.run.counts();
            // A job that is gone has no rows any more.
            let is_open = self.channels.get(*channel).is_some_and(|row| !row.value.ended);
            if is_open && running.written != Some(counts) {
                running.written = Some(counts);
                let key = run_key(*channel, running.attempt);
                let put = tables.runs(&self.plan.job).put(&key, &running.record(*channel, own, false));
                transaction = transaction.then(put.map_err(of_store)?);
            }
        }
        Ok((!transaction.effects.is_empty()).then(|| transaction.when(is_there)))
    }
}

impl Running {
    /// What is written down of the run.
    fn record(&self, channel: usize, worker: &str, ended: bool) -> RunRecord {
        let RunCounts { tasks, rows, late_rows, moved_bytes, spilled_bytes } = self.run.counts();
        RunRecord {
            channel: channel as u64,
            attempt: self.attempt,
            worker: worker.to_string(),
            began: self.began,
            seen: now(),
            ended,
            tasks,
            rows,
            late_rows,
            moved_bytes,
            spilled_bytes,
        }
    }
}
