//! The last snapshot: the rows that are alive when the stream has ended.
//!
//! Invariants: `alive[g]` is how many rows with the columns of group `g` have started and not ended; a group
//! without any is forgotten. Intervals end before the stream does, so they are in no last snapshot.

use crate::batch::{Batch, Message, Other};
use crate::groups::{Groups, KeyColumns};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::runs::runs;
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;

/// Hands out what is alive at the end, and nothing before.
pub struct LastSnapshot {
    schema: SchemaRef,
    types: Vec<DataType>,
    groups: Groups,
    alive: Vec<i64>,
    now: Time,
}

impl LastSnapshot {
    /// Over a stream of these columns.
    pub fn new(schema: SchemaRef) -> LastSnapshot {
        let types: Vec<DataType> = schema.fields().iter().map(|f| f.data_type().clone()).collect();
        LastSnapshot { groups: Groups::new(&types), types, schema, alive: Vec::new(), now: BEGINNING }
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let mut batch = batch.compact()?;
        let key = batch.identity()?;
        let mut numbers = Vec::new();
        for run in runs(&batch.sync) {
            self.now = batch.sync[run.start];
            numbers.clear();
            self.groups.intern(&key, run.clone(), &mut numbers)?;
            self.alive.resize(self.groups.capacity().max(self.alive.len()), 0);
            for (row, &group) in run.zip(&numbers) {
                self.alive[group as usize] += match batch.kind_at(row) {
                    Kind::Start => 1,
                    Kind::End => -1,
                    Kind::Interval => 0,
                };
            }
            for &group in &numbers {
                if self.alive[group as usize] == 0 {
                    self.groups.remove(group);
                }
            }
        }
        Ok(())
    }

    /// The stream has ended: what is alive comes out as start edges, at the time of the last row that came.
    fn finish(&mut self, out: &mut Vec<Message>) -> Result<()> {
        let times = |(group, alive): (usize, &i64)| vec![group as u32; (*alive).max(0) as usize];
        let groups: Vec<u32> = self.alive.iter().enumerate().flat_map(times).collect();
        if groups.is_empty() {
            return Ok(());
        }
        let mut keys = KeyColumns::new(&self.types);
        self.groups.append(&groups, &mut keys);
        let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
        let columns = keys.finish(&self.types)?;
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        out.push(Message::Batch(Batch::new(vec![self.now; groups.len()].into(), Other::Open, rows)));
        self.alive.clear();
        self.groups.clear();
        Ok(())
    }
}

impl Operator for LastSnapshot {
    fn held(&self) -> Held {
        Held::saved(self.alive.iter().sum::<i64>() as usize, None, self.save())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch),
            Message::Punctuation(time) => {
                if time == INFINITY {
                    self.finish(out)?;
                }
                out.push(Message::Punctuation(time));
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(&self.groups, &self.alive, self.now))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        (self.groups, self.alive, self.now) = decode(state)?;
        Ok(())
    }
}
