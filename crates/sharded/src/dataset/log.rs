//! Shards that can be read again: what a job that survives its process needs of a source.
//!
//! The rows of such a shard are cut into *slices* as they come. A slice is named by bytes, which are
//! kept, and whoever has these bytes reads the same rows again, in the same batches. So a job that is
//! begun again gets its input cut at the same places.
//!
//! A bounded dataset is cut by its batches, which come in the same order whenever it is read.

use super::Reader;
use crate::relation::always;
use datafusion::common::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use whimbrel_temporal::{Message, Time};

/// The next part of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// More rows; the bytes name them.
    Slice(Vec<u8>),
    /// Nothing new has come.
    Nothing,
    /// Nothing will come any more.
    End,
}

/// Cuts a shard into slices.
pub trait ShardLog: Send {
    /// Cuts off what has come since the last slice, about as much as memory holds well. It does not wait.
    ///
    /// # Errors
    /// `Execution` if the shard cannot be read any more, or was changed.
    fn cut(&mut self) -> Result<Cut>;

    /// The position behind the last slice.
    ///
    /// # Errors
    /// `Internal` if it cannot be encoded.
    fn position(&self) -> Result<Vec<u8>>;

    /// Goes on behind a position, or at the beginning.
    ///
    /// # Errors
    /// `Execution` if the shard does not have that position any more.
    fn seek(&mut self, position: Option<&[u8]>) -> Result<()>;

    /// Takes note of the latest time that was read of the shard, wherever it is read.
    fn note_time(&mut self, _time: Time) {}

    /// Goes on behind a slice that was cut before.
    ///
    /// # Errors
    /// As [`seek`](ShardLog::seek).
    fn skip(&mut self, slice: &[u8]) -> Result<()>;
}

/// A part of a slice.
pub enum Part {
    /// Rows, or a promise about time.
    Message(Message),
    /// The end of the shard.
    End,
}

/// Reads slices of a shard, in their order.
pub trait SliceReader: Send {
    /// Begins a slice.
    ///
    /// # Errors
    /// `Execution` if its rows are gone or were changed.
    fn begin(&mut self, slice: &[u8]) -> Result<()>;

    /// The latest time of the rows that were read so far, if anybody needs it.
    fn latest(&self) -> Option<Time> {
        None
    }

    /// The next part of the slice; none at its end.
    ///
    /// # Errors
    /// As [`begin`](SliceReader::begin).
    fn next(&mut self) -> Result<Option<Part>>;
}

/// A shard that can be read again.
pub struct ReplayableShard {
    /// Cuts it.
    pub log: Box<dyn ShardLog>,
    /// Reads what was cut.
    pub reader: Box<dyn SliceReader>,
}

/// How many batches of a bounded dataset are a slice.
const SLICE_BATCHES: u64 = 16;

impl ReplayableShard {
    /// The shard of a bounded dataset.
    pub fn of_reader(reader: Box<dyn Reader>) -> ReplayableShard {
        let ended = Arc::<AtomicBool>::default();
        let log = BatchLog { next: 0, ended: Arc::clone(&ended) };
        let reader = BatchReader { reader, at: 0, first: 0, left: 0, ended };
        ReplayableShard { log: Box::new(log), reader: Box::new(reader) }
    }
}

/// A slice of a bounded dataset.
#[derive(Serialize, Deserialize)]
struct Batches {
    first: u64,
    count: u64,
}

/// Cuts a bounded dataset, of which it knows the end only from the reader.
struct BatchLog {
    next: u64,
    ended: Arc<AtomicBool>,
}

impl ShardLog for BatchLog {
    fn cut(&mut self) -> Result<Cut> {
        if self.ended.load(Ordering::Acquire) {
            return Ok(Cut::End);
        }
        let slice = Batches { first: self.next, count: SLICE_BATCHES };
        self.next += SLICE_BATCHES;
        Ok(Cut::Slice(encode(&slice)?))
    }

    fn position(&self) -> Result<Vec<u8>> {
        encode(&self.next)
    }

    fn seek(&mut self, position: Option<&[u8]>) -> Result<()> {
        self.next = position.map_or(Ok(0), decode)?;
        Ok(())
    }

    fn skip(&mut self, slice: &[u8]) -> Result<()> {
        let Batches { first, count } = decode(slice)?;
        self.next = first + count;
        Ok(())
    }
}

/// Reads a bounded dataset by its batches.
struct BatchReader {
    reader: Box<dyn Reader>,
    /// The number of the batch that the reader gives next.
    at: u64,
    first: u64,
    left: u64,
    ended: Arc<AtomicBool>,
}

impl SliceReader for BatchReader {
    fn begin(&mut self, slice: &[u8]) -> Result<()> {
        let Batches { first, count } = decode(slice)?;
        (self.first, self.left) = (first, count);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Part>> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            let Some(rows) = self.reader.next()? else {
                self.left = 0;
                self.ended.store(true, Ordering::Release);
                return Ok(Some(Part::End));
            };
            self.at += 1;
            // A job that was begun again has seen the batches before its slice.
            if self.at > self.first {
                self.left -= 1;
                return Ok(Some(Part::Message(always(rows))));
            }
        }
    }
}

/// A position or a slice as bytes.
pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|error| DataFusionError::Internal(error.to_string()))
}

/// The position or the slice of these bytes.
pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    let damaged = |error| DataFusionError::Execution(format!("a position in a table is damaged: {error}"));
    postcard::from_bytes(bytes).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
    use datafusion::arrow::datatypes::Int64Type;

    struct Numbers(std::ops::Range<i64>);

    impl Reader for Numbers {
        fn next(&mut self) -> Result<Option<RecordBatch>> {
            let number = self.0.next().map(|n| Arc::new(Int64Array::from(vec![n])) as _);
            Ok(number.map(|n| RecordBatch::try_from_iter([("n", n)])).transpose()?)
        }
    }

    /// The numbers of a slice, and whether it has the end of the shard.
    fn read(reader: &mut dyn SliceReader, slice: &[u8]) -> (Vec<i64>, bool) {
        reader.begin(slice).unwrap();
        let (mut numbers, mut ended) = (vec![], false);
        while let Some(part) = reader.next().unwrap() {
            match part {
                Part::Message(Message::Batch(batch)) => {
                    numbers.push(batch.rows.column(0).as_primitive::<Int64Type>().value(0));
                }
                Part::Message(_) => panic!("a table has no punctuations"),
                Part::End => ended = true,
            }
        }
        (numbers, ended)
    }

    #[test]
    fn a_table_is_cut_again_at_the_same_places() {
        let open = || ReplayableShard::of_reader(Box::new(Numbers(0..40)));
        let mut shard = open();
        let mut slices = Vec::new();
        let mut all = Vec::new();
        while let Cut::Slice(slice) = shard.log.cut().unwrap() {
            let (numbers, ended) = read(shard.reader.as_mut(), &slice);
            all.extend(numbers.clone());
            assert_eq!(ended, numbers.last() == Some(&39));
            slices.push((slice, numbers, shard.log.position().unwrap()));
        }
        assert_eq!(all, (0..40).collect::<Vec<_>>());
        for resumed in 0..slices.len() {
            let mut shard = open();
            if let Some(before) = resumed.checked_sub(1) {
                shard.log.seek(Some(&slices[before].2)).unwrap();
            }
            for (slice, numbers, _) in &slices[resumed..] {
                assert_eq!(shard.log.cut().unwrap(), Cut::Slice(slice.clone()));
                assert_eq!(&read(shard.reader.as_mut(), slice).0, numbers);
            }
        }
    }
}
