//! The file that is being written: Parquet or Arrow.

use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::FileWriter;
use arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use std::fs::File;

/// The format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FolderFormat {
    /// Apache Parquet.
    #[default]
    Parquet,
    /// Arrow IPC files.
    Arrow,
}

impl FolderFormat {
    /// The suffix of the files.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            FolderFormat::Parquet => "parquet",
            FolderFormat::Arrow => "arrow",
        }
    }
}

/// A file that is being written.
pub(super) struct StagedFile {
    writer: Writer,
    bytes: usize,
}

enum Writer {
    Parquet(ArrowWriter<File>),
    Arrow(FileWriter<File>),
}

impl StagedFile {
    /// Begins an empty file.
    ///
    /// # Errors
    /// Those of the format.
    pub fn new(file: File, format: FolderFormat, schema: &SchemaRef) -> Result<StagedFile> {
        let writer = match format {
            FolderFormat::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                Writer::Parquet(ArrowWriter::try_new(file, schema.clone(), Some(properties))?)
            }
            FolderFormat::Arrow => Writer::Arrow(FileWriter::try_new(file, schema)?),
        };
        Ok(StagedFile { writer, bytes: 0 })
    }

    /// How many bytes the rows took in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes rows.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.bytes += rows.get_array_memory_size();
        match &mut self.writer {
            Writer::Parquet(writer) => Ok(writer.write(rows)?),
            Writer::Arrow(writer) => Ok(writer.write(rows)?),
        }
    }

    /// Writes the footer.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(self) -> Result<File> {
        Ok(match self.writer {
            Writer::Parquet(writer) => writer.into_inner()?,
            Writer::Arrow(mut writer) => {
                writer.finish()?;
                writer.into_inner()?
            }
        })
    }
}
