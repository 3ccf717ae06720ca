//! Small tables as bytes, which go along with files.

use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;

/// A small table as a stream of Arrow IPC.
pub(super) fn write_table(rows: &RecordBatch) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, rows.schema_ref())?;
    if rows.num_rows() > 0 {
        writer.write(rows)?;
    }
    writer.finish()?;
    Ok(bytes)
}

/// The table of a stream with one batch.
pub(super) fn read_table(bytes: &[u8]) -> Result<RecordBatch> {
    crate::error::untrusted(&"a table of a file", || {
        let mut reader = StreamReader::try_new(bytes, None)?;
        let rows = reader.next().transpose()?;
        Ok(rows.unwrap_or_else(|| RecordBatch::new_empty(reader.schema())))
    })
}
