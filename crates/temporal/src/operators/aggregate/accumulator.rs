//! The framework that every aggregate is built on (trill.txt §5.2.1), over columns of states instead of one.
//!
//! Trill's five functions are here: *InitialState* ([`grow`](Accumulator::grow),
//! [`reset`](Accumulator::reset)), *Accumulate*, *Deaccumulate*, *Difference* and *ComputeResult*
//! ([`result`](Accumulator::result)); and *combine*, the counterpart of difference, because rows that start
//! together are summed up once and then added to the group as one.
//!
//! Invariants: states are numbered; a state is a function of the multiset of rows that it holds, whatever the
//! order in which they came and went, except where the aggregate is about that order (first, last).

use crate::time::Time;
use crate::values::Column;
use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use datafusion::common::Result;
use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

/// The rows of one batch, as one aggregate reads them.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// The aggregate's argument; none for `count(*)`.
    pub argument: Option<ArrayRef>,
    /// Which rows count at all; none: all.
    pub filter: Option<BooleanArray>,
    /// When each row's lifetime starts.
    pub starts: Vec<Time>,
}

/// A column of states of one aggregate.
pub trait Accumulator: Send + Debug {
    /// Makes room for states `0..states`; new ones are initial.
    fn grow(&mut self, states: usize);

    /// Makes these states initial again.
    fn reset(&mut self, states: &[u32]);

    /// Says which batch the next calls speak about.
    ///
    /// # Errors
    /// `ArrowError` if the argument cannot be read.
    fn load(&mut self, rows: &Rows) -> Result<()>;

    /// Adds the loaded rows `first..first + states.len()` to these states.
    fn accumulate(&mut self, states: &[u32], first: usize);

    /// Adds those of the loaded rows `rows` that are `present` (none: all of them) to one state. A stream
    /// without a key is one long run of rows of one group; aggregates that can add up a column at once do so
    /// here.
    fn accumulate_run(&mut self, state: u32, rows: Range<usize>, present: Option<&BooleanBuffer>) {
        let some = [state; 64];
        let mut add = |rows: Range<usize>| {
            for first in rows.clone().step_by(some.len()) {
                self.accumulate(&some[..some.len().min(rows.end - first)], first);
            }
        };
        match present {
            None => add(rows),
            Some(present) => present
                .slice(rows.start, rows.len())
                .set_slices()
                .for_each(|(start, end)| add(rows.start + start..rows.start + end)),
        }
    }

    /// Takes the same rows out again: they were added when their start edges came.
    fn deaccumulate(&mut self, states: &[u32], first: usize);

    /// Adds what the states `from` of `other`, a column of the same aggregate, hold to the states `to`; all
    /// of it lives until `end`.
    fn combine(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], end: Time);

    /// Takes out of the states `to` what the states `from` of `other` hold, which was added by
    /// [`combine`](Accumulator::combine) with this `end`, or row by row.
    fn difference(&mut self, to: &[u32], other: &dyn Accumulator, from: &[u32], end: Time);

    /// Appends the results of these states to a column of the aggregate's type.
    fn result(&self, states: &[u32], out: &mut Column);

    /// What has gone wrong since the last call, once: a user's functions may fail where there is no way to
    /// say so. The results since then mean nothing.
    ///
    /// # Errors
    /// What a user's function has failed with.
    fn failure(&mut self) -> Result<()> {
        Ok(())
    }

    /// The column itself, for [`same`].
    fn as_any(&self) -> &dyn Any;

    /// All states, for a checkpoint.
    ///
    /// # Errors
    /// `Internal` if they cannot be encoded.
    fn save(&self) -> Result<Vec<u8>>;

    /// Takes over saved states.
    ///
    /// # Errors
    /// `Execution` if the bytes are not such states.
    fn restore(&mut self, bytes: &[u8]) -> Result<()>;
}

/// The other column of states as what it is.
///
/// # Panics
/// If it belongs to another aggregate: an operator keeps the columns of each of its aggregates apart.
pub fn same<A: 'static>(other: &dyn Accumulator) -> &A {
    other.as_any().downcast_ref().expect("states are combined with states of the same aggregate only")
}
