//! Frames: what channels send each other, as bytes.
//!
//! A frame has a number in its queue, from 0 on, and a digest. Channels are deterministic, so a channel that
//! runs again sends the same frames under the same numbers, and a consumer goes on with the next one, whoever
//! sends it.

use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::ipc::reader::StreamDecoder;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use serde::{Deserialize, Serialize};
use whimbrel_sharded::relation::always;
use whimbrel_sharded::runtime::Item;
use whimbrel_temporal::checkpoint::{SavedMessage, decode, encode};
use whimbrel_temporal::{BEGINNING, Batch, Message, Other, Time};

/// The version of the format.
const VERSION: u8 = 1;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Rows that are always alive, as a stream of Arrow IPC.
    Rows,
    /// Rows with lifetimes.
    Events,
    /// No row before this time follows.
    Punctuation(Time),
    /// The end of the queue.
    End,
}

/// What stands before the bytes of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    version: u8,
    /// The number of the frame in its queue.
    pub sequence: u64,
    /// What it holds.
    pub kind: Kind,
    digest: [u8; 32],
}

/// A numbered item of a queue.
#[derive(Debug, Clone)]
pub struct Frame {
    /// What stands before the bytes.
    pub header: Header,
    /// The bytes.
    pub body: Bytes,
}

impl Frame {
    /// The frame of an item.
    ///
    /// # Errors
    /// `ArrowError` if its columns cannot be written; `Internal` for a marker: queries in epochs stay in one
    /// process.
    pub fn of(sequence: u64, item: &Item) -> Result<Frame> {
        let (kind, body) = match item {
            Item::Message(Message::Batch(batch)) if is_always(batch) => (Kind::Rows, rows(&batch.rows)?),
            Item::Message(message @ Message::Batch(_)) => {
                (Kind::Events, encode(&SavedMessage::of(message)?)?)
            }
            Item::Message(Message::Punctuation(time)) => (Kind::Punctuation(*time), vec![]),
            Item::End => (Kind::End, vec![]),
            Item::Marker(_) => return internal_err!("a marker is not sent to other processes"),
        };
        let header = Header { version: VERSION, sequence, kind, digest: digest(&body) };
        Ok(Frame { header, body: body.into() })
    }

    /// The frame of bytes that came over the network.
    ///
    /// # Errors
    /// `Execution` if they were written by another release.
    pub fn from_bytes(header: &[u8], body: Bytes) -> Result<Frame> {
        let damaged = |error| DataFusionError::Execution(format!("a frame has a damaged header: {error}"));
        if header.first() != Some(&VERSION) {
            return exec_err!("a worker of another release has sent a frame; use one release in a cluster");
        }
        Ok(Frame { header: postcard::from_bytes(header).map_err(damaged)?, body })
    }

    /// The header as bytes.
    ///
    /// # Errors
    /// `Internal` if it cannot be encoded.
    pub fn header_bytes(&self) -> Result<Vec<u8>> {
        postcard::to_stdvec(&self.header).map_err(|error| DataFusionError::Internal(error.to_string()))
    }

    /// The item.
    ///
    /// # Errors
    /// `Execution` if the bytes were changed on their way; `ArrowError` if they are none.
    pub fn item(self) -> Result<Item> {
        if digest(&self.body) != self.header.digest {
            return exec_err!("frame {} of a queue was changed on its way", self.header.sequence);
        }
        Ok(match self.header.kind {
            Kind::Rows => Item::Message(always(batch(self.body)?)),
            Kind::Events => Item::Message(decode::<SavedMessage>(&self.body)?.message()?),
            Kind::Punctuation(time) => Item::Message(Message::Punctuation(time)),
            Kind::End => Item::End,
        })
    }

    /// How many bytes it takes, about.
    pub fn size(&self) -> usize {
        self.body.len() + size_of::<Header>()
    }
}

/// Whether all rows are those of a relation. Times never decrease, so the last tells.
fn is_always(batch: &Batch) -> bool {
    matches!(batch.other, Other::Open)
        && batch.present().is_none()
        && batch.sync.last().is_none_or(|last| *last == BEGINNING)
}

fn digest(body: &[u8]) -> [u8; 32] {
    *blake3::hash(body).as_bytes()
}

fn rows(rows: &RecordBatch) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::with_capacity(rows.get_array_memory_size()), &rows.schema())?;
    writer.write(rows)?;
    Ok(writer.into_inner()?)
}

/// The batch of a stream; its columns point into the bytes.
fn batch(bytes: Bytes) -> Result<RecordBatch> {
    let (mut buffer, mut decoder) = (Buffer::from(bytes), StreamDecoder::new());
    match decoder.decode(&mut buffer)? {
        Some(batch) => Ok(batch),
        None => exec_err!("a frame of rows has none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    fn table() -> RecordBatch {
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
            ("s", Arc::new(StringArray::from(vec![None, Some(""), Some("three")]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn sent(item: &Item) -> Item {
        let frame = Frame::of(7, item).unwrap();
        let again = Frame::from_bytes(&frame.header_bytes().unwrap(), frame.body.clone()).unwrap();
        assert_eq!(again.header, frame.header);
        again.item().unwrap()
    }

    #[test]
    fn items_come_out_as_they_went_in() {
        for rows in [table(), table().slice(0, 0), table().slice(1, 2)] {
            let Item::Message(Message::Batch(batch)) = sent(&Item::Message(always(rows.clone()))) else {
                panic!("rows are rows");
            };
            assert_eq!(batch.rows, rows);
            assert!(is_always(&batch));
        }
        let events = Batch::new(vec![1, 2, 2].into(), Other::After(5), table());
        let Item::Message(Message::Batch(batch)) = sent(&Item::Message(Message::Batch(events))) else {
            panic!("events are events");
        };
        assert_eq!((batch.sync.to_vec(), batch.other_at(2), &batch.rows), (vec![1, 2, 2], 7, &table()));
        assert!(matches!(sent(&Item::End), Item::End));
        let time = Item::Message(Message::Punctuation(4));
        assert!(matches!(sent(&time), Item::Message(Message::Punctuation(4))));
    }

    #[test]
    fn frames_that_were_changed_are_refused() {
        let frame = Frame::of(0, &Item::Message(always(table()))).unwrap();
        let header = frame.header_bytes().unwrap();
        let mut body = frame.body.to_vec();
        body[40] ^= 1;
        assert!(Frame::from_bytes(&header, body.into()).unwrap().item().is_err());
        assert!(Frame::from_bytes(&header[..9], frame.body.clone()).is_err());
        assert!(Frame::from_bytes(&[9], frame.body).is_err());
    }
}
