//! What an operator is: a state machine that is fed messages and hands messages on.

pub(crate) use crate::checkpoint::{decode, encode};

use crate::batch::Message;
use crate::held::Held;
use arrow::array::RecordBatch;
use datafusion::common::Result;

/// A push-based operator without I/O, threads or clock.
///
/// The messages pushed to each input are in order: sync times never decrease, and none is before the last
/// punctuation. The messages handed out are in order too. The relation that they describe depends on the
/// relations pushed, and not on how these were cut into batches and punctuations.
pub trait Operator: Send {
    /// How many inputs it has.
    fn inputs(&self) -> usize {
        1
    }

    /// What it is called where a graph is described, as in a checkpoint: the name of its type.
    fn name(&self) -> &'static str {
        let path = std::any::type_name::<Self>();
        path.rsplit("::").next().unwrap_or(path)
    }

    /// How much it keeps. It may take time linear in that: it is asked by who watches a query, and not while
    /// the operator works.
    fn held(&self) -> Held {
        Held::default()
    }

    /// How many rows came too late for it and were dropped.
    fn rows_late(&self) -> u64 {
        0
    }

    /// The rows that were dropped since the last call.
    fn take_late(&mut self) -> Vec<RecordBatch> {
        Vec::new()
    }

    /// Takes the next message of an input and appends to `out` what follows from it, or the first of that:
    /// the rest comes by [`proceed`](Operator::proceed).
    ///
    /// # Errors
    /// `Execution` if the data cannot be computed with (it names the expression or column); the operator must
    /// not be pushed to again.
    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()>;

    /// Appends more of what follows from the message that was pushed last; nothing if there is no more. One
    /// whose results may be much longer than its input hands them out piece by piece, so that each is used
    /// before the next is made. After a push that has appended something it is asked until nothing comes.
    ///
    /// # Errors
    /// As [`push`](Operator::push).
    fn proceed(&mut self, _out: &mut Vec<Message>) -> Result<()> {
        Ok(())
    }

    /// The operator's state; [`restore`](Operator::restore)d into a new operator of the same construction, it
    /// goes on as this one would.
    ///
    /// # Errors
    /// `Internal` if the state cannot be encoded.
    fn save(&self) -> Result<Vec<u8>>;

    /// Takes over a saved state.
    ///
    /// # Errors
    /// `Execution` if the bytes are not a state of this operator.
    fn restore(&mut self, state: &[u8]) -> Result<()>;
}
