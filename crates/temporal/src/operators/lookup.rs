//! The join of a stream with a table at rest, whose rows are alive always (trill.txt §5.2.3, §5.2.4).
//!
//! Nothing that comes later can change what a row of the stream is joined with. So the rows of the stream are
//! not kept, as those of [`Join`](super::Join) and [`Exists`](super::Exists) are: each is looked up as it
//! comes, and what comes out lives as long as it does.
//!
//! Invariant: rows of the stream wait until the table has ended, and come out in their order.

use crate::batch::{Batch, Message};
use crate::checkpoint::{SavedMessage, restore_rows, save_rows};
use crate::groups::{Groups, NO_GROUP};
use crate::held::{Held, memory_of};
use crate::key::Key;
use crate::operator::{Operator, decode, encode};
use crate::places;
use crate::time::INFINITY;
use arrow::array::{BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{Result, exec_err};
use std::sync::Arc;

/// About how many pairs come out at once.
const PAIRS: usize = 1 << 16;

/// Which input of a join is the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableSide {
    /// The first.
    Left,
    /// The second.
    Right,
}

/// Looks the rows of a stream up in a table by a key.
pub struct Lookup {
    table_side: TableSide,
    stream_key: Vec<usize>,
    table_key: Vec<usize>,
    nulls_equal: bool,
    found: Found,
    table: Table,
    /// What came of the stream before the table ended; none afterwards.
    waiting: Option<Vec<Message>>,
}

/// What comes out.
#[derive(Debug)]
enum Found {
    /// Pairs of a row of the stream and one of the table.
    Pairs { schema: SchemaRef },
    /// The rows of the stream with a partner in the table, or those without.
    Rows { with_partner: bool },
}

/// The rows of the table, by their key.
#[derive(Debug, Default)]
struct Table {
    /// None where only the keys matter. One batch, once the table has ended.
    rows: Vec<RecordBatch>,
    /// None: no row has come yet.
    groups: Option<Groups>,
    /// The group of each row; [`NO_GROUP`]: its key equals nothing.
    numbers: Vec<u32>,
    /// The places of the rows of group `g` are `places[starts[g]..starts[g + 1]]`.
    starts: Vec<u32>,
    places: Vec<u32>,
}

/// A table of a checkpoint: its rows, its groups and the group of each row.
type SavedTable = (Option<Vec<u8>>, Option<Groups>, Vec<u32>);

impl Lookup {
    /// Joins the rows of a stream with those of a table, where the key columns are equal pairwise. The result
    /// has the columns of the first input, then those of the second.
    pub fn pairs(
        left: &SchemaRef,
        right: &SchemaRef,
        left_key: Vec<usize>,
        right_key: Vec<usize>,
        table_side: TableSide,
    ) -> Lookup {
        let fields: Vec<_> = left.fields().iter().chain(right.fields()).cloned().collect();
        let (stream_key, table_key) = match table_side {
            TableSide::Left => (right_key, left_key),
            TableSide::Right => (left_key, right_key),
        };
        let found = Found::Pairs { schema: Arc::new(Schema::new(fields)) };
        Lookup::new(table_side, stream_key, table_key, found)
    }

    /// Keeps the rows of the first input that have a partner in the table that is the second one; with
    /// `negate`, those without.
    pub fn exists(negate: bool, stream_key: Vec<usize>, table_key: Vec<usize>) -> Lookup {
        Lookup::new(TableSide::Right, stream_key, table_key, Found::Rows { with_partner: !negate })
    }

    fn new(table_side: TableSide, stream_key: Vec<usize>, table_key: Vec<usize>, found: Found) -> Lookup {
        let (table, waiting) = (Table::default(), Some(Vec::new()));
        Lookup { table_side, stream_key, table_key, nulls_equal: false, found, table, waiting }
    }

    /// The same, but a null equals a null.
    pub fn nulls_equal(self) -> Lookup {
        Lookup { nulls_equal: true, ..self }
    }

    /// Takes in rows of the table.
    fn table_rows(&mut self, batch: Batch) -> Result<()> {
        let rows = batch.compact()?.rows;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let key = Key::of(&rows, &self.table_key)?;
        let nulls = self.nulls(&rows, &self.table_key);
        let keep = matches!(self.found, Found::Pairs { .. });
        self.table.add(rows, &key, nulls.as_ref(), keep)
    }

