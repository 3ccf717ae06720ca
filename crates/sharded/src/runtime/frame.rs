//! Frames: what channels send each other, as bytes.
//!
//! A frame has a number in its queue, from 0 on, and a checksum. Channels are deterministic, so a channel
//! that runs again sends the same frames under the same numbers, and a consumer goes on with the next one,
//! whoever sends it.

use super::encoding::{Checksum, Encoding, Kind, checksum, decode};
use super::epoch::Marker;
use super::lane::Item;
use crate::compact::compact;
use crate::error::untrusted;
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use whimbrel_temporal::{Message, Other};

/// The version of the format.
const VERSION: u8 = 3;

/// What stands before the bytes of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    version: u8,
    sequence: u64,
    kind: Kind,
    checksum: Checksum,
}

/// A numbered item of a queue: as it is, or as bytes.
#[derive(Debug, Clone)]
pub struct Frame {
    sequence: u64,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Message(Message),
    End,
    Marker(Marker),
    /// Rows, and how they are sent.
    Encoded(Message, Encoding),
    /// What another process has sent.
    Bytes {
        kind: Kind,
        checksum: Checksum,
        body: Bytes,
    },
}

impl Frame {
    /// The frame of an item.
    pub fn of(sequence: u64, item: Item) -> Frame {
        let content = match item {
            Item::Message(message) => Content::Message(message),
            Item::End => Content::End,
            Item::Marker(marker) => Content::Marker(marker),
        };
        Frame { sequence, content }
    }

    /// The frame of bytes that are no item.
    ///
    /// # Errors
    /// `Internal` if there is no checksum of them.
    pub fn of_note(sequence: u64, note: Vec<u8>) -> Result<Frame> {
        let (kind, body) = (Kind::Note, Bytes::from(note));
        Ok(Frame { sequence, content: Content::Bytes { kind, checksum: checksum(kind, [&body[..]])?, body } })
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
        let Header { sequence, kind, checksum, .. } = postcard::from_bytes(header).map_err(damaged)?;
        Ok(Frame { sequence, content: Content::Bytes { kind, checksum, body } })
    }

    /// The number of the frame in its queue.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The same frame under another number.
    pub fn numbered(self, sequence: u64) -> Frame {
        Frame { sequence, ..self }
    }

    /// Whether it is the end of its queue.
    pub fn is_end(&self) -> bool {
        matches!(self.content, Content::End | Content::Bytes { kind: Kind::End, .. })
    }

    /// The same frame with rows that hold no memory of others, since it is kept for long.
    ///
    /// # Errors
    /// `ArrowError` if a column cannot be copied.
    pub fn compact(self) -> Result<Frame> {
        let content = match self.content {
            Content::Message(Message::Batch(batch)) => {
                let batch = batch.compact()?;
                Content::Message(Message::Batch(batch.with_rows(compact(&batch.rows)?, None)))
            }
            other => other,
        };
        Ok(Frame { sequence: self.sequence, content })
    }

    /// The same frame with its rows as they are sent. The bytes share their memory.
    ///
    /// # Errors
    /// `ArrowError` if its columns cannot be written.
    pub fn encoded(self) -> Result<Frame> {
        let Frame { sequence, content } = self.compact()?;
        let content = match content {
            Content::Message(Message::Batch(batch)) => {
                let encoding = Encoding::of(&batch)?;
                Content::Encoded(Message::Batch(batch), encoding)
            }
            other => other,
        };
        Ok(Frame { sequence, content })
    }

    /// What stands before the bytes, and the bytes.
    ///
    /// # Errors
    /// As [`encoded`](Frame::encoded).
    pub fn into_bytes(self) -> Result<(Vec<u8>, Bytes)> {
        let sequence = self.sequence;
        let (kind, body) = match self.encoded()?.content {
            Content::Encoded(_, encoding) => (encoding.kind, Some((encoding.checksum, encoding.body()))),
            Content::Bytes { kind, checksum, body } => (kind, Some((checksum, body))),
            Content::Marker(marker) => (Kind::Marker(marker), None),
            Content::Message(Message::Punctuation(time)) => (Kind::Punctuation(time), None),
            Content::End => (Kind::End, None),
            Content::Message(Message::Batch(_)) => return internal_err!("what is encoded is bytes"),
        };
        let (checksum, body) = match body {
            Some(body) => body,
            None => (checksum(kind, [])?, Bytes::new()),
        };
        let header = postcard::to_stdvec(&Header { version: VERSION, sequence, kind, checksum });
        let header = header.map_err(|error| DataFusionError::Internal(error.to_string()))?;
        Ok((header, body))
    }

