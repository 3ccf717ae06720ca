//! The matches of a pattern in the partitions of a table.
//!
//! Invariant: an operator sees whole partitions only, each row at the time of its number in its partition.

use crate::lower::pattern;
use datafusion::arrow::array::{
    ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StructArray, UInt32Array, UInt64Array,
    new_empty_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{concat_batches, take, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};
use datafusion::common::{DFSchema, Result, internal_err};
use std::ops::Range;
use std::sync::Arc;
use whimbrel_plan::{ROW_PATTERN, RowPattern, RowPatternFunction};
use whimbrel_temporal::operators::{MatchRecognize, Simultaneous};
use whimbrel_temporal::{Batch, INFINITY, Message, Operator, Other};

/// The column with the number of a row's partition.
const PARTITION: &str = "__partition";

/// Partitions are looked at together until they have so many rows.
const ROWS_TOGETHER: usize = 1 << 18;

/// Finds the matches of a pattern.
#[derive(Debug)]
pub(super) struct Partitions {
    pattern: RowPattern,
    /// The columns of the arguments, and the partition's.
    rows: DFSchema,
    result: FieldRef,
}

impl Partitions {
    /// Over arguments with these columns.
    ///
    /// # Errors
    /// `Plan` if two of them have one name.
    pub fn new(function: &RowPatternFunction, arguments: &[FieldRef]) -> Result<Partitions> {
        let arguments = function.rows(arguments)?;
        let partition = Arc::new(Field::new(PARTITION, DataType::Int64, false));
        let columns: Vec<FieldRef> = arguments.fields().iter().cloned().chain([partition]).collect();
        let rows = DFSchema::try_from(Schema::new(columns))?;
        Ok(Partitions { pattern: function.pattern.clone(), rows, result: function.result(ROW_PATTERN) })
    }

    /// For each row the list of the matches that end there. `partitions` are the places of their rows.
    ///
    /// # Errors
    /// Those of the pattern's expressions.
    pub fn matches(&self, arguments: &[ArrayRef], partitions: &[Range<usize>]) -> Result<ArrayRef> {
        let mut lengths = vec![0; partitions.last().map_or(0, |last| last.end)];
        let mut found = Vec::new();
        let mut rest = partitions;
        while !rest.is_empty() {
            let begin = rest[0].start;
            let many = rest.iter().take_while(|partition| partition.start < begin + ROWS_TOGETHER).count();
            let (together, others) = rest.split_at(many);
            found.extend(self.find(arguments, together, &mut lengths)?);
            rest = others;
        }
        let DataType::List(item) = self.result.data_type() else {
            return internal_err!("the matches of a row are a list");
        };
        let matches = match found.first() {
            None => new_empty_array(item.data_type()),
            Some(first) => {
                let matches = StructArray::from(concat_batches(&first.schema(), &found)?);
                datafusion::arrow::compute::cast(&matches, item.data_type())?
            }
        };
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(item),
            OffsetBuffer::from_lengths(lengths),
            matches,
            None,
        )?))
    }

    /// The matches of some partitions, in the order of the rows where they end, which count them.
    fn find(
        &self,
        arguments: &[ArrayRef],
        partitions: &[Range<usize>],
        lengths: &mut [usize],
    ) -> Result<Option<RecordBatch>> {
        let key = self.rows.fields().len() - 1;
        // No two rows of a partition have one number.
        let pattern = pattern::row_pattern(&self.pattern, &self.rows, vec![key], Simultaneous::Ordered)?;
        let mut operator = MatchRecognize::try_new(pattern, self.rows.inner())?;
        let batch = in_turns(self.rows.inner(), arguments, partitions)?;
        let mut messages = Vec::new();
        operator.push(0, Message::Batch(batch), &mut messages)?;
        operator.push(0, Message::Punctuation(INFINITY), &mut messages)?;
        let (mut ends, mut batches) = (Vec::new(), Vec::new());
        for message in messages {
            if let Message::Batch(batch) = message {
                let partition = batch.rows.column(0).as_primitive::<Int64Type>();
                let end = |(number, time): (&i64, &i64)| partitions[*number as usize].start + *time as usize;
                ends.extend(partition.values().iter().zip(batch.sync.iter()).map(end));
                batches.push(batch.rows);
            }
        }
        if batches.is_empty() {
            return Ok(None);
        }
        ends.iter().for_each(|end| lengths[*end] += 1);
        let matches = concat_batches(operator.schema(), &batches)?;
        let without_key: Vec<usize> = (1..matches.num_columns()).collect();
        let mut order: Vec<u32> = (0..ends.len() as u32).collect();
        order.sort_by_key(|place| ends[*place as usize]);
        Ok(Some(take_record_batch(&matches.project(&without_key)?, &UInt32Array::from(order))?))
    }
}

/// The first rows of all partitions, then the second ones, and so on.
fn in_turns(schema: &SchemaRef, arguments: &[ArrayRef], partitions: &[Range<usize>]) -> Result<Batch> {
    let longest = partitions.iter().map(|partition| partition.len()).max().unwrap_or(0);
    let rows = partitions.iter().map(|partition| partition.len()).sum();
    let (mut places, mut times) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let mut numbers = Vec::with_capacity(rows);
    // Those that have rows left.
    let mut open: Vec<(i64, &Range<usize>)> = (0..).zip(partitions).collect();
    for turn in 0..longest {
        open.retain(|(_, partition)| partition.len() > turn);
        for (number, partition) in &open {
            places.push((partition.start + turn) as u64);
            numbers.push(*number);
            times.push(turn as i64);
        }
    }
    let places = UInt64Array::from(places);
    let taken = arguments.iter().map(|column| Ok(take(column, &places, None)?));
    let mut columns = taken.collect::<Result<Vec<_>>>()?;
    columns.push(Arc::new(Int64Array::from(numbers)));
    let rows = RecordBatch::try_new(Arc::clone(schema), columns)?;
    Ok(Batch::new(times.into(), Other::After(1), rows))
}
