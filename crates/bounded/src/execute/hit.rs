//! Requests of a fetch, and the records that they found.

/// The row that a request is for, and the length of its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestedRange {
    /// The row that the request is for.
    pub row: usize,
    /// The length of the key that the row gives.
    pub prefix: usize,
}

/// A record, with the row and the key that found it.
#[derive(Debug)]
pub(super) struct Hit {
    /// The row that the record is for.
    pub row: usize,
    /// The length of the key that the row gives.
    pub prefix: usize,
    /// The key by which it was found.
    pub key: Vec<u8>,
    /// The record.
    pub record: Vec<u8>,
}

/// The next possible key.
pub(super) fn next_key(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}
