//! The bytes of a column, each page of which is held against its header: it can be unpacked to as much as that says,
//! and it has the checksum that it was written with, if it has one.

use super::chunks::Chunks;
use super::fetching::Bytes;
use super::thrift::PageHeader;
use super::unpacking::{is_there_memory, most};
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::io::Cursor;
use std::sync::{Arc, Mutex, PoisonError};

/// A column of a file in a row group.
pub(super) struct Checked {
    input: Arc<Chunks>,
    compression: Compression,
    /// Where the bytes of the page begin whose header was read last, and its header.
    page: Mutex<Option<(u64, PageHeader)>>,
}

impl Checked {
    /// A column whose pages are packed so.
    pub fn new(input: Arc<Chunks>, compression: Compression) -> Checked {
        Checked { input, compression, page: Mutex::new(None) }
    }

    /// Remembers the header that begins at this byte. Where the page begins whose header was read last, there is none.
    fn note(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if page.is_some_and(|(at, _)| at == start) {
            return Ok(());
        }
        // Bytes that are no header are reported by the library, in better words.
        let Some(header) = PageHeader::of(bytes) else { return Ok(()) };
        let (packed, unpacked) = (usize::try_from(header.packed), usize::try_from(header.unpacked));
        let (Ok(packed), Ok(unpacked)) = (packed, unpacked) else {
            return Err(damaged(start, format!("has {} bytes", header.packed.min(header.unpacked))));
        };
        let possible = most(self.compression).map_or(usize::MAX, |most| packed.saturating_mul(most));
        // Levels of a page of the second version are not packed.
        if unpacked > possible.saturating_add(packed) || !is_there_memory(unpacked) {
            return Err(damaged(start, format!("of {packed} bytes cannot be unpacked to {unpacked}")));
        }
        *page = Some((start + header.length as u64, header));
        Ok(())
    }

    fn check(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let page = *self.page.lock().unwrap_or_else(PoisonError::into_inner);
        match page {
            Some((at, header)) if at == start && header.packed == bytes.len() as i64 => {
                header.check(start, bytes)
            }
            _ => Ok(()),
        }
    }
}

/// Holds the pages of a column that begins at this byte of its file against their headers.
pub(super) fn check_pages(mut bytes: &[u8], mut start: u64) -> Result<()> {
    // Bytes that cannot be read are reported by the library, in better words.
    while let Some(header) = PageHeader::of(bytes) {
        let end = usize::try_from(header.packed).ok().and_then(|packed| header.length.checked_add(packed));
        let Some(page) = end.and_then(|end| bytes.get(header.length..end)) else { return Ok(()) };
        start += header.length as u64;
        if !usize::try_from(header.unpacked).is_ok_and(is_there_memory) {
            return Err(damaged(start, format!("cannot be unpacked to {} bytes", header.unpacked)));
        }
        header.check(start, page)?;
        start += page.len() as u64;
        bytes = &bytes[header.length + page.len()..];
    }
    Ok(())
}

impl PageHeader {
    /// Whether the page that begins at this byte is the one that was written.
    fn check(&self, start: u64, page: &[u8]) -> Result<()> {
        match self.crc {
            Some(crc) if crc32fast::hash(page) != crc => {
                Err(damaged(start, "has another checksum than it was written with".to_string()))
            }
            _ => Ok(()),
        }
    }
}

fn damaged(start: u64, how: String) -> ParquetError {
    ParquetError::General(format!("it is damaged: the page at byte {start} {how}; write or copy it again"))
}

impl Length for Checked {
    fn len(&self) -> u64 {
        self.input.len()
    }
}

impl ChunkReader for Checked {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> Result<Cursor<Bytes>> {
        let found = self.input.get_read(start)?;
        self.note(start, found.get_ref())?;
        Ok(found)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let found = self.input.get_bytes(start, length)?;
        self.check(start, &found)?;
        Ok(found)
    }
}
