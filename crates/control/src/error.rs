//! Errors, one variant for each remedy.
//!
//! That a transaction's condition did not hold is no error but an [`Outcome`](crate::Outcome).

use std::fmt;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error, named by its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Try again: the store is away, or cannot do it now. Of a transaction nobody knows whether it was
    /// applied; the same value, committed again within [`REMEMBERED`](crate::REMEMBERED), is applied once.
    Unavailable(String),
    /// Change the call or the address.
    Invalid(String),
    /// Mend the store: it holds what this crate did not write, or is no server that can hold it.
    Damaged(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Unavailable(text) | Error::Invalid(text) | Error::Damaged(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Error {}
