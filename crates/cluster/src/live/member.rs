//! A worker that runs channels of a live job, as the job's host orders.
//!
//! Invariant: a member lasts as long as its attempt. What it loses of others is not had again: the host
//! learns of it, and begins another attempt.

use super::notes::{HostNote, MemberNote, Next, NoteSender, receive};
use super::team::Team;
use crate::activity::Watch;
use crate::backup::Keeps;
use crate::error::no_thread;
use crate::lineage::Choices;
use crate::pull::Places;
use crate::queues::{Connected, Queues};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use datafusion::common::{Result, exec_err};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use whimbrel_plan::References;
use whimbrel_sharded::Report;
use whimbrel_sharded::action::{EpochPlan, REPORTS};
use whimbrel_sharded::error::{Failure, panicked};
use whimbrel_sharded::runtime::{EpochChannel, Frame, Halt, Progress, SourceOrder, spawn};

/// A member of a live job's team. Dropping it stops its channels.
pub struct Member {
    /// Which attempt of the job it takes part in.
    pub attempt: u32,
    work: Work,
    /// Lets others see what it does.
    _watch: Watch,
    /// What pulls its orders.
    _orders: JoinSet<()>,
    _host: watch::Sender<Places>,
}

impl Member {
    /// Begins to take part in an attempt.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there are no threads.
    pub fn start(team: Team, attempt: u32, references: &Arc<dyn References>) -> Result<Member> {
        let Some(number) = team.own_number() else { return exec_err!("no member of the team") };
        let (mut pulls, host) = (JoinSet::new(), team.host_place());
        let moved = Arc::default();
        let orders =
            team.puller().pull(&mut pulls, team.queues.orders(number), 0, host.subscribe(), &moved, None);
        let notes = NoteSender::begin(team.backup(), team.queues.reports(number));
        let work = Work { team, notes, progress: Progress::default(), places: Arc::default() };
        let watch = work.team.watch(&work.progress);
        let (run, references) = (work.clone(), Arc::clone(references));
        spawn(move || run.run(orders, &references)).map_err(no_thread)?;
        Ok(Member { attempt, work, _watch: watch, _orders: pulls, _host: host })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let Work { team, progress, places, .. } = &self.work;
        progress.cancel();
        // What waits for other channels finds that there is nothing to read any more.
        places.send_replace(Places::over());
        team.queues.remove_items(team.backup());
    }
}

/// What the threads of a member share.
#[derive(Clone)]
struct Work {
    team: Team,
    notes: NoteSender,
    progress: Progress,
    /// Where the channels are, once that is known.
    places: Arc<watch::Sender<Places>>,
}

/// The orders for the sources of a member, by the sources' numbers.
type OrderSenders = BTreeMap<usize, Sender<SourceOrder>>;

impl Work {
    /// Follows the orders of the host to their end, which is that of the attempt.
    fn run(self, mut orders: mpsc::Receiver<Frame>, references: &Arc<dyn References>) {
        let started = catch_unwind(AssertUnwindSafe(|| self.start_channels(&mut orders, references)));
        match started.unwrap_or_else(|panic| Err(panicked("a member of a live job", panic))) {
            Ok(Some(sources)) => self.follow(&mut orders, &sources),
            Ok(None) => self.interrupt("a member has lost its host".into()),
            Err(error) => self.tell(&MemberNote::Failed(Failure::of(&error))),
        }
    }

