//! A folder of Parquet or Arrow files as a sink, on this machine or in an object store.
//!
//! Rows are written to a file that nobody sees. A commit puts that file under `_job/staging`, then creates
//! a record under `_job/commits` that names the epoch and the file, and then gives the file its name. The
//! record is the commit: a run that finds one whose file has not got its name yet finishes that first.
//! Names that begin with an underscore are no data for readers of the folder, ours included.
//!
//! Invariant: records are numbered, and the next one is created by one run. A run that takes the folder over
//! creates a record, so an earlier run finds its next number taken; or free again, as old records are
//! removed, and then a later one beside it.

mod file;
mod place;

use super::{Run, Sink};
use crate::codec;
use crate::error::overtaken;
use crate::store::Access;
use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use file::StagedFile;
use place::{FolderPlace, ObjectsPlace, Place};
use serde::{Deserialize, Serialize};
use whimbrel_plan::source::local_path;

pub use file::FolderFormat;

const COMMITS: &str = "commits";

/// How many bytes of rows a file has at most, about; it may be smaller on the disk.
const FILE_BYTES: usize = 256 << 20;

/// Writes files into a folder.
pub struct FolderSink {
    location: String,
    format: FolderFormat,
    access: Access,
    /// What it has once it is open.
    open: Option<Open>,
}

/// An open folder.
struct Open {
    run: Run,
    place: Box<dyn Place>,
    /// The number of the last record.
    last: u64,
    staged: Option<StagedFile>,
}

/// A commit.
#[derive(Debug, Serialize, Deserialize)]
struct Commit {
    job: String,
    generation: u64,
    /// The last epoch that was committed; none at the beginning of a job.
    epoch: Option<u64>,
    /// The name of the last file that was committed; none if this commit has no rows.
    file: Option<String>,
}

impl Commit {
    /// The name of its file before it is committed. Runs do not write each other's.
    fn staged(&self, file: &str) -> String {
        staged_name(self.generation, file)
    }
}

/// The name of a file that a run of this generation has not committed yet.
fn staged_name(generation: u64, file: &str) -> String {
    format!("{generation}-{file}")
}

impl FolderSink {
    /// A sink for the folder at a path or a URL, which is made if need be.
    pub fn new(location: &str, format: FolderFormat) -> FolderSink {
        FolderSink { location: location.to_string(), format, access: Access::Exclusive, open: None }
    }

    /// The same sink, which lets in other processes or keeps them out.
    #[must_use]
    pub fn with_access(self, access: Access) -> FolderSink {
        FolderSink { access, ..self }
    }

    fn opened(&mut self) -> Result<&mut Open> {
        match &mut self.open {
            Some(open) => Ok(open),
            None => Err(DataFusionError::Internal("a sink is used before it is open".to_string())),
        }
    }

    fn place(&self) -> Result<Box<dyn Place>> {
        let path = self.location.strip_prefix("file://").unwrap_or(&self.location);
        match path.contains("://") {
            true => Ok(Box::new(ObjectsPlace::open(path)?)),
            false => Ok(Box::new(FolderPlace::open(local_path(path)?, self.access)?)),
        }
    }

    /// Opens the folder for a run, and finishes the last commit.
    fn take_over(&mut self, place: Box<dyn Place>, run: &Run) -> Result<Option<u64>> {
        let (last, commit) = last_commit(place.as_ref())?;
        if let Some(commit) = &commit {
            if commit.job != run.job {
                return plan_err!(
                    "`{}` has results of another job; give this one a folder of its own, or the state of that one",
                    place.describe()
                );
            }
            publish(place.as_ref(), commit)?;
        }
        let (epoch, file) = commit.map_or((None, None), |commit| (commit.epoch, commit.file));
        let mut open = Open { run: run.clone(), place, last, staged: None };
        open.create_record(epoch, file)?;
        open.place.clear()?;
        self.open = Some(open);
        Ok(epoch)
    }
}

impl Sink for FolderSink {
    fn open(&mut self, run: &Run) -> Result<Option<u64>> {
        let place = self.place()?;
        self.take_over(place, run)
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let format = self.format;
        let open = self.opened()?;
        let staged = match &mut open.staged {
            Some(staged) => staged,
            none => none.insert(StagedFile::new(open.place.create()?, format, &open.run.schema)?),
        };
        staged.write(rows)
    }

