//! Hopping windows of any size, also of one that is not a multiple of the hop (Trill's
//! `HoppingWindowLifetime`; trill.txt §5.2.5).
//!
//! Windows end at `offset + k·hop` and reach back `size` ticks. A row lives from the first of these instants
//! whose window it is in to the first after that whose window it is not in: the lifetimes begin and end on
//! the grid, so an aggregate changes there only. Where the size is a multiple of the hop this is
//! `AlterLifetime` with `Snap` and `Constant`; else the end is on the grid, not `size` after the start. A
//! row between windows that are shorter than the hop vanishes. Cut at the grid by `Chop`, there is a row for
//! each window (Trill's `RepetitiveHoppingWindowLifetime`).
//!
//! Invariants: a new lifetime depends on the old start only, so end edges have nothing to say and are
//! dropped, and start edges become intervals. There is no state.

use crate::batch::{Batch, Message, Other};
use crate::operator::Operator;
use crate::operators::alter_lifetime::snap;
use crate::rules::Closed;
use crate::time::{INFINITY, Kind, Time, end_after, next_on_grid};
use arrow::array::BooleanArray;
use datafusion::common::{Result, exec_err, plan_err};

/// Lets each row live while it is in a hopping window.
pub struct Hopping {
    size: i64,
    hop: i64,
    offset: i64,
    closed: Closed,
}

impl Hopping {
    /// Windows of `size` ticks that end at `offset + k·hop`, closed on one side.
    ///
    /// # Errors
    /// `Plan` if the size or the hop is not positive.
    pub fn new(size: i64, hop: i64, offset: i64, closed: Closed) -> Result<Hopping> {
        match size > 0 && hop > 0 {
            true => Ok(Hopping { size, hop, offset, closed }),
            false => plan_err!("hopping windows of {size} ticks every {hop}; both are positive"),
        }
    }

    fn batch(&self, batch: Batch) -> Result<Batch> {
        let batch = batch.compact()?;
        let snap = |times: &[Time]| snap(times, self.hop, self.offset, self.closed);
        let ends: Vec<Time> = batch.sync.iter().map(|&start| end_after(start, self.size)).collect();
        let (starts, ends) = (snap(&batch.sync), snap(&ends));
        let mut keep = Vec::with_capacity(batch.len());
        for row in 0..batch.len() {
            let is_end = batch.kind_at(row) == Kind::End;
            if !is_end && ends[row] == INFINITY {
                return beyond_time(batch.sync[row]);
            }
            keep.push(!is_end && starts[row] < ends[row]);
        }
        let mut batch = batch.with_times(starts, Other::Column(ends));
        batch.retain(&BooleanArray::from(keep));
        batch.compact()
    }
}

/// Fails: a window would end after the end of time.
fn beyond_time<T>(start: Time) -> Result<T> {
    exec_err!(
        "hopping: the row that starts at {start} would end after the last instant that there is; leave such rows \
         out, or use smaller windows"
    )
}

impl Operator for Hopping {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => {
                let batch = self.batch(batch)?;
                out.extend((!batch.is_empty()).then_some(Message::Batch(batch)));
            }
            Message::Punctuation(INFINITY) => out.push(Message::Punctuation(INFINITY)),
            Message::Punctuation(time) => {
                let time = next_on_grid(time, self.hop, self.offset, self.closed == Closed::Right);
                out.push(Message::Punctuation(time.min(INFINITY - 1)));
            }
        }
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn restore(&mut self, _state: &[u8]) -> Result<()> {
        Ok(())
    }
}
