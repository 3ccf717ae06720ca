//! Checkpoints: what the engine holds, as bytes.
//!
//! A state is [`encode`]d: times as integers, columns as an Arrow IPC stream. What is handed to others is
//! [`seal`]ed, so that damage, another release and another query are found before anything is restored. A
//! seal guards against accidents, not against forgers: restore only what you have saved.

mod batch;
mod seal;

pub use batch::SavedMessage;
pub use seal::{open, seal};

pub(crate) use batch::{SavedBatch, restore_rows, save_rows};

use datafusion::common::{DataFusionError, Result};
use serde::{Serialize, de::DeserializeOwned};

/// Encodes a state.
///
/// # Errors
/// `Internal` if it cannot be encoded.
pub fn encode<T: Serialize>(state: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(state)
        .map_err(|e| DataFusionError::Internal(format!("a checkpoint could not be encoded: {e}")))
}

/// Decodes a state.
///
/// # Errors
/// `Execution` if the bytes are not such a state.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|e| {
        DataFusionError::Execution(format!(
            "the checkpoint does not fit this query ({e}); restore it into the query that wrote it"
        ))
    })
}
