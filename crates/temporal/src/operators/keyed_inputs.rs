//! What operators with two inputs have in common: the inputs are merged in the order of time, the keys of
//! both are numbered together, and rows are handed to the operator's state instant by instant.
//!
//! Invariant: the state's time never goes back, and every row arrives at its present.

use crate::batch::{Batch, Message};
use crate::groups::Groups;
use crate::key::Key;
use crate::merge::{SavedMerge, TimeMerge};
use crate::operators::runs::runs;
use crate::synopsis::RowRef;
use crate::time::{Kind, Time};
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::common::Result;

/// Two inputs with keys.
#[derive(Debug)]
pub(crate) struct KeyedInputs {
    keys: [Vec<usize>; 2],
    nulls_equal: bool,
    merge: TimeMerge,
    /// None: no row has come yet.
    groups: Option<Groups>,
    numbers: Vec<u32>,
}

/// The inputs of a checkpoint.
pub(crate) type SavedInputs = (SavedMerge, Option<Groups>);

/// A row that has come.
pub(crate) struct Arrival<'a> {
    pub side: usize,
    pub batch: &'a Batch,
    pub row: usize,
    /// The number of its key.
    pub group: u32,
    /// Where the state keeps it, if it does.
    pub place: RowRef,
    /// Whether its key equals others: one with a null may equal nothing.
    pub matches: bool,
}

impl Arrival<'_> {
    pub fn other(&self) -> Time {
        self.batch.other_at(self.row)
    }

    pub fn kind(&self) -> Kind {
        self.batch.kind_at(self.row)
    }
}

/// What an operator makes of the rows of both sides.
pub(crate) trait Pairing {
    /// Keeps a batch whose rows may be inserted next.
    fn keep(&mut self, side: usize, rows: &RecordBatch) -> u32;

    /// Makes room for so many groups.
    fn grow(&mut self, _groups: usize) {}

    /// Takes in a row at the present instant.
    fn arrive(&mut self, row: Arrival);

    /// All rows of a batch that belong to the present instant have arrived.
    fn arrived(&mut self) {}

    /// Moves time to `time`, and forgets the groups that have lost their last row by then.
    fn advance(&mut self, time: Time, groups: &mut Groups);

    /// Emits what follows from what has happened before the present.
    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()>;
}

impl KeyedInputs {
    /// A row's key are these columns of its side.
    pub fn new(left_key: Vec<usize>, right_key: Vec<usize>, merge: TimeMerge) -> KeyedInputs {
        KeyedInputs {
            keys: [left_key, right_key],
            nulls_equal: false,
            merge,
            groups: None,
            numbers: Vec::new(),
        }
    }

    /// The same, but a null equals a null.
    pub fn nulls_equal(self) -> KeyedInputs {
        KeyedInputs { nulls_equal: true, ..self }
    }

    /// Takes the next message of an input and appends to `out` what follows from it.
    pub fn push(
        &mut self,
        state: &mut impl Pairing,
        input: usize,
        message: Message,
        out: &mut Vec<Message>,
    ) -> Result<()> {
        self.merge.push(input, message);
        while let Some((side, message)) = self.merge.next() {
            match message {
                Message::Batch(batch) => self.batch(state, side, batch)?,
                Message::Punctuation(time) => {
                    if let Some(groups) = &mut self.groups {
                        state.advance(time, groups);
                    }
                    state.flush(out)?;
                    out.push(Message::Punctuation(time));
                }
            }
        }
        state.flush(out)
    }

    /// Hands rows of one side to the state, instant by instant.
    fn batch(&mut self, state: &mut impl Pairing, side: usize, batch: Batch) -> Result<()> {
        let mut batch = batch.compact()?;
        let columns = &self.keys[side];
        let key = batch.key(columns)?;
        let nulls = if self.nulls_equal { None } else { Key::nulls(&batch.rows, columns) };
        let groups = self.groups.get_or_insert_with(|| {
            let data_type = |column: &usize| batch.rows.column(*column).data_type().clone();
            Groups::new(&columns.iter().map(data_type).collect::<Vec<DataType>>())
        });
        let kept = state.keep(side, &batch.rows);
        for run in runs(&batch.sync) {
            state.advance(batch.sync[run.start], groups);
            self.numbers.clear();
            groups.intern(&key, run.clone(), &mut self.numbers)?;
            state.grow(groups.capacity());
            for (row, &group) in run.zip(&self.numbers) {
                let matches = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                let place = (kept, row as u32);
                state.arrive(Arrival { side, batch: &batch, row, group, place, matches });
            }
            state.arrived();
        }
        Ok(())
    }

    /// What waits and the numbers of keys, for a checkpoint.
    pub fn save(&self) -> Result<SavedInputs> {
        Ok((self.merge.save()?, self.groups.clone()))
    }

    /// Takes over the inputs of a checkpoint.
    pub fn restore(&mut self, (merge, groups): SavedInputs) -> Result<()> {
        self.merge = TimeMerge::restore(merge)?;
        self.groups = groups;
        Ok(())
    }
}