    fn commit(&mut self, epoch: u64) -> Result<()> {
        let suffix = self.format.suffix();
        let open = self.opened()?;
        let file = match open.staged.take() {
            Some(staged) => {
                let name = format!("part-{epoch:012}.{suffix}");
                open.place.stage(staged.finish()?, &staged_name(open.run.generation, &name))?;
                Some(name)
            }
            None => None,
        };
        let commit = open.create_record(Some(epoch), file)?;
        publish(open.place.as_ref(), &commit)
    }

    fn is_due(&self) -> bool {
        let staged = self.open.as_ref().and_then(|open| open.staged.as_ref());
        staged.is_some_and(|staged| staged.bytes() >= FILE_BYTES)
    }
}

impl Open {
    /// Creates the next record, and removes those before it: whoever opens the folder reads the last one.
    ///
    /// # Errors
    /// `Execution` if another run has gone on behind the last record.
    fn create_record(&mut self, epoch: Option<u64>, file: Option<String>) -> Result<Commit> {
        let Run { job, generation, .. } = &self.run;
        let commit = Commit { job: job.clone(), generation: *generation, epoch, file };
        self.last += 1;
        let log = self.place.log();
        let is_created = log.create(&record_name(self.last), codec::seal(&commit)?)?;
        let numbers: Vec<u64> = log.list(COMMITS)?.iter().filter_map(|name| name.parse().ok()).collect();
        if !is_created || numbers.iter().any(|number| *number > self.last) {
            return Err(overtaken(format!(
                "another process goes on with the job that writes to `{}`; this one stops",
                self.place.describe()
            )));
        }
        let old = numbers.into_iter().filter(|number| *number < self.last).map(record_name);
        log.remove(&old.collect::<Vec<_>>())?;
        Ok(commit)
    }
}

fn record_name(number: u64) -> String {
    format!("{COMMITS}/{number:012}")
}

/// The last record of a folder and its number; 0 if there is none.
fn last_commit(place: &dyn Place) -> Result<(u64, Option<Commit>)> {
    let Some(name) = place.log().list(COMMITS)?.pop() else { return Ok((0, None)) };
    let path = format!("{COMMITS}/{name}");
    let commit = codec::open(&place.log().get(&path)?.unwrap_or_default(), &path)?;
    match name.parse() {
        Ok(number) => Ok((number, Some(commit))),
        Err(_) => exec_err!("`{}` has a record of no number: {path}", place.describe()),
    }
}

/// Gives the file of a commit its name, if it has not got it yet.
fn publish(place: &dyn Place, commit: &Commit) -> Result<()> {
    let Some(file) = &commit.file else { return Ok(()) };
    match place.publish(&commit.staged(file), file)? {
        true => Ok(()),
        false => exec_err!(
            "`{file}` was committed to `{}` and is gone; a job that is to go on needs its results left where they \
             are, or a new folder for its state and one for its results",
            place.describe()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use std::sync::Arc;

    /// Without locks, as in an object store: a run that was replaced long ago finds its number free again.
    #[test]
    fn a_run_that_was_replaced_commits_nothing() {
        let root = std::env::temp_dir().join(format!("whimbrel-fence-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let rows = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let open = |generation| {
            let mut sink = FolderSink::new("", FolderFormat::Parquet);
            let place = ObjectsPlace::open(&format!("file://{}", root.display())).unwrap();
            let run =
                Run { job: "a job".into(), generation, schema: rows.schema(), is_stopped: Arc::default() };
            sink.take_over(Box::new(place), &run).unwrap();
            sink
        };
        for later_commits in 0..4 {
            let mut replaced = open(2 * later_commits + 1);
            let mut current = open(2 * later_commits + 2);
            for epoch in 0..later_commits {
                current.write(&rows).unwrap();
                current.commit(100 * (later_commits + 1) + epoch).unwrap();
            }
            replaced.write(&rows).unwrap();
            assert!(replaced.commit(7).is_err(), "behind {later_commits} commits");
            assert!(!root.join("part-000000000007.parquet").exists());
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
}
