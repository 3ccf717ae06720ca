//! The combiner: a first step of an aggregate, before its rows move to where their groups are (quill.txt
//! Fig. 1 c).
//!
//! Rows come out that, aggregated once more, give what the rows that came in would have given: counts and
//! sums to be summed, minima and maxima to be taken again. So a group may come out as one row or as
//! several, and where putting rows together hardly makes them fewer, every row goes on by itself, as its
//! own small aggregate.
//!
//! Invariants: rows are put together only with rows of the same instant; the choice depends on the rows
//! alone, so that a program that is run again does the same.

use super::calls::{AggregateCall, Plan};
use super::function::AggregateFunction;
use super::tumbling::Tumbling;
use crate::batch::{Batch, Message};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::{cast, is_not_null, not, nullif, prep_null_mask_filter};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};
use serde_bytes::ByteBuf;
use std::sync::Arc;

/// Rows that are watched before it is decided.
const SAMPLE: usize = 100_000;
/// For how many samples a decision not to combine holds: keys may change.
const DECISION_SAMPLES: usize = 32;

/// See the module.
pub struct Combine {
    plan: Plan,
    grouped: Tumbling,
    /// Rows that came in and went out of `grouped` since the sample began.
    rows_in: usize,
    rows_out: usize,
    /// How many of the next rows go on by themselves.
    uncombined: usize,
    ones: ArrayRef,
}

impl Combine {
    /// Combines rows that live `size` ticks and start together, or not at all at the same time.
    ///
    /// # Errors
    /// `Plan` if one of the aggregates cannot be put together from parts, or does not take its argument's
    /// type.
    pub fn new(input: SchemaRef, key: Vec<usize>, calls: Vec<AggregateCall>, size: i64) -> Result<Combine> {
        if let Some(call) = calls.iter().find(|c| !combines(&c.function)) {
            return plan_err!("{} is not put together from parts", call.function);
        }
        let plan = Plan::new(input, key, calls)?;
        let grouped = Tumbling::new(plan.clone(), Some(size))?;
        let ones = Arc::new(Int64Array::from(Vec::<i64>::new()));
        Ok(Combine { plan, grouped, rows_in: 0, rows_out: 0, uncombined: 0, ones })
    }

    /// The columns that come out: the key's, then one for each call.
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.schema
    }

    /// Combines a batch, or lets its rows go on. After a sample it is decided: where more than half as
    /// many rows came out as came in, the next rows are not combined.
    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let rows = batch.len();
        if self.uncombined > 0 {
            self.uncombined = self.uncombined.saturating_sub(rows);
            out.push(Message::Batch(self.each(batch.compact()?)?));
            return Ok(());
        }
        let first = out.len();
        self.grouped.push(0, Message::Batch(batch), out)?;
        self.rows_in += rows;
        self.rows_out += out[first..].iter().map(rows_of).sum::<usize>();
        if self.rows_in >= SAMPLE {
            // The rows of the present instant will come out too.
            if (self.rows_out + self.grouped.groups()) * 2 > self.rows_in {
                self.uncombined = SAMPLE * DECISION_SAMPLES;
                self.grouped.drain(out)?;
            }
            (self.rows_in, self.rows_out) = (0, 0);
        }
        Ok(())
    }

    /// Every row as the aggregate of itself.
    fn each(&mut self, batch: Batch) -> Result<Batch> {
        let inputs = self.plan.evaluate(&batch)?;
        let mut columns: Vec<ArrayRef> =
            self.plan.key.iter().map(|&k| batch.rows.column(k).clone()).collect();
        let key: Vec<usize> = (0..columns.len()).collect();
        let ones = self.ones(batch.len());
        for (call, input) in self.plan.calls.iter().zip(inputs) {
            let to = self.plan.schema.field(columns.len()).data_type();
            let filter = input.filter.as_ref().map(prep_null_mask_filter);
            let column = match (&call.function, input.argument) {
                (AggregateFunction::Count, argument) => {
                    let valid = argument.filter(|a| a.is_nullable()).map(|a| is_not_null(&a)).transpose()?;
                    match (valid, filter) {
                        (None, None) => ones.clone(),
                        (Some(valid), Some(filter)) => {
                            cast(&BooleanArray::new(valid.values() & filter.values(), None), to)?
                        }
                        (Some(one), None) | (None, Some(one)) => cast(&one, to)?,
                    }
                }
                (_, Some(argument)) => {
                    let value = cast(&argument, to)?;
                    filter.map_or(Ok(value.clone()), |filter| nullif(&value, &not(&filter)?))?
                }
                (function, None) => return plan_err!("{function} needs an argument"),
            };
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
        let rows = RecordBatch::try_new_with_options(self.plan.schema.clone(), columns, &options)?;
        let carried = batch.key_columns() == Some(&self.plan.key);
        Ok(batch.with_rows(rows, carried.then_some(key)))
    }

    /// A column of ones; batches share its memory.
    fn ones(&mut self, rows: usize) -> ArrayRef {
        if self.ones.len() < rows {
            self.ones = Arc::new(Int64Array::from(vec![1; rows]));
        }
        self.ones.slice(0, rows)
    }
}

/// Whether the aggregate of a whole follows exactly from those of its parts.
fn combines(function: &AggregateFunction) -> bool {
    use AggregateFunction::*;
    matches!(function, Count | Sum | Min | Max)
}

fn rows_of(message: &Message) -> usize {
    match message {
        Message::Batch(batch) => batch.len(),
        Message::Punctuation(_) => 0,
    }
}

impl Operator for Combine {
    fn held(&self) -> Held {
        self.grouped.held()
    }

    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out),
            punctuation => {
                let first = out.len();
                self.grouped.push(input, punctuation, out)?;
                self.rows_out += out[first..].iter().map(rows_of).sum::<usize>();
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(ByteBuf::from(self.grouped.save()?), self.rows_in, self.rows_out, self.uncombined))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let grouped: Vec<u8>;
        (grouped, self.rows_in, self.rows_out, self.uncombined) = decode(state)?;
        self.grouped.restore(&grouped)
    }
}
