//! When a live job is begun again for workers that came later.
//!
//! A job that is begun again writes a checkpoint and restores it, so workers have to stay for a while first.
//! Where members of a team could not reach each other, the job runs on its host alone, and each trial of more
//! workers comes after a longer time than the last.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long workers are there before a job is begun again for them.
const SETTLE: Duration = Duration::from_secs(10);

/// How long a job runs on its host alone after members could not reach each other, the first time.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// The longest such time.
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);

/// What is known of the jobs of a host.
#[derive(Debug, Default)]
pub struct Growth(BTreeMap<String, Candidates>);

/// The workers that a job would have.
#[derive(Debug)]
struct Candidates {
    workers: BTreeSet<String>,
    since: Instant,
    /// No workers are added before.
    not_before: Option<Instant>,
    pause: Duration,
}

impl Growth {
    /// Whether a job is to be begun again with these workers, which are more than it has.
    pub fn is_due(&mut self, job: &str, workers: BTreeSet<String>, now: Instant) -> bool {
        let known = self.of(job, now);
        if known.workers != workers {
            known.workers = workers;
            known.since = now;
        }
        now.duration_since(known.since) >= SETTLE && known.not_before.is_none_or(|when| now >= when)
    }

    /// Members of a job could not reach each other.
    pub fn put_off(&mut self, job: &str, now: Instant) {
        let known = self.of(job, now);
        known.not_before = Some(now + known.pause);
        known.pause = (known.pause * 2).min(LONGEST_PAUSE);
    }

    /// Forgets the jobs that are not hosted any more.
    pub fn retain(&mut self, is_hosted: impl Fn(&str) -> bool) {
        self.0.retain(|job, _| is_hosted(job));
    }

    fn of(&mut self, job: &str, now: Instant) -> &mut Candidates {
        self.0.entry(job.to_string()).or_insert_with(|| Candidates {
            workers: BTreeSet::new(),
            since: now,
            not_before: None,
            pause: FIRST_PAUSE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn workers_have_to_stay() {
        let (mut growth, begin) = (Growth::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert!(!growth.is_due("j", workers(&["a", "b"]), begin));
        assert!(!growth.is_due("j", workers(&["a", "b"]), after(9)));
        assert!(!growth.is_due("j", workers(&["a", "c"]), after(10)));
        assert!(!growth.is_due("j", workers(&["a", "c"]), after(19)));
        assert!(growth.is_due("j", workers(&["a", "c"]), after(20)));
        assert!(!growth.is_due("k", workers(&["a", "c"]), after(20)));
        growth.retain(|job| job == "k");
        assert!(!growth.is_due("j", workers(&["a", "c"]), after(21)));
        assert!(growth.is_due("k", workers(&["a", "c"]), after(30)));
    }

    #[test]
    fn trials_become_rare() {
        let (mut growth, begin) = (Growth::default(), Instant::now());
        let mut when = begin;
        for pause in [60, 120, 240, 480, 900, 900] {
            growth.put_off("j", when);
            growth.is_due("j", workers(&["a", "b"]), when);
            let early = when + Duration::from_secs(pause - 1);
            assert!(!growth.is_due("j", workers(&["a", "b"]), early), "{pause}");
            when += Duration::from_secs(pause);
            assert!(growth.is_due("j", workers(&["a", "b"]), when), "{pause}");
        }
    }
}
