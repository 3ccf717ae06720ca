//! Arrow IPC: files, which can be read from any batch on, and streams, which cannot. The first bytes tell
//! them apart.

use super::location::{Input, Location};
use super::messages::{EncodedMessage, damaged};
use super::parquet::{Batches, order};
use super::position::Position;
use super::{Opened, Unit};
use crate::dataset::Reader;
use crate::error::in_place;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::buffer::MutableBuffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::convert::fb_to_schema;
use datafusion::arrow::ipc::{Block, Schema, root_as_footer};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::collections::HashMap;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

/// A file and its footer.
#[derive(Debug)]
pub(super) struct File {
    pub location: Location,
    schema: SchemaRef,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

/// The beginning and the end of an Arrow file.
const MAGIC: &[u8; 6] = b"ARROW1";

/// The end of a file: the length of its footer, and its magic number.
const TAIL: u64 = 4 + MAGIC.len() as u64;

/// Opens a file or a stream: reads its footer, or its first message.
///
/// # Errors
/// `IpcError` if it is damaged.
pub(super) fn open(location: &Location) -> Result<Opened> {
    let failed = |error: ArrowError| in_place(location, error);
    let mut input = location.open()?;
    let mut head = [0; MAGIC.len()];
    let is_file = input.read_exact(&mut head).is_ok() && &head == MAGIC;
    if !is_file {
        input.rewind().map_err(|e| in_place(location, e))?;
        let stream = Stream::open(input, None).map_err(failed)?;
        let units = vec![Unit::IpcStream { location: Arc::new(location.clone()) }];
        return Ok(Opened { schema: stream.schema, units, rows: None });
    }
    let file = Arc::new(footer(location, &mut input).map_err(failed)?);
    let units = (0..file.batches.len()).map(|batch| Unit::Ipc { file: file.clone(), batch }).collect();
    Ok(Opened { schema: file.schema.clone(), units, rows: None })
}

/// Reads and checks the footer of a file.
fn footer(location: &Location, input: &mut Input) -> Result<File, ArrowError> {
    let length = input.seek(SeekFrom::End(0))?;
    if length < TAIL {
        return Err(damaged(format!("it ends after {length} bytes, without its footer")));
    }
    let mut tail = [0; TAIL as usize];
    input.seek(SeekFrom::Start(length - TAIL))?;
    input.read_exact(&mut tail)?;
    let (size, magic) = tail.split_at(4);
    if magic != MAGIC {
        return Err(damaged(format!(
            "it ends after {length} bytes, without its footer; write or copy it again"
        )));
    }
    // The length is before the magic number.
    let size = i64::from(i32::from_le_bytes([size[0], size[1], size[2], size[3]]));
    let Some(start) = u64::try_from(size).ok().and_then(|size| (length - TAIL).checked_sub(size)) else {
        return Err(damaged(format!("its footer has {size} bytes, and the file {length}")));
    };
    let mut bytes = vec![0; size as usize];
    input.seek(SeekFrom::Start(start))?;
    input.read_exact(&mut bytes)?;
    let footer = root_as_footer(&bytes).map_err(|error| damaged(format!("its footer is none: {error}")))?;
    let schema = match footer.schema() {
        Some(schema) => columns(schema)?,
        None => return Err(damaged("its footer names no columns")),
    };
    let dictionaries: Vec<Block> = footer.dictionaries().into_iter().flatten().copied().collect();
    let batches: Vec<Block> = footer.recordBatches().into_iter().flatten().copied().collect();
    dictionaries.iter().chain(&batches).try_for_each(|block| check(block, start))?;
    Ok(File { location: location.clone(), schema, dictionaries, batches })
}

/// Fails unless a block lies before the footer.
fn check(block: &Block, footer: u64) -> Result<(), ArrowError> {
    let numbers = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
    let end = numbers.iter().try_fold(0u64, |end, n| end.checked_add(u64::try_from(*n).ok()?));
    match end {
        Some(end) if end <= footer => Ok(()),
        _ => {
            Err(damaged(format!("a block of {} and {} bytes lies at {}", numbers[1], numbers[2], numbers[0])))
        }
    }
}

/// The columns of a schema that this machine can read.
fn columns(schema: Schema<'_>) -> Result<SchemaRef, ArrowError> {
    if schema.fields().is_none() {
        return Err(damaged("its schema has no columns"));
    }
    if !schema.endianness().equals_to_target_endianness() {
        let error = "its numbers are big-endian; write it again on a machine like this one";
        return Err(ArrowError::IpcError(error.to_string()));
    }
    Ok(Arc::new(fb_to_schema(schema)))
}

/// Reads some batches of a file, in this order.
///
/// # Errors
/// If the file cannot be opened.
pub(super) fn read(
    file: &Arc<File>,
    batches: Vec<usize>,
    projection: Option<&[usize]>,
) -> Result<Box<dyn Reader>> {
    let input = file.location.open()?;
    let position = Position::Batches { read: 0, all: batches.len() };
    let batches = Blocks {
        file: file.clone(),
        input,
        dictionaries: None,
        projection: sorted(projection),
        batches: batches.into_iter(),
    };
    Ok(Box::new(Batches { location: file.location.clone(), batches, order: order(projection), position }))
}

/// The batches of a file that are read.
struct Blocks {
    file: Arc<File>,
    input: Input,
    /// Read before the first batch.
    dictionaries: Option<HashMap<i64, ArrayRef>>,
    projection: Option<Vec<usize>>,
    batches: std::vec::IntoIter<usize>,
}

impl Blocks {
    /// Reads the message in a block, which lies in the file: that was checked when the file was opened.
    fn block(&mut self, block: &Block) -> Result<EncodedMessage, ArrowError> {
        let description = block.metaDataLength() as usize;
        let mut bytes = MutableBuffer::from_len_zeroed(description + block.bodyLength() as usize);
        self.input.seek(SeekFrom::Start(block.offset() as u64))?;
        self.input.read_exact(&mut bytes)?;
        EncodedMessage::of_block(&bytes.into(), description)
    }