    /// Which rows have a key that equals nothing; none if all keys may equal others.
    fn nulls(&self, rows: &RecordBatch, key: &[usize]) -> Option<NullBuffer> {
        if self.nulls_equal { None } else { Key::nulls(rows, key) }
    }

    /// The table has ended: what has waited is looked up.
    fn table_ended(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.table.finish()?;
        let waiting = self.waiting.take().unwrap_or_default();
        waiting.into_iter().try_for_each(|message| self.stream_message(message, out))
    }

    /// Takes the next message of the stream.
    fn stream_message(&self, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Punctuation(_) => out.push(message),
            Message::Batch(batch) => self.look_up(batch.compact()?, out)?,
        }
        Ok(())
    }

    /// Looks the rows of a batch up.
    fn look_up(&self, mut batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let key = batch.key(&self.stream_key)?;
        let groups = self.table.find(&key, self.nulls(&batch.rows, &self.stream_key).as_ref());
        match &self.found {
            Found::Rows { with_partner } => {
                let kept: BooleanArray =
                    groups.iter().map(|group| Some((*group != NO_GROUP) == *with_partner)).collect();
                if kept.true_count() > 0 {
                    batch.retain(&kept);
                    out.push(Message::Batch(batch));
                }
            }
            Found::Pairs { schema } => {
                let mut pairs = Pairs::default();
                for (row, group) in groups.iter().enumerate() {
                    pairs.add(row, self.table.of(*group));
                    if pairs.partners.len() >= PAIRS {
                        out.push(self.paired(&batch, std::mem::take(&mut pairs), schema)?);
                    }
                }
                if !pairs.partners.is_empty() {
                    out.push(self.paired(&batch, pairs, schema)?);
                }
            }
        }
        Ok(())
    }

    /// The pairs as a batch.
    fn paired(&self, batch: &Batch, pairs: Pairs, schema: &SchemaRef) -> Result<Message> {
        // A row with one partner each, as a foreign key has: its columns stay where they are.
        let is_all =
            pairs.rows.len() == batch.len() && pairs.rows.iter().zip(0..).all(|(row, at)| *row == at);
        let stream = if is_all { batch.clone() } else { batch.take(&UInt32Array::from(pairs.rows))? };
        let partners = UInt32Array::from(pairs.partners);
        let table = self.table.rows.first().map(|rows| places::take(rows, &partners)).transpose()?;
        let table = table.as_ref().map_or(&[][..], |rows| rows.columns());
        let columns = match self.table_side {
            TableSide::Left => [table, stream.rows.columns()].concat(),
            TableSide::Right => [stream.rows.columns(), table].concat(),
        };
        let count = RecordBatchOptions::new().with_row_count(Some(stream.len()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &count)?;
        Ok(Message::Batch(stream.with_rows(rows, None)))
    }
}

/// Rows of a batch with their partners in the table.
#[derive(Default)]
struct Pairs {
    rows: Vec<u32>,
    partners: Vec<u32>,
}

impl Pairs {
    fn add(&mut self, row: usize, partners: &[u32]) {
        self.rows.extend(std::iter::repeat_n(row as u32, partners.len()));
        self.partners.extend_from_slice(partners);
    }
}

impl Table {
    /// Adds rows with this key; `keep`: they come out later.
    fn add(&mut self, rows: RecordBatch, key: &Key, nulls: Option<&NullBuffer>, keep: bool) -> Result<()> {
        let groups = self.groups.get_or_insert_with(|| {
            let data_type = |column: &usize| rows.column(*column).data_type().clone();
            Groups::new(&key.columns().iter().map(data_type).collect::<Vec<DataType>>())
        });
        let first = self.numbers.len();
        groups.intern(key, 0..rows.num_rows(), &mut self.numbers)?;
        if let Some(nulls) = nulls {
            exclude(&mut self.numbers[first..], nulls);
        }
        if keep {
            if u32::try_from(first + rows.num_rows()).is_err() {
                return exec_err!(
                    "a table of more than four thousand million rows in one shard; use more shards"
                );
            }
            self.rows.push(rows);
        } else {
            self.numbers.clear();
        }
        Ok(())
    }

