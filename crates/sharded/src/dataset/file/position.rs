//! How much of a part of a file has been read: rows or batches where their number is known, bytes of text.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much has been read, of how much.
pub(super) enum Position {
    /// Rows of which it is known how many there are.
    Rows { read: usize, all: usize },
    /// Batches of which it is known how many there are.
    Batches { read: usize, all: usize },
    /// Bytes of a file, compressed or not.
    Bytes { read: Arc<AtomicU64>, all: u64 },
    /// Nothing is known.
    Unknown,
}

impl Position {
    /// Takes note of a batch of so many rows.
    pub fn add(&mut self, rows: usize) {
        match self {
            Position::Rows { read, .. } => *read += rows,
            Position::Batches { read, .. } => *read += 1,
            Position::Bytes { .. } | Position::Unknown => {}
        }
    }

    /// The share that has been read, from 0 to 1; 0 if that is not known.
    pub fn share(&self) -> f64 {
        match self {
            Position::Rows { read, all } | Position::Batches { read, all } => {
                (*read as f64 / (*all).max(1) as f64).min(1.0)
            }
            Position::Bytes { read, all } => {
                (read.load(Ordering::Relaxed) as f64 / (*all).max(1) as f64).min(1.0)
            }
            Position::Unknown => 0.0,
        }
    }
}

/// An input that counts the bytes that are read.
pub(super) struct CountedBytes<I> {
    pub input: I,
    pub read: Arc<AtomicU64>,
}

impl<I: Read> Read for CountedBytes<I> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.input.read(into)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}
