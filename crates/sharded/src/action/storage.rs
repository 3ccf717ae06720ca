//! `to_storage`: a Parquet file a shard.
//!
//! Files appear under their names when all of them are complete; what a query leaves that fails or is stopped
//! is removed, and what one leaves that is killed by the next one that writes into the folder.

use super::form::Form;
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

/// What to do with Parquet files that are in the folder already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Refuse to run.
    Refuse,
    /// Remove them once the new ones are complete.
    Replace,
}

/// Writes the result into a folder, which is made if need be: `part-00000.parquet` and so on, in order of
/// time. The action gives their paths.
pub fn to_storage(
    stream: &Stream,
    options: &Options,
    folder: &Path,
    existing: Existing,
) -> Result<Action<Vec<PathBuf>>> {
    std::fs::create_dir_all(folder).map_err(|e| in_file(folder, e))?;
    let old = parquet_files(folder)?;
    if existing == Existing::Refuse && !old.is_empty() {
        return plan_err!(
            "there are Parquet files in `{}` already; give another folder, or have them replaced",
            folder.display()
        );
    }
    let form = Form::of(stream, options);
    let parts = (0..stream.properties().shards).map(|shard| Part::create(folder, shard, &form));
    let parts = Arc::new(parts.collect::<Result<Vec<_>>>()?);
    let sink = |shard: usize| -> Sink {
        let (parts, form) = (parts.clone(), form.clone());
        Box::new(move |message| match form.table(&message)? {
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

/// A file in the making.
struct Part {
    path: PathBuf,
    making: Mutex<Option<Making>>,
}

/// What is needed until it is complete.
struct Making {
    partial: Partial,
    writer: Option<ArrowWriter<File>>,
}

impl Part {
    fn create(folder: &Path, shard: usize, form: &Form) -> Result<Part> {
        let path = folder.join(format!("part-{shard:05}.parquet"));
        let partial = Partial::create(&path).map_err(|e| in_file(&path, e))?;
        let file = partial.file().map_err(|e| in_file(&path, e))?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = ArrowWriter::try_new(file, form.schema(), Some(properties));
        let writer = Some(writer.map_err(|e| in_file(&path, e))?);
        Ok(Part { path, making: Mutex::new(Some(Making { partial, writer })) })
    }

    /// A panic elsewhere leaves it whole: it is not written any more.
    fn making(&self) -> MutexGuard<'_, Option<Making>> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(
        &self,
        write: impl FnOnce(&mut ArrowWriter<File>) -> Result<(), parquet::errors::ParquetError>,
    ) -> Result<()> {
        match self.making().as_mut().and_then(|making| making.writer.as_mut()) {
            Some(writer) => write(writer).map_err(|e| in_file(&self.path, e)),
            None => Err(DataFusionError::Internal("a file is written after it was closed".into())),
        }
    }

    fn close(&self) -> Result<()> {
        match self.making().as_mut().and_then(|making| making.writer.take()) {
            Some(writer) => writer.close().map(|_| ()).map_err(|e| in_file(&self.path, e)),
            None => Ok(()),
        }
    }

    fn publish(&self) -> Result<PathBuf> {
        if let Some(making) = self.making().take() {
            making.partial.publish().map_err(|e| in_file(&self.path, e))?;
        }
        Ok(self.path.clone())
    }
}
