//! Typed values as bytes.

use crate::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value as bytes; `place` says in messages where it belongs.
///
/// # Errors
/// `Invalid` if its type cannot be written.
pub fn encode<T: Serialize>(value: &T, place: &str) -> Result<Vec<u8>> {
    postcard::to_stdvec(value)
        .map_err(|error| Error::Invalid(format!("a value for {place} cannot be written as bytes: {error}")))
}

/// The value of some bytes.
///
/// # Errors
/// `Damaged` if they are none of this type.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], place: &str) -> Result<T> {
    let (value, rest) = postcard::take_from_bytes(bytes)
        .map_err(|error| Error::Damaged(format!("{place} holds no value of the expected type: {error}")))?;
    match rest.len() {
        0 => Ok(value),
        more => {
            Err(Error::Damaged(format!("{place} holds {more} bytes more than a value of the expected type")))
        }
    }
}
