//! Splits a sequence of pieces into contiguous shards.
//!
//! Concatenated, the shards are the sequence again. So shards of rows in order of time are in order of time,
//! and so is their concatenation.

/// A part of a piece: `length` rows from `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The number of the piece.
    pub piece: usize,
    /// The first row.
    pub offset: usize,
    /// The number of rows.
    pub length: usize,
}

/// Cuts pieces of these lengths into `shards` contiguous runs whose lengths differ by at most one row.
pub(crate) fn contiguous(lengths: &[usize], shards: usize) -> Vec<Vec<Part>> {
    let total: usize = lengths.iter().sum();
    let mut runs = vec![Vec::new(); shards];
    let (mut shard, mut position) = (0, 0);
    for (piece, &length) in lengths.iter().enumerate() {
        let mut offset = 0;
        while offset < length {
            while position == boundary(total, shard + 1, shards) {
                shard += 1;
            }
            let room = boundary(total, shard + 1, shards) - position;
            let taken = room.min(length - offset);
            runs[shard].push(Part { piece, offset, length: taken });
            offset += taken;
            position += taken;
        }
    }
    runs
}

/// The first row of shard number `shard`.
fn boundary(total: usize, shard: usize, shards: usize) -> usize {
    (total as u128 * shard as u128 / shards as u128) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_contiguous_and_even() {
        for lengths in [vec![10], vec![3, 0, 4, 1], vec![], vec![1, 1], vec![7, 7, 7]] {
            for shards in 1..6 {
                let runs = contiguous(&lengths, shards);
                let sizes: Vec<usize> = runs.iter().map(|r| r.iter().map(|p| p.length).sum()).collect();
                let total: usize = lengths.iter().sum();
                assert_eq!(sizes.iter().sum::<usize>(), total);
                assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
                let mut next = vec![0; lengths.len()];
                let mut last = 0;
                for part in runs.iter().flatten() {
                    assert!(part.piece >= last && part.offset == next[part.piece] && part.length > 0);
                    next[part.piece] += part.length;
                    last = part.piece;
                }
            }
        }
    }
}
