//! Batches of rows as bytes of Arrow IPC, each a stream of its own. Used as `#[serde(with = "ipc")]`, too.

use super::string_views::compact;
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::ipc::reader::StreamDecoder;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::{Result, exec_err};
use serde::{Deserializer, Serializer, de, ser};
use serde_bytes::ByteBuf;

/// The bytes of a batch.
///
/// # Errors
/// `ArrowError` if a column cannot be written.
pub fn to_bytes(rows: &RecordBatch) -> Result<Vec<u8>> {
    let rows = compact(rows)?;
    let bytes = Vec::with_capacity(rows.get_array_memory_size());
    let mut writer = StreamWriter::try_new(bytes, &rows.schema())?;
    writer.write(&rows)?;
    Ok(writer.into_inner()?)
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
/// As [`to_bytes`].
pub fn serialize<S: Serializer>(rows: &RecordBatch, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_bytes(&to_bytes(rows).map_err(ser::Error::custom)?)
}

/// Reads a batch of bytes.
///
/// # Errors
/// As [`from_bytes`].
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<RecordBatch, D::Error> {
    let bytes: ByteBuf = serde::Deserialize::deserialize(deserializer)?;
    from_bytes(bytes.into_vec().into()).map_err(de::Error::custom)
}
