//! Assembles the messages of all shards into one table, in parts that are made in parallel if there are
//! enough rows.
//!
//! Invariant: the number of parts changes the ends of batches only, not the rows or their order.

use super::table_format::TableFormat;
use crate::merge::Gather;
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use whimbrel_temporal::{INFINITY, Message, Time};

/// Smaller batches of a table are put together to batches of so many rows.
const TARGET_ROWS: usize = 8192;

/// So many rows are worth a thread of their own.
const MIN_PART: usize = 1 << 17;

/// The order of the rows of several shards.
#[derive(Debug, Clone, Copy)]
pub(super) enum ShardOrder {
    /// Shard after shard.
    Sequential,
    /// In order of time.
    ByTime,
    /// In order of time, with punctuations as rows.
    ByTimeWithPunctuations,
}

/// The messages of each shard.
type Shards = Vec<Vec<Message>>;

impl ShardOrder {
    /// Cuts the messages into at most `most` parts, the rows of which follow one another.
    pub fn parts(self, shards: Shards, most: usize) -> Vec<Shards> {
        let size = shards.iter().flatten().map(rows).sum::<usize>().div_ceil(most).max(MIN_PART);
        self.parts_of(size, shards)
    }

    /// Cuts the messages into parts of about `size` rows.
    fn parts_of(self, size: usize, shards: Shards) -> Vec<Shards> {
        match self {
            ShardOrder::Sequential => cut_by_rows(size, shards),
            ShardOrder::ByTime => cut_by_time(size, shards),
            // A punctuation of the result depends on those of all shards before it.
            ShardOrder::ByTimeWithPunctuations => vec![shards],
        }
    }

    /// The batches of a part.
    ///
    /// # Errors
    /// If the rows of shards cannot be merged.
    pub fn tables(self, format: &TableFormat, shards: Shards, batch_rows: usize) -> Result<Vec<RecordBatch>> {
        let messages = match self {
            ShardOrder::Sequential => shards.into_iter().flatten().collect(),
            ShardOrder::ByTime | ShardOrder::ByTimeWithPunctuations => merge(shards, batch_rows)?,
        };
        let batches = tables(format, &messages)?;
        // Types that cannot be concatenated stay as they are.
        Ok(coalesce_batches(format.schema(), &batches).unwrap_or(batches))
    }
}

/// How many rows a message has.
fn rows(message: &Message) -> usize {
    match message {
        Message::Batch(batch) => batch.len(),
        Message::Punctuation(_) => 0,
    }
}

/// Cuts the shards, one after the other, where a part has `size` rows.
fn cut_by_rows(size: usize, shards: Shards) -> Vec<Shards> {
    let (mut parts, mut part, mut full) = (Vec::new(), Vec::new(), 0);
    for message in shards.into_iter().flatten() {
        if full >= size {
            parts.push(vec![std::mem::take(&mut part)]);
            full = 0;
        }
        full += rows(&message);
        part.push(message);
    }
    parts.push(vec![part]);
    parts
}

