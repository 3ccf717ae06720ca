//! Parquet files.

use super::{Opened, Unit};
use crate::dataset::Reader;
use crate::error::in_file;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_err};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file and its footer, which is read once.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
}

const MAGIC: &[u8; 4] = b"PAR1";

pub(super) fn open(path: &Path) -> Result<Opened> {
    let mut file = std::fs::File::open(path).map_err(|e| in_file(path, e))?;
    check_ends(path, &mut file)?;
    let metadata =
        ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(|e| in_file(path, e))?;
    let rows: Vec<usize> = metadata.metadata().row_groups().iter().map(|g| g.num_rows() as usize).collect();
    let schema = metadata.schema().clone();
    let file = Arc::new(File { path: path.to_path_buf(), metadata });
    let units = (0..rows.len()).map(|row_group| Unit::Parquet { file: file.clone(), row_group }).collect();
    Ok(Opened { schema, units, rows: Some(rows) })
}

/// A Parquet file begins and ends with its magic number; one that only begins with it was cut short.
fn check_ends(path: &Path, file: &mut std::fs::File) -> Result<()> {
    let length = file.seek(SeekFrom::End(0)).map_err(|e| in_file(path, e))?;
    if length == 0 {
        return exec_err!("`{}` is empty; a Parquet file has a footer at least", path.display());
    }
    let mut head = [0; 4];
    let mut tail = [0; 4];
    if length >= 4 {
        file.rewind().and_then(|()| file.read_exact(&mut head)).map_err(|e| in_file(path, e))?;
        file.seek(SeekFrom::End(-4))
            .and_then(|_| file.read_exact(&mut tail))
            .map_err(|e| in_file(path, e))?;
    }
    file.rewind().map_err(|e| in_file(path, e))?;
    if &head != MAGIC {
        return exec_err!("`{}` is not a Parquet file", path.display());
    }
    if length < 12 || &tail != MAGIC {
        return exec_err!(
            "truncated parquet: `{}` ends after {length} bytes without its footer; write or copy it again",
            path.display()
        );
    }
    Ok(())
}

/// Reads `limit` rows from row `offset` of the first of these row groups on.
pub(super) fn read(
    file: &File,
    groups: Vec<usize>,
    offset: usize,
    limit: usize,
    projection: Option<&[usize]>,
    batch_rows: usize,
) -> Result<Box<dyn Reader>> {
    let input = std::fs::File::open(&file.path).map_err(|e| in_file(&file.path, e))?;
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(input, file.metadata.clone())
        .with_row_groups(groups)
        .with_batch_size(batch_rows)
        .with_offset(offset)
        .with_limit(limit);
    if let Some(columns) = projection {
        let mask = ProjectionMask::roots(file.metadata.parquet_schema(), columns.iter().copied());
        builder = builder.with_projection(mask);
    }
    let batches = builder.build().map_err(|e| in_file(&file.path, e))?;
    Ok(Box::new(Batches { path: file.path.clone(), batches, order: order(projection) }))
}

/// A mask keeps the file's order of columns; the plan may want another.
pub(super) fn order(projection: Option<&[usize]>) -> Option<Vec<usize>> {
    let columns = projection?;
    if columns.is_sorted() {
        return None;
    }
    let mut sorted = columns.to_vec();
    sorted.sort_unstable();
    // Every column is in its own sorted copy.
    Some(columns.iter().map(|c| sorted.partition_point(|s| s < c)).collect())
}

/// The batches of any of arrow's readers, their errors with the name of the file.
pub(super) struct Batches<I> {
    pub path: PathBuf,
    pub batches: I,
    pub order: Option<Vec<usize>>,
}

impl<I: Iterator<Item = Result<RecordBatch, ArrowError>> + Send> Reader for Batches<I> {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self.batches.next() {
            None => Ok(None),
            Some(Err(error)) => Err(in_file(&self.path, error)),
            Some(Ok(batch)) => Ok(Some(match &self.order {
                Some(order) => batch.project(order)?,
                None => batch,
            })),
        }
    }
}
