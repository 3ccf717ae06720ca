//! What the operators of jobs do on a worker, for whoever asks the worker. Nothing is written down meanwhile.
//!
//! Invariant: what is watched here runs here; what an operator keeps is looked at when somebody asks.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use whimbrel_sharded::runtime::Progress;
use whimbrel_temporal::{NodeActivity, NodeProgress};

/// What a job has done on a worker, or on all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobActivity {
    /// How many rows were read from sources.
    pub rows_read: u64,
    /// How many rows came out.
    pub rows_out: u64,
    /// How many rows came too late and were dropped.
    pub rows_late: u64,
    /// The operators of each channel that runs, inputs first.
    pub operators: Vec<OperatorActivity>,
}

/// What an operator of a channel has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorActivity {
    /// The stage.
    pub stage: usize,
    /// The channel of the stage.
    pub channel: usize,
    /// What the operator is.
    pub name: String,
    /// The numbers of the operators of the channel that it reads; none: it is an input.
    pub inputs: Vec<usize>,
    /// What it has done.
    pub done: NodeProgress,
}

impl JobActivity {
    /// What these channels have done.
    fn add(&mut self, progress: &Progress) {
        self.rows_read += progress.rows_read();
        self.rows_out += progress.rows_out();
        self.rows_late += progress.rows_late();
        self.operators.extend(OperatorActivity::of(progress));
    }

    /// Adds what the job has done on another worker.
    pub fn join(&mut self, other: JobActivity) {
        self.rows_read += other.rows_read;
        self.rows_out += other.rows_out;
        self.rows_late += other.rows_late;
        self.operators.extend(other.operators);
        // The operators of a channel stay in their order.
        self.operators.sort_by_key(|operator| (operator.stage, operator.channel));
    }
}

impl OperatorActivity {
    /// The operators of channels that run in this process. One that is at work is waited for, but not for
    /// long.
    pub fn of(progress: &Progress) -> Vec<OperatorActivity> {
        let of_channel = |((stage, channel), nodes): ((usize, usize), Vec<NodeActivity>)| {
            nodes.into_iter().map(move |node| OperatorActivity {
                stage,
                channel,
                name: node.name.to_string(),
                inputs: node.inputs.clone(),
                done: node.progress(),
            })
        };
        progress.activity().into_iter().flat_map(of_channel).collect()
    }
}

/// The jobs that run in a process.
#[derive(Default)]
pub struct Activities {
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    next: u64,
    progress: BTreeMap<u64, (String, Progress)>,
}

/// A part of a job that is watched until this is dropped.
#[must_use = "it is watched no longer than this lives"]
pub struct Watch {
    activities: Arc<Activities>,
    number: u64,
}

impl Activities {
    /// Watches a part of a job.
    pub fn watch(self: &Arc<Activities>, job: &str, progress: &Progress) -> Watch {
        let mut watched = self.lock();
        let number = watched.next;
        watched.next += 1;
        watched.progress.insert(number, (job.to_string(), progress.clone()));
        Watch { activities: Arc::clone(self), number }
    }

    /// What a job has done here; as [`OperatorActivity::of`].
    pub fn of_job(&self, job: &str) -> JobActivity {
        let parts: Vec<Progress> = {
            let watched = self.lock();
            let own = watched.progress.values().filter(|(name, _)| name == job);
            own.map(|(_, progress)| progress.clone()).collect()
        };
        let mut activity = JobActivity::default();
        parts.iter().for_each(|progress| activity.add(progress));
        activity
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.activities.lock().progress.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_is_watched() {
        let (activities, progress) = (Arc::new(Activities::default()), Progress::default());
        progress.set_rows(7, 1);
        let one = activities.watch("job", &progress);
        let other = activities.watch("job", &progress);
        assert_eq!(activities.of_job("job").rows_read, 14);
        assert_eq!(activities.of_job("another"), JobActivity::default());
        drop(one);
        assert_eq!(activities.of_job("job").rows_late, 1);
        drop(other);
        assert_eq!(activities.of_job("job"), JobActivity::default());
    }

    #[test]
    fn operators_of_all_workers_are_in_the_order_of_their_channels() {
        let part = |channel: usize| {
            let operator = |name: &str| OperatorActivity {
                stage: 0,
                channel,
                name: name.to_string(),
                inputs: vec![],
                done: NodeProgress::default(),
            };
            JobActivity {
                rows_read: 1,
                operators: vec![operator("z"), operator("a")],
                ..JobActivity::default()
            }
        };
        let mut all = part(1);
        all.join(part(0));
        let order: Vec<_> = all.operators.iter().map(|own| (own.channel, own.name.as_str())).collect();
        assert_eq!(order, [(0, "z"), (0, "a"), (1, "z"), (1, "a")]);
        assert_eq!(all.rows_read, 2);
    }
}
