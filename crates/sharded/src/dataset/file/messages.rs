//! The messages of an Arrow IPC file or stream: a description (metadata) and the body that it describes.
//!
//! Lengths and offsets in a description are compared with the bytes that are there before memory is
//! allocated, and before Arrow's decoder, which trusts them, sees them.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::reader::{RecordBatchDecoder, read_dictionary};
use datafusion::arrow::ipc::{self, CompressionType, Message, MessageHeader};
use datafusion::arrow::record_batch::RecordBatch;
use std::collections::HashMap;
use std::io::{ErrorKind, Read};

/// The marker before the length of a description.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The length of a buffer that is not compressed.
const NOT_COMPRESSED: i64 = -1;

/// Results with Arrow's errors.
type Result<T, E = ArrowError> = std::result::Result<T, E>;

/// The error of a damaged file.
pub(super) fn damaged(how: impl Into<String>) -> ArrowError {
    ArrowError::IpcError(format!("it is damaged: {}", how.into()))
}

/// A message that was read and not decoded yet.
pub(super) struct EncodedMessage {
    description: Vec<u8>,
    body: Buffer,
}

impl EncodedMessage {
    /// The next message of a stream that has `left` bytes left; none at the end.
    ///
    /// # Errors
    /// `IpcError` if the message is damaged or longer than the stream.
    pub fn next(input: &mut impl Read, left: &mut u64) -> Result<Option<EncodedMessage>> {
        let Some(length) = length_of_description(input, left)? else { return Ok(None) };
        let mut description = vec![0; take_bytes(left, length, "a description")?];
        input.read_exact(&mut description)?;
        let length = message(&description)?.bodyLength();
        let mut body = MutableBuffer::from_len_zeroed(take_bytes(left, length, "a batch")?);
        input.read_exact(&mut body)?;
        Ok(Some(EncodedMessage { description, body: body.into() }))
    }

    /// The message in a block of a file, whose description has this length.
    ///
    /// # Errors
    /// `IpcError` if the block is damaged.
    pub fn of_block(block: &Buffer, description: usize) -> Result<EncodedMessage> {
        let Some((head, _)) = block.split_at_checked(description) else {
            return Err(damaged("a description is longer than its block"));
        };
        let rest = match head.split_first_chunk::<4>() {
            Some((&CONTINUATION, rest)) => rest.get(4..),
            Some((_, rest)) => Some(rest),
            None => None,
        };
        let Some(rest) = rest else { return Err(damaged("a block has no description")) };
        Ok(EncodedMessage { description: rest.to_vec(), body: block.slice(description) })
    }

    /// The description.
    ///
    /// # Errors
    /// `IpcError` if it cannot be decoded.
    pub fn message(&self) -> Result<Message<'_>> {
        message(&self.description)
    }

    /// Adds the values of a dictionary, if it is one; whether it is.
    ///
    /// # Errors
    /// `IpcError` if it is damaged.
    pub fn add_to(&self, dictionaries: &mut HashMap<i64, ArrayRef>, schema: &SchemaRef) -> Result<bool> {
        let message = self.message()?;
        let Some(dictionary) = message.header_as_dictionary_batch() else { return Ok(false) };
        let Some(values) = dictionary.data() else { return Err(damaged("a dictionary has no values")) };
        check(&values, &self.body)?;
        read_dictionary(&self.body, dictionary, schema, dictionaries, &message.version())?;
        Ok(true)
    }

    /// The rows, if it has rows.
    ///
    /// # Errors
    /// `IpcError` if it is damaged.
    pub fn rows(
        &self,
        dictionaries: &HashMap<i64, ArrayRef>,
        schema: &SchemaRef,
        projection: Option<&[usize]>,
    ) -> Result<Option<RecordBatch>> {
        let message = self.message()?;
        let Some(batch) = message.header_as_record_batch() else {
            return match message.header_type() {
                MessageHeader::NONE => Ok(None),
                other => Err(damaged(format!("there is a {other:?} where rows are expected"))),
            };
        };
        check(&batch, &self.body)?;
        let version = message.version();
        RecordBatchDecoder::try_new(&self.body, batch, schema.clone(), dictionaries, &version)?
            .with_projection(projection)
            .read_record_batch()
            .map(Some)
    }
}