/// Cuts all shards at the same instants, so that parts have about `size` rows.
fn cut_by_time(size: usize, shards: Shards) -> Vec<Shards> {
    let mut cuts: Vec<(Time, usize)> = shards.iter().flatten().filter_map(first).collect();
    cuts.sort_unstable();
    let mut full = 0;
    cuts.retain(|(_, rows)| {
        let cut = full >= size;
        full = if cut { *rows } else { full + rows };
        cut
    });
    let mut rest = shards;
    let mut parts = Vec::new();
    for (time, _) in cuts {
        let (part, after) = rest.into_iter().map(|messages| cut(messages, time)).unzip();
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

/// The time of the first row of a message, and its number of rows.
fn first(message: &Message) -> Option<(Time, usize)> {
    match message {
        Message::Batch(batch) => batch.sync.first().map(|time| (*time, batch.len())),
        Message::Punctuation(_) => None,
    }
}

/// The rows before an instant, and the rest.
fn cut(messages: Vec<Message>, time: Time) -> (Vec<Message>, Vec<Message>) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for message in messages {
        let Message::Batch(batch) = message else { continue };
        let rows = batch.sync.partition_point(|&sync| sync < time);
        let parts = [(&mut before, 0, rows), (&mut after, rows, batch.len() - rows)];
        for (part, first, rows) in parts.into_iter().filter(|(_, _, rows)| *rows > 0) {
            part.push(Message::Batch(batch.slice(first, rows)));
        }
    }
    (before, after)
}

/// Merges shards by time.
fn merge(shards: Shards, batch_rows: usize) -> Result<Vec<Message>> {
    let mut gather = Gather::new(shards.len(), batch_rows);
    let lanes = shards.len();
    for (lane, messages) in shards.into_iter().enumerate() {
        for message in messages {
            gather.push(lane, message)?;
        }
    }
    for lane in 0..lanes {
        gather.push(lane, Message::Punctuation(INFINITY))?;
    }
    Ok(gather.collect())
}

/// The messages as batches of a table.
///
/// # Errors
/// If the times of rows have no place in their type.
pub(super) fn tables(format: &TableFormat, messages: &[Message]) -> Result<Vec<RecordBatch>> {
    messages.iter().filter_map(|message| format.table(message).transpose()).collect()
}

/// Puts small batches together: every batch costs the readers of a table.
///
/// # Errors
/// If columns of these types cannot be concatenated.
fn coalesce_batches(schema: SchemaRef, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    if batches.len() < 2 {
        return Ok(batches.to_vec());
    }
    let mut rows =
        BatchCoalescer::new(schema, TARGET_ROWS).with_biggest_coalesce_batch_size(Some(TARGET_ROWS / 2));
    for batch in batches {
        rows.push_batch(batch.clone())?;
    }
    rows.finish_buffered_batch()?;
    Ok(std::iter::from_fn(|| rows.next_completed_batch()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{AsArray, Int64Array};
    use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use std::sync::Arc;
    use whimbrel_temporal::{Batch, Other};

    /// Batches of a shard: times, and values that tell each row.
    fn shard(number: i64, batches: &[&[i64]]) -> Vec<Message> {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]));
        let mut next = number * 1000..;
        let batch = |times: &&[i64]| {
            let values = Int64Array::from_iter_values(next.by_ref().take(times.len()));
            let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(values)]).unwrap();
            Message::Batch(Batch::new(times.to_vec().into(), Other::After(1), rows))
        };
        batches.iter().map(batch).collect()
    }

    fn shards() -> Shards {
        let mut shards = vec![
            shard(0, &[&[1, 1, 2, 5], &[5, 5, 9], &[9, 20]]),
            shard(1, &[&[5, 5, 5], &[5, 6, 7, 8, 9, 10, 11]]),
            shard(2, &[]),
            shard(3, &[&[1], &[2], &[3], &[30]]),
        ];
        shards[1].insert(1, Message::Punctuation(5));
        shards
    }

    fn values(messages: &[Message]) -> Vec<i64> {
        let batches = messages.iter().filter_map(|message| match message {
            Message::Batch(batch) => Some(batch.rows.column(0).as_primitive::<Int64Type>().values().to_vec()),
            Message::Punctuation(_) => None,
        });
        batches.flatten().collect()
    }

    #[test]
    fn parts_follow_one_another_as_the_whole_does() {
        let sequential = |shards: Shards| values(&shards.concat());
        let merged = |shards: Shards| values(&merge(shards, 3).unwrap());
        for size in 1..25 {
            let parts = |order: ShardOrder| order.parts_of(size, shards()).into_iter();
            assert_eq!(
                parts(ShardOrder::Sequential).flat_map(sequential).collect::<Vec<_>>(),
                sequential(shards())
            );
            assert_eq!(parts(ShardOrder::ByTime).flat_map(merged).collect::<Vec<_>>(), merged(shards()));
        }
        assert!(ShardOrder::Sequential.parts_of(5, shards()).len() > 2);
        assert!(ShardOrder::ByTime.parts_of(5, shards()).len() > 2);
        assert_eq!(ShardOrder::ByTime.parts(shards(), 2).len(), 1, "few rows are not worth a thread");
    }
}
