//! The object that a task writes: all partitions of its output, behind an index of them (starling.txt §3.2,
//! §4.2).
//!
//! A consumer that knows the index reads its partition with one request; one that starts before its producer
//! has ended reads the index first. Neighbours of the index are neighbours in the object, so a task that
//! combines partitions reads several of them with one request.
//!
//! ```text
//! magic, 4 bytes | number of partitions, 4 | attempt, 16 | end of each partition, 8 each | partitions
//! ```
//!
//! Numbers are little endian; ends count from the beginning of the object. A partition is a sequence of
//! frames: the length of the header, 4 bytes, that of the body, 4, the header, the body.

use bytes::{Buf, Bytes};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::common::{Result, exec_err, internal_err};
use object_store::PutPayload;
use std::ops::Range;
use whimbrel_sharded::relation::{always, is_always};
use whimbrel_sharded::runtime::{Frame, Item};
use whimbrel_temporal::Message;

const MAGIC: &[u8; 4] = b"WOB1";

/// The bytes before the ends of partitions.
const FIXED: usize = 24;

/// Batches of relations are joined up to so many rows: a partition for each of many consumers gets few rows
/// of each batch, and every frame has its own schema.
const JOINED_ROWS: usize = 16_384;

/// Names an attempt to run a task.
pub type AttemptId = u128;

/// How many bytes the index of so many partitions takes.
pub fn index_bytes(partitions: usize) -> u64 {
    (FIXED + 8 * partitions) as u64
}

/// The index of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// The attempt that wrote the object.
    pub attempt: AttemptId,
    /// Where each partition ends.
    ends: Vec<u64>,
}

impl Index {
    /// The index at the beginning of an object.
    ///
    /// # Errors
    /// `Execution` if the bytes are none.
    pub fn read(mut bytes: Bytes) -> Result<Index> {
        if bytes.len() < FIXED || &bytes[..4] != MAGIC {
            return exec_err!("an object of a query has no index");
        }
        bytes.advance(4);
        let (partitions, attempt) = (bytes.get_u32_le() as usize, bytes.get_u128_le());
        if bytes.len() < 8 * partitions {
            return exec_err!("an object of a query has an index that was cut off");
        }
        let ends: Vec<u64> = (0..partitions).map(|_| bytes.get_u64_le()).collect();
        let first = index_bytes(partitions);
        match ends.first().is_none_or(|end| *end >= first) && ends.is_sorted() {
            true => Ok(Index { attempt, ends }),
            false => exec_err!("an object of a query has a damaged index"),
        }
    }

    /// Where a partition is; an empty one is nowhere.
    pub fn range(&self, partition: usize) -> Range<u64> {
        let end = self.ends.get(partition).copied().unwrap_or_default();
        let start = match partition.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or_default(),
            None => index_bytes(self.ends.len()),
        };
        start.min(end)..end
    }

    /// Where the first partition begins.
    pub fn start(&self) -> u64 {
        index_bytes(self.ends.len())
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.ends.len()
    }

    /// Where each partition ends.
    pub fn into_ends(self) -> Vec<u64> {
        self.ends
    }

    /// The index of partitions of so many bytes.
    fn of_sizes(attempt: AttemptId, sizes: impl ExactSizeIterator<Item = usize>) -> Index {
        let mut end = index_bytes(sizes.len());
        let ends = sizes.map(|bytes| {
            end += bytes as u64;
            end
        });
        Index { attempt, ends: ends.collect() }
    }
}

/// The object of partitions that are bytes already, each in pieces: what combining tasks write.
pub fn combine(attempt: AttemptId, partitions: Vec<Vec<Bytes>>) -> (PutPayload, Index) {
    let sizes = partitions.iter().map(|pieces| pieces.iter().map(Bytes::len).sum());
    let index = Index::of_sizes(attempt, sizes);
    let pieces = partitions.into_iter().flatten().filter(|bytes| !bytes.is_empty());
    (std::iter::once(written(&index)).chain(pieces).collect(), index)
}

/// An object that is being made.
pub struct ObjectWriter {
    attempt: AttemptId,
    partitions: Vec<Partition>,
}

#[derive(Default)]
struct Partition {
    bytes: Vec<u8>,
    frames: u64,
    /// Rows of a relation that wait for more.
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
}

impl ObjectWriter {
    /// An object of so many partitions, all empty.
    pub fn new(attempt: AttemptId, partitions: usize) -> ObjectWriter {
        ObjectWriter { attempt, partitions: (0..partitions).map(|_| Partition::default()).collect() }
    }

    /// Appends a message to a partition.
    ///
    /// # Errors
    /// `ArrowError` if its columns cannot be written.
    pub fn append(&mut self, partition: usize, message: Message) -> Result<()> {
        let partition = &mut self.partitions[partition];
        match message {
            Message::Batch(batch) if batch.is_empty() => Ok(()),
            Message::Batch(batch) if is_always(&batch) => partition.append_rows(batch.rows),
            message => partition.flush().and_then(|()| partition.append_frame(message)),
        }
    }

