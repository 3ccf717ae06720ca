//! The first rows over all keys of a fetch that reads entries and then records.
//!
//! The entries of all keys are sorted first. Only the records of entries that are in the result are read.
//!
//! Invariant: for each key as many entries are read as rows are wanted, and one more for each entry that was
//! skipped. So the next entries in order are always known, whichever key they belong to.

use super::hit::{Hit, RequestedRange, next_key};
use crate::error::{Error, Result};
use crate::schema::read_entry;
use crate::store::{Found, Read};

/// A fetch that merges, and waits for answers.
#[derive(Debug)]
pub(super) struct Merging {
    /// From the last entry to the first.
    reverse: bool,
    /// How many rows are needed.
    most: usize,
    /// The keys, in the order of their rows.
    keys: Vec<Key>,
    /// The keys whose entries are requested now.
    pending_keys: Vec<usize>,
    /// Entries whose records were not requested yet.
    left: Vec<Entry>,
    /// Entries whose records are requested now.
    requested: Vec<Entry>,
    /// Records that are results.
    hits: Vec<Hit>,
}

/// A key, and the part of its range that was not read.
#[derive(Debug)]
struct Key {
    range: RequestedRange,
    /// The rest of the range; `None` if it was read to its end.
    rest: Option<Read>,
}

/// An entry.
#[derive(Debug)]
pub(super) struct Entry {
    pub key: Vec<u8>,
    pub version: u64,
    record: Vec<u8>,
    /// The position of its key.
    of: usize,
}

impl Entry {
    /// The prefix that its key was requested by, and its position behind that.
    fn split(&self, keys: &[Key]) -> (&[u8], &[u8]) {
        self.key.split_at(keys[self.of].range.prefix)
    }
}

impl Merging {
    /// A merge of the ranges of some keys.
    pub fn new(ranges: &[RequestedRange], reverse: bool, most: usize) -> Merging {
        Merging {
            reverse,
            most,
            keys: ranges.iter().map(|range| Key { range: *range, rest: None }).collect(),
            pending_keys: (0..ranges.len()).collect(),
            left: vec![],
            requested: vec![],
            hits: vec![],
        }
    }

    /// Accepts answers. Returns the rows, or `None` after further requests.
    ///
    /// # Errors
    /// `Internal` if an answer is not of its request's kind, or an entry is damaged.
    pub fn accept(
        &mut self,
        answers: Vec<(Read, Found)>,
        belongs: impl Fn(&[u8], u64, &[u8]) -> Result<bool>,
        reads: &mut Vec<Read>,
    ) -> Result<Option<Vec<Hit>>> {
        match self.requested.is_empty() {
            true => self.entries(answers)?,
            false => self.records(answers, belongs, reads)?,
        }
        if reads.is_empty() {
            self.read_records(reads);
        }
        Ok(reads.is_empty().then(|| std::mem::take(&mut self.hits)))
    }

    /// Adds the entries of answers to the remaining ones.
    fn entries(&mut self, answers: Vec<(Read, Found)>) -> Result<()> {
        for (of, (request, found)) in std::mem::take(&mut self.pending_keys).into_iter().zip(answers) {
            let (Read::Range { from, to, limit, reverse }, Found::Entries(found)) = (request, found) else {
                return Err(Error::Internal(
                    "a range was asked for, and something else answered".to_string(),
                ));
            };
            let mut last = None;
            for (key, value) in found.iter() {
                let (version, record) = read_entry(value)?;
                self.left.push(Entry { key: key.to_vec(), version, record: record.to_vec(), of });
                last = Some(key.to_vec());
            }
            let full = last.filter(|_| found.len() == limit);
            self.keys[of].rest = full.map(|last| {
                let (from, to) = if reverse { (from, last) } else { (next_key(last), to) };
                Read::Range { from, to, limit: 0, reverse }
            });
        }
        Ok(())
    }

    /// Keeps the records that belong to their entries, and requests as many more entries as were skipped.
    fn records(
        &mut self,
        answers: Vec<(Read, Found)>,
        belongs: impl Fn(&[u8], u64, &[u8]) -> Result<bool>,
        reads: &mut Vec<Read>,
    ) -> Result<()> {
        let mut passed = vec![0; self.keys.len()];
        for (entry, (_, found)) in std::mem::take(&mut self.requested).into_iter().zip(answers) {
            match found {
                Found::Value(Some(record)) if belongs(&entry.key, entry.version, &record)? => {
                    let RequestedRange { row, prefix } = self.keys[entry.of].range;
                    self.hits.push(Hit { row, prefix, key: entry.key, record });
                }
                _ => passed[entry.of] += 1,
            }
        }
        for (of, passed) in passed.into_iter().enumerate().filter(|(_, passed)| *passed > 0) {
            if let Some(Read::Range { from, to, reverse, .. }) = self.keys[of].rest.take() {
                reads.push(Read::Range { from, to, limit: passed, reverse });
                self.pending_keys.push(of);
            }
        }
        Ok(())
    }

    /// Requests the records of the next entries, as many as rows are needed.
    fn read_records(&mut self, reads: &mut Vec<Read>) {
        let wanted = self.most.saturating_sub(self.hits.len()).min(self.left.len());
        if wanted == 0 {
            return;
        }
        let (keys, reverse) = (&self.keys, self.reverse);
        // The order of a merge: by position in the index, then by prefix.
        self.left.sort_unstable_by(|one, other| {
            let ((one_prefix, one), (other_prefix, other)) = (one.split(keys), other.split(keys));
            let by_position = if reverse { other.cmp(one) } else { one.cmp(other) };
            by_position.then_with(|| one_prefix.cmp(other_prefix))
        });
        self.requested = self.left.drain(..wanted).collect();
        reads.extend(self.requested.iter().map(|entry| Read::Get(entry.record.clone())));
    }
}
