//! A dataset in files: Parquet, CSV and Arrow IPC, known by their suffixes.
//!
//! All files have the same columns, which is checked when the dataset is opened: nothing is read before all
//! of it can be. Files are in the order in which they were named, those of one pattern in the order of their
//! names. Where the number of rows is known beforehand (Parquet) shards are cut evenly between rows, else
//! between files or batches. Every error names its file.

mod csv;
mod ipc;
mod parquet;

use super::split::contiguous;
use super::{Dataset, Reader, Shard};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_err, plan_err};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whimbrel_plan::{Source, SourceInfo};

/// What can be read by itself: a file, or a part of one.
#[derive(Debug, Clone)]
enum Unit {
    /// A row group.
    Parquet { file: Arc<parquet::File>, row_group: usize },
    /// A whole file.
    Csv { file: Arc<csv::File> },
    /// A record batch of a file.
    Ipc { file: Arc<ipc::File>, batch: usize },
    /// A whole stream.
    IpcStream { path: Arc<PathBuf> },
}

/// Rows in files.
#[derive(Debug)]
pub struct FileDataset {
    names: Vec<String>,
    schema: SchemaRef,
    units: Vec<Unit>,
    /// The rows of each unit, if that is known of all.
    rows: Option<Vec<usize>>,
    shards: usize,
    groups: usize,
}

impl FileDataset {
    /// Opens files, given by paths, patterns (`*`, `?`, `[..]`, `**`) and folders. One shard unless told
    /// otherwise.
    pub fn open(paths_or_globs: &[String], shards: Option<usize>) -> Result<FileDataset> {
        let shards = shards.unwrap_or(1);
        if shards == 0 {
            return plan_err!("a dataset has at least one shard");
        }
        let mut units = Vec::new();
        let mut rows = Some(Vec::new());
        let mut schema: Option<(PathBuf, SchemaRef)> = None;
        for path in find(paths_or_globs)? {
            let opened = open(&path)?;
            schema = Some(match schema {
                None => (path, opened.schema),
                Some((first, schema)) => {
                    (first.clone(), same_columns(&first, &schema, &path, &opened.schema)?)
                }
            });
            rows = rows.zip(opened.rows).map(|(mut all, more)| {
                all.extend(more);
                all
            });
            units.extend(opened.units);
        }
        let Some((_, schema)) = schema else {
            return plan_err!("no file to read: give at least one path");
        };
        Ok(FileDataset { names: paths_or_globs.to_vec(), schema, units, rows, shards, groups: 1 })
    }

    /// The same shards as those of so many machines, for movements of local scope.
    pub fn with_groups(mut self, groups: usize) -> Result<FileDataset> {
        if groups == 0 || !self.shards.is_multiple_of(groups) {
            return plan_err!("{} shards cannot be divided evenly into {groups} groups", self.shards);
        }
        self.groups = groups;
        Ok(self)
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn readers(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Files> {
        let lengths = match &self.rows {
            Some(rows) => rows.clone(),
            None => vec![1; self.units.len()],
        };
        let run = contiguous(&lengths, self.shards).swap_remove(shard);
        let schema = super::project(&self.schema, projection)?;
        let parts =
            run.iter().map(|part| (self.units[part.piece].clone(), part.offset, part.length)).collect();
        let projection = projection.map(<[usize]>::to_vec);
        Ok(Files { parts, reader: None, schema, projection, batch_rows })
    }
}

impl Source for FileDataset {
    fn info(&self) -> SourceInfo {
        SourceInfo { schema: self.schema.clone(), bounded: true, shards: self.shards, groups: self.groups }
    }

    fn describe(&self) -> String {
        self.names.join(", ")
    }
}

impl Dataset for FileDataset {
    fn rows(&self) -> Option<u64> {
        self.rows.as_ref().map(|rows| rows.iter().map(|n| *n as u64).sum())
    }

    fn open(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Shard> {
        Ok(Shard::Reader(Box::new(self.readers(shard, projection, batch_rows)?)))
    }
}

/// What is known of a file before it is read.
struct Opened {
    schema: SchemaRef,
    units: Vec<Unit>,
    rows: Option<Vec<usize>>,
}

fn open(path: &Path) -> Result<Opened> {
    match path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("parquet" | "pq") => parquet::open(path),
        Some("csv") => csv::open(path),
        Some("arrow" | "arrows" | "ipc" | "feather") => ipc::open(path),
        _ => plan_err!(
            "`{}` has no known suffix: name it .parquet, .csv, .arrow (file) or .arrows (stream)",
            path.display()
        ),
    }
}

/// The files behind these names, in order.
fn find(names: &[String]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for name in names {
        let path = Path::new(name);
        if path.is_dir() {
            paths.extend(files_in(path)?);
        } else if path.exists() {
            paths.push(path.to_path_buf());
        } else if name.contains(['*', '?', '[']) {
            paths.extend(matching(name)?);
        } else {
            return exec_err!("`{name}` does not exist");
        }
    }
    Ok(paths)
}

fn matching(pattern: &str) -> Result<Vec<PathBuf>> {
    let found = match glob::glob(pattern) {
        Ok(found) => found,
        Err(error) => return plan_err!("`{pattern}` is not a pattern: {error}"),
    };
    let mut paths = Vec::new();
    for path in found {
        match path {
            Ok(path) if path.is_file() => paths.push(path),
            Ok(_) => {}
            Err(error) => return exec_err!("`{}`: {}", error.path().display(), error.error()),
        }
    }
    if paths.is_empty() {
        return exec_err!("no file matches `{pattern}`");
    }
    paths.sort();
    Ok(paths)
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|e| crate::error::in_file(folder, e))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| crate::error::in_file(folder, e))?.path();
        let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(['.', '_']));
        if path.is_file() && !hidden {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return exec_err!("there is no file in folder `{}`", folder.display());
    }
    paths.sort();
    Ok(paths)
}

