//! `to_storage`: one Parquet file per shard.
//!
//! The files get their names when all of them are complete. Those of a query that fails or is cancelled are
//! removed; those of a process that was killed are removed by the next query that writes into the folder.

use super::table_format::TableFormat;
use super::{Action, Partial};
use crate::error::in_file;
use crate::options::Options;
use crate::runtime::{Order, Sink, start};
use datafusion::common::{Result, plan_err};
use datafusion::error::DataFusionError;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use whimbrel_plan::Stream;
use whimbrel_plan::source::local_path;

/// What happens to Parquet files that are in the folder already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The query is refused.
    Refuse,
    /// They are removed once the new files are complete.
    Replace,
}

/// Writes the result into a folder, which is created if need be: `part-00000.parquet` and so on, each in
/// order of time. The action gives their paths.
///
/// # Errors
/// `Plan` if the folder is a URL, or there are files already and `existing` refuses that; `Execution` if
/// they cannot be written; as [`run`](crate::run).
pub fn to_storage(
    stream: &Stream,
    options: &Options,
    folder: &Path,
    existing: Existing,
) -> Result<Action<Vec<PathBuf>>> {
    let folder = match folder.to_str() {
        Some(text) => local_path(text)?,
        None => folder,
    };
    std::fs::create_dir_all(folder).map_err(|e| in_file(folder, e))?;
    let old = parquet_files(folder)?;
    if existing == Existing::Refuse && !old.is_empty() {
        return plan_err!(
            "there are Parquet files in `{}` already; give another folder, or have them replaced",
            folder.display()
        );
    }
    let format = TableFormat::of(stream, options);
    let parts = (0..stream.properties().shards).map(|shard| Part::create(folder, shard, &format));
    let parts = Arc::new(parts.collect::<Result<Vec<_>>>()?);
    let sink = |shard: usize| -> Sink {
        let (parts, format) = (parts.clone(), format.clone());
        Box::new(move |message| match format.table(&message)? {
            Some(rows) => parts[shard].with(|writer| writer.write(&rows)),
            None => Ok(()),
        })
    };
    let sinks = (0..parts.len()).map(sink).collect();
    let job = start(stream, options, Order::Start, sinks)?;
    Ok(Action::new(job, move || {
        parts.iter().try_for_each(Part::close)?;
        for path in old {
            std::fs::remove_file(&path).map_err(|e| in_file(&path, e))?;
        }
        parts.iter().map(Part::publish).collect()
    }))
}

/// The Parquet files in a folder.
fn parquet_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|e| in_file(folder, e))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| in_file(folder, e))?.path();
        if path.extension().is_some_and(|e| e == "parquet") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The file of a shard.
struct Part {
    path: PathBuf,
    /// None once it is published.
    incomplete: Mutex<Option<Incomplete>>,
}

/// A file that is being written.
struct Incomplete {
    partial: Partial,
    /// None once it is closed.
    writer: Option<ArrowWriter<File>>,
}

impl Part {
    /// Begins the file of a shard.
    fn create(folder: &Path, shard: usize, format: &TableFormat) -> Result<Part> {
        let path = folder.join(format!("part-{shard:05}.parquet"));
        let partial = Partial::create(&path).map_err(|e| in_file(&path, e))?;
        let file = partial.file().map_err(|e| in_file(&path, e))?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = ArrowWriter::try_new(file, format.schema(), Some(properties));
        let writer = Some(writer.map_err(|e| in_file(&path, e))?);
        Ok(Part { path, incomplete: Mutex::new(Some(Incomplete { partial, writer })) })
    }

    /// After a panic elsewhere it is not written any more.
    fn lock(&self) -> MutexGuard<'_, Option<Incomplete>> {
        self.incomplete.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to the file.
    fn with(
        &self,
        write: impl FnOnce(&mut ArrowWriter<File>) -> Result<(), parquet::errors::ParquetError>,
    ) -> Result<()> {
        match self.lock().as_mut().and_then(|file| file.writer.as_mut()) {
            Some(writer) => write(writer).map_err(|e| in_file(&self.path, e)),
            None => Err(DataFusionError::Internal("a file is written after it was closed".into())),
        }
    }

    /// Writes the footer.
    fn close(&self) -> Result<()> {
        match self.lock().as_mut().and_then(|file| file.writer.take()) {
            Some(writer) => writer.close().map(|_| ()).map_err(|e| in_file(&self.path, e)),
            None => Ok(()),
        }
    }

    /// Gives the file its name.
    fn publish(&self) -> Result<PathBuf> {
        if let Some(file) = self.lock().take() {
            file.partial.publish().map_err(|e| in_file(&self.path, e))?;
        }
        Ok(self.path.clone())
    }
}