/// Decodes a description.
fn message(description: &[u8]) -> Result<Message<'_>> {
    ipc::root_as_message(description).map_err(|error| damaged(format!("a description is none: {error}")))
}

/// The length of the next description; none at the end of a stream, which may be marked or not.
fn length_of_description(input: &mut impl Read, left: &mut u64) -> Result<Option<i64>> {
    let mut length = [0; 4];
    if *left == 0 {
        return Ok(None);
    }
    for _ in 0..2 {
        take_bytes(left, 4, "a length")?;
        match input.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        if length != CONTINUATION {
            break;
        }
    }
    let length = i32::from_le_bytes(length);
    Ok((length != 0).then_some(i64::from(length)))
}

/// Takes a length off the bytes that are left.
fn take_bytes(left: &mut u64, length: i64, what: &str) -> Result<usize> {
    match u64::try_from(length).ok().and_then(|length| left.checked_sub(length)) {
        Some(rest) => {
            let length = *left - rest;
            *left = rest;
            usize::try_from(length).map_err(|_| damaged(format!("{what} of {length} bytes")))
        }
        None => Err(damaged(format!("{what} has {length} bytes, where {left} are left of the file"))),
    }
}

/// Checks that the description of a batch fits its body.
fn check(batch: &ipc::RecordBatch<'_>, body: &[u8]) -> Result<()> {
    if batch.length() < 0 {
        return Err(damaged(format!("a batch has {} rows", batch.length())));
    }
    for node in batch.nodes().into_iter().flatten() {
        if node.length() < 0 || !(0..=node.length()).contains(&node.null_count()) {
            return Err(damaged(format!("{} of {} values are null", node.null_count(), node.length())));
        }
    }
    let rows = batch.nodes().and_then(|nodes| nodes.iter().next().map(|node| node.length()));
    if rows.is_some_and(|rows| rows != batch.length()) {
        return Err(damaged("the columns of a batch have other numbers of rows than the batch"));
    }
    let buffers = batch.buffers().map_or(0, |buffers| buffers.len());
    if batch.variadicBufferCounts().is_some_and(|counts| counts.iter().any(|n| n < 0 || n > buffers as i64)) {
        return Err(damaged("a column has more buffers than there are"));
    }
    let codec = batch.compression().map(|compression| compression.codec());
    for buffer in batch.buffers().into_iter().flatten() {
        let Some(bytes) = range_of(body, buffer.offset(), buffer.length()) else {
            let (offset, length) = (buffer.offset(), buffer.length());
            return Err(damaged(format!(
                "a buffer of {length} bytes at {offset} is not in its batch of {} bytes",
                body.len()
            )));
        };
        if let (Some(codec), false) = (codec, bytes.is_empty()) {
            check_decompressed(bytes, codec)?;
        }
    }
    Ok(())
}

/// A range of the body, if it lies in it.
fn range_of(bytes: &[u8], offset: i64, length: i64) -> Option<&[u8]> {
    let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
    bytes.get(offset..offset.checked_add(length)?)
}

/// Checks that a compressed buffer can become as long as it says.
fn check_decompressed(bytes: &[u8], codec: CompressionType) -> Result<()> {
    let Some((length, compressed)) = bytes.split_first_chunk::<8>() else {
        return Err(damaged("a packed buffer does not say how long it is"));
    };
    let length = i64::from_le_bytes(*length);
    if length == NOT_COMPRESSED {
        return Ok(());
    }
    let most = match codec {
        CompressionType::LZ4_FRAME => super::decompression::MOST_LZ4,
        _ => super::decompression::MOST_ZSTD,
    };
    let possible = compressed.len().saturating_mul(most);
    match usize::try_from(length) {
        Ok(length) if length <= possible && super::decompression::can_allocate(length) => Ok(()),
        _ => Err(damaged(format!("{} bytes cannot be unpacked to {length}", compressed.len()))),
    }
}
