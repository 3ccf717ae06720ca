//! Which live jobs a worker hosts, and which it is a member of: it takes those without a live host, follows
//! its own to their end, begins them again with workers that came later, and gives up those that it has lost.
//!
//! A job that lacks memory or disk, or a service that it has reached before, waits, and is begun again by the
//! worker whose turn it is then.
//!
//! Invariants: a job runs here only while its row has the name of this worker and the attempt that was
//! begun. A worker whose lease has lapsed hosts nothing, and is a member of nothing. A worker takes a job
//! only if no other that may has fewer, so jobs are spread; one that is alive by its lease and does nothing
//! is waited for until that lapses.

use super::growth::Growth;
use super::hosting::Hosting;
use super::member::Member;
use super::record::{LiveJobRecord, LiveState, Postponement, jobs, replace};
use super::team::{Station, Team};
use super::team_runtime::is_interrupted;
use crate::error::of_store;
use crate::live_workers::{LiveWorker, addresses, live_workers};
use crate::placement::{self, Workers};
use crate::records::{Tables, now};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whimbrel_control::Versioned;
use whimbrel_jobs::is_overtaken;
use whimbrel_plan::References;
use whimbrel_sharded::error::{ErrorKind, Failure};

/// How long a worker that hands a job over waits for it to stop.
const LEAVE: Duration = Duration::from_secs(5);

type Row = Versioned<LiveJobRecord>;

/// The live jobs of a worker.
pub struct Host {
    station: Station,
    tables: Tables,
    references: Arc<dyn References>,
    hosted: BTreeMap<String, Hosting>,
    /// The jobs whose channels run here, also those that other workers host.
    joined: BTreeMap<String, Member>,
    growth: Growth,
}

impl Host {
    /// A worker that hosts nothing yet.
    pub fn new(station: Station, references: Arc<dyn References>) -> Host {
        let tables = station.connection.tables.clone();
        let (hosted, joined, growth) = (BTreeMap::new(), BTreeMap::new(), Growth::default());
        Host { station, tables, references, hosted, joined, growth }
    }

    /// How many jobs it hosts.
    pub fn job_count(&self) -> usize {
        self.hosted.len()
    }