    /// The item.
    ///
    /// # Errors
    /// `Execution` if the bytes were changed on their way; `ArrowError` if they are none; `Internal` for a
    /// note.
    pub fn item(self) -> Result<Item> {
        let (kind, expected, body) = match self.content {
            Content::Message(message) | Content::Encoded(message, _) => return Ok(Item::Message(message)),
            Content::End => return Ok(Item::End),
            Content::Marker(marker) => return Ok(Item::Marker(marker)),
            Content::Bytes { kind, checksum, body } => (kind, checksum, body),
        };
        verify(self.sequence, kind, &body, expected)?;
        untrusted(&"a frame of a queue", || {
            Ok(match kind {
                Kind::Rows | Kind::Events(_) => Item::Message(decode(kind, body)?),
                Kind::Punctuation(time) => Item::Message(Message::Punctuation(time)),
                Kind::End => Item::End,
                Kind::Marker(marker) => Item::Marker(marker),
                Kind::Note => return internal_err!("a note has come where an item was expected"),
            })
        })
    }

    /// The bytes of a note.
    ///
    /// # Errors
    /// `Execution` if they were changed on their way; `Internal` for an item.
    pub fn note(self) -> Result<Bytes> {
        let Content::Bytes { kind: kind @ Kind::Note, checksum, body } = self.content else {
            return internal_err!("an item has come where a note was expected");
        };
        verify(self.sequence, kind, &body, checksum)?;
        Ok(body)
    }

    /// How many bytes it takes in memory, about.
    pub fn size(&self) -> usize {
        let content = match &self.content {
            Content::Message(Message::Batch(batch)) | Content::Encoded(Message::Batch(batch), _) => {
                batch.rows.get_array_memory_size()
            }
            Content::Message(_) | Content::Encoded(..) | Content::End | Content::Marker(_) => 0,
            Content::Bytes { body, .. } => body.len(),
        };
        content + size_of::<Frame>()
    }
}

/// Whether two messages without absent rows are the same one, sent to several consumers.
pub fn is_same(left: &Message, right: &Message) -> bool {
    match (left, right) {
        (Message::Punctuation(left), Message::Punctuation(right)) => left == right,
        (Message::Batch(left), Message::Batch(right)) => {
            let columns = left.rows.columns().iter().zip(right.rows.columns());
            left.len() == right.len()
                && left.sync.as_ptr() == right.sync.as_ptr()
                && has_same_extent(&left.other, &right.other)
                && left.rows.num_columns() == right.rows.num_columns()
                && columns.into_iter().all(|(left, right)| Arc::ptr_eq(left, right))
        }
        _ => false,
    }
}

/// Whether two batches with the same sync times have the same other times.
fn has_same_extent(left: &Other, right: &Other) -> bool {
    match (left, right) {
        (Other::Open, Other::Open) => true,
        (Other::After(left), Other::After(right)) => left == right,
        (Other::Column(left), Other::Column(right)) => left.as_ptr() == right.as_ptr(),
        _ => false,
    }
}

