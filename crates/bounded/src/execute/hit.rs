//! Requests of a fetch, and the records that they found.

/// What a request was for: a row, and how long what its keys begin with is.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestedRange {
    pub row: usize,
    pub prefix: usize,
}

/// A record, the row it was found for, and the key by which it was.
#[derive(Debug)]
pub(super) struct Hit {
    pub row: usize,
    pub prefix: usize,
    pub key: Vec<u8>,
    pub record: Vec<u8>,
}

/// The first key behind this one.
pub(super) fn next_key(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}
