//! Batches of rows as bytes of Arrow IPC, each a stream of its own. Used as `#[serde(with = "ipc")]`, too.

use crate::compact::compact_views;
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::ipc::reader::StreamDecoder;
use datafusion::arrow::ipc::writer::StreamEncoder;
use datafusion::common::{Result, exec_err};
use serde::{Deserializer, Serializer, de, ser};
use serde_bytes::ByteBuf;

/// Parts of fewer bytes are put together: a buffer of its own costs more than a copy.
const SMALL_PART: usize = 1 << 10;

/// The bytes of a batch, in parts. Large ones share the memory of its columns.
///
/// # Errors
/// `ArrowError` if a column cannot be written.
pub fn to_parts(rows: &RecordBatch) -> Result<Vec<Buffer>> {
    let rows = compact_views(rows)?;
    let mut encoder = StreamEncoder::try_new(&rows.schema())?;
    let encoded = encoder.encode(&rows)?.into_iter();
    let (mut parts, mut small) = (Vec::new(), Vec::new());
    // A decoder does not look at a batch without bytes before it has come to what follows it.
    for part in encoded.chain(encoder.finish()?) {
        if part.len() < SMALL_PART {
            small.extend_from_slice(&part);
            continue;
        }
        parts.push(Buffer::from(std::mem::take(&mut small)));
        parts.push(part);
    }
    parts.push(Buffer::from(small));
    Ok(parts)
}

/// Parts in one piece.
pub fn concat(parts: &[Buffer]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(Buffer::len).sum());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// The batch of these bytes; its columns point into them.
///
/// # Errors
/// `ArrowError` or `Execution` if they are none.
pub fn from_bytes(bytes: Bytes) -> Result<RecordBatch> {
    let (mut buffer, mut decoder) = (Buffer::from(bytes), StreamDecoder::new());
    match decoder.decode(&mut buffer)? {
        Some(batch) => Ok(batch),
        None => exec_err!("a frame of rows has none"),
    }
}

/// Writes a batch as bytes.
///
/// # Errors
/// As [`to_parts`].
pub fn serialize<S: Serializer>(rows: &RecordBatch, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_bytes(&concat(&to_parts(rows).map_err(ser::Error::custom)?))
}

/// Reads a batch of bytes.
///
/// # Errors
/// As [`from_bytes`].
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<RecordBatch, D::Error> {
    let bytes: ByteBuf = serde::Deserialize::deserialize(deserializer)?;
    from_bytes(bytes.into_vec().into()).map_err(de::Error::custom)
}
