//! Which live jobs a worker hosts: it takes those without a live host, follows its own to their end, and
//! gives up those that it has lost.
//!
//! Invariants: a job runs here only while its row has the name of this worker and the attempt that was
//! begun. A worker whose lease has lapsed hosts nothing. A worker takes a job only if no other that may has
//! fewer, so jobs are spread; one that is alive by its lease and does nothing is waited for until that
//! lapses.

use super::hosting::Hosting;
use super::record::{LiveJobRecord, LiveState, jobs, replace};
use crate::error::of_store;
use crate::live_workers::{LiveWorker, live_workers};
use crate::records::Tables;
use datafusion::common::Result;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use whimbrel_control::Versioned;
use whimbrel_jobs::is_overtaken;
use whimbrel_plan::References;
use whimbrel_sharded::error::Failure;

/// How long a worker that leaves waits for each of its jobs to stop.
const LEAVE: Duration = Duration::from_secs(5);

type Row = Versioned<LiveJobRecord>;

/// The live jobs of a worker.
pub struct Host {
    tables: Tables,
    references: Arc<dyn References>,
    hosted: BTreeMap<String, Hosting>,
}

impl Host {
    /// A worker that hosts nothing yet.
    pub fn new(tables: Tables, references: Arc<dyn References>) -> Host {
        Host { tables, references, hosted: BTreeMap::new() }
    }

    /// Looks into the store and does what is to be done there; `own` is the name of the worker, none if its
    /// lease has lapsed.
    ///
    /// # Errors
    /// Those of the store.
    pub fn work(&mut self, own: Option<&str>) -> Result<()> {
        let Some(own) = own else {
            self.hosted.clear();
            return Ok(());
        };
        let mut rows: BTreeMap<String, Row> =
            jobs(&self.tables).rows().map_err(of_store)?.into_iter().collect();
        self.hosted.retain(|name, hosting| {
            let row = rows.get(name).map(|row| &row.value);
            row.is_some_and(|row| {
                is_host(row, own) && row.attempt == hosting.attempt && row.state.is_active()
            })
        });
        rows.retain(|_, row| row.value.state.is_active());
        if rows.is_empty() {
            return Ok(());
        }
        let live = live_workers(&self.tables)?;
        for name in rows.keys().cloned().collect::<Vec<_>>() {
            let row = rows[&name].clone();
            let changed = match (is_host(&row.value, own), self.hosted.contains_key(&name)) {
                (true, true) => self.follow(&name, &row, own)?,
                (true, false) => self.begin(&name, row)?,
                (false, _) if has_live_host(&row.value, &live) => None,
                (false, _) => self.take_over(&name, &row, own, &live, &rows)?,
            };
            // The next job is placed by what is known now.
            changed.and_then(|changed| rows.insert(name, changed));
        }
        Ok(())
    }

    /// Stops all jobs, and leaves them to other workers.
    ///
    /// # Errors
    /// Those of the store.
    pub fn leave(&mut self, own: &str) -> Result<()> {
        self.hosted.values().for_each(|hosting| hosting.job.stop());
        for (name, hosting) in std::mem::take(&mut self.hosted) {
            // How it ended says whoever goes on with it.
            let _ = hosting.job.wait_timeout(LEAVE);
            if let Some(row) = jobs(&self.tables).get(&name).map_err(of_store)?
                && is_host(&row.value, own)
                && row.value.state.is_active()
            {
                let left = LiveJobRecord { host: None, ..row.value.clone() };
                replace(&self.tables, &name, &row, left)?;
            }
        }
        Ok(())
    }

    /// Takes a job that nobody hosts, if it is the turn of this worker.
    fn take_over(
        &mut self,
        name: &str,
        row: &Row,
        own: &str,
        live: &[LiveWorker],
        rows: &BTreeMap<String, Row>,
    ) -> Result<Option<Row>> {
        if row.value.state == LiveState::Stopping {
            return self.end(name, row, LiveState::Stopped);
        }
        match is_next(own, &row.value, live, rows) {
            true => self.take(name, row, own),
            false => Ok(None),
        }
    }

    /// Writes this worker down as the host, and begins the job.
    fn take(&mut self, name: &str, row: &Row, own: &str) -> Result<Option<Row>> {
        let (host, attempt) = (Some(own.to_string()), row.value.attempt + 1);
        let taken = LiveJobRecord { host, attempt, ..row.value.clone() };
        match replace(&self.tables, name, row, taken)? {
            Some(taken) => self.begin(name, taken),
            None => Ok(None),
        }
    }

    /// Begins a job whose row has this worker.
    fn begin(&mut self, name: &str, row: Row) -> Result<Option<Row>> {
        if row.value.state == LiveState::Stopping {
            return self.end(name, &row, LiveState::Stopped);
        }
        match Hosting::start(&self.tables, &self.references, name, &row.value) {
            Ok(hosting) => {
                self.hosted.insert(name.to_string(), hosting);
                Ok(Some(row))
            }
            // The next look begins it again.
            Err(error) if is_overtaken(&error) => Ok(Some(row)),
            Err(error) => self.end(name, &row, LiveState::Failed(Failure::of(&error))),
        }
    }

    /// Follows a job that runs here.
    fn follow(&mut self, name: &str, row: &Row, own: &str) -> Result<Option<Row>> {
        let Some(hosting) = self.hosted.get_mut(name) else { return Ok(None) };
        if row.value.state == LiveState::Stopping {
            hosting.job.stop();
        }
        hosting.report(&self.tables, name, row)?;
        if !hosting.job.has_ended() {
            return Ok(None);
        }
        let state = match (hosting.job.wait(), &row.value.state) {
            (Ok(()), LiveState::Stopping) => LiveState::Stopped,
            (Ok(()), _) => LiveState::Ended,
            // An earlier host was stopped, came back, and was faster once: it cannot be so for long.
            (Err(error), LiveState::Running) if is_overtaken(&error) => return self.take(name, row, own),
            (Err(error), LiveState::Stopping) if is_overtaken(&error) => LiveState::Stopped,
            (Err(error), _) => LiveState::Failed(Failure::of(&error)),
        };
        let ended = self.end(name, row, state)?;
        // Otherwise a client has asked to stop it meanwhile: the next look finds that.
        if ended.is_some() {
            self.hosted.remove(name);
        }
        Ok(ended)
    }

    /// Writes down how a job has ended.
    fn end(&self, name: &str, row: &Row, state: LiveState) -> Result<Option<Row>> {
        replace(&self.tables, name, row, LiveJobRecord { state, ..row.value.clone() })
    }
}

fn is_host(record: &LiveJobRecord, worker: &str) -> bool {
    record.host.as_deref() == Some(worker)
}

fn has_live_host(record: &LiveJobRecord, live: &[LiveWorker]) -> bool {
    live.iter().any(|worker| is_host(record, &worker.name))
}

/// Whether a worker may host a job, and no other that may hosts fewer.
fn is_next(own: &str, record: &LiveJobRecord, live: &[LiveWorker], rows: &BTreeMap<String, Row>) -> bool {
    let may_host =
        |worker: &&LiveWorker| !worker.membership.is_draining && worker.membership.cluster == record.cluster;
    let load = |worker: &str| {
        rows.values().filter(|row| row.value.state.is_active() && is_host(&row.value, worker)).count()
    };
    let least = live.iter().filter(may_host).map(|worker| load(&worker.name)).min();
    live.iter().filter(may_host).any(|worker| worker.name == own) && least == Some(load(own))
}
