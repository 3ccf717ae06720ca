//! A query in epochs: its coordinator says what is read, and learns what came out of it.
//!
//! This is what a job that survives its process stands on: the coordinator keeps what it said, and the
//! states that the channels saved, and begins the same query again with them.

use super::table_format::TableFormat;
use crate::dataset::dataset;
use crate::options::{Execution, Options, Sink};
use crate::program::{ChannelId, Programs};
use crate::runtime::{
    Carrier, Control, EpochChannel, Halt, Job, OrderSink, PacedSource, Progress, Report, States, Topology,
    paced_lanes, paced_sources, run_channel_in_epochs, run_in_epochs,
};
use crate::spec::JobSpec;
use crate::stage::Kind;
use crossbeam_channel::{Receiver, Sender, bounded};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;
use whimbrel_plan::{References, Stream, source_of};
use whimbrel_temporal::operators::CoalesceOrder;

/// How many reports wait for the coordinator before channels wait for it.
pub const REPORTS: usize = 256;

/// How many epochs may be read before the first of them has come out, where queues hold no producer back.
const EPOCHS_AHEAD: u64 = 4;

/// A query that runs in epochs, as its coordinator sees it.
pub struct EpochQuery {
    /// Its sources, in the order of their numbers.
    pub sources: Vec<PacedSource>,
    /// What happens in it.
    pub reports: Receiver<Report>,
    /// All its channels.
    pub channels: Vec<ChannelId>,
    /// The channel of each shard of the result.
    pub results: Vec<ChannelId>,
    /// How many epochs may be read before the first of them has come out; none if queues see to that.
    pub epochs_ahead: Option<u64>,
}

/// Runs queries in epochs.
pub trait EpochRuntime {
    /// Starts a query that goes on from these states. Nothing is read before the coordinator orders it. The
    /// query ends early once its progress is cancelled.
    ///
    /// # Errors
    /// `Plan` if a source cannot be read again; `Execution` if a state is not of this query, or processes
    /// cannot be reached.
    fn start(
        &self,
        plan: &Arc<EpochPlan>,
        states: States,
        progress: &Progress,
    ) -> Result<(Box<dyn Execution>, EpochQuery)>;
}

/// The plan of a query in epochs: all that a process has to know to run channels of it.
pub struct EpochPlan {
    stream: Stream,
    programs: Arc<Programs>,
    topology: Topology,
    format: TableFormat,
    options: Options,
}

impl EpochPlan {
    /// The plan of a query.
    ///
    /// # Errors
    /// `Plan` if it cannot be cut into stages.
    pub fn of(stream: &Stream, options: &Options) -> Result<EpochPlan> {
        let programs = Arc::new(Programs::of(stream, options, CoalesceOrder::End)?);
        let (topology, format) = (Topology::of(&programs), TableFormat::of(stream, options));
        Ok(EpochPlan { stream: stream.clone(), programs, topology, format, options: options.clone() })
    }

    /// What another process makes the same plan of.
    ///
    /// # Errors
    /// `Plan` if the query cannot be written as bytes.
    pub fn spec(&self, references: &Arc<dyn References>) -> Result<JobSpec> {
        JobSpec::of(&self.stream, &self.options, references)
    }

    /// The channels and their queues.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The channel that reads each source, by the sources' numbers.
    pub fn readers(&self) -> Vec<ChannelId> {
        paced_lanes(&self.programs, &self.topology).into_iter().map(|(channel, _)| channel).collect()
    }

    /// The query as the coordinator of channels in other processes sees it; `orders` takes those for the
    /// source of a number, which a channel reads.
    ///
    /// # Errors
    /// `Plan` if a source cannot be read again; those of sources that cannot be opened.
    pub fn query(
        &self,
        reports: Receiver<Report>,
        orders: impl Fn(usize, ChannelId) -> OrderSink,
    ) -> Result<EpochQuery> {
        let sources = paced_sources(&self.programs, &self.topology, &self.options, orders)?;
        let result = &self.programs.stages().stages[self.programs.stages().result.0];
        // A relational result comes out when its input has ended.
        let epochs_ahead = (result.kind == Kind::Temporal).then_some(EPOCHS_AHEAD);
        Ok(EpochQuery { epochs_ahead, ..self.query_of(sources, reports) })
    }