    /// Reads the dictionaries of the file.
    fn dictionaries(&mut self) -> Result<HashMap<i64, ArrayRef>, ArrowError> {
        let file = self.file.clone();
        let mut dictionaries = HashMap::new();
        for block in &file.dictionaries {
            if !self.block(block)?.add_to(&mut dictionaries, &file.schema)? {
                return Err(damaged("there is no dictionary where its footer says so"));
            }
        }
        Ok(dictionaries)
    }

    /// Reads a batch by its number.
    fn batch(&mut self, batch: usize) -> Result<Option<RecordBatch>, ArrowError> {
        let dictionaries = match self.dictionaries.take() {
            Some(dictionaries) => dictionaries,
            None => self.dictionaries()?,
        };
        let block = self.file.batches[batch];
        let rows = self.block(&block)?.rows(&dictionaries, &self.file.schema, self.projection.as_deref())?;
        self.dictionaries = Some(dictionaries);
        Ok(rows)
    }
}

impl Iterator for Blocks {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let batch = self.batches.next()?;
            if let Some(rows) = self.batch(batch).transpose() {
                return Some(rows);
            }
        }
    }
}

/// Reads a stream.
///
/// # Errors
/// If the stream cannot be opened, or does not begin with its columns.
pub(super) fn read_stream(location: &Location, projection: Option<&[usize]>) -> Result<Box<dyn Reader>> {
    let stream = Stream::open(location.open()?, projection).map_err(|e| in_place(location, e))?;
    let (order, position) = (order(projection), Position::Unknown);
    Ok(Box::new(Batches { location: location.clone(), batches: stream, order, position }))
}

/// The batches of a stream.
struct Stream {
    input: BufReader<Input>,
    /// How many bytes are left.
    left: u64,
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
    projection: Option<Vec<usize>>,
}

impl Stream {
    /// Reads the first message, which has the columns.
    fn open(mut input: Input, projection: Option<&[usize]>) -> Result<Stream, ArrowError> {
        let mut left = input.seek(SeekFrom::End(0))?;
        input.rewind()?;
        let mut input = BufReader::new(input);
        let Some(first) = EncodedMessage::next(&mut input, &mut left)? else {
            return Err(ArrowError::IpcError("it is empty; a stream begins with its columns".to_string()));
        };
        let Some(schema) = first.message()?.header_as_schema() else {
            return Err(damaged("it does not begin with its columns"));
        };
        let schema = columns(schema)?;
        Ok(Stream { input, left, schema, dictionaries: HashMap::new(), projection: sorted(projection) })
    }

    /// Reads the next batch; none at the end.
    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        while let Some(parts) = EncodedMessage::next(&mut self.input, &mut self.left)? {
            if parts.add_to(&mut self.dictionaries, &self.schema)? {
                continue;
            }
            let rows = parts.rows(&self.dictionaries, &self.schema, self.projection.as_deref())?;
            if rows.is_some() {
                return Ok(rows);
            }
        }
        Ok(None)
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().transpose()
    }
}

/// The columns of a projection, ascending.
fn sorted(projection: Option<&[usize]>) -> Option<Vec<usize>> {
    let mut columns = projection?.to_vec();
    columns.sort_unstable();
    Some(columns)
}
