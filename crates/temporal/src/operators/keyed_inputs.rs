//! What operators with two inputs have in common: the inputs are merged in the order of time, the keys of
//! both are numbered together, and rows are handed to the operator's state instant by instant.
//!
//! Invariant: the state's time never goes back, and every row arrives at its present.

use crate::batch::{Batch, Message};
use crate::groups::{Groups, LingeringGroups};
use crate::held::Held;
use crate::key::Key;
use crate::merge::{SavedMerge, TimeMerge};
use crate::synopsis::{RowRef, Synopsis};
use crate::time::{Kind, Time};
use arrow::array::RecordBatch;
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use std::borrow::Borrow;
use std::sync::Arc;

/// Two inputs with keys.
#[derive(Debug)]
pub(crate) struct KeyedInputs {
    keys: [KeyColumns; 2],
    merge: TimeMerge<KeyedBatch>,
    /// None: no row has come yet.
    groups: Option<NumberedKeys>,
    /// The punctuation that follows what the state is about to emit.
    passed: Option<Time>,
}

/// How the rows of a side are told apart.
#[derive(Debug)]
struct KeyColumns {
    columns: Vec<usize>,
    nulls_equal: bool,
}

/// Rows that wait for their time, none of them absent, with what is known of all of them.
#[derive(Debug)]
struct KeyedBatch {
    batch: Batch,
    key: Arc<Key>,
    /// The rows whose keys equal nothing.
    nulls: Option<NullBuffer>,
    /// Where the state keeps the rows, once the first of them has come.
    place: Option<u32>,
    /// The groups of the next rows.
    numbers: Vec<u32>,
    /// The first row of which the group is not known yet.
    unknown: usize,
}

/// The groups of rows that are alive, and of some that wait.
#[derive(Debug)]
struct NumberedKeys {
    groups: LingeringGroups,
    /// How many rows wait of each group.
    waiting: Vec<u32>,
}

/// Of so many rows the groups are found together, so that memory is waited for once.
const AHEAD: usize = 64;

impl NumberedKeys {
    fn new(groups: Groups) -> NumberedKeys {
        NumberedKeys { waiting: vec![0; groups.capacity()], groups: LingeringGroups::new(groups) }
    }

    /// Finds the groups of the next rows of a batch.
    fn number(&mut self, rows: &mut KeyedBatch, state: &impl Pairing) -> Result<()> {
        let waiting = &self.waiting;
        self.groups.forget(|| {
            let is_empty = state.empty_groups();
            move |group| waiting[group as usize] == 0 && is_empty(group)
        });
        let next = rows.unknown..(rows.unknown + AHEAD).min(rows.batch.len());
        rows.unknown = next.end;
        rows.numbers.clear();
        self.groups.intern(&rows.key, next, &mut rows.numbers)?;
        self.waiting.resize(self.groups.capacity().max(self.waiting.len()), 0);
        rows.numbers.iter().for_each(|group| self.waiting[*group as usize] += 1);
        Ok(())
    }
}

impl Borrow<Batch> for KeyedBatch {
    fn borrow(&self) -> &Batch {
        &self.batch
    }
}

impl KeyColumns {
    /// Adds the keys to rows of which none is absent.
    fn of(&self, mut batch: Batch) -> Result<KeyedBatch> {
        let key = batch.key(&self.columns)?;
        let nulls = if self.nulls_equal { None } else { Key::nulls(&batch.rows, &self.columns) };
        Ok(KeyedBatch { batch, key, nulls, place: None, numbers: Vec::new(), unknown: 0 })
    }

    /// An empty table for keys of these rows.
    fn groups(&self, rows: &RecordBatch) -> NumberedKeys {
        let data_type = |column: &usize| rows.column(*column).data_type().clone();
        NumberedKeys::new(Groups::new(&self.columns.iter().map(data_type).collect::<Vec<DataType>>()))
    }
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

/// Keeps the rows of a batch, which stay until all of them have arrived.
fn keep(state: &mut impl Pairing, side: usize, rows: &RecordBatch) -> u32 {
    let Some(synopsis) = state.synopsis(side) else { return 0 };
    let place = synopsis.keep(rows.clone());
    synopsis.pin(place);
    place
}

/// What an operator makes of the rows of both sides.
pub(crate) trait Pairing {
    /// Where rows of a side are kept, if they are.
    fn synopsis(&mut self, side: usize) -> Option<&mut Synopsis>;

    /// Makes room for so many groups. Rows of these will come soon on this side.
    fn expect(&mut self, _side: usize, _groups: &[u32], _capacity: usize) {}

    /// Takes in a row at the present instant.
    fn arrive(&mut self, row: Arrival);

    /// All rows of a batch that belong to the present instant have arrived.
    fn arrived(&mut self) {}

    /// Moves time to `time`.
    fn advance(&mut self, time: Time);

    /// Tells whether nothing is known of a group at present.
    fn empty_groups(&self) -> impl Fn(u32) -> bool;

