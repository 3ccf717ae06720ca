//! Channel programs: the only executable thing in the system.
//!
//! A program takes messages from numbered lanes and hands out messages on numbered outputs. It is a
//! deterministic function of the contents of its lanes, however these are interleaved: it names the lane that
//! it needs next. Only the rows of live sources without time have no order but that of their arrival: the
//! program takes them from any lane, and the tape records from which. A program owns no thread, no clock, no
//! file and no socket; runtimes schedule programs and carry messages, and do nothing else.
//!
//! # Driving a program
//!
//! 1. [`Programs::new`] cuts and lowers a query; [`Programs::stages`] has its stages, producers first.
//! 2. [`Programs::channel`] makes the program of a channel. Its lanes are those of the inputs of its stage,
//!    input after input. An input from a source has one lane; one from another stage has a lane for each
//!    producer that [`Reach`](crate::exchange::Reach) names, in their order.
//! 3. The driver steps the program, and delivers what comes out: to the consumers that the
//!    [`Partitioner`](crate::exchange::Partitioner) of each edge chooses, and to the sink of the result.
//! 4. The returned [`Step`] names the lane of the next message. The driver pushes a message of that lane, or
//!    its end, and steps again.
//!
//! Between relational channels a consumer that gets no rows of a batch has to get an empty batch: its lanes
//! are read round-robin, unless they are those of sorted shards, which are read one after the other.
//! Punctuations go to all consumers.
//!
//! # Recovery
//!
//! The messages that were pushed to a program, in their order, are its *tape*. A lost program is rebuilt by
//! pushing its tape to a new one. For a temporal program, a checkpoint and the rest of the tape suffice.
//!
//! The relational programs of a query share its memory, or have a part each (`memory`). Sorts stay in memory
//! as long as there is some (`sort`). Under a limit, operators spill to files (`spill`).

mod build;
mod clock;
mod digest;
mod estimates;
mod inputs;
mod lanes;
mod lint;
mod memory;
mod ordered_rows;
mod partitioned;
mod partitions;
mod read_once;
mod relational;
mod sort;
mod spill;
mod tape;
mod temporal;

pub use build::Programs;
pub use digest::StageDigest;
pub use estimates::StageEstimate;
pub use relational::RelationalProgram;
pub use tape::{ChannelId, ChannelTape, Produced, TapeEntry, TapeRecorder, TaskId};
pub use temporal::TemporalProgram;

use temporal::InputAdapter;

use crate::dataset::Predicate;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use whimbrel_temporal::{Message, NodeActivity};

/// What a program needs after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A message, or the end, of this lane.
    Needs(usize),
    /// A message, or the end, of one of the [candidate lanes](ChannelProgram::candidate_lanes) lanes.
    NeedsAny,
    /// Nothing: another step hands out more.
    Ready,
    /// Nothing: all has been handed out.
    Ended,
}

/// The program of one channel of a stage.
///
/// The driver calls [`step`](ChannelProgram::step), delivers what came out, and pushes a message of the lane
/// that the returned [`Step`] names; again and again until that is [`Step::Ended`].
pub trait ChannelProgram: Send {
    /// Takes the next message of a lane.
    ///
    /// # Errors
    /// Those of the operators that the rows go through.
    fn push(&mut self, lane: usize, message: Message) -> Result<()>;

    /// Takes the end of a lane: no message follows.
    ///
    /// # Errors
    /// Those of the operators that rows go through.
    fn end(&mut self, lane: usize) -> Result<()>;

    /// After [`Step::NeedsAny`]: the lanes of which any will do, in the order in which they should be tried.
    /// After [`Step::Needs`]: those that may be [given the turn](ChannelProgram::give_turn), the needed one
    /// first; none if the order of the lanes is fixed.
    fn candidate_lanes(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Lets a candidate be read next, out of turn. What comes out depends on that, so whoever replays the
    /// program has to give the same turns.
    fn give_turn(&mut self, _lane: usize) {}

    /// Computes on, and appends what comes out: the number of the output, and the message.
    ///
    /// # Errors
    /// Those of the operators; the program must not be used after one.
    fn step(&mut self, out: &mut Vec<(usize, Message)>) -> Result<Step>;

    /// What its operators have done so far, inputs first; none if it has no counters.
    fn activity(&self) -> Vec<NodeActivity> {
        Vec::new()
    }

    /// The predicate that was pushed down to a lane, if there is one. A source that filters has to apply it.
    fn predicate(&self, _lane: usize) -> Option<Predicate> {
        None
    }

    /// A checkpoint between two steps, as [sealed](whimbrel_temporal::checkpoint) bytes. It includes the
    /// messages that were pushed and not used yet. None: the program has no checkpoints, and is rebuilt from
    /// its tape.
    ///
    /// # Errors
    /// `Internal` or `ArrowError` if its state cannot be encoded, or if it has failed before.
    fn save(&self) -> Result<Option<Vec<u8>>>;

    /// Restores a checkpoint into a new program of the same channel of the same query, which goes on as the
    /// saved one would.
    ///
    /// # Errors
    /// `Execution` if the bytes are not a whole checkpoint of such a program; the program must then be made
    /// anew. `Plan` if programs of this kind have no checkpoints.
    fn restore(&mut self, state: &[u8]) -> Result<()>;

    /// How many rows came too late and were dropped so far.
    fn rows_late(&self) -> u64 {
        0
    }

    /// The late rows since the last call.
    fn take_late(&mut self) -> Vec<RecordBatch> {
        Vec::new()
    }
}
