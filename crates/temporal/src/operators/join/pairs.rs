//! Joined rows on their way out.
//!
//! Invariant: pairs are in the order of their sync times, and those of the present instant are the last.

use crate::synopsis::RowRef;
use crate::time::Time;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pairs: Vec<Pair>,
    /// How many of them there were when the pairs of a sync time were complete, and that time.
    syncs: Vec<(usize, Time)>,
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

    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// The sync time and the other time of each pair. All pairs are complete.
    pub fn times(&self) -> (Vec<Time>, Vec<Time>) {
        let mut sync = Vec::with_capacity(self.pairs.len());
        self.syncs.iter().for_each(|(end, time)| sync.resize(*end, *time));
        (sync, self.pairs.iter().map(|pair| pair.other).collect())
    }

    /// Where the rows of a side are.
    pub fn rows(&self, side: usize) -> impl ExactSizeIterator<Item = RowRef> {
        self.pairs.iter().map(move |pair| pair.rows[side])
    }
}
