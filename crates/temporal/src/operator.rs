//! What an operator is: a state machine that is fed messages and hands messages on.

use crate::batch::Message;
use datafusion::common::{DataFusionError, Result};
use serde::{Serialize, de::DeserializeOwned};

/// A push-based operator without I/O, threads or clock.
///
/// The messages pushed to each input are in order: sync times never decrease, and none is before the last punctuation.
/// The messages handed out are in order too. The relation that they describe depends on the relations pushed, and not
/// on how these were cut into batches and punctuations.
pub trait Operator: Send {
    /// How many inputs it has.
    fn inputs(&self) -> usize {
        1
    }

    /// Takes the next message of an input and appends to `out` what follows from it.
    ///
    /// # Errors
    /// `Execution` if the data cannot be computed with (it names the expression or column); the operator must not be
    /// pushed to again.
    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()>;

    /// The operator's state; [`restore`](Operator::restore)d into a new operator of the same construction, it goes on
    /// as this one would.
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

/// Encodes a state.
pub(crate) fn encode<T: Serialize>(state: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(state)
        .map_err(|e| DataFusionError::Internal(format!("a checkpoint could not be encoded: {e}")))
}

/// Decodes a state.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|e| {
        DataFusionError::Execution(format!(
            "the checkpoint does not fit this query ({e}); restore it into the query that wrote it"
        ))
    })
}
