//! Apache Arrow's IPC format: a file, which can be read from any batch, or a stream for pipes.

use super::file_options::FileOptions;
use super::writer::{ByteSink, RowWriter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::writer::{FileWriter, StreamWriter};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;

/// Writes Arrow's IPC format.
pub enum Arrow {
    /// A file, which has an index at its end.
    File(FileWriter<ByteSink>),
    /// A stream, which has none.
    Stream(StreamWriter<ByteSink>),
}

impl Arrow {
    /// A writer of rows with these columns.
    ///
    /// # Errors
    /// `ArrowError` if the header cannot be written.
    pub fn new(schema: &SchemaRef, sink: ByteSink, options: &FileOptions) -> Result<Arrow> {
        Ok(match options.ipc_stream {
            false => Arrow::File(FileWriter::try_new(sink, schema)?),
            true => Arrow::Stream(StreamWriter::try_new(sink, schema)?),
        })
    }
}

impl RowWriter for Arrow {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        match self {
            Arrow::File(writer) => writer.write(rows)?,
            Arrow::Stream(writer) => {
                writer.write(rows)?;
                writer.flush()?;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        // `into_inner` writes the end of the file.
        match *self {
            Arrow::File(writer) => writer.into_inner()?.flush()?,
            Arrow::Stream(writer) => writer.into_inner()?.flush()?,
        }
        Ok(())
    }
}