    /// Whether there is so much to emit that it should be, before more rows arrive.
    fn is_full(&self) -> bool {
        false
    }

    /// Emits what follows from what has happened before the present, or the first of it; whether more is
    /// left.
    fn flush(&mut self, out: &mut Vec<Message>) -> Result<bool>;
}

impl KeyedInputs {
    /// A row's key are these columns of its side.
    pub fn new(left_key: Vec<usize>, right_key: Vec<usize>) -> KeyedInputs {
        let keys = [left_key, right_key].map(|columns| KeyColumns { columns, nulls_equal: false });
        KeyedInputs { keys, merge: TimeMerge::of(2), groups: None, passed: None }
    }

    /// The same, but the order of the rows of an instant means nothing.
    pub fn eager(self) -> KeyedInputs {
        KeyedInputs { merge: self.merge.eager(), ..self }
    }

    /// The same, but a null equals a null.
    pub fn nulls_equal(self) -> KeyedInputs {
        KeyedInputs { keys: self.keys.map(|keys| KeyColumns { nulls_equal: true, ..keys }), ..self }
    }

    /// Takes the next message of an input and appends to `out` what follows from it, or the first of that.
    pub fn push(
        &mut self,
        state: &mut impl Pairing,
        input: usize,
        message: Message,
        out: &mut Vec<Message>,
    ) -> Result<()> {
        match message {
            Message::Batch(batch) => self.wait(input, batch)?,
            Message::Punctuation(time) => self.merge.punctuate(input, time),
        }
        self.proceed(state, out)
    }

    /// Appends more of what follows; nothing if there is no more.
    pub fn proceed(&mut self, state: &mut impl Pairing, out: &mut Vec<Message>) -> Result<()> {
        loop {
            if (self.passed.is_some() || state.is_full()) && state.flush(out)? {
                return Ok(());
            }
            out.extend(self.passed.take().map(Message::Punctuation));
            if let Some(side) = self.merge.first() {
                self.arrive(state, side)?;
            } else if let Some(time) = self.merge.punctuation() {
                state.advance(time);
                self.passed = Some(time);
            } else {
                return state.flush(out).map(|_| ());
            }
        }
    }

    /// Rows of an input wait for their time.
    fn wait(&mut self, input: usize, batch: Batch) -> Result<()> {
        // Sync times of absent rows are as good as any: they too bound what follows.
        let Some(&last) = batch.sync.last() else { return Ok(()) };
        self.merge.reach(input, last);
        let batch = batch.compact()?;
        if !batch.is_empty() {
            self.merge.wait(input, self.keys[input].of(batch)?);
        }
        Ok(())
    }

    /// Hands the rows of one side that are next of all to the state, instant by instant, until it is full.
    fn arrive(&mut self, state: &mut impl Pairing, side: usize) -> Result<()> {
        let KeyedInputs { keys, merge, groups, .. } = self;
        let mut stretch = merge.stretch(side);
        let rows = merge.front(side);
        let kept = *rows.place.get_or_insert_with(|| keep(state, side, &rows.batch.rows));
        let groups = groups.get_or_insert_with(|| keys[side].groups(&rows.batch.rows));
        let mut now = None;
        for row in stretch.clone() {
            let time = rows.batch.sync[row];
            if now != Some(time) {
                if now.is_some() {
                    state.arrived();
                    if state.is_full() {
                        stretch.end = row;
                        break;
                    }
                }
                state.advance(time);
                now = Some(time);
            }
            if row == rows.unknown {
                groups.number(rows, state)?;
                state.expect(side, &rows.numbers, groups.groups.capacity());
            }
            let group = rows.numbers[row + rows.numbers.len() - rows.unknown];
            groups.waiting[group as usize] -= 1;
            let matches = rows.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            state.arrive(Arrival {
                side,
                batch: &rows.batch,
                row,
                group,
                place: (kept, row as u32),
                matches,
            });
        }
        state.arrived();
        if merge.pass(side, stretch.end).is_some()
            && let Some(synopsis) = state.synopsis(side)
        {
            synopsis.unpin(kept);
        }
        Ok(())
    }

    /// The rows that wait, and the keys. What the state keeps of a batch already is counted there.
    pub fn held(&self) -> Held {
        let waiting = self.merge.held(|rows| rows.place.is_none());
        let keys = self.groups.as_ref().map_or(0, |keys| keys.groups.groups().memory());
        Held { bytes: waiting.bytes + keys, ..waiting }
    }

    /// What waits and the numbers of keys, for a checkpoint.
    pub fn save(&self) -> Result<SavedInputs> {
        Ok((self.merge.save()?, self.groups.as_ref().map(|keys| keys.groups.groups().clone())))
    }

    /// Takes over the inputs of a checkpoint.
    pub fn restore(&mut self, (merge, groups): SavedInputs) -> Result<()> {
        self.merge = TimeMerge::restore(merge, |input, batch| self.keys[input].of(batch))?;
        self.groups = groups.map(NumberedKeys::new);
        Ok(())
    }
}