    /// The object and its index.
    ///
    /// # Errors
    /// As [`append`](ObjectWriter::append).
    pub fn finish(mut self) -> Result<(PutPayload, Index)> {
        self.partitions.iter_mut().try_for_each(Partition::flush)?;
        let partitions = self.partitions.into_iter().map(|partition| vec![Bytes::from(partition.bytes)]);
        Ok(combine(self.attempt, partitions.collect()))
    }
}

fn written(index: &Index) -> Bytes {
    let mut bytes = Vec::with_capacity(FIXED + 8 * index.ends.len());
    bytes.extend(MAGIC);
    bytes.extend((index.ends.len() as u32).to_le_bytes());
    bytes.extend(index.attempt.to_le_bytes());
    index.ends.iter().for_each(|end| bytes.extend(end.to_le_bytes()));
    bytes.into()
}

impl Partition {
    fn append_rows(&mut self, rows: RecordBatch) -> Result<()> {
        self.waiting_rows += rows.num_rows();
        self.waiting.push(rows);
        if self.waiting_rows >= JOINED_ROWS { self.flush() } else { Ok(()) }
    }

    /// Writes the rows that wait.
    fn flush(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.waiting);
        self.waiting_rows = 0;
        let rows = match rows.as_slice() {
            // Some cannot be joined: dictionaries that have too many values together for their keys.
            [first, _, ..] => concat_batches(first.schema_ref(), &rows).map_or(rows, |joined| vec![joined]),
            _ => rows,
        };
        rows.into_iter().try_for_each(|rows| self.append_frame(always(rows)))
    }

    fn append_frame(&mut self, message: Message) -> Result<()> {
        let (header, body) = Frame::of(self.frames, Item::Message(message)).into_bytes()?;
        let Ok(length) = u32::try_from(body.len()) else {
            return exec_err!(
                "a batch of {} bytes is too large for an object; use smaller batches",
                body.len()
            );
        };
        self.frames += 1;
        self.bytes.reserve(8 + header.len() + body.len());
        self.bytes.extend((header.len() as u32).to_le_bytes());
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(header);
        self.bytes.extend_from_slice(&body);
        Ok(())
    }
}

/// Reads the frames of a partition, whose bytes come in pieces.
#[derive(Default)]
pub struct PartitionReader {
    pieces: Vec<Bytes>,
    /// How many bytes the pieces have.
    length: usize,
    frames: u64,
}