    /// Runs one channel on this thread, to its end; a channel of the result reports its rows. The carrier
    /// gets the end of every queue.
    ///
    /// # Errors
    /// `Stopped` if the query is cancelled; `Failed` with the error of the channel or the carrier.
    pub fn run_channel(
        &self,
        number: usize,
        channel: EpochChannel,
        carrier: &mut impl Carrier,
        progress: &Progress,
    ) -> Result<(), Halt> {
        let (plan, reports) = ((self.programs.as_ref(), &self.topology), channel.reports.clone());
        let mut shards = self.topology.channels_of(self.programs.stages().result.0);
        let sink = shards.position(|shard| shard == number).map(|shard| self.sink(shard, &reports));
        run_channel_in_epochs(plan, number, &self.options, sink, carrier, progress, channel)
    }

    /// Starts the query in this process. In library mode it runs where its job is waited for.
    fn start(&self, states: &States) -> Result<(Job, EpochQuery)> {
        let (sender, reports) = bounded(REPORTS);
        let shards = self.topology.channels_of(self.programs.stages().result.0).len();
        let sinks = (0..shards).map(|shard| self.sink(shard, &sender)).collect();
        let (job, sources) = run_in_epochs(&self.programs, &self.options, sinks, sender, states)?;
        Ok((job, self.query_of(sources, reports)))
    }

    /// What reports the rows of a shard of the result.
    fn sink(&self, shard: usize, reports: &Sender<Report>) -> Sink {
        let (format, reports) = (self.format.clone(), reports.clone());
        Box::new(move |message| {
            if let Some(rows) = format.table(&message)? {
                // A coordinator that is gone has stopped the job.
                let _ = reports.send(Report::Rows(shard, rows));
            }
            Ok(())
        })
    }

    fn query_of(&self, sources: Vec<PacedSource>, reports: Receiver<Report>) -> EpochQuery {
        let channels = self.topology.channels();
        let results = channels[self.topology.channels_of(self.programs.stages().result.0)].to_vec();
        EpochQuery { sources, reports, channels: channels.to_vec(), results, epochs_ahead: None }
    }
}

/// Checks that a query can run in epochs: the rows of its sources can be read again.
///
/// # Errors
/// `Plan` if they cannot, with what to do.
pub fn check_in_epochs(stream: &Stream) -> Result<()> {
    let check = |node: &LogicalPlan| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = source_of(scan)
        {
            dataset(source.as_ref())?.check_replayable()?;
        }
        Ok(TreeNodeRecursion::Continue)
    };
    stream.plan().apply_with_subqueries(check)?;
    Ok(())
}

/// Starts a query in epochs, from the beginning or from the states of its channels: in this process, or on
/// another runtime. Nothing is read before the coordinator orders it. In library mode the query runs where
/// its job is waited for.
///
/// # Errors
/// `Plan` if a source cannot be read again; `Execution` if a state is not of this query; as
/// [`run`](crate::run); those of the runtime.
pub fn in_epochs(
    stream: &Stream,
    options: &Options,
    states: States,
    runtime: Option<&dyn EpochRuntime>,
) -> Result<(Job, EpochQuery)> {
    let plan = EpochPlan::of(stream, options)?;
    match runtime {
        None => plan.start(&states),
        Some(runtime) => {
            let control = Arc::new(Control::new(None, options.late.clone()));
            let progress = Progress::new(Arc::clone(&control));
            let (execution, query) = runtime.start(&Arc::new(plan), states, &progress)?;
            Ok((Job::new(control, execution), query))
        }
    }
}
