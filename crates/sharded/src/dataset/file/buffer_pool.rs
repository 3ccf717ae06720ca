//! A pool of buffers for what is read and decompressed.
//!
//! A page of a column lives as long as its values are decoded, and the next one is about as large. So a few
//! buffers pass from page to page, query to query and thread to thread. Fresh memory would cost page faults,
//! and would be set to zero before it is written.
//!
//! Invariant: the buffers in the pool take [`CAPACITY`] bytes at most.

use object_store::PutPayload;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shared bytes: what an object store answers with, and what the reader of pages works on.
pub(super) type Bytes = <PutPayload as IntoIterator>::Item;

/// The bytes that the buffers in the pool take at most.
const CAPACITY: usize = 32 << 20;

/// Smaller buffers are left to the allocator.
const MIN_POOLED: usize = 32 << 10;

/// The pool of this process.
static POOL: Mutex<Pool> = Mutex::new(Pool { buffers: Vec::new(), bytes: 0 });

/// Buffers that nobody uses.
struct Pool {
    /// The one that was returned last at the end.
    buffers: Vec<Vec<u8>>,
    /// What all of them take.
    bytes: usize,
}

impl Pool {
    /// The buffer that was returned last, of those that are large enough and at most twice as large.
    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        let fits = |buffer: &Vec<u8>| (length..=length.saturating_mul(2)).contains(&buffer.len());
        let buffer = self.buffers.remove(self.buffers.iter().rposition(fits)?);
        self.bytes -= buffer.len();
        Some(buffer)
    }

    /// Puts a buffer into the pool; gives the ones that it has no room for, least recently returned first.
    fn put(&mut self, buffer: Vec<u8>) -> Vec<Vec<u8>> {
        self.bytes += buffer.len();
        self.buffers.push(buffer);
        let mut left = self.bytes;
        let too_many = self.buffers.iter().take_while(|buffer| {
            let over = left > CAPACITY;
            left -= buffer.len();
            over
        });
        let too_many = too_many.count();
        let evicted: Vec<_> = self.buffers.drain(..too_many).collect();
        self.bytes -= evicted.iter().map(Vec::len).sum::<usize>();
        evicted
    }
}

/// A buffer that goes back to the pool when it is dropped.
pub(super) struct PooledBuffer {
    bytes: Vec<u8>,
    length: usize,
}

impl PooledBuffer {
    /// A buffer of this length with any content.
    pub fn new(length: usize) -> PooledBuffer {
        if length < MIN_POOLED {
            return PooledBuffer { bytes: vec![0; length], length };
        }
        let pooled = lock().take(length);
        let bytes = pooled.unwrap_or_else(|| vec![0; length.next_multiple_of(MIN_POOLED)]);
        PooledBuffer { bytes, length }
    }

    /// The bytes, to be written.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// The first bytes of the buffer, for any number of readers.
    pub fn share(mut self, length: usize) -> Bytes {
        self.length = length.min(self.length);
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if (MIN_POOLED..=CAPACITY).contains(&self.bytes.len()) {
            let evicted = lock().put(std::mem::take(&mut self.bytes));
            // Memory goes back to the system without the lock.
            drop(evicted);
        }
    }
}

/// The pool; a panic elsewhere leaves it consistent.
fn lock() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again() {
        let mut pool = Pool { buffers: vec![], bytes: 0 };
        let kept = |pool: &Pool| pool.buffers.iter().map(Vec::len).collect::<Vec<_>>();
        assert!(pool.take(MIN_POOLED).is_none());
        for length in [1, 3, 2] {
            assert!(pool.put(vec![0; length * MIN_POOLED]).is_empty());
        }
        assert_eq!(pool.take(2 * MIN_POOLED).map(|buffer| buffer.len()), Some(2 * MIN_POOLED));
        assert_eq!(pool.take(2 * MIN_POOLED - 1).map(|buffer| buffer.len()), Some(3 * MIN_POOLED));
        assert!(pool.take(2 * MIN_POOLED).is_none());
        assert!(pool.put(vec![0; CAPACITY - MIN_POOLED]).is_empty());
        assert_eq!(pool.bytes, CAPACITY);
        assert_eq!(pool.put(vec![0; MIN_POOLED]).len(), 1);
        assert_eq!(kept(&pool), [CAPACITY - MIN_POOLED, MIN_POOLED]);
        assert_eq!(pool.put(vec![0; MIN_POOLED]).len(), 1);
        assert_eq!((kept(&pool), pool.bytes), (vec![MIN_POOLED, MIN_POOLED], 2 * MIN_POOLED));
    }

    #[test]
    fn what_was_written_is_read() {
        for length in [0, 1, MIN_POOLED, MIN_POOLED + 1, 3 * MIN_POOLED] {
            let mut buffer = PooledBuffer::new(length);
            assert_eq!(buffer.bytes().len(), length);
            buffer.bytes().fill(7);
            assert_eq!(buffer.share(length / 2 + 1), vec![7; (length / 2 + 1).min(length)]);
        }
    }
}
