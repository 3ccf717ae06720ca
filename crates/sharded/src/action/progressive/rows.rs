//! The rows of a relation that changes in several shards, part by part.
//!
//! Changes are applied when all shards have come past their part: the rows are always those of the query over
//! whole parts.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{HashMap, Result};
use std::collections::VecDeque;
use whimbrel_temporal::{BEGINNING, Batch, Message, Time};

/// The current rows, and the changes that wait for other shards.
pub(super) struct Rows {
    /// The columns, without the one that says what happens to a row.
    schema: SchemaRef,
    converter: RowConverter,
    /// How often each row is there, by its bytes.
    counts: HashMap<Vec<u8>, i64>,
    shards: Vec<ShardChanges>,
    /// All changes before this part were applied.
    frontier: Time,
}

/// The changes of a shard that were not applied yet, in order of time.
struct ShardChanges {
    waiting: VecDeque<Batch>,
    frontier: Time,
}

impl Rows {
    /// No rows of these columns, which change in so many shards.
    ///
    /// # Errors
    /// `ArrowError` if rows of a type cannot be compared.
    pub fn new(schema: SchemaRef, shards: usize) -> Result<Rows> {
        let fields = schema.fields().iter().map(|field| SortField::new(field.data_type().clone()));
        let converter = RowConverter::new(fields.collect())?;
        let shard = || ShardChanges { waiting: VecDeque::new(), frontier: BEGINNING };
        let shards = std::iter::repeat_with(shard).take(shards).collect();
        Ok(Rows { schema, converter, counts: HashMap::new(), shards, frontier: BEGINNING })
    }

    /// Takes the next message of a shard; the part that all shards have come to, if that is a later one now.
    ///
    /// # Errors
    /// `ArrowError` if the changes have other columns.
    pub fn push(&mut self, shard: usize, message: Message) -> Result<Option<Time>> {
        match message {
            Message::Batch(batch) => {
                self.shards[shard].waiting.push_back(batch.compact()?);
                return Ok(None);
            }
            Message::Punctuation(time) => {
                let frontier = &mut self.shards[shard].frontier;
                *frontier = time.max(*frontier);
            }
        }
        let frontier = self.shards.iter().map(|shard| shard.frontier).min().unwrap_or(self.frontier);
        if frontier <= self.frontier {
            return Ok(None);
        }
        self.frontier = frontier;
        let due: Vec<Batch> = self.shards.iter_mut().flat_map(|shard| shard.take_before(frontier)).collect();
        due.iter().try_for_each(|batch| self.apply(&batch.rows))?;
        Ok(Some(frontier))
    }

    /// Applies changes: the first column says what happens to the rows that the others make up.
    fn apply(&mut self, changes: &RecordBatch) -> Result<()> {
        let (change, columns) = (changes.column(0).as_primitive::<Int64Type>(), &changes.columns()[1..]);
        let rows = self.converter.convert_columns(columns)?;
        for (place, change) in change.values().iter().enumerate() {
            let row = rows.row(place);
            let count = self.counts.entry_ref(row.as_ref()).or_insert(0);
            *count += change;
            if *count == 0 {
                self.counts.remove(row.as_ref());
            }
        }
        Ok(())
    }

    /// A copy of the current rows, in no particular order.
    ///
    /// # Errors
    /// `ArrowError` if they do not fit into one batch.
    pub fn snapshot(&self) -> Result<RecordBatch> {
        let parser = self.converter.parser();
        let repeated = self.counts.iter().flat_map(|(row, count)| {
            let count = usize::try_from(*count).unwrap_or(0);
            std::iter::repeat_n(row, count)
        });
        let rows: Vec<_> = repeated.map(|row| parser.parse(row)).collect();
        let count = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let columns = self.converter.convert_rows(rows)?;
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &count)?)
    }
}

impl ShardChanges {
    /// Takes the changes before an instant.
    fn take_before(&mut self, frontier: Time) -> Vec<Batch> {
        let mut due = Vec::new();
        while let Some(batch) = self.waiting.pop_front() {
            let before = batch.sync.partition_point(|time| *time < frontier);
            if before == batch.len() {
                due.push(batch);
                continue;
            }
            if before > 0 {
                due.push(batch.slice(0, before));
            }
            self.waiting.push_front(batch.slice(before, batch.len() - before));
            break;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use std::sync::Arc;
    use whimbrel_temporal::{INFINITY, Other};

    fn changes(rows: &[(Time, i64, i64)]) -> Message {
        let column = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let change = column(rows.iter().map(|row| row.1).collect());
        let value = column(rows.iter().map(|row| row.2).collect());
        let batch = RecordBatch::try_from_iter([("change", change), ("n", value)]).unwrap();
        Message::Batch(Batch::new(rows.iter().map(|row| row.0).collect(), Other::Open, batch))
    }

    fn values(rows: &Rows) -> Vec<i64> {
        let snapshot = rows.snapshot().unwrap();
        let mut values = snapshot.column(0).as_primitive::<Int64Type>().values().to_vec();
        values.sort_unstable();
        values
    }

    #[test]
    fn changes_wait_for_the_slowest_shard() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let mut rows = Rows::new(schema, 2).unwrap();
        let push = |rows: &mut Rows, shard, message| rows.push(shard, message).unwrap();
        assert_eq!(push(&mut rows, 0, changes(&[(0, 1, 7), (0, 1, 7), (1, -1, 7), (2, 1, 9)])), None);
        assert_eq!(push(&mut rows, 0, Message::Punctuation(2)), None);
        assert!(values(&rows).is_empty());
        assert_eq!(push(&mut rows, 1, Message::Punctuation(1)), Some(1));
        assert_eq!(values(&rows), [7, 7]);
        assert_eq!(push(&mut rows, 1, changes(&[(1, 1, 8)])), None);
        assert_eq!(push(&mut rows, 1, Message::Punctuation(INFINITY)), Some(2));
        assert_eq!(values(&rows), [7, 8]);
        assert_eq!(push(&mut rows, 0, Message::Punctuation(INFINITY)), Some(INFINITY));
        assert_eq!(values(&rows), [7, 8, 9]);
    }
}
