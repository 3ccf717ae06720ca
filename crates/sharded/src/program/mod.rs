//! Channel programs: the one executable thing in the system.
//!
//! A program takes messages from numbered lanes and hands out messages on numbered outputs. It is a deterministic
//! function of what each of its lanes holds, however the lanes are interleaved: it says itself which lane it needs
//! next. Only rows of live sources without time have no other order than that in which they come: it takes them from
//! any lane, and the tape says from which. It owns no thread, no clock, no file and no socket; runtimes schedule
//! programs and carry messages, and nothing else.
//!
//! Whatever a program was given, in its order, is its tape: a new program goes where an old one was by being
//! given the same tape, or, if it is temporal, a checkpoint and the rest of the tape.
//!
//! The relational programs of a query share its memory (`memory`). Under a limit, what they have no room for goes to
//! files (`spill`).

mod build;
mod feed;
mod memory;
mod relational;
mod spill;
mod temporal;
mod turns;

pub use build::Programs;
pub use relational::RelationalProgram;
pub use temporal::TemporalProgram;

use temporal::Entry;

use crate::dataset::Predicate;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use whimbrel_temporal::Message;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing more can come out before this lane brings news.
    Needs(usize),
    /// Nothing more can come out before one of the lanes that are [`wanted`](ChannelProgram::wanted) brings news.
    NeedsAny,
    /// More can come out.
    Ready,
    /// Nothing more will come out.
    Ended,
}

/// One channel of a stage.
pub trait ChannelProgram: Send {
    /// Takes the next message of a lane.
    fn push(&mut self, lane: usize, message: Message) -> Result<()>;

    /// Takes the news that a lane will bring nothing more.
    fn end(&mut self, lane: usize) -> Result<()>;

    /// The lanes of which any will do, after [`Step::NeedsAny`].
    fn wanted(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Goes on, and appends what comes out, with the number of the output.
    fn step(&mut self, out: &mut Vec<(usize, Message)>) -> Result<Step>;

    /// The rows of a lane that are wanted, if it can do without others. Whoever reads them may leave out others, and
    /// leaves out none of these; if the lane is the reader of a source that filters, he has to leave out others.
    fn predicate(&self, _lane: usize) -> Option<Predicate> {
        None
    }

    /// What it holds between two steps, messages that were pushed but not used yet included, as
    /// [sealed](whimbrel_temporal::checkpoint) bytes. None: it cannot say, and is rebuilt from its tape.
    ///
    /// # Errors
    /// `Internal` or `ArrowError` if its state cannot be encoded, or if it has failed before.
    fn save(&self) -> Result<Option<Vec<u8>>>;

    /// Takes over a saved state into a new program of the same channel of the same query, which then goes on as
    /// the one that was saved would.
    ///
    /// # Errors
    /// `Execution` if the bytes are not a whole checkpoint of such a program; the program must then be made anew.
    /// `Plan` if programs of this kind have no checkpoints.
    fn restore(&mut self, state: &[u8]) -> Result<()>;

    /// How many rows came too late so far.
    fn rows_late(&self) -> u64 {
        0
    }

    /// The rows that came too late since this was asked last.
    fn take_late(&mut self) -> Vec<RecordBatch> {
        Vec::new()
    }
}