    /// Starts the channels of this worker; none if the host is lost meanwhile.
    fn start_channels(
        &self,
        orders: &mut mpsc::Receiver<Frame>,
        references: &Arc<dyn References>,
    ) -> Result<Option<OrderSenders>> {
        let Next::Note(HostNote::Plan(spec)) = receive(orders)? else { return Ok(None) };
        let plan = Arc::new(EpochPlan::of(&spec.stream(references)?, &spec.options())?);
        let own = plan.topology().channels().iter().filter(|id| self.team.is_own(**id)).count();
        let mut starts = Vec::new();
        for _ in 0..own {
            let Next::Note(HostNote::Channel(channel, start)) = receive(orders)? else { return Ok(None) };
            starts.push((channel, start));
        }
        self.places.send_if_modified(|places| {
            let is_open = !places.is_over;
            if is_open {
                *places = self.team.places(plan.topology().channels());
            }
            is_open
        });
        let (job, puller) = (self.team.queues.items(), self.team.puller());
        let backup = (self.team.backup().as_ref(), Keeps::Unread);
        let places = self.places.subscribe();
        let queues =
            Queues { job: &job, topology: plan.topology(), places: &places, puller: &puller, backup };
        let (reports, reported) = bounded(REPORTS);
        let mut senders = OrderSenders::new();
        for (number, start) in starts {
            let (own, received) = self.orders_of(&plan, number);
            senders.extend(own);
            let channel = EpochChannel { reports: reports.clone(), orders: received, start };
            let connected = queues.connect(number, Choices::in_turns());
            self.start_channel(&plan, number, channel, connected)?;
        }
        self.start_reporter(reported)?;
        Ok(Some(senders))
    }

    /// The two ends of the orders for each source of a channel.
    fn orders_of(
        &self,
        plan: &EpochPlan,
        number: usize,
    ) -> (OrderSenders, BTreeMap<usize, Receiver<SourceOrder>>) {
        let id = plan.topology().channels()[number];
        let readers = plan.readers().into_iter().enumerate();
        let sources = readers.filter(|(_, reader)| *reader == id).map(|(source, _)| source);
        sources
            .map(|source| {
                let (sender, received) = unbounded();
                ((source, sender), (source, received))
            })
            .unzip()
    }

    /// Starts a channel.
    fn start_channel(
        &self,
        plan: &Arc<EpochPlan>,
        number: usize,
        channel: EpochChannel,
        connected: Connected,
    ) -> Result<()> {
        let (work, plan, reports) = (self.clone(), Arc::clone(plan), channel.reports.clone());
        let Connected { mut carrier, pulls, .. } = connected;
        let run = move || {
            let _pulls = pulls;
            let id = plan.topology().channels()[number];
            let run = || plan.run_channel(number, channel, &mut carrier, &work.progress);
            let ended = catch_unwind(AssertUnwindSafe(run));
            match ended.unwrap_or_else(|panic| Err(Halt::Failed(panicked(&id.to_string(), panic)))) {
                Ok(()) => {}
                Err(Halt::Failed(error)) => work.tell(&MemberNote::Failed(Failure::of(&error))),
                Err(Halt::Stopped) => work.interrupt(format!("{id} has lost what it reads")),
            }
            // The last to go ends the reports.
            drop::<Sender<Report>>(reports);
        };
        spawn(run).map_err(no_thread)
    }

    /// Starts what hands the reports of the channels to the host.
    fn start_reporter(&self, reported: Receiver<Report>) -> Result<()> {
        let work = self.clone();
        let report = move || {
            for report in reported {
                if let Err(error) = work.notes.send(&MemberNote::Report(report)) {
                    // The host must not take what follows for all.
                    work.progress.cancel();
                    return work.tell(&MemberNote::Failed(Failure::of(&error)));
                }
            }
            let _ = work.notes.end();
        };
        spawn(report).map_err(no_thread)
    }

    /// Hands orders on to the channels.
    fn follow(&self, orders: &mut mpsc::Receiver<Frame>, sources: &OrderSenders) {
        loop {
            match receive(orders) {
                Ok(Next::Note(HostNote::Order(source, order))) => {
                    // A channel that has ended takes no more orders.
                    let _ = sources.get(&source).map(|sender| sender.send(order));
                }
                Ok(Next::Note(_) | Next::End | Next::Lost) => {
                    return self.interrupt("a member has lost its host".into());
                }
                Err(error) => return self.interrupt(error.to_string()),
            }
        }
    }

    /// Tells the host that something was lost, unless the attempt is over.
    fn interrupt(&self, reason: String) {
        if !self.progress.cancelled() {
            self.tell(&MemberNote::Interrupted(reason));
        }
    }

    /// Tells the host why the attempt is over. A host that does not learn of it finds the member silent.
    fn tell(&self, note: &MemberNote) {
        let _ = self.notes.send(note);
    }
}
