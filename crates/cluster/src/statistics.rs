//! What the channels of a job have done, and what had to be done again.

use crate::records::{ChannelRecord, RunRecord};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use whimbrel_sharded::runtime::Topology;

/// What a channel counts while it runs.
#[derive(Debug, Default)]
pub struct Counters {
    /// How many steps have handed out something.
    pub tasks: AtomicU64,
    /// How many rows came from other channels.
    pub rows: AtomicU64,
    /// How many bytes came from other workers.
    pub moved_bytes: Arc<AtomicU64>,
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

/// What a job has done (quokka.txt §III-C).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobStatistics {
    /// How many rows the channels have taken, each counted once in every channel that took it.
    pub rows: u64,
    /// How many of these had been taken before, by a run that was lost.
    pub replayed_rows: u64,
    /// How many steps of channels have handed out something.
    pub tasks: u64,
    /// How many of these had been done before.
    pub replayed_tasks: u64,
    /// How many workers were lost while they ran a channel.
    pub failures: u64,
    /// How many bytes of the control store recovery stands on: the plan, where channels are, their choices.
    pub lineage_bytes: u64,
    /// How many bytes went from one worker to another.
    pub moved_bytes: u64,
    /// How many bytes of messages were written to disks, as they did not fit into memory.
    pub spilled_bytes: u64,
    /// How many rows came too late and were dropped.
    pub late_rows: u64,
}

impl JobStatistics {
    /// The statistics of a job, by the runs of its channels.
    pub fn of(
        channels: &[ChannelRecord],
        runs: &[RunRecord],
        failures: u64,
        lineage_bytes: u64,
    ) -> JobStatistics {
        let mut statistics = JobStatistics { failures, lineage_bytes, ..JobStatistics::default() };
        for run in runs {
            let current = channels.get(run.channel as usize).map_or(0, |channel| channel.attempt);
            let sums = [
                (&mut statistics.rows, run.rows),
                (&mut statistics.tasks, run.tasks),
                (&mut statistics.moved_bytes, run.moved_bytes),
                (&mut statistics.spilled_bytes, run.spilled_bytes),
            ];
            sums.into_iter().for_each(|(sum, n)| *sum += n);
            if run.attempt == current {
                statistics.late_rows += run.late_rows;
            }
        }
        for (channel, _) in channels.iter().enumerate() {
            let runs = || runs.iter().filter(move |run| run.channel as usize == channel);
            let replayed =
                |of: fn(&RunRecord) -> u64| runs().map(of).sum::<u64>() - runs().map(of).max().unwrap_or(0);
            statistics.replayed_rows += replayed(|run| run.rows);
            statistics.replayed_tasks += replayed(|run| run.tasks);
        }
        statistics
    }
}

/// How far a stage of a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageProgress {
    /// How many channels it has.
    pub channels: usize,
    /// How many of them have ended.
    pub ended: usize,
    /// How many rows they have taken.
    pub rows: u64,
}

impl StageProgress {
    /// The progress of each stage.
    pub fn of(topology: &Topology, channels: &[ChannelRecord], runs: &[RunRecord]) -> Vec<StageProgress> {
        let stages = topology.channels().last().map_or(0, |last| last.stage + 1);
        let mut progress = vec![StageProgress { channels: 0, ended: 0, rows: 0 }; stages];
        for (number, id) in topology.channels().iter().enumerate() {
            let stage = &mut progress[id.stage];
            stage.channels += 1;
            let Some(channel) = channels.get(number) else { continue };
            stage.ended += usize::from(channel.ended);
            let current =
                runs.iter().find(|run| run.channel as usize == number && run.attempt == channel.attempt);
            stage.rows += current.map_or(0, |run| run.rows);
        }
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(channel: u64, attempt: u32, worker: &str, rows: u64) -> RunRecord {
        RunRecord {
            channel,
            attempt,
            worker: worker.into(),
            began: 0,
            seen: 1,
            ended: true,
            tasks: rows / 10,
            rows,
            late_rows: 1,
            moved_bytes: 5,
            spilled_bytes: 7,
        }
    }

    #[test]
    fn what_was_done_twice_is_counted_apart() {
        let channel = |attempt| ChannelRecord { worker: "b".into(), attempt, ended: true };
        let channels = [channel(0), channel(2)];
        let runs = [run(0, 0, "b", 100), run(1, 0, "a", 30), run(1, 1, "c", 10), run(1, 2, "b", 50)];
        let statistics = JobStatistics::of(&channels, &runs, 2, 12);
        let expected = JobStatistics {
            rows: 190,
            replayed_rows: 40,
            tasks: 19,
            replayed_tasks: 4,
            failures: 2,
            lineage_bytes: 12,
            moved_bytes: 20,
            spilled_bytes: 28,
            late_rows: 2,
        };
        assert_eq!(statistics, expected);
    }
}
