//! `whimbrel cluster`: what a cluster does, and how it is changed.

use crate::arguments::Cluster as Action;
use crate::error::{Error, Result, print_message};
use crate::interrupt::Interrupts;
use datafusion::common::DataFusionError;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stdout};
use std::time::Duration;
use whimbrel_cluster::{Cluster, JobState, LiveState, LiveWorker, StageProgress};
use whimbrel_session::cluster::connect;

/// How often `top` prints, and `drain` looks.
const PERIOD: Duration = Duration::from_secs(1);

/// Does what was asked for.
///
/// # Errors
/// `Query` if the cluster does not answer, or has no such worker.
pub fn run(action: &Action) -> Result {
    let ran = match action {
        Action::Status { cluster } => {
            connect(cluster).and_then(|cluster| status(&cluster)).map(|text| print(&text))
        }
        Action::Top { cluster } => connect(cluster).and_then(|cluster| top(&cluster)),
        Action::Drain { cluster, worker } => connect(cluster).and_then(|cluster| drain(&cluster, worker)),
    };
    ran.map_err(|error| Error::Query(error.message().into_owned()))
}

/// Prints a text; whoever reads it may have enough of it.
fn print(text: &str) {
    let _ = stdout().write_all(text.as_bytes());
}

/// Prints the status again and again.
fn top(cluster: &Cluster) -> Result<(), DataFusionError> {
    let interrupts = Interrupts::install();
    let _watch = interrupts.watch();
    while !interrupts.pressed() {
        // A terminal is cleared, so that the status stays in its place.
        let clear = if stdout().is_terminal() { "\x1b[2J\x1b[H" } else { "" };
        print(&format!("{clear}{}", status(cluster)?));
        std::thread::sleep(PERIOD);
    }
    Ok(())
}

/// Drains a worker, and waits until no job has a channel there, and it hosts none.
fn drain(cluster: &Cluster, worker: &str) -> Result<(), DataFusionError> {
    let interrupts = Interrupts::install();
    let _watch = interrupts.watch();
    cluster.drain(worker)?;
    let is_drained = |live: &LiveWorker| live.name == worker || live.record.address == worker;
    while let Some(live) = cluster.workers()?.into_iter().find(is_drained) {
        if cluster.channels_of(&live.name)? == 0 {
            print_message(&format!("the worker at {} has nothing to do; stop it", live.record.address));
            return Ok(());
        }
        if interrupts.pressed() {
            return Ok(());
        }
        std::thread::sleep(PERIOD);
    }
    Ok(())
}

/// What a cluster is and does, as text.
fn status(cluster: &Cluster) -> Result<String, DataFusionError> {
    let mut text = String::new();
    let workers = cluster.workers()?;
    _ = writeln!(text, "{} workers", workers.len());
    for LiveWorker { name, record, membership, .. } in &workers {
        let group = membership.cluster.as_deref().unwrap_or("-");
        let state = if membership.is_draining { "draining" } else { "" };
        let (address, process, threads) = (&record.address, record.process, record.threads);
        _ = writeln!(
            text,
            "  {name}  {address:21}  process {process:7}  threads {threads:3}  {group} {state}"
        );
    }
    let clusters = cluster.clusters()?;
    if !clusters.is_empty() {
        _ = writeln!(text, "virtual clusters: {}", clusters.join(", "));
    }
    let datasets: Vec<String> = cluster.datasets()?.into_iter().map(|(name, _)| name).collect();
    if !datasets.is_empty() {
        _ = writeln!(text, "datasets: {}", datasets.join(", "));
    }
    let jobs = cluster.jobs()?;
    _ = writeln!(text, "{} jobs", jobs.len());
    for (name, record) in jobs {
        let state = match &record.state {
            JobState::Running => "running".to_string(),
            JobState::Ended => "ended".to_string(),
            JobState::Released => "removed, but part of the lineage of others".to_string(),
            JobState::Failed(failure) => format!("failed: {}", failure.message),
        };
        // It may be over by now.
        let progress = cluster.job(&name).and_then(|job| job.progress()).unwrap_or_default();
        _ = writeln!(text, "  {name}  {state}");
        for (number, StageProgress { channels, ended, rows }) in progress.into_iter().enumerate() {
            _ = writeln!(text, "    stage {number:3}: {ended:4} of {channels:4} channels ended, {rows} rows");
        }
    }
    text.push_str(&live_jobs(cluster)?);
    Ok(text)
}

/// The live jobs of a cluster, as text.
fn live_jobs(cluster: &Cluster) -> Result<String, DataFusionError> {
    let (mut text, jobs) = (String::new(), cluster.live_jobs()?);
    if !jobs.is_empty() {
        _ = writeln!(text, "{} live jobs", jobs.len());
    }
    for (name, record) in jobs {
        let state = match &record.state {
            LiveState::Running => match &record.postponed {
                Some(postponed) => format!("running, waits after an error: {}", postponed.failure.message),
                None => "running".to_string(),
            },
            LiveState::Stopping => "stopping".to_string(),
            LiveState::Stopped => "stopped".to_string(),
            LiveState::Ended => "ended".to_string(),
            LiveState::Failed(failure) => format!("failed: {}", failure.message),
        };
        _ = writeln!(text, "  {name}  {state}, to {}", record.options.to);
        if record.state.is_active() {
            let (host, members) = (record.host.as_deref().unwrap_or("nobody"), record.members().join(", "));
            _ = writeln!(text, "    attempt {}, hosted by {host}, on {members}", record.attempt);
        }
        // It may have been removed by now.
        if let Ok(Some(progress)) = cluster.live_job(&name).and_then(|job| job.progress()) {
            _ = writeln!(text, "    epoch {} read, {} in the sink", progress.epoch, progress.committed);
        }
    }
    Ok(text)
}
