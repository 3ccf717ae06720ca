//! The messages of all shards as one table: its parts are made at the same time where there is enough to do.
//!
//! Invariant: the rows are those of one part; into how many it is cut changes only where batches end.

use super::form::Form;
use crate::merge::Gather;
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use whimbrel_temporal::{INFINITY, Message, Time};

/// So many rows of a table are a batch that needs no others.
const ENOUGH: usize = 8192;

/// So many rows of a result are worth a thread that makes a table of them.
const PART: usize = 1 << 17;

/// In which order the messages of shards become rows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Finish {
    /// Shard after shard.
    InTurn,
    /// In order of time.
    Merged,
    /// In order of time, and punctuations are rows too.
    MergedWithPunctuations,
}

/// The messages of each shard.
type Shards = Vec<Vec<Message>>;

impl Finish {
    /// The messages in at most so many parts, which follow one another.
    pub fn parts(self, shards: Shards, most: usize) -> Vec<Shards> {
        let size = shards.iter().flatten().map(rows).sum::<usize>().div_ceil(most).max(PART);
        self.parts_of(size, shards)
    }

    fn parts_of(self, size: usize, shards: Shards) -> Vec<Shards> {
        match self {
            Finish::InTurn => by_rows(size, shards),
            Finish::Merged => by_time(size, shards),
            // What a punctuation of one shard tells depends on those of all others before it.
            Finish::MergedWithPunctuations => vec![shards],
        }
    }

    /// The tables of a part.
    pub fn tables(self, form: &Form, shards: Shards, batch_rows: usize) -> Result<Vec<RecordBatch>> {
        let messages = match self {
            Finish::InTurn => shards.into_iter().flatten().collect(),
            Finish::Merged | Finish::MergedWithPunctuations => merge(shards, batch_rows)?,
        };
        let batches = tables(form, &messages)?;
        // What cannot be put together stays as it is.
        Ok(put_together(form.schema(), &batches).unwrap_or(batches))
    }
}

fn rows(message: &Message) -> usize {
    match message {
        Message::Batch(batch) => batch.len(),
        Message::Punctuation(_) => 0,
    }
}

/// Cuts where a part has `size` rows.
fn by_rows(size: usize, shards: Shards) -> Vec<Shards> {
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

/// Cuts all shards at the same instants, where a part has about `size` rows.
fn by_time(size: usize, shards: Shards) -> Vec<Shards> {
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

/// When the rows of a message begin, and how many they are.
fn first(message: &Message) -> Option<(Time, usize)> {
    match message {
        Message::Batch(batch) => batch.sync.first().map(|time| (*time, batch.len())),
        Message::Punctuation(_) => None,
    }
}

/// The rows before an instant, and the others.
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

/// The messages as tables.
pub(super) fn tables(form: &Form, messages: &[Message]) -> Result<Vec<RecordBatch>> {
    messages.iter().filter_map(|message| form.table(message).transpose()).collect()
}

/// The same rows, small batches put together: every batch costs those who read the table.
///
/// # Errors
/// If columns of their types cannot be put together.
fn put_together(schema: SchemaRef, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    if batches.len() < 2 {
        return Ok(batches.to_vec());
    }
    let mut rows = BatchCoalescer::new(schema, ENOUGH).with_biggest_coalesce_batch_size(Some(ENOUGH / 2));
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
        let in_turn = |shards: Shards| values(&shards.concat());
        let merged = |shards: Shards| values(&merge(shards, 3).unwrap());
        for size in 1..25 {
            let parts = |finish: Finish| finish.parts_of(size, shards()).into_iter();
            assert_eq!(parts(Finish::InTurn).flat_map(in_turn).collect::<Vec<_>>(), in_turn(shards()));
            assert_eq!(parts(Finish::Merged).flat_map(merged).collect::<Vec<_>>(), merged(shards()));
        }
        assert!(Finish::InTurn.parts_of(5, shards()).len() > 2);
        assert!(Finish::Merged.parts_of(5, shards()).len() > 2);
        assert_eq!(Finish::Merged.parts(shards(), 2).len(), 1, "few rows are not worth a thread");
    }
}
