//! A Parquet file of this machine, read in blocks: a few large reads a column instead of some small ones a page.
//!
//! Invariant: of each column at most one block is held, that of the page which was read last.

use super::fetching::Bytes;
use super::memory::Block;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// How much is read at once, if there is as much of a column.
const BLOCK: u64 = 1 << 20;

/// How much a header of a page may take before it is read from a block of its own.
const HEADER: u64 = 16 << 10;

/// Some row groups of a file.
pub(super) struct Chunks {
    length: u64,
    /// Where the columns of the row groups are, in the order of the file, and which columns these are.
    chunks: Vec<(Range<u64>, usize)>,
    reading: Mutex<Reading>,
}

struct Reading {
    file: File,
    /// By column: where a block begins, and what is in it.
    blocks: Vec<Option<(u64, Bytes)>>,
}

impl Chunks {
    /// These row groups of a file.
    pub fn new(file: File, metadata: &ArrowReaderMetadata, groups: &[usize]) -> Result<Chunks> {
        let length = file.metadata()?.len();
        let mut chunks: Vec<(Range<u64>, usize)> = Vec::new();
        for &group in groups {
            for (column, chunk) in metadata.metadata().row_group(group).columns().iter().enumerate() {
                let (start, length) = chunk.byte_range();
                chunks.push((start..start.saturating_add(length), column));
            }
        }
        chunks.sort_by_key(|(range, _)| range.start);
        let columns = metadata.parquet_schema().num_columns();
        Ok(Chunks { length, chunks, reading: Mutex::new(Reading { file, blocks: vec![None; columns] }) })
    }

    /// What there is from `start` on, at least so much if the column goes on for as long.
    fn starting(&self, start: u64, least: u64) -> Result<Bytes> {
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
        let wanted = range.end.saturating_sub(range.start);
        let mut block = Block::new(wanted as usize);
        self.file.seek(SeekFrom::Start(range.start))?;
        let mut read = 0;
        while read < block.bytes().len() {
            match self.file.read(&mut block.bytes()[read..]) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(block.share(read))
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Chunks {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> Result<Cursor<Bytes>> {
        self.starting(start, HEADER).map(Cursor::new)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let found = self.starting(start, length as u64)?;
        match found.len() {
            enough if enough >= length => Ok(found.slice(..length)),
            less => {
                Err(ParquetError::EOF(format!("{length} bytes are expected at {start}, there are {less}")))
            }
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
    fn parts_of_a_file_are_what_is_in_it() {
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
        let chunks = Chunks::new(file, &metadata, &[0]).unwrap();
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
