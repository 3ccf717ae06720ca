//! Verified pages: each page of a column is checked against its header before the library reads it.
//!
//! Its compressed bytes can decompress to as many bytes as the header says, there is memory for these, and
//! the checksum is right, if the page has one.

use super::block_reader::BlockReader;
use super::buffer_pool::Bytes;
use super::decompression::{can_allocate, max_ratio};
use super::thrift::PageHeader;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::io::Cursor;
use std::sync::{Arc, Mutex, PoisonError};

/// A column of a file in a row group, the pages of which are verified.
pub(super) struct VerifiedColumn {
    input: Arc<BlockReader>,
    compression: Compression,
    /// The header that was read last, and the offset of its page.
    page: Mutex<Option<(u64, PageHeader)>>,
}

impl VerifiedColumn {
    /// A column whose pages are compressed with this codec.
    pub fn new(input: Arc<BlockReader>, compression: Compression) -> VerifiedColumn {
        VerifiedColumn { input, compression, page: Mutex::new(None) }
    }

    /// Verifies and keeps the header at this offset. At the offset of the page whose header was read last
    /// there is none.
    fn read_header(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if page.is_some_and(|(at, _)| at == start) {
            return Ok(());
        }
        // The library reports bytes that are no header, in better words.
        let Some(header) = PageHeader::of(bytes) else { return Ok(()) };
        let (compressed, decompressed) =
            (usize::try_from(header.compressed), usize::try_from(header.decompressed));
        let (Ok(compressed), Ok(decompressed)) = (compressed, decompressed) else {
            return Err(damaged(start, format!("has {} bytes", header.compressed.min(header.decompressed))));
        };
        let possible =
            max_ratio(self.compression).map_or(usize::MAX, |ratio| compressed.saturating_mul(ratio));
        // The levels of a page of the second version are not compressed.
        if decompressed > possible.saturating_add(compressed) || !can_allocate(decompressed) {
            return Err(damaged(
                start,
                format!("of {compressed} bytes cannot be unpacked to {decompressed}"),
            ));
        }
        *page = Some((start + header.length as u64, header));
        Ok(())
    }

    /// Verifies a page, if its header was read last.
    fn check(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let page = *self.page.lock().unwrap_or_else(PoisonError::into_inner);
        match page {
            Some((at, header)) if at == start && header.compressed == bytes.len() as i64 => {
                header.check(start, bytes)
            }
            _ => Ok(()),
        }
    }
}

/// Verifies all pages of a column that begins at this offset of its file.
///
/// # Errors
/// If a page is damaged, or is too large for the memory.
pub(super) fn check_pages(mut bytes: &[u8], mut start: u64) -> Result<()> {
    // The library reports bytes that it cannot read, in better words.
    while let Some(header) = PageHeader::of(bytes) {
        let end =
            usize::try_from(header.compressed).ok().and_then(|length| header.length.checked_add(length));
        let Some(page) = end.and_then(|end| bytes.get(header.length..end)) else { return Ok(()) };
        start += header.length as u64;
        if !usize::try_from(header.decompressed).is_ok_and(can_allocate) {
            return Err(damaged(start, format!("cannot be unpacked to {} bytes", header.decompressed)));
        }
        header.check(start, page)?;
        start += page.len() as u64;
        bytes = &bytes[header.length + page.len()..];
    }
    Ok(())
}

impl PageHeader {
    /// Fails if the page at this offset has another checksum than it was written with.
    fn check(&self, start: u64, page: &[u8]) -> Result<()> {
        match self.crc {
            Some(crc) if crc32fast::hash(page) != crc => {
                Err(damaged(start, "has another checksum than it was written with".to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// The error of a damaged page.
fn damaged(start: u64, how: String) -> ParquetError {
    ParquetError::General(format!("it is damaged: the page at byte {start} {how}; write or copy it again"))
}

impl Length for VerifiedColumn {
    fn len(&self) -> u64 {
        self.input.len()
    }
}

impl ChunkReader for VerifiedColumn {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> Result<Cursor<Bytes>> {
        let found = self.input.get_read(start)?;
        self.read_header(start, found.get_ref())?;
        Ok(found)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let found = self.input.get_bytes(start, length)?;
        self.check(start, &found)?;
        Ok(found)
    }
}