    /// Looks into the store and does what is to be done there; `own` is the name of the worker, none if its
    /// lease has lapsed.
    ///
    /// # Errors
    /// Those of the store.
    pub fn work(&mut self, own: Option<&str>) -> Result<()> {
        let Some(own) = own else {
            self.hosted.clear();
            self.joined.clear();
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
        self.growth.retain(|name| self.hosted.contains_key(name));
        self.joined.retain(|name, member| {
            let row = rows.get(name).map(|row| &row.value);
            row.is_some_and(|row| {
                // Without a host the attempt is over.
                row.host.is_some() && row.attempt == member.attempt && row.state.is_active()
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
                (true, true) => self.follow(&name, &row, own, &live)?,
                (true, false) => self.begin(&name, row, own, &live)?,
                (false, _) if has_live_host(&row.value, &live) => None,
                (false, _) => self.take_over(&name, &row, own, &live, &rows)?,
            };
            // The next job is placed by what is known now.
            changed.and_then(|changed| rows.insert(name.clone(), changed));
            self.join(&name, &rows[&name].value, own, &live)?;
        }
        Ok(())
    }

    /// Stops all jobs, and leaves them to other workers.
    ///
    /// # Errors
    /// Those of the store.
    pub fn leave(&mut self, own: &str) -> Result<()> {
        self.hosted.values_mut().for_each(Hosting::stop);
        std::mem::take(&mut self.hosted)
            .into_iter()
            .try_for_each(|(name, hosting)| self.hand_over(&name, hosting, own))
    }

    /// Stops a job, and leaves it to another worker.
    fn hand_over(&self, name: &str, mut hosting: Hosting, own: &str) -> Result<()> {
        hosting.stop_and_wait(LEAVE);
        if let Some(row) = jobs(&self.tables).get(name).map_err(of_store)?
            && is_host(&row.value, own)
            && row.value.state.is_active()
        {
            let left = LiveJobRecord { host: None, ..row.value.clone() };
            replace(&self.tables, name, &row, left)?;
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
        if row.value.postponed.as_ref().is_some_and(|postponed| now() < postponed.until) {
            return Ok(None);
        }
        match is_next(own, &row.value, live, rows) {
            true => self.take(name, row, own, live, slots(own, &row.value, live)),
            false => Ok(None),
        }
    }

    /// Writes this worker down as the host, with the workers of these slots, and begins the job.
    fn take(
        &mut self,
        name: &str,
        row: &Row,
        own: &str,
        live: &[LiveWorker],
        slots: Vec<String>,
    ) -> Result<Option<Row>> {
        let (host, attempt) = (Some(own.to_string()), row.value.attempt + 1);
        let taken = LiveJobRecord { host, attempt, slots, ..row.value.clone() };
        match replace(&self.tables, name, row, taken)? {
            Some(taken) => self.begin(name, taken, own, live),
            None => Ok(None),
        }
    }

    /// Begins a job whose row has this worker.
    fn begin(&mut self, name: &str, row: Row, own: &str, live: &[LiveWorker]) -> Result<Option<Row>> {
        if row.value.state == LiveState::Stopping {
            return self.end(name, &row, LiveState::Stopped);
        }
        let Some(spec) = self.tables.specs().get(name).map_err(of_store)? else {
            let error = exec_datafusion_err!("the cluster has no plan of the live job {name}");
            return self.end(name, &row, LiveState::Failed(Failure::of(&error)));
        };
        let team = row.value.is_shared().then(|| self.team(name, &row.value, own, live));
        let (spec, activities) = (spec.value.into_vec(), &self.station.connection.activities);
        match Hosting::start((name, spec), &self.references, &row.value, team, activities) {
            Ok(hosting) => {
                self.hosted.insert(name.to_string(), hosting);
                Ok(Some(row))
            }
            Err(error) => self.postpone(name, &row, &error),
        }
    }

    /// Leaves a job that lacks something to the worker whose turn it is after a wait.
    fn postpone(&mut self, name: &str, row: &Row, error: &DataFusionError) -> Result<Option<Row>> {
        let postponed = Postponement::after(row.value.postponed.as_ref(), Failure::of(error), now());
        let left = LiveJobRecord { host: None, postponed: Some(postponed), ..row.value.clone() };
        let left = replace(&self.tables, name, row, left)?;
        // Otherwise a client has asked to stop it meanwhile: the next look finds that.
        if left.is_some() {
            self.hosted.remove(name);
        }
        Ok(left)
    }

    /// Takes part in an attempt of a job whose channels run on several workers, this one among them.
    fn join(&mut self, name: &str, record: &LiveJobRecord, own: &str, live: &[LiveWorker]) -> Result<()> {
        let is_open = record.state == LiveState::Running && record.is_shared() && record.host.is_some();
        let has_joined = self.joined.get(name).is_some_and(|member| member.attempt == record.attempt);
        if is_open && !has_joined && record.members().contains(&own) {
            let team = self.team(name, record, own, live);
            let member = Member::start(team, record.attempt, &self.references)?;
            self.joined.insert(name.to_string(), member);
        }
        Ok(())
    }

    fn team(&self, name: &str, record: &LiveJobRecord, own: &str, live: &[LiveWorker]) -> Team {
        Team::of(&self.station, own, name, record, addresses(live))
    }

    /// Follows a job that this worker hosts.
    fn follow(&mut self, name: &str, row: &Row, own: &str, live: &[LiveWorker]) -> Result<Option<Row>> {
        if row.value.state == LiveState::Running
            && let ControlFlow::Break(row) = self.regroup(name, row, own, live)?
        {
            return Ok(row);
        }
        let grows = row.value.state == LiveState::Running && self.grows(name, &row.value, own, live);
        let Some(hosting) = self.hosted.get_mut(name) else { return Ok(None) };
        if grows || row.value.state == LiveState::Stopping {
            hosting.begins_again = grows;
            hosting.stop();
        }
        hosting.report(&self.tables, name, row)?;
        // How it has ended, if it has, is the matter of the next look.
        if hosting.has_checkpoint() && (row.value.postponed.is_some() || !row.value.has_checkpoint) {
            let goes_on = LiveJobRecord { postponed: None, has_checkpoint: true, ..row.value.clone() };
            return replace(&self.tables, name, row, goes_on);
        }
        let Some(outcome) = hosting.end() else { return Ok(None) };
        let again = hosting.begins_again;
        self.conclude(name, row, own, live, (outcome, again))
    }

    /// Acts on the end of an attempt, which may have been stopped to be begun again.
    fn conclude(
        &mut self,
        name: &str,
        row: &Row,
        own: &str,
        live: &[LiveWorker],
        (outcome, begins_again): (Result<()>, bool),
    ) -> Result<Option<Row>> {
        let all = || slots(own, &row.value, live);
        let state = match (outcome, &row.value.state) {
            (Ok(()), LiveState::Stopping) => LiveState::Stopped,
            // If it had come to its end at the same time, it does so again.
            (Ok(()), LiveState::Running) if begins_again => return self.take(name, row, own, live, all()),
            (Ok(()), _) => LiveState::Ended,
            (Err(error), LiveState::Stopping) if is_passing(&error, &row.value) => LiveState::Stopped,
            // An earlier host was stopped, came back, and was faster once: it cannot be so for long.
            (Err(error), LiveState::Running) if is_overtaken(&error) => {
                return self.take(name, row, own, live, all());
            }
            // Members that are alive cannot reach each other: the job does without them.
            (Err(error), LiveState::Running) if is_interrupted(&error) => {
                self.growth.put_off(name, Instant::now());
                return self.take(name, row, own, live, vec![own.to_string()]);
            }
            (Err(error), LiveState::Running) if is_waited_for(&error, &row.value) => {
                return self.postpone(name, row, &error);
            }
            (Err(error), _) => LiveState::Failed(Failure::of(&error)),
        };
        let ended = self.end(name, row, state)?;
        // Otherwise a client has asked to stop it meanwhile: the next look finds that.
        if ended.is_some() {
            self.hosted.remove(name);
        }
        Ok(ended)
    }

    /// Whether a job is to be begun again with more workers than it has.
    fn grows(&mut self, name: &str, record: &LiveJobRecord, own: &str, live: &[LiveWorker]) -> bool {
        let workers: BTreeSet<String> = slots(own, record, live).into_iter().collect();
        workers.len() > record.members().len() && self.growth.is_due(name, workers, Instant::now())
    }

    /// Goes on without members that are lost or are to be let go; if this worker is to be let go itself and
    /// there are others, one of them goes on. It breaks with the changed row.
    fn regroup(
        &mut self,
        name: &str,
        row: &Row,
        own: &str,
        live: &[LiveWorker],
    ) -> Result<ControlFlow<Option<Row>>> {
        let (own_stays, others): (Vec<_>, Vec<_>) =
            live.iter().filter(|worker| may_take_part(worker, &row.value)).partition(|w| w.name == own);
        let is_let_go = own_stays.is_empty() && !others.is_empty();
        let stays = |member: &&str| *member == own || others.iter().any(|worker| worker.name == **member);
        if !is_let_go && row.value.members().iter().all(stays) {
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(mut hosting) = self.hosted.remove(name) {
            match is_let_go {
                true => {
                    self.hand_over(name, hosting, own)?;
                    return Ok(ControlFlow::Break(None));
                }
                // Two runs at once would be in each other's way.
                false => hosting.stop_and_wait(LEAVE),
            }
        }
        Ok(ControlFlow::Break(self.take(name, row, own, live, slots(own, &row.value, live))?))
    }

    /// Writes down how a job has ended.
    fn end(&self, name: &str, row: &Row, state: LiveState) -> Result<Option<Row>> {
        replace(&self.tables, name, row, LiveJobRecord { state, ..row.value.clone() })
    }
}

/// Whether what a job lacks may be there later, or on another worker. A service that does not answer to a job
/// without a checkpoint may never have been there: its address may be wrong.
fn is_waited_for(error: &DataFusionError, record: &LiveJobRecord) -> bool {
    match ErrorKind::of(error) {
        ErrorKind::ResourceExhausted => true,
        ErrorKind::Unavailable => record.has_checkpoint,
        ErrorKind::Invalid | ErrorKind::Data | ErrorKind::Internal => false,
    }
}

/// Whether another attempt might do better: a job that is to stop has not failed then.
fn is_passing(error: &DataFusionError, record: &LiveJobRecord) -> bool {
    is_overtaken(error) || is_interrupted(error) || is_waited_for(error, record)
}

fn is_host(record: &LiveJobRecord, worker: &str) -> bool {
    record.host.as_deref() == Some(worker)
}

fn has_live_host(record: &LiveJobRecord, live: &[LiveWorker]) -> bool {
    live.iter().any(|worker| is_host(record, &worker.name))
}

/// Whether a worker may be given work of a job.
fn may_take_part(worker: &LiveWorker, record: &LiveJobRecord) -> bool {
    !worker.membership.is_draining && worker.membership.cluster == record.cluster
}

/// Who runs the channels of a job that this worker hosts: all workers that may, this one first, each as often
/// as it has threads, but no more than the job has channels side by side.
fn slots(own: &str, record: &LiveJobRecord, live: &[LiveWorker]) -> Vec<String> {
    let team = live.iter().filter(|worker| may_take_part(worker, record) || worker.name == own);
    let team: Workers = team.map(|worker| (worker.name.clone(), worker.record.threads)).collect();
    let mut slots = placement::slots(&team);
    // Each worker has one of the first slots.
    let first = slots.iter().position(|worker| *worker == own).unwrap_or_default();
    slots[..team.len()].rotate_left(first);
    slots.into_iter().take(record.width.max(1) as usize).cloned().collect()
}

/// Whether a worker may host a job, and no other that may hosts fewer.
fn is_next(own: &str, record: &LiveJobRecord, live: &[LiveWorker], rows: &BTreeMap<String, Row>) -> bool {
    let may_host = |worker: &&LiveWorker| may_take_part(worker, record);
    let load = |worker: &str| {
        rows.values().filter(|row| row.value.state.is_active() && is_host(&row.value, worker)).count()
    };
    let least = live.iter().filter(may_host).map(|worker| load(&worker.name)).min();
    live.iter().filter(may_host).any(|worker| worker.name == own) && least == Some(load(own))
}
