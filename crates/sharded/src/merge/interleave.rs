//! Interleaves the rows of overlapping lanes: long runs of one lane are passed on as slices, the others are
//! copied column by column.
//!
//! Invariant: rows come out in the order of (sync, lane, position in the lane).

use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::collections::VecDeque;
use std::ops::Range;
use whimbrel_temporal::{Batch, Message, Other, Time, leading, places};

/// A run of so many rows of one lane is passed on as a slice.
pub(super) const LONG_RUN: usize = 4096;
/// Runs of at least so many rows, on average, are copied run by run, shorter ones row by row.
const MIN_AVERAGE_RUN: usize = 64;

/// The rows that are to be interleaved; see the module.
pub(super) struct Interleave {
    batches: Vec<Batch>,
    /// The numbers of the batches of each lane; the first is the current one.
    lanes: Vec<VecDeque<usize>>,
    /// The next row of each lane's current batch.
    rows: Vec<usize>,
    /// The runs that come out next: batch, and rows in it.
    runs: Vec<(usize, Range<usize>)>,
    /// How many rows these are.
    pending: usize,
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
        Interleave { rows: vec![0; lanes.len()], batches, lanes, runs: Vec::new(), pending: 0 }
    }

    /// Moves all rows to the output; copied rows come in batches of at most `batch_rows`.
    ///
    /// # Errors
    /// If the columns of the lanes differ.
    pub fn run(mut self, batch_rows: usize, out: &mut VecDeque<Message>) -> Result<()> {
        while let Some(lane) = self.first() {
            let (batch, start) = (self.lanes[lane][0], self.rows[lane]);
            let mut end = self.run_end(lane, batch, start);
            if end - start >= LONG_RUN {
                self.flush(out)?;
                out.push_back(Message::Batch(self.batches[batch].slice(start, end - start)));
            } else {
                end = end.min(start + batch_rows - self.pending);
                self.runs.push((batch, start..end));
                self.pending += end - start;
            }
            self.rows[lane] = end;
            if end == self.batches[batch].len() {
                self.lanes[lane].pop_front();
                self.rows[lane] = 0;
            }
            if self.pending == batch_rows {
                self.flush(out)?;
            }
        }
        self.flush(out)
    }

    /// The time of the next row of a lane.
    fn head(&self, lane: usize) -> Option<Time> {
        self.lanes[lane].front().map(|&batch| self.batches[batch].sync[self.rows[lane]])
    }

    /// The lane with the earliest row; of several the first.
    fn first(&self) -> Option<usize> {
        let heads = (0..self.lanes.len()).filter_map(|lane| Some((self.head(lane)?, lane)));
        heads.min().map(|(_, lane)| lane)
    }

    /// The end of the rows of this lane that come before the next row of all other lanes.
    fn run_end(&self, lane: usize, batch: usize, start: usize) -> usize {
        let sync = &self.batches[batch].sync;
        let mut end = sync.len();
        for other in (0..self.lanes.len()).filter(|other| *other != lane) {
            if let Some(head) = self.head(other) {
                // Ties go to the lower lane.
                let before = |&t: &Time| t < head || t == head && lane < other;
                end = end.min(start + leading(&sync[start..end.max(start)], 1, before));
            }
        }
        end.max(start + 1)
    }

    /// Moves the pending runs to the output, as one batch.
    fn flush(&mut self, out: &mut VecDeque<Message>) -> Result<()> {
        if self.pending == 0 {
            return Ok(());
        }
        let rows = match self.runs.len() * MIN_AVERAGE_RUN <= self.pending {
            true => self.run_by_run()?,
            false => self.row_by_row()?,
        };
        let mut sync = Vec::with_capacity(self.pending);
        self.runs
            .iter()
            .for_each(|(batch, run)| sync.extend_from_slice(&self.batches[*batch].sync[run.clone()]));
        out.push_back(Message::Batch(Batch::new(sync.into(), self.other(), rows)));
        self.runs.clear();
        self.pending = 0;
        Ok(())
    }

    /// Copies the pending runs one after the other.
    fn run_by_run(&self) -> Result<RecordBatch> {
        let run =
            |(batch, run): &(usize, Range<usize>)| self.batches[*batch].rows.slice(run.start, run.len());
        let runs: Vec<RecordBatch> = self.runs.iter().map(run).collect();
        Ok(concat_batches(self.batches[0].rows.schema_ref(), &runs)?)
    }

    /// Copies the pending rows by their indices.
    fn row_by_row(&self) -> Result<RecordBatch> {
        let rows: Vec<_> = self.batches.iter().map(|batch| &batch.rows).collect();
        let picks: Vec<(usize, usize)> = self.picks().collect();
        Ok(places::interleave(&rows, &picks)?)
    }

    /// The rows of the pending runs: batch, and row in it.
    fn picks(&self) -> impl Iterator<Item = (usize, usize)> {
        self.runs.iter().flat_map(|(batch, run)| run.clone().map(|row| (*batch, row)))
    }

    /// The other times of the pending rows; one value for all if the batches have one.
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
