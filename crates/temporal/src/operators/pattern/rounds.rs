//! Events in rounds: the first of each key, then the second of each, and so on. What happens to the keys of
//! one round does not depend on each other, so it is computed for all of them at once.

use std::ops::Range;

/// The rows of a batch by rounds, in order within each.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    rows: Vec<u32>,
    /// Where each round ends.
    ends: Vec<usize>,
    /// How many events of each key were met; all zero between batches.
    met: Vec<u32>,
    /// The round of each row.
    round_of: Vec<u32>,
}

impl Rounds {
    /// Sorts events of these keys, whose numbers are below `keys`, into rounds.
    pub fn sort(&mut self, groups: &[u32], keys: usize) {
        self.met.resize(keys.max(self.met.len()), 0);
        self.round_of.clear();
        self.ends.clear();
        for &group in groups {
            let round = &mut self.met[group as usize];
            self.round_of.push(*round);
            match self.ends.get_mut(*round as usize) {
                Some(count) => *count += 1,
                None => self.ends.push(1),
            }
            *round += 1;
        }
        groups.iter().for_each(|&group| self.met[group as usize] = 0);
        // From counts to where each round begins, and, as rows are put there, to where it ends.
        let mut begin = 0;
        for count in &mut self.ends {
            begin += std::mem::replace(count, begin);
        }
        self.rows.resize(groups.len(), 0);
        for (row, &round) in (0..).zip(&self.round_of) {
            let place = &mut self.ends[round as usize];
            self.rows[*place] = row;
            *place += 1;
        }
    }

    /// How many rounds there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The rows of a round.
    pub fn rows(&self, round: usize) -> &[u32] {
        &self.rows[self.range(round)]
    }

    fn range(&self, round: usize) -> Range<usize> {
        let begin = if round == 0 { 0 } else { self.ends[round - 1] };
        begin..self.ends[round]
    }
}

#[cfg(test)]
mod tests {
    use super::Rounds;

    #[test]
    fn every_round_has_a_key_once() {
        let mut rounds = Rounds::default();
        for _ in 0..2 {
            rounds.sort(&[4, 4, 0, 4, 2, 0], 5);
            assert_eq!(rounds.len(), 3);
            assert_eq!(
                (rounds.rows(0), rounds.rows(1), rounds.rows(2)),
                (&[0, 2, 4][..], &[1, 5][..], &[3][..])
            );
        }
        rounds.sort(&[], 0);
        assert_eq!(rounds.len(), 0);
    }
}
