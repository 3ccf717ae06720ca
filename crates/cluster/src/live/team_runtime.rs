//! The runtime of a live job whose channels run on several workers: the host orders what is read, and takes
//! what the members report.

use super::notes::{HostNote, MemberNote, Next, NoteSender, receive};
use super::team::Team;
use crate::error::no_thread;
use crate::pull::Places;
use crate::remote_query::{FirstError, RemoteQuery};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use datafusion::common::{DataFusionError, Result};
use std::convert::Infallible;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use whimbrel_plan::References;
use whimbrel_sharded::Report;
use whimbrel_sharded::action::{EpochPlan, EpochQuery, EpochRuntime, REPORTS};
use whimbrel_sharded::error::panicked;
use whimbrel_sharded::program::ChannelId;
use whimbrel_sharded::runtime::{
    ChannelStart, Execution, Frame, OrderSink, Progress, SourceOrder, States, spawn,
};

/// How often it is looked whether the job was cancelled.
const POLL: Duration = Duration::from_millis(20);

/// Runs the channels of a job on the members of a team.
pub struct TeamRuntime {
    /// Who takes part.
    pub team: Team,
    /// What plans refer to.
    pub references: Arc<dyn References>,
}

impl EpochRuntime for TeamRuntime {
    fn start(
        &self,
        plan: &Arc<EpochPlan>,
        states: States,
        progress: &Progress,
    ) -> Result<(Box<dyn Execution>, EpochQuery)> {
        let orders = self.begin_orders(plan, states)?;
        let (sender, reports) = bounded(REPORTS);
        let execution = self.take_reports(&sender, progress)?;
        let orders_of = |source: usize, reader: ChannelId| -> OrderSink {
            let orders = orders[self.team.member_of(reader)].clone();
            let outcome = execution.outcome.clone();
            let progress = progress.clone();
            Box::new(move |order: SourceOrder| {
                if let Err(error) = orders.send(&HostNote::Order(source, order)) {
                    outcome.fail(error);
                    progress.cancel();
                }
            })
        };
        let query = plan.query(reports, orders_of)?;
        Ok((Box::new(execution), query))
    }
}

impl TeamRuntime {
    /// Begins the queues of orders: each member learns of the plan, and what its channels go on from.
    fn begin_orders(&self, plan: &EpochPlan, mut states: States) -> Result<Vec<NoteSender>> {
        let spec = HostNote::Plan(plan.spec(&self.references)?);
        let members = 0..self.team.members().len();
        let begin = |member| NoteSender::begin(self.team.backup(), self.team.queues.orders(member));
        let orders: Vec<NoteSender> = members.map(begin).collect();
        orders.iter().try_for_each(|orders| orders.send(&spec))?;
        for (channel, id) in plan.topology().channels().iter().enumerate() {
            let start = match &mut states {
                None => ChannelStart::Beginning,
                Some(states) => states.remove(id).map_or(ChannelStart::Ended, ChannelStart::State),
            };
            orders[self.team.member_of(*id)].send(&HostNote::Channel(channel, start))?;
        }
        Ok(orders)
    }

    /// Starts what takes the reports of the members, until they end or the job is cancelled.
    fn take_reports(&self, sender: &Sender<Report>, progress: &Progress) -> Result<RemoteQuery> {
        let (mut pulls, places) = (JoinSet::new(), self.team.members_places());
        let (outcome, (taking, ended), moved) = (FirstError::default(), bounded(0), Arc::default());
        for member in 0..self.team.members().len() {
            let name = self.team.queues.reports(member);
            let frames = self.team.puller().pull(&mut pulls, name, member, places.subscribe(), &moved, None);
            let (outcome, progress, sender) = (outcome.clone(), progress.clone(), sender.clone());
            let taking = taking.clone();
            let take = move || {
                let taken = catch_unwind(AssertUnwindSafe(|| take_reports(frames, &sender, &progress)));
                let taken = taken.unwrap_or_else(|panic| Err(panicked("the reports of a member", panic)));
                if let Err(error) = taken {
                    outcome.fail(error);
                    progress.cancel();
                }
                drop::<Sender<Infallible>>(taking);
            };
            spawn(take).map_err(no_thread)?;
        }
        let (over, is_over) = bounded(0);
        let (team, progress) = (self.team.clone(), progress.clone());
        let watch = move || {
            wait(&ended, &progress, &places);
            drop(pulls);
            team.queues.remove_orders(team.backup());
            drop::<Sender<Infallible>>(over);
        };
        spawn(watch).map_err(no_thread)?;
        Ok(RemoteQuery { is_over, outcome })
    }
}

/// Waits until all reports were taken. Once the job is cancelled, there are no more.
fn wait(ended: &Receiver<Infallible>, progress: &Progress, places: &watch::Sender<Places>) {
    while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
        if progress.cancelled() {
            places.send_replace(Places::over());
        }
    }
}

/// Hands the reports of a member to the coordinator, to their end.
fn take_reports(mut frames: mpsc::Receiver<Frame>, to: &Sender<Report>, progress: &Progress) -> Result<()> {
    loop {
        let report = match receive(&mut frames)? {
            Next::Note(MemberNote::Report(report)) => report,
            Next::Note(MemberNote::Failed(failure)) => return Err(failure.error()),
            Next::Note(MemberNote::Interrupted(reason)) => return Err(interrupted(reason)),
            Next::End => return Ok(()),
            Next::Lost if progress.cancelled() => return Ok(()),
            Next::Lost => return Err(interrupted("the host has lost a member".into())),
        };
        if let Report::Rows(_, rows) = &report {
            progress.add_rows_out(rows.num_rows() as u64);
        }
        if to.send(report).is_err() {
            // The coordinator has ended, and the job with it.
            return Ok(());
        }
    }
}

/// Whether a job ended because its team has lost something, and has to begin another attempt.
pub fn is_interrupted(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::External(cause) if cause.is::<Interrupted>())
}

/// The error of a job whose team has lost something.
fn interrupted(reason: String) -> DataFusionError {
    DataFusionError::External(Box::new(Interrupted(reason)))
}

/// What a team has lost.
#[derive(Debug)]
struct Interrupted(String);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the live job was interrupted: {}", self.0)
    }
}

impl std::error::Error for Interrupted {}