/// The schema both files have; a column may be null if it may be in one of them.
fn same_columns(first: &Path, schema: &SchemaRef, path: &Path, other: &SchemaRef) -> Result<SchemaRef> {
    let clash = |what: String| exec_err!("`{}` and `{}` differ: {what}", first.display(), path.display());
    for (i, (a, b)) in schema.fields().iter().zip(other.fields()).enumerate() {
        if a.name() != b.name() {
            return clash(format!(
                "column {} is `{}` in the first and `{}` in the second",
                i + 1,
                a.name(),
                b.name()
            ));
        }
        if a.data_type() != b.data_type() {
            return clash(format!(
                "column `{}` is {} in the first and {} in the second",
                a.name(),
                a.data_type(),
                b.data_type()
            ));
        }
    }
    match schema.fields().len().cmp(&other.fields().len()) {
        std::cmp::Ordering::Less => {
            return clash(format!(
                "column `{}` is only in the second",
                other.field(schema.fields().len()).name()
            ));
        }
        std::cmp::Ordering::Greater => {
            return clash(format!(
                "column `{}` is only in the first",
                schema.field(other.fields().len()).name()
            ));
        }
        std::cmp::Ordering::Equal => {}
    }
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .zip(other.fields())
        .map(|(a, b)| Field::new(a.name(), a.data_type().clone(), a.is_nullable() || b.is_nullable()))
        .collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// The readers of a shard, one after the other.
struct Files {
    parts: VecDeque<(Unit, usize, usize)>,
    reader: Option<Box<dyn Reader>>,
    schema: SchemaRef,
    projection: Option<Vec<usize>>,
    batch_rows: usize,
}

impl Files {
    fn open_next(&mut self) -> Result<Option<Box<dyn Reader>>> {
        let Some((unit, offset, length)) = self.parts.pop_front() else {
            return Ok(None);
        };
        let projection = self.projection.as_deref();
        Ok(Some(match unit {
            Unit::Parquet { file, row_group } => {
                let mut groups = vec![row_group];
                let mut limit = length;
                // What follows in the same file is read by the same reader: batches may cross row groups.
                while let Some((Unit::Parquet { file: next, row_group }, _, length)) = self.parts.front() {
                    if !Arc::ptr_eq(next, &file) {
                        break;
                    }
                    groups.push(*row_group);
                    limit += length;
                    self.parts.pop_front();
                }
                parquet::read(&file, groups, offset, limit, projection, self.batch_rows)?
            }
            Unit::Csv { file } => csv::read(&file, projection, self.batch_rows)?,
            Unit::Ipc { file, batch } => ipc::read(&file, batch, projection)?,
            Unit::IpcStream { path } => ipc::read_stream(&path, projection)?,
        }))
    }
}

impl Reader for Files {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.reader.is_none() {
                self.reader = self.open_next()?;
            }
            let Some(reader) = &mut self.reader else {
                return Ok(None);
            };
            match reader.next()? {
                Some(batch) => return Ok(Some(super::conform(batch, &self.schema)?)),
                None => self.reader = None,
            }
        }
    }
}
