//! A folder of Parquet or Arrow files as a sink.
//!
//! Rows are written to a file under `_job/staging`. A commit closes and synchronizes that file, then
//! creates a record under `_job/commits` that names the epoch and the file, and then gives the file its
//! name. The record is the commit: a run that finds one whose file has not got its name yet finishes that
//! first. Names that begin with an underscore are no data for readers of the folder, ours included.

use super::{Run, Sink};
use crate::codec;
use crate::error::in_file;
use crate::store::{FolderStore, StateStore, create_folder, sync_folder};
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::FileWriter;
use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const JOB: &str = "_job";
const STAGING: &str = "_job/staging";
const COMMITS: &str = "commits";

/// How many bytes of rows a file has at most, about; it may be smaller on the disk.
const FILE_BYTES: usize = 256 << 20;

/// The format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FolderFormat {
    /// Apache Parquet.
    #[default]
    Parquet,
    /// Arrow IPC files.
    Arrow,
}

impl FolderFormat {
    /// The suffix of the files.
    fn suffix(self) -> &'static str {
        match self {
            FolderFormat::Parquet => "parquet",
            FolderFormat::Arrow => "arrow",
        }
    }
}

/// Writes files into a folder.
pub struct FolderSink {
    folder: PathBuf,
    format: FolderFormat,
    /// What it has once it is open.
    open: Option<Open>,
}

/// An open folder.
struct Open {
    run: Run,
    log: FolderStore,
    staged: Option<Staged>,
}

/// The file that is being written.
struct Staged {
    path: PathBuf,
    writer: Writer,
    bytes: usize,
}

enum Writer {
    Parquet(ArrowWriter<File>),
    Arrow(FileWriter<File>),
}

/// A commit.
#[derive(Debug, Serialize, Deserialize)]
struct Commit {
    job: String,
    generation: u64,
    epoch: u64,
    /// The name of its file; none if it has no rows.
    file: Option<String>,
}

impl FolderSink {
    /// A sink for this folder, which is made if need be.
    pub fn new(folder: &Path, format: FolderFormat) -> FolderSink {
        FolderSink { folder: folder.to_path_buf(), format, open: None }
    }

    fn opened(&mut self) -> Result<&mut Open> {
        match &mut self.open {
            Some(open) => Ok(open),
            None => Err(DataFusionError::Internal("a sink is used before it is open".to_string())),
        }
    }

    /// Gives the file of a commit its name, if it has not got it yet.
    fn finish(folder: &Path, commit: &Commit) -> Result<()> {
        let Some(file) = &commit.file else { return Ok(()) };
        let (staged, path) = (folder.join(STAGING).join(file), folder.join(file));
        if !staged.exists() {
            return match path.exists() {
                true => Ok(()),
                false => exec_err!(
                    "`{}` was committed and is gone; a job that is to go on needs its results left where they are, or \
                     a new folder for its state and one for its results",
                    path.display()
                ),
            };
        }
        fs::rename(&staged, &path).map_err(|e| in_file(&path, e))?;
        sync_folder(folder)
    }
}

impl Sink for FolderSink {
    fn open(&mut self, run: &Run) -> Result<Option<u64>> {
        create_folder(&self.folder)?;
        create_folder(&self.folder.join(STAGING))?;
        let log = FolderStore::open(&self.folder.join(JOB))?;
        let last = match log.list(COMMITS)?.pop() {
            Some(name) => {
                let name = format!("{COMMITS}/{name}");
                Some(codec::open::<Commit>(&log.get(&name)?.unwrap_or_default(), &name)?)
            }
            None => None,
        };
        if let Some(commit) = &last {
            if commit.job != run.job {
                return plan_err!(
                    "`{}` has results of another job; give this one a folder of its own, or the state of that one",
                    self.folder.display()
                );
            }
            FolderSink::finish(&self.folder, commit)?;
        }
        remove_files(&self.folder.join(STAGING))?;
        self.open = Some(Open { run: run.clone(), log, staged: None });
        Ok(last.map(|commit| commit.epoch))
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let (folder, format) = (self.folder.clone(), self.format);
        let open = self.opened()?;
        let staged = match &mut open.staged {
            Some(staged) => staged,
            none => none.insert(Staged::create(&folder.join(STAGING), format, &open.run.schema)?),
        };
        staged.write(rows)
    }

    fn commit(&mut self, epoch: u64) -> Result<()> {
        let (folder, suffix) = (self.folder.clone(), self.format.suffix());
        let open = self.opened()?;
        let file = open.staged.is_some().then(|| format!("part-{epoch:012}.{suffix}"));
        if let (Some(staged), Some(file)) = (open.staged.take(), &file) {
            staged.close(&folder.join(STAGING).join(file))?;
            sync_folder(&folder.join(STAGING))?;
        }
        let (job, generation) = (open.run.job.clone(), open.run.generation);
        let commit = Commit { job, generation, epoch, file };
        let name = |epoch: u64| format!("{COMMITS}/{epoch:012}");
        if !open.log.create(&name(epoch), codec::seal(&commit)?)? {
            return exec_err!("another process has committed epoch {epoch} to `{}`", folder.display());
        }
        FolderSink::finish(&folder, &commit)?;
        // Whoever opens the folder reads the last record only.
        let old = open.log.list(COMMITS)?.into_iter().filter(|n| n.parse().is_ok_and(|n: u64| n < epoch));
        open.log.remove(&old.map(|n| format!("{COMMITS}/{n}")).collect::<Vec<_>>())
    }

    fn is_due(&self) -> bool {
        let staged = self.open.as_ref().and_then(|open| open.staged.as_ref());
        staged.is_some_and(|staged| staged.bytes >= FILE_BYTES)
    }
}

impl Staged {
    fn create(folder: &Path, format: FolderFormat, schema: &SchemaRef) -> Result<Staged> {
        let path = folder.join(format!("open.{}", format.suffix()));
        let file = File::create(&path).map_err(|e| in_file(&path, e))?;
        let writer = match format {
            FolderFormat::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                Writer::Parquet(ArrowWriter::try_new(file, schema.clone(), Some(properties))?)
            }
            FolderFormat::Arrow => Writer::Arrow(FileWriter::try_new(file, schema)?),
        };
        Ok(Staged { path, writer, bytes: 0 })
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.bytes += rows.get_array_memory_size();
        match &mut self.writer {
            Writer::Parquet(writer) => Ok(writer.write(rows)?),
            Writer::Arrow(writer) => Ok(writer.write(rows)?),
        }
    }

    /// Writes the footer, and gives the file its name in the same folder, durably.
    fn close(self, to: &Path) -> Result<()> {
        let file = match self.writer {
            Writer::Parquet(writer) => writer.into_inner()?,
            Writer::Arrow(mut writer) => {
                writer.finish()?;
                writer.into_inner()?
            }
        };
        file.sync_all().map_err(|e| in_file(&self.path, e))?;
        fs::rename(&self.path, to).map_err(|e| in_file(to, e))
    }
}

/// Removes the files of a folder: a run that was killed had not committed them.
fn remove_files(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|e| in_file(folder, e))? {
        let path = entry.map_err(|e| in_file(folder, e))?.path();
        fs::remove_file(&path).map_err(|e| in_file(&path, e))?;
    }
    Ok(())
}
