//! A query in epochs: its coordinator says what is read, and learns what came out of it.
//!
//! This is what a job that survives its process stands on: the coordinator keeps what it said, and the
//! states that the channels saved, and begins the same query again with them.

use super::table_format::TableFormat;
use crate::dataset::dataset;
use crate::options::Options;
use crate::program::{ChannelId, Programs};
use crate::runtime::{ChannelState, Job, PacedSource, Report, Sink, run_in_epochs};
use crossbeam_channel::{Receiver, bounded};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use std::collections::BTreeMap;
use std::sync::Arc;
use whimbrel_plan::{Stream, source_of};
use whimbrel_temporal::operators::CoalesceOrder;

/// How many reports wait for the coordinator before channels wait for it.
const REPORTS: usize = 256;

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

/// Starts a query in epochs, from the beginning or from the states of its channels; a channel without a
/// state had ended. Nothing is read before the coordinator orders it. In library mode the query runs
/// where its job is waited for.
///
/// # Errors
/// `Plan` if a source cannot be read again; `Execution` if a state is not of this query; as
/// [`run`](crate::run).
pub fn in_epochs(
    stream: &Stream,
    options: &Options,
    states: Option<BTreeMap<ChannelId, ChannelState>>,
) -> Result<(Job, EpochQuery)> {
    let programs = Arc::new(Programs::of(stream, options, CoalesceOrder::End)?);
    let stages = &programs.stages().stages;
    let of = |stage: usize| (0..stages[stage].channels).map(move |channel| ChannelId { stage, channel });
    let results = of(programs.stages().result.0).collect();
    let channels = (0..stages.len()).flat_map(of).collect();
    let (sender, reports) = bounded(REPORTS);
    let format = TableFormat::of(stream, options);
    let sink = |shard: usize| -> Sink {
        let (format, sender) = (format.clone(), sender.clone());
        Box::new(move |message| {
            if let Some(rows) = format.table(&message)? {
                // A coordinator that is gone has stopped the job.
                let _ = sender.send(Report::Rows(shard, rows));
            }
            Ok(())
        })
    };
    let sinks = (0..stream.properties().shards).map(sink).collect();
    let (job, sources) = run_in_epochs(&programs, options, sinks, sender, states)?;
    Ok((job, EpochQuery { sources, reports, channels, results }))
}
