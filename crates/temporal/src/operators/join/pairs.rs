//! Joined rows on their way out.
//!
//! Invariant: pairs are in the order of their sync times, and those of the present instant are the last. The
//! first of them may have been handed out.

use crate::synopsis::RowRef;
use crate::time::Time;
use std::ops::Range;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::operators) struct Pairs {
    pairs: Vec<Pair>,
    /// How many of them there were when the pairs of a sync time were complete, and that time.
    syncs: Vec<(usize, Time)>,
    /// How many were handed out.
    handed_out: usize,
}

/// Two rows, that of the left side first.
#[derive(Debug)]
struct Pair {
    other: Time,
    rows: [RowRef; 2],
}

impl Pairs {
    /// A pair of a row of `side` and one of the other side.
    #[inline]
    pub fn push(&mut self, other: Time, side: usize, row: RowRef, partner: RowRef) {
        let rows = if side == 0 { [row, partner] } else { [partner, row] };
        self.pairs.push(Pair { other, rows });
    }

    /// The pairs since the last call have this sync time.
    pub fn complete(&mut self, sync: Time) {
        if self.syncs.last().map_or(0, |last| last.0) < self.pairs.len() {
            self.syncs.push((self.pairs.len(), sync));
        }
    }

    /// Which pairs are left.
    pub fn left(&self) -> Range<usize> {
        self.handed_out..self.pairs.len()
    }

    /// The pairs before this one have been handed out.
    pub fn hand_out(&mut self, end: usize) {
        self.handed_out = end;
        if self.left().is_empty() {
            self.pairs.clear();
            self.syncs.clear();
            self.handed_out = 0;
        }
    }

    /// The sync time and the other time of some pairs. All pairs are complete.
    pub fn times(&self, piece: Range<usize>) -> (Vec<Time>, Vec<Time>) {
        let mut sync = Vec::with_capacity(piece.len());
        let first = self.syncs.partition_point(|(end, _)| *end <= piece.start);
        for (end, time) in &self.syncs[first..] {
            sync.resize(piece.end.min(*end) - piece.start, *time);
            if *end >= piece.end {
                break;
            }
        }
        (sync, self.pairs[piece].iter().map(|pair| pair.other).collect())
    }

    /// Where the rows of a side are, of some pairs.
    pub fn rows(&self, side: usize, piece: &Range<usize>) -> impl ExactSizeIterator<Item = RowRef> {
        self.pairs[piece.clone()].iter().map(move |pair| pair.rows[side])
    }
}
