//! A local Parquet file, read in blocks: a few large reads per column instead of some small ones per page.
//!
//! Invariant: of each column at most one block is kept, that of the page which was read last.

use super::buffer_pool::{Bytes, PooledBuffer};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The bytes of a column that are read at once.
const BLOCK: u64 = 1 << 20;

/// The bytes that are there for a page header; a longer one is read again, with a block of its own.
const MAX_HEADER: u64 = 16 << 10;

/// Reads some row groups of a file in blocks.
pub(super) struct BlockReader {
    length: u64,
    /// The ranges of the column chunks and their columns, in the order of the file.
    chunks: Vec<(Range<u64>, usize)>,
    reading: Mutex<Reading>,
}

/// The file and the blocks that are kept.
struct Reading {
    file: File,
    /// For each column the offset and the bytes of its block.
    blocks: Vec<Option<(u64, Bytes)>>,
}

impl BlockReader {
    /// A reader of these row groups of a file.
    ///
    /// # Errors
    /// If the length of the file cannot be read.
    pub fn new(file: File, metadata: &ArrowReaderMetadata, row_groups: &[usize]) -> Result<BlockReader> {
        let length = file.metadata()?.len();
        let mut chunks: Vec<(Range<u64>, usize)> = Vec::new();
        for &group in row_groups {
            for (column, chunk) in metadata.metadata().row_group(group).columns().iter().enumerate() {
                let (start, length) = chunk.byte_range();
                chunks.push((start..start.saturating_add(length), column));
            }
        }
        chunks.sort_by_key(|(range, _)| range.start);
        let columns = metadata.parquet_schema().num_columns();
        Ok(BlockReader { length, chunks, reading: Mutex::new(Reading { file, blocks: vec![None; columns] }) })
    }

    /// The bytes from `start` on: at least this many, unless the column ends before.
    fn read_from(&self, start: u64, least: u64) -> Result<Bytes> {
        let chunk = self.chunks.partition_point(|(range, _)| range.start <= start).checked_sub(1);
        let chunk = chunk.map(|at| &self.chunks[at]).filter(|(range, _)| start < range.end);
        let end = chunk.map_or(self.length, |(range, _)| range.end.min(self.length));
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, column)) = chunk else { return reading.read(start..(start + least).min(end)) };
        if let Some((begins, block)) = &reading.blocks[*column] {
            let held = *begins..*begins + block.len() as u64;
            if held.contains(&start) && (held.end - start >= least || held.end == end) {
                return Ok(block.slice((start - begins) as usize..));
            }
        }
        let block = reading.read(start..(start + least.max(BLOCK)).min(end))?;
        reading.blocks[*column] = Some((start, block.clone()));
        Ok(block)
    }
}

impl Reading {
    /// These bytes of the file, fewer if it ends before.
    fn read(&mut self, range: Range<u64>) -> Result<Bytes> {
        let length = range.end.saturating_sub(range.start);
        let mut buffer = PooledBuffer::new(length as usize);
        self.file.seek(SeekFrom::Start(range.start))?;
        let mut read = 0;
        while read < buffer.bytes().len() {
            match self.file.read(&mut buffer.bytes()[read..]) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(buffer.share(read))
    }
}

impl Length for BlockReader {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for BlockReader {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> Result<Cursor<Bytes>> {
        self.read_from(start, MAX_HEADER).map(Cursor::new)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let found = self.read_from(start, length as u64)?;
        match found.len() {
            available if available >= length => Ok(found.slice(..length)),
            available => Err(ParquetError::EOF(format!(
                "{length} bytes are expected at {start}, there are {available}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ArrowReaderOptions;
    use std::sync::Arc;

    #[test]
    fn the_bytes_of_the_file_are_read() {
        let mut bytes = Vec::new();
        let values = |seed: i64| Arc::new((0..400_000).map(|i| i * seed).collect::<Int64Array>()) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("a", values(7)), ("b", values(13))]).unwrap();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let path = std::env::temp_dir().join(format!("whimbrel-chunks-{}.parquet", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).unwrap();
        let chunks = BlockReader::new(file, &metadata, &[0]).unwrap();
        let columns =
            [metadata.metadata().row_group(0).column(0), metadata.metadata().row_group(0).column(1)];
        for offset in [0, 10, 1_000_000, 1_048_570, 2_000_000, 5] {
            for (start, _) in columns.map(|column| column.byte_range()) {
                let (from, length) = (start + offset, 100_000);
                let expected = &bytes[from as usize..from as usize + length];
                assert_eq!(&chunks.get_bytes(from, length).unwrap()[..], expected);
                let mut head = [0; 64];
                chunks.get_read(from).unwrap().read_exact(&mut head).unwrap();
                assert_eq!(head, expected[..64]);
            }
        }
        assert!(chunks.get_bytes(bytes.len() as u64 - 3, 10).is_err());
    }
}