impl PartitionReader {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: Bytes) {
        self.length += bytes.len();
        self.pieces.push(bytes);
    }

    /// The next message; none if there are not enough bytes for one.
    ///
    /// # Errors
    /// `Execution` if the bytes are damaged, or a frame is missing.
    pub fn next(&mut self) -> Result<Option<Message>> {
        if self.length < 8 {
            return Ok(None);
        }
        let mut sizes = [0; 8];
        self.peek(&mut sizes);
        let [header, body] = [0, 4]
            .map(|at| u32::from_le_bytes([sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3]]) as usize);
        if self.length < 8 + header + body {
            return Ok(None);
        }
        self.take(8);
        let (header, body) = (self.take(header), self.take(body));
        let frame = Frame::from_bytes(&header, body)?;
        if frame.sequence() != self.frames {
            return exec_err!("a partition has frame {} where {} belongs", frame.sequence(), self.frames);
        }
        self.frames += 1;
        match frame.item()? {
            Item::Message(message) => Ok(Some(message)),
            other => internal_err!("a partition has no {other:?}"),
        }
    }

    /// Whether there are bytes of messages that have not been taken.
    pub fn has_bytes(&self) -> bool {
        self.length > 0
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// `Execution` if the partition was cut off.
    pub fn check_end(&self) -> Result<()> {
        match self.length {
            0 => Ok(()),
            left => exec_err!("a partition ends within a frame, {left} bytes into it"),
        }
    }

    /// Copies the next bytes, and leaves them.
    fn peek(&self, to: &mut [u8]) {
        let bytes = self.pieces.iter().flat_map(|piece| piece.iter());
        to.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
    }

    /// Takes so many bytes, which are there; those of one piece are not copied.
    fn take(&mut self, count: usize) -> Bytes {
        self.length -= count;
        if let Some(first) = self.pieces.first_mut()
            && first.len() > count
        {
            return first.split_to(count);
        }
        let mut joined = Vec::with_capacity(count);
        while joined.len() < count {
            let missing = count - joined.len();
            let piece = &mut self.pieces[0];
            if joined.is_empty() && piece.len() == count {
                return self.pieces.remove(0);
            }
            match piece.len() <= missing {
                true => joined.extend(self.pieces.remove(0)),
                false => joined.extend(piece.split_to(missing)),
            }
        }
        joined.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
    use datafusion::arrow::datatypes::Int64Type;
    use std::sync::Arc;

    fn messages(bytes: Bytes) -> Result<Vec<Message>> {
        let mut reader = PartitionReader::default();
        reader.push(bytes);
        let mut messages = Vec::new();
        while let Some(message) = reader.next()? {
            messages.push(message);
        }
        reader.check_end()?;
        Ok(messages)
    }

    fn numbers(range: Range<i64>) -> Message {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(range));
        always(RecordBatch::try_from_iter([("n", column)]).unwrap())
    }

    fn values(messages: &[Message]) -> Vec<i64> {
        let batches = messages.iter().filter_map(|message| match message {
            Message::Batch(batch) => Some(batch.rows.column(0).as_primitive::<Int64Type>().values().to_vec()),
            Message::Punctuation(_) => None,
        });
        batches.flatten().collect()
    }

    fn object() -> (Bytes, Index) {
        let mut writer = ObjectWriter::new(7, 3);
        for start in 0..50 {
            writer.append(0, numbers(start * 1000..start * 1000 + 1000)).unwrap();
        }
        writer.append(2, numbers(0..3)).unwrap();
        writer.append(2, Message::Punctuation(5)).unwrap();
        writer.append(2, numbers(0..0)).unwrap();
        writer.append(2, numbers(3..4)).unwrap();
        let (payload, index) = writer.finish().unwrap();
        (payload.into(), index)
    }

    #[test]
    fn partitions_are_found_by_the_index() {
        let (bytes, index) = object();
        let read = Index::read(bytes.slice(..index_bytes(3) as usize)).unwrap();
        assert_eq!((&read, read.attempt), (&index, 7));
        let partition = |number| {
            let Range { start, end } = read.range(number);
            bytes.slice(start as usize..end as usize)
        };
        let first = messages(partition(0)).unwrap();
        assert_eq!((values(&first), first.len()), ((0..50_000).collect(), 3), "small batches are joined");
        assert!(partition(1).is_empty() && messages(partition(1)).unwrap().is_empty());
        let last = messages(partition(2)).unwrap();
        assert_eq!((values(&last), last.len()), ((0..4).collect(), 3));
        assert_eq!(read.range(2).end, bytes.len() as u64);
    }

    #[test]
    fn combined_partitions_are_those_of_the_objects() {
        let (bytes, index) = object();
        let partition = |number| {
            let Range { start, end } = index.range(number);
            bytes.slice(start as usize..end as usize)
        };
        let halves = partition(0);
        let pieces = vec![halves.slice(..1000), halves.slice(1000..)];
        let (combined, index) = combine(9, vec![vec![partition(2)], vec![], pieces]);
        let combined = Bytes::from(combined);
        let section = |number| {
            let Range { start, end } = index.range(number);
            combined.slice(start as usize..end as usize)
        };
        assert_eq!(section(0), partition(2));
        assert!(section(1).is_empty());
        assert_eq!(values(&messages(section(2)).unwrap()), (0..50_000).collect::<Vec<_>>());
        assert_eq!(Index::read(combined.slice(..index_bytes(3) as usize)).unwrap(), index);
    }

    #[test]
    fn pieces_of_any_size_give_the_same_messages() {
        let (bytes, index) = object();
        let Range { start, end } = index.range(0);
        let partition = bytes.slice(start as usize..end as usize);
        for size in [1, 7, 8, 1000, 131_072, partition.len()] {
            let (mut reader, mut found) = (PartitionReader::default(), Vec::new());
            for piece in partition.chunks(size) {
                reader.push(Bytes::copy_from_slice(piece));
                while let Some(message) = reader.next().unwrap() {
                    found.push(message);
                }
            }
            reader.check_end().unwrap();
            assert_eq!(values(&found), (0..50_000).collect::<Vec<_>>());
        }
    }

    #[test]
    fn damage_is_an_error() {
        let (bytes, index) = object();
        let Range { start, end } = index.range(2);
        assert!(messages(bytes.slice(start as usize..end as usize - 1)).is_err());
        assert!(Index::read(bytes.slice(..30)).is_err());
        for at in 0..index_bytes(3) as usize {
            let mut changed = bytes.to_vec();
            changed[at] ^= 0x40;
            // The attempt may be another one; an end is refused or leads to bytes that are no partition.
            if let Ok(read) = Index::read(changed.into())
                && read.attempt == 7
            {
                let mut ranges = (0..3).map(|partition| read.range(partition));
                // A store says where an object ends.
                let is_damaged = |Range { start, end }: Range<u64>| {
                    end > bytes.len() as u64 || messages(bytes.slice(start as usize..end as usize)).is_err()
                };
                assert!(ranges.any(is_damaged), "byte {at}");
            }
        }
        for at in (start as usize..end as usize).step_by(5) {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            assert!(messages(Bytes::from(changed).slice(start as usize..end as usize)).is_err(), "byte {at}");
        }
    }
}