    /// All rows are there: orders them by their groups.
    fn finish(&mut self) -> Result<()> {
        let Some(first) = self.rows.first() else { return Ok(()) };
        self.rows = vec![concat_batches(&first.schema(), &self.rows)?];
        let groups = self.groups.as_ref().map_or(0, Groups::capacity);
        let mut starts = vec![0; groups + 1];
        let numbered = || self.numbers.iter().zip(0..).filter(|(group, _)| **group != NO_GROUP);
        numbered().for_each(|(group, _)| starts[*group as usize + 1] += 1);
        for group in 0..groups {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        let mut places = vec![0; starts[groups] as usize];
        for (group, row) in numbered() {
            let place = &mut next[*group as usize];
            places[*place as usize] = row;
            *place += 1;
        }
        (self.starts, self.places) = (starts, places);
        Ok(())
    }

    /// The group of each row of a key; [`NO_GROUP`] if no row of the table has its key.
    fn find(&self, key: &Key, nulls: Option<&NullBuffer>) -> Vec<u32> {
        let rows = key.len();
        let Some(groups) = &self.groups else { return vec![NO_GROUP; rows] };
        let mut found = Vec::with_capacity(rows);
        groups.find(key, &mut found);
        if let Some(nulls) = nulls {
            exclude(&mut found, nulls);
        }
        found
    }

    /// The places of the rows of a group, in the order in which they came.
    fn of(&self, group: u32) -> &[u32] {
        match self.starts.get(group as usize..).unwrap_or_default() {
            [first, end, ..] => &self.places[*first as usize..*end as usize],
            _ => &[],
        }
    }

    fn save(&self) -> Result<SavedTable> {
        let rows = match self.rows.first() {
            Some(first) => Some(save_rows(&concat_batches(&first.schema(), &self.rows)?)?),
            None => None,
        };
        Ok((rows, self.groups.clone(), self.numbers.clone()))
    }

    fn restore((rows, groups, numbers): SavedTable) -> Result<Table> {
        let rows: Vec<RecordBatch> = rows.map(|rows| restore_rows(&rows)).transpose()?.into_iter().collect();
        if rows.iter().map(RecordBatch::num_rows).sum::<usize>() != numbers.len() {
            return exec_err!("the checkpoint has rows without keys, or the reverse; take a new one");
        }
        Ok(Table { rows, groups, numbers, ..Table::default() })
    }
}

/// Takes rows with a null in their key out of their groups.
fn exclude(groups: &mut [u32], nulls: &NullBuffer) {
    groups.iter_mut().zip(nulls).filter(|(_, valid)| !valid).for_each(|(group, _)| *group = NO_GROUP);
}

impl Operator for Lookup {
    fn held(&self) -> Held {
        let rows = match self.found {
            Found::Pairs { .. } => self.table.numbers.len(),
            Found::Rows { .. } => self.table.groups.as_ref().map_or(0, Groups::len),
        };
        let keys = self.table.groups.as_ref().map_or(0, Groups::memory);
        let table = Held { rows, bytes: keys + memory_of(&self.table.rows), oldest: None };
        let batches = self.waiting.iter().flatten().filter_map(|message| match message {
            Message::Batch(batch) => Some(batch),
            Message::Punctuation(_) => None,
        });
        table.and(Held::batches(batches))
    }

    fn inputs(&self) -> usize {
        2
    }

    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match (input == self.table_side as usize, message) {
            (true, Message::Batch(batch)) => self.table_rows(batch),
            (true, Message::Punctuation(INFINITY)) => self.table_ended(out),
            (true, Message::Punctuation(_)) => Ok(()),
            (false, message) => match &mut self.waiting {
                Some(waiting) => {
                    waiting.push(message);
                    Ok(())
                }
                None => self.stream_message(message, out),
            },
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        let saved = |waiting: &Vec<Message>| waiting.iter().map(SavedMessage::of).collect::<Result<Vec<_>>>();
        encode(&(self.table.save()?, self.waiting.as_ref().map(saved).transpose()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (table, waiting): (SavedTable, Option<Vec<SavedMessage>>) = decode(state)?;
        let restored = |waiting: Vec<SavedMessage>| {
            waiting.into_iter().map(SavedMessage::message).collect::<Result<Vec<_>>>()
        };
        self.table = Table::restore(table)?;
        self.waiting = waiting.map(restored).transpose()?;
        if self.waiting.is_none() {
            self.table.finish()?;
        }
        Ok(())
    }
}
