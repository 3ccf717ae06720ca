//! Memory for what is read and unpacked, used again and again.
//!
//! A page of a column lives for as long as its values are taken from it, and the next one is about as large. So a few blocks
//! are passed on from page to page, query to query and thread to thread; fresh memory would be touched for the first time, and
//! be set to zero before it is written.
//!
//! Invariant: blocks that nobody uses take [`KEPT`] bytes at most.

use super::fetching::Bytes;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many bytes of blocks are kept for later.
const KEPT: usize = 32 << 20;

/// Smaller blocks are left to the allocator.
const LEAST: usize = 32 << 10;

/// Blocks that nobody uses, the one that was given back last at the end.
static SPARE: Mutex<Spare> = Mutex::new(Spare { blocks: Vec::new(), bytes: 0 });

struct Spare {
    blocks: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spare {
    /// The block that was used last of those that are large enough and not much too large.
    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        let fits = |block: &Vec<u8>| (length..=length.saturating_mul(2)).contains(&block.len());
        let block = self.blocks.remove(self.blocks.iter().rposition(fits)?);
        self.bytes -= block.len();
        Some(block)
    }

    /// Keeps a block, and gives up those that were not used for longest if they are too many.
    fn keep(&mut self, block: Vec<u8>) -> Vec<Vec<u8>> {
        self.bytes += block.len();
        self.blocks.push(block);
        let mut left = self.bytes;
        let too_many = self.blocks.iter().take_while(|block| {
            let over = left > KEPT;
            left -= block.len();
            over
        });
        let too_many = too_many.count();
        let given_up: Vec<_> = self.blocks.drain(..too_many).collect();
        self.bytes -= given_up.iter().map(Vec::len).sum::<usize>();
        given_up
    }
}

/// A block of memory, which is kept for later when it is dropped.
pub(super) struct Block {
    bytes: Vec<u8>,
    length: usize,
}

impl Block {
    /// So many bytes of any value.
    pub fn new(length: usize) -> Block {
        if length < LEAST {
            return Block { bytes: vec![0; length], length };
        }
        let spare = lock().take(length);
        let bytes = spare.unwrap_or_else(|| vec![0; length.next_multiple_of(LEAST)]);
        Block { bytes, length }
    }

    /// The bytes, to be written.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// The first of the bytes, to be read by any number.
    pub fn share(mut self, length: usize) -> Bytes {
        self.length = length.min(self.length);
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if (LEAST..=KEPT).contains(&self.bytes.len()) {
            let given_up = lock().keep(std::mem::take(&mut self.bytes));
            // Memory is handed back to the system without the lock.
            drop(given_up);
        }
    }
}

fn lock() -> MutexGuard<'static, Spare> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_used_again() {
        let mut spare = Spare { blocks: vec![], bytes: 0 };
        let kept = |spare: &Spare| spare.blocks.iter().map(Vec::len).collect::<Vec<_>>();
        assert!(spare.take(LEAST).is_none());
        for length in [1, 3, 2] {
            assert!(spare.keep(vec![0; length * LEAST]).is_empty());
        }
        assert_eq!(spare.take(2 * LEAST).map(|block| block.len()), Some(2 * LEAST));
        assert_eq!(spare.take(2 * LEAST - 1).map(|block| block.len()), Some(3 * LEAST));
        assert!(spare.take(2 * LEAST).is_none());
        assert!(spare.keep(vec![0; KEPT - LEAST]).is_empty());
        assert_eq!(spare.bytes, KEPT);
        assert_eq!(spare.keep(vec![0; LEAST]).len(), 1);
        assert_eq!(kept(&spare), [KEPT - LEAST, LEAST]);
        assert_eq!(spare.keep(vec![0; LEAST]).len(), 1);
        assert_eq!((kept(&spare), spare.bytes), (vec![LEAST, LEAST], 2 * LEAST));
    }

    #[test]
    fn what_was_written_is_read() {
        for length in [0, 1, LEAST, LEAST + 1, 3 * LEAST] {
            let mut block = Block::new(length);
            assert_eq!(block.bytes().len(), length);
            block.bytes().fill(7);
            assert_eq!(block.share(length / 2 + 1), vec![7; (length / 2 + 1).min(length)]);
        }
    }
}
