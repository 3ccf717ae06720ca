//! Replay: a query runs, and each of its channels can be run again from its tape.
//!
//! This is what a cluster stands on: a channel that was lost is rebuilt elsewhere from what it was given, and
//! hands out the same messages under the same names (quokka.txt §III).

use crate::options::{Memory, Options};
use crate::program::{ChannelId, ChannelTape, Programs, TapeRecorder, TaskId};
use crate::runtime::{Sink, run_programs};
use datafusion::common::{Result, plan_err};
use std::collections::BTreeMap;
use std::sync::Arc;
use whimbrel_plan::Stream;

/// A query that has run, with the tapes of its channels.
pub struct Recording {
    programs: Arc<Programs>,
    tapes: BTreeMap<ChannelId, ChannelTape>,
}

/// Runs a query to its end and keeps the tapes of its channels. The result is dropped.
///
/// ```
/// use std::sync::Arc;
/// use whimbrel_plan::{Series, Stream};
/// use whimbrel_sharded::{Options, replay};
///
/// let numbers = Stream::scan("numbers", Arc::new(Series::new("n", 0, 10, 1, true)?))?;
/// let recording = replay::record(&numbers, &Options::default())?;
/// recording.check()?;
/// assert_eq!(recording.tasks().count(), 1);
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
///
/// # Errors
/// `Plan` if a stage cannot be replayed, or channels share a limit of memory, with the reason; those of the
/// query.
pub fn record(stream: &Stream, options: &Options) -> Result<Recording> {
    if let Memory::Query(_) = options.memory {
        return plan_err!(
            "channels that share their memory cannot run again: what one hands out depends on the others; give \
             each its own"
        );
    }
    let recorder = Arc::<TapeRecorder>::default();
    let programs = Arc::new(Programs::new(stream, options)?.recorded(&recorder));
    (0..programs.stages().stages.len()).try_for_each(|stage| programs.check_replayable(stage))?;
    let sinks = (0..stream.properties().shards).map(|_| -> Sink { Box::new(|_| Ok(())) });
    run_programs(&programs, options, sinks.collect())?.wait()?;
    Ok(Recording { programs, tapes: recorder.tapes() })
}

impl Recording {
    /// Runs every channel again from its tape.
    ///
    /// # Errors
    /// `Execution` with the first task whose message differs.
    pub fn check(&self) -> Result<()> {
        self.tapes.iter().try_for_each(|(channel, tape)| {
            let mut program = self.programs.unrecorded_channel(channel.stage, channel.channel)?;
            tape.replay(*channel, program.as_mut())
        })
    }

    /// The tasks of the query, each with the digest of the message that it handed out.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, [u8; 32])> + '_ {
        self.tapes.iter().flat_map(|(channel, tape)| {
            let numbered = (0..).zip(&tape.produced);
            numbered.map(|(sequence, made)| (TaskId { channel: *channel, sequence }, made.digest))
        })
    }
}
