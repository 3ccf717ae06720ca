//! Apache Arrow's IPC format: a file, which can be read from any batch, or a stream for pipes.

use super::{Bytes, Rows, Writing};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::writer::{FileWriter, StreamWriter};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;

/// Writes Arrow's IPC format.
pub enum Arrow {
    /// With an index at the end.
    File(FileWriter<Bytes>),
    /// Without.
    Stream(StreamWriter<Bytes>),
}

impl Arrow {
    /// A file with these columns.
    pub fn new(schema: &SchemaRef, to: Bytes, writing: &Writing) -> Result<Arrow> {
        Ok(match writing.stream {
            false => Arrow::File(FileWriter::try_new(to, schema)?),
            true => Arrow::Stream(StreamWriter::try_new(to, schema)?),
        })
    }
}

impl Rows for Arrow {
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
        // The end is written, and all bytes are on their way.
        match *self {
            Arrow::File(writer) => writer.into_inner()?.flush()?,
            Arrow::Stream(writer) => writer.into_inner()?.flush()?,
        }
        Ok(())
    }
}