/// Checks that the bytes of a frame are those that were sent.
fn verify(sequence: u64, kind: Kind, body: &[u8], expected: Checksum) -> Result<()> {
    match checksum(kind, [body])? == expected {
        true => Ok(()),
        false => exec_err!("frame {sequence} of a queue was changed on its way"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::{always, is_always};
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use whimbrel_temporal::Batch;

    fn table() -> RecordBatch {
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
            ("s", Arc::new(StringArray::from(vec![None, Some(""), Some("three")]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn sent(item: Item) -> Item {
        let (header, body) = Frame::of(7, item).into_bytes().unwrap();
        let again = Frame::from_bytes(&header, body).unwrap();
        assert_eq!(again.sequence(), 7);
        again.item().unwrap()
    }

    #[test]
    fn items_come_out_as_they_went_in() {
        let numbers = table().project(&[0]).unwrap();
        let no_columns = table().project(&[]).unwrap();
        for rows in [
            table(),
            table().slice(0, 0),
            table().slice(1, 2),
            numbers.slice(0, 0),
            no_columns.slice(0, 0),
            no_columns,
        ] {
            let Item::Message(Message::Batch(batch)) = sent(Item::Message(always(rows.clone()))) else {
                panic!("rows are rows");
            };
            assert_eq!(batch.rows, rows);
            assert!(is_always(&batch));
        }
        for other in [Other::Open, Other::After(5), Other::Column(vec![6, 7, 1].into())] {
            for rows in [table(), table().project(&[]).unwrap()] {
                let events = Batch::new(vec![1, 2, 2].into(), other.clone(), rows);
                for events in [events.slice(0, 3), events.slice(1, 1), events.slice(3, 0)] {
                    let Item::Message(Message::Batch(batch)) =
                        sent(Item::Message(Message::Batch(events.clone())))
                    else {
                        panic!("events are events");
                    };
                    assert_eq!((&batch.sync, &batch.rows), (&events.sync, &events.rows));
                    assert_eq!(batch.other_column(), events.other_column());
                }
            }
        }
        assert!(matches!(sent(Item::End), Item::End));
        let time = Item::Message(Message::Punctuation(4));
        assert!(matches!(sent(time), Item::Message(Message::Punctuation(4))));
        let marker = Marker { epoch: 5, snapshot: true };
        assert!(matches!(sent(Item::Marker(marker)), Item::Marker(same) if same == marker));
    }

    #[test]
    fn notes_are_no_items() {
        let (header, body) = Frame::of_note(3, b"news".to_vec()).unwrap().into_bytes().unwrap();
        let read = || Frame::from_bytes(&header, body.clone()).unwrap();
        assert_eq!(&read().note().unwrap()[..], b"news");
        assert!(read().item().is_err());
        assert!(Frame::of(3, Item::End).encoded().unwrap().note().is_err());
        assert!(Frame::from_bytes(&header, Bytes::from_static(b"mews")).unwrap().note().is_err());
    }

    #[test]
    fn frames_that_were_changed_are_refused() {
        let (header, body) = Frame::of(0, Item::Message(always(table()))).into_bytes().unwrap();
        let mut changed = body.to_vec();
        changed[40] ^= 1;
        assert!(Frame::from_bytes(&header, changed.into()).unwrap().item().is_err());
        assert!(Frame::from_bytes(&header[..9], body.clone()).is_err());
        assert!(Frame::from_bytes(&[9], body).is_err());
    }

    #[test]
    fn damaged_frames_are_errors_and_no_panics() {
        let events = Batch::new(vec![1, 2, 2].into(), Other::After(5), table());
        let mut random = 1_u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        for message in [always(table()), Message::Batch(events)] {
            let (header, body) = Frame::of(0, Item::Message(message)).into_bytes().unwrap();
            for _ in 0..5_000 {
                let mut changed = body.to_vec();
                let at = next(changed.len());
                changed[at] ^= 1 << next(8);
                changed.truncate(changed.len() - next(2) * next(body.len()));
                let read = |header: &[u8], body: Vec<u8>| {
                    Frame::from_bytes(header, body.into()).and_then(Frame::item)
                };
                assert!(read(&header, changed).is_err());
                let mut header = header.clone();
                let at = next(header.len());
                header[at] ^= 1 << next(8);
                // It may be the number that changed, which is checked where frames are in a row.
                let _ = read(&header, body.to_vec());
            }
        }
    }

    #[test]
    fn a_message_to_several_consumers_is_recognized() {
        let message = always(table());
        assert!(is_same(&message, &message.clone()));
        assert!(!is_same(&message, &always(table())));
        let events = Batch::new(vec![1, 2, 2].into(), Other::After(5), table());
        let with = |other| Batch::new(events.sync.clone(), other, events.rows.clone());
        for other in [with(Other::After(6)), with(Other::Open)] {
            assert!(!is_same(&Message::Batch(events.clone()), &Message::Batch(other)));
        }
        assert!(is_same(&Message::Punctuation(1), &Message::Punctuation(1)));
        assert!(!is_same(&Message::Punctuation(1), &Message::Punctuation(2)));
    }
}
