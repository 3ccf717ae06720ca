//! A merge of rows: finds the runs of each lane, passes on the long ones and copies each column of the others once.
//!
//! Invariant: rows come out in the order of (sync, lane, place in lane).

use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::collections::VecDeque;
use std::ops::Range;
use whimbrel_temporal::{Batch, Message, Other, Time, places};

/// So many rows of one lane in a row are a batch of their own: to copy them would cost more than to handle it.
pub(super) const LONG: usize = 4096;
/// Runs of so many rows on an average are copied run by run, shorter ones row by row.
const WHOLE: usize = 64;

/// See the module.
pub(super) struct Interleave {
    batches: Vec<Batch>,
    /// The batches of each lane, as numbers; the first is the current one.
    lanes: Vec<VecDeque<usize>>,
    /// The next row of each lane's current batch.
    rows: Vec<usize>,
    /// What comes out next, and how many rows that is.
    runs: Vec<(usize, Range<usize>)>,
    picked: usize,
}

impl Interleave {
    /// A merge of the batches of each lane.
    pub fn new(pieces: Vec<Vec<Batch>>) -> Interleave {
        let mut batches = Vec::new();
        let mut lanes = Vec::new();
        for lane in pieces {
            lanes.push((batches.len()..batches.len() + lane.len()).collect());
            batches.extend(lane);
        }
        Interleave { rows: vec![0; lanes.len()], batches, lanes, runs: Vec::new(), picked: 0 }
    }

    /// Hands on all rows, in batches of at most so many where they are copied.
    pub fn run(mut self, batch_rows: usize, out: &mut VecDeque<Message>) -> Result<()> {
        while let Some(lane) = self.first() {
            let (batch, start) = (self.lanes[lane][0], self.rows[lane]);
            let mut end = self.run_end(lane, batch, start);
            if end - start >= LONG {
                self.flush(out)?;
                out.push_back(Message::Batch(self.batches[batch].slice(start, end - start)));
            } else {
                end = end.min(start + batch_rows - self.picked);
                self.runs.push((batch, start..end));
                self.picked += end - start;
            }
            self.rows[lane] = end;
            if end == self.batches[batch].len() {
                self.lanes[lane].pop_front();
                self.rows[lane] = 0;
            }
            if self.picked == batch_rows {
                self.flush(out)?;
            }
        }
        self.flush(out)
    }

    fn head(&self, lane: usize) -> Option<Time> {
        self.lanes[lane].front().map(|&batch| self.batches[batch].sync[self.rows[lane]])
    }

    /// The lane with the earliest row, the first of several.
    fn first(&self) -> Option<usize> {
        let heads = (0..self.lanes.len()).filter_map(|lane| Some((self.head(lane)?, lane)));
        heads.min().map(|(_, lane)| lane)
    }

    /// Where the rows of this lane end that come before the next row of any other.
    fn run_end(&self, lane: usize, batch: usize, start: usize) -> usize {
        let sync = &self.batches[batch].sync;
        let mut end = sync.len();
        for other in (0..self.lanes.len()).filter(|other| *other != lane) {
            if let Some(head) = self.head(other) {
                // Ties go to the lower lane.
                let before = |t: Time| t < head || t == head && lane < other;
                end = end.min(start + run_length(&sync[start..end.max(start)], before));
            }
        }
        end.max(start + 1)
    }

    fn flush(&mut self, out: &mut VecDeque<Message>) -> Result<()> {
        if self.picked == 0 {
            return Ok(());
        }
        let rows = match self.runs.len() * WHOLE <= self.picked {
            true => self.run_by_run()?,
            false => self.row_by_row()?,
        };
        let mut sync = Vec::with_capacity(self.picked);
        self.runs
            .iter()
            .for_each(|(batch, run)| sync.extend_from_slice(&self.batches[*batch].sync[run.clone()]));
        out.push_back(Message::Batch(Batch::new(sync.into(), self.other(), rows)));
        self.runs.clear();
        self.picked = 0;
        Ok(())
    }

    fn run_by_run(&self) -> Result<RecordBatch> {
        let run =
            |(batch, run): &(usize, Range<usize>)| self.batches[*batch].rows.slice(run.start, run.len());
        let runs: Vec<RecordBatch> = self.runs.iter().map(run).collect();
        Ok(concat_batches(self.batches[0].rows.schema_ref(), &runs)?)
    }

    fn row_by_row(&self) -> Result<RecordBatch> {
        let rows: Vec<_> = self.batches.iter().map(|batch| &batch.rows).collect();
        let picks: Vec<(usize, usize)> = self.picks().collect();
        Ok(places::interleave(&rows, &picks)?)
    }

    /// Each row that comes out next: its batch, and its place there.
    fn picks(&self) -> impl Iterator<Item = (usize, usize)> {
        self.runs.iter().flat_map(|(batch, run)| run.clone().map(|row| (*batch, row)))
    }

    /// The other times of these rows: one number for all where it is the same everywhere.
    fn other(&self) -> Other {
        let first = &self.batches[0].other;
        let same = |b: &Batch| match (&b.other, first) {
            (Other::Open, Other::Open) => true,
            (Other::After(a), Other::After(b)) => a == b,
            _ => false,
        };
        if self.batches.iter().all(same) {
            return first.clone();
        }
        Other::Column(
            self.picks().map(|(batch, row)| self.batches[batch].other_at(row)).collect::<Vec<_>>().into(),
        )
    }
}

/// How many of the first times are `before`; they are few as a rule, so the search gallops.
fn run_length(times: &[Time], before: impl Fn(Time) -> bool) -> usize {
    let mut step = 1;
    while step < times.len() && before(times[step]) {
        step *= 2;
    }
    let (low, high) = (step / 2, times.len().min(step));
    low + times[low..high].partition_point(|&t| before(t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found() {
        for n in 0..20 {
            for k in 0..=n {
                let times: Vec<i64> = (0..n).collect();
                // The first is always before.
                let expected = if k == 0 && n > 0 { None } else { Some(k as usize) };
                if let Some(expected) = expected {
                    assert_eq!(run_length(&times, |t| t < k), expected, "{n} {k}");
                }
            }
        }
    }
}
