//! The footer of a Parquet file, checked against the file before the library allocates memory for what it
//! says.

use super::thrift::is_complete;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use std::sync::Arc;

/// What a file ends with: the length of its footer, and its magic number.
pub(super) const TAIL: u64 = 8;

/// The error of a damaged file.
fn damaged(how: String) -> ParquetError {
    ParquetError::General(format!("it is damaged: {how}"))
}

/// The length of the footer of a file of this length that ends with these bytes.
///
/// # Errors
/// If the footer is encrypted, or longer than the file.
pub(super) fn length(tail: [u8; TAIL as usize], file: u64) -> Result<u64> {
    if &tail[4..] == b"PARE" {
        return Err(ParquetError::NYI("its footer is encrypted".to_string()));
    }
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    match length + TAIL <= file {
        true => Ok(length),
        false => Err(damaged(format!("its footer has {length} bytes, and the file {file}"))),
    }
}

/// Decodes the footer of a file of this length.
///
/// # Errors
/// If it is damaged, or does not fit the file.
pub(super) fn read(footer: &[u8], file: u64) -> Result<ArrowReaderMetadata> {
    if !is_complete(footer) {
        return Err(damaged("its footer cannot be read".to_string()));
    }
    let metadata = ParquetMetaDataReader::decode_metadata(footer)?;
    check(&metadata, file)?;
    ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new())
}

/// Checks that row groups lie in the file and have the rows of the file.
fn check(metadata: &ParquetMetaData, file: u64) -> Result<()> {
    let groups = metadata.row_groups();
    groups.iter().try_for_each(|group| check_group(group, file))?;
    let rows = groups.iter().try_fold(0i64, |sum, group| sum.checked_add(group.num_rows()));
    match (rows, metadata.file_metadata().num_rows()) {
        (Some(rows), all) if rows == all => Ok(()),
        (_, all) => Err(damaged(format!("its row groups do not have the {all} rows of the file"))),
    }
}

/// Checks that the columns of a row group lie in the file.
fn check_group(group: &RowGroupMetaData, file: u64) -> Result<()> {
    if group.num_rows() < 0 {
        return Err(damaged(format!("a row group has {} rows", group.num_rows())));
    }
    for column in group.columns() {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let (start, length) = (u64::try_from(start).ok(), u64::try_from(column.compressed_size()).ok());
        let end = start.zip(length).and_then(|(start, length)| start.checked_add(length));
        if end.is_none_or(|end| end > file) {
            return Err(damaged(format!("column `{}` does not lie in it", column.column_path())));
        }
    }
    Ok(())
}
