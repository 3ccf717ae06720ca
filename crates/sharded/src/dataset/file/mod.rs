//! A dataset in files: Parquet, CSV, JSON lines and Arrow IPC, known by their suffixes, here or in an object
//! store.
//!
//! All files have the same columns, which is checked when the dataset is opened: nothing is read before all
//! of it can be. Files are in the order in which they were named, those of one pattern in the order of their
//! names. Where the number of rows is known beforehand (Parquet) shards are cut evenly between rows, or by ranges of a
//! column, else between files or batches. Every error names its file.

mod chunks;
mod csv;
mod fetching;
mod filtered;
mod ipc;
mod json;
mod location;
mod memory;
mod pages;
mod parquet;
mod ranges;
mod statistics;
mod unchanged;
mod waiting;

use super::split::{self, contiguous};
use super::{Dataset, Predicate, Reader, Shard};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, Statistics, exec_err, plan_err};
use datafusion::physical_expr::PhysicalExpr;
use filtered::{Filtered, Span};
use location::Location;
use ranges::Cut;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use unchanged::Stamp;
use whimbrel_plan::{Ranges, Source, SourceInfo};

/// What can be read by itself: a file, or a part of one.
#[derive(Debug, Clone)]
enum Unit {
    /// A row group.
    Parquet { file: Arc<parquet::File>, row_group: usize },
    /// A whole file.
    Csv { file: Arc<csv::File> },
    /// A whole file.
    Json { file: Arc<json::File> },
    /// A record batch of a file.
    Ipc { file: Arc<ipc::File>, batch: usize },
    /// A whole stream.
    IpcStream { location: Arc<Location> },
}

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Values between commas.
    Csv,
    /// A JSON object a line.
    Json,
    /// Apache Arrow's IPC format, file or stream.
    Ipc,
}

impl FileFormat {
    /// The kind of this name: `parquet`, `csv`, `json`, `arrow`.
    pub fn named(name: &str) -> Option<FileFormat> {
        [FileFormat::Parquet, FileFormat::Csv, FileFormat::Json, FileFormat::Ipc]
            .into_iter()
            .find(|format| format.name() == name)
    }

    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            FileFormat::Parquet => "parquet",
            FileFormat::Csv => "csv",
            FileFormat::Json => "json",
            FileFormat::Ipc => "arrow",
        }
    }

    /// The kind that a suffix tells.
    fn of(suffix: &str) -> Option<FileFormat> {
        match suffix {
            "parquet" | "pq" => Some(FileFormat::Parquet),
            "csv" | "tsv" => Some(FileFormat::Csv),
            "json" | "jsonl" | "ndjson" => Some(FileFormat::Json),
            "arrow" | "arrows" | "ipc" | "feather" => Some(FileFormat::Ipc),
            _ => None,
        }
    }
}

/// How files are read, where their names and contents do not say it.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The kind of all files.
    pub format: Option<FileFormat>,
    /// In how many shards; one, if nothing is said.
    pub shards: Option<usize>,
    /// The columns of CSV and JSON files; those of others have to be the same.
    pub schema: Option<SchemaRef>,
    /// Whether the first line of CSV files names the columns; yes, if nothing is said.
    pub header: Option<bool>,
    /// What stands between the values of CSV files: a comma, if nothing is said.
    pub delimiter: Option<u8>,
    /// By which values of a column of Parquet files shards are cut; evenly, if nothing is said.
    pub ranges: Option<Ranges>,
}

impl ReadOptions {
    /// Sets what is asked for by name: `header` (true or false), `delimiter` (one character).
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        // DataFusion's names for the same begin so.
        match name.trim_start_matches("format.") {
            "header" | "has_header" => match value.to_ascii_lowercase().parse() {
                Ok(header) => self.header = Some(header),
                Err(_) => return plan_err!("{name} is true or false, not {value:?}"),
            },
            "delimiter" | "delim" | "sep" => match value.as_bytes() {
                [delimiter] => self.delimiter = Some(*delimiter),
                b"\\t" => self.delimiter = Some(b'\t'),
                _ => return plan_err!("{name} is one character, not {value:?}"),
            },
            _ => {
                return plan_err!(
                    "files are not read with an option {name:?}; there are header and delimiter"
                );
            }
        }
        Ok(())
    }
}

/// Rows in files.
#[derive(Debug, Clone)]
pub struct FileDataset {
    names: Vec<String>,
    schema: SchemaRef,
    units: Vec<Unit>,
    /// The rows of each unit, if that is known of all.
    rows: Option<Vec<usize>>,
    /// The files, as they were.
    files: Arc<Known>,
    shards: usize,
    groups: usize,
    /// Where shards are cut, if it is not evenly.
    cut: Option<Cut>,
    statistics: Arc<OnceLock<Arc<Statistics>>>,
}

/// What files were like, and how they were opened.
#[derive(Debug)]
struct Known {
    stamps: Vec<Stamp>,
    options: ReadOptions,
}

impl Known {
    /// Fails if one of them is another now.
    fn check(&self) -> Result<()> {
        let columns = |location: &Location| open(location, &self.options).map(|opened| opened.schema);
        self.stamps.iter().try_for_each(|stamp| stamp.check(columns))
    }
}

impl FileDataset {
    /// Opens files, given by paths, patterns (`*`, `?`, `[..]`, `**`), folders and URLs. One shard unless told
    /// otherwise.
    pub fn open(paths_or_globs: &[String], shards: Option<usize>) -> Result<FileDataset> {
        FileDataset::open_as(paths_or_globs, &ReadOptions { shards, ..ReadOptions::default() })
    }

    /// The same, read as told.
    pub fn open_as(paths_or_globs: &[String], options: &ReadOptions) -> Result<FileDataset> {
        let cut = options.ranges.as_ref().map(Ranges::shards);
        let shards = options.shards.or(cut).unwrap_or(1);
        if shards == 0 {
            return plan_err!("a dataset has at least one shard");
        }
        if cut.is_some_and(|cut| cut != shards) {
            return plan_err!(
                "there are {} ranges for {shards} shards; leave one of them out",
                cut.unwrap_or(0)
            );
        }
        let mut units = Vec::new();
        let mut stamps = Vec::new();
        let mut rows = Some(Vec::new());
        let mut schema: Option<(Location, SchemaRef)> = None;
        for path in find(paths_or_globs)? {
            let opened = open(&path, options)?;
            stamps.extend(Stamp::of(&path, &opened.schema)?);
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
        let files = Arc::new(Known { stamps, options: options.clone() });
        let (names, statistics) = (paths_or_globs.to_vec(), Arc::default());
        let cut = options.ranges.as_ref().map(|ranges| Cut::try_new(&units, &schema, ranges)).transpose()?;
        Ok(FileDataset { names, schema, units, rows, files, shards, groups: 1, cut, statistics })
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
        let schema = super::project(&self.schema, projection)?;
        let parts = self.parts(shard).into();
        let projection = projection.map(<[usize]>::to_vec);
        let files = Arc::clone(&self.files);
        let predicate = Predicate::default();
        Ok(Files { files, begun: false, parts, reader: None, schema, projection, batch_rows, predicate })
    }

    /// What a shard reads.
    fn parts(&self, shard: usize) -> Vec<Part> {
        if let (Some(cut), Some(rows)) = (&self.cut, &self.rows) {
            return cut.parts(shard, &self.units, rows);
        }
        let lengths = match &self.rows {
            Some(rows) => rows.clone(),
            None => vec![1; self.units.len()],
        };
        let run = contiguous(&lengths, self.shards).swap_remove(shard);
        let part = |part: &split::Part| Part {
            unit: self.units[part.piece].clone(),
            offset: part.offset,
            length: part.length,
            required: vec![],
        };
        run.iter().map(part).collect()
    }
}

impl Source for FileDataset {
    fn info(&self) -> SourceInfo {
        SourceInfo { schema: self.schema.clone(), bounded: true, shards: self.shards, groups: self.groups }
    }

    fn describe(&self) -> String {
        let names = self.names.join(", ");
        match self.ranges() {
            Some(ranges) => format!("{names} {ranges}"),
            None => names,
        }
    }

    fn statistics(&self) -> Arc<Statistics> {
        Arc::clone(self.statistics.get_or_init(|| Arc::new(statistics::of(&self.units, &self.schema))))
    }

    fn with_shards(&self, shards: usize) -> Option<Arc<dyn Source>> {
        let even = || FileDataset { shards, groups: 1, cut: None, ..self.clone() };
        (shards > 0).then(|| Arc::new(even()) as Arc<dyn Source>)
    }

    fn ranges(&self) -> Option<&Ranges> {
        self.cut.as_ref().map(|cut| &cut.ranges)
    }

    fn ranges_of(&self, column: &str, shards: usize) -> Option<Ranges> {
        let (at, field) = self.schema.column_with_name(column)?;
        let possible = matches!(field.data_type(), DataType::Int32 | DataType::Int64);
        let bounds = possible.then(|| ranges::bounds(&self.units, self.rows.as_ref()?, at, shards))?;
        Ranges::try_new(column, bounds?).ok()
    }

    fn with_ranges(&self, ranges: &Ranges) -> Option<Arc<dyn Source>> {
        let cut = Cut::try_new(&self.units, &self.schema, ranges).ok()?;
        let cheap = cut.is_cheap(self.rows.as_ref()?);
        let shards = ranges.shards();
        cheap.then(|| {
            Arc::new(FileDataset { shards, groups: 1, cut: Some(cut), ..self.clone() }) as Arc<dyn Source>
        })
    }

    fn location(&self) -> Option<whimbrel_plan::Location> {
        let ReadOptions { format, header, delimiter, schema: declared, .. } = &self.files.options;
        let mut options = Vec::new();
        let mut say = |name: &str, value: String| options.push((name.to_string(), value));
        if let Some(format) = format {
            say("format", format!("\"{}\"", format.name()));
        }
        if let Some(header) = header {
            say("header", if *header { "True" } else { "False" }.to_string());
        }
        if let Some(delimiter) = delimiter {
            say("delimiter", format!("{:?}", char::from(*delimiter).to_string()));
        }
        if let Some(ranges) = self.ranges() {
            say("ranges", format!("({:?}, {:?})", ranges.column(), ranges.bounds()));
        }
        // Declared columns have no place in `read`.
        let paths = self.names.clone();
        declared.is_none().then_some(whimbrel_plan::Location { paths, shards: self.shards, options })
    }
}

impl Dataset for FileDataset {
    fn rows(&self) -> Option<u64> {
        self.rows.as_ref().map(|rows| rows.iter().map(|n| *n as u64).sum())
    }

    fn open(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Shard> {
        Ok(Shard::Reader(Box::new(self.readers(shard, projection, batch_rows)?)))
    }

    fn filters(&self) -> bool {
        let local = |unit: &Unit| matches!(unit, Unit::Parquet { file, .. } if file.is_local());
        self.units.iter().all(local)
    }

    fn open_where(
        &self,
        shard: usize,
        projection: Option<&[usize]>,
        batch_rows: usize,
        predicate: Predicate,
    ) -> Result<Shard> {
        let files = self.readers(shard, projection, batch_rows)?;
        Ok(Shard::Reader(Box::new(Files { predicate, ..files })))
    }
}

/// What is known of a file before it is read.
struct Opened {
    schema: SchemaRef,
    units: Vec<Unit>,
    rows: Option<Vec<usize>>,
}

fn open(location: &Location, options: &ReadOptions) -> Result<Opened> {
    let guessed = || location.suffix().as_deref().and_then(FileFormat::of);
    let opened = match options.format.or_else(guessed) {
        Some(FileFormat::Parquet) => parquet::open(location)?,
        Some(FileFormat::Csv) => return csv::open(location, options),
        Some(FileFormat::Json) => return json::open(location, options.schema.as_ref()),
        Some(FileFormat::Ipc) => ipc::open(location)?,
        None => {
            return plan_err!(
                "`{location}` has no known suffix: name it .parquet, .csv, .jsonl, .arrow (file) or .arrows \
                 (stream)"
            );
        }
    };
    match &options.schema {
        Some(declared) => {
            let schema = declared_columns(location, declared, &opened.schema)?;
            Ok(Opened { schema, ..opened })
        }
        None => Ok(opened),
    }
}

/// The declared columns, if they are those of the file.
fn declared_columns(location: &Location, declared: &SchemaRef, found: &SchemaRef) -> Result<SchemaRef> {
    let same = declared.fields().len() == found.fields().len()
        && declared
            .fields()
            .iter()
            .zip(found.fields())
            .all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type());
    if same {
        return Ok(Arc::clone(found));
    }
    let columns = found.fields().iter().map(|f| format!("{} {}", f.name(), f.data_type()));
    plan_err!(
        "`{location}` has other columns than were declared, {}; leave the declaration out",
        columns.collect::<Vec<_>>().join(", ")
    )
}

/// The files behind these names, in order.
fn find(names: &[String]) -> Result<Vec<Location>> {
    let mut found = Vec::new();
    for name in names {
        let name = name.strip_prefix("file://").unwrap_or(name);
        let path = Path::new(name);
        let mut here = |paths: Vec<PathBuf>| found.extend(paths.into_iter().map(Location::Path));
        if location::is_url(name) {
            found.extend(location::behind(name)?);
        } else if path.is_dir() {
            here(files_in(path)?);
        } else if path.exists() {
            here(vec![path.to_path_buf()]);
        } else if name.contains(['*', '?', '[']) {
            here(matching(name)?);
        } else {
            return exec_err!("`{name}` does not exist");
        }
    }
    Ok(found)
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
fn same_columns(
    first: &Location,
    schema: &SchemaRef,
    path: &Location,
    other: &SchemaRef,
) -> Result<SchemaRef> {
    let clash = |what: String| exec_err!("`{first}` and `{path}` differ: {what}");
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

/// Rows of a unit: `length` from `offset` on.
#[derive(Debug)]
struct Part {
    unit: Unit,
    offset: usize,
    length: usize,
    /// What is true of those rows that belong to the shard, over the columns of the file; all rows do, if nothing is said.
    required: Vec<Arc<dyn PhysicalExpr>>,
}

/// The readers of a shard, one after the other.
struct Files {
    files: Arc<Known>,
    /// Whether the files have been looked at.
    begun: bool,
    parts: VecDeque<Part>,
    reader: Option<Box<dyn Reader>>,
    schema: SchemaRef,
    projection: Option<Vec<usize>>,
    batch_rows: usize,
    /// Which rows are wanted; files that are not Parquet know of no such thing.
    predicate: Predicate,
}

impl Files {
    fn open_next(&mut self) -> Result<Option<Box<dyn Reader>>> {
        let Some(Part { unit, offset, length, required }) = self.parts.pop_front() else {
            return Ok(None);
        };
        let projection = self.projection.as_deref();
        Ok(Some(match unit {
            Unit::Parquet { file, row_group } => {
                let mut spans = vec![Span { group: row_group, offset, length }];
                // What follows in the same file is read by the same reader: batches may cross row groups.
                while let Some(part) = self.parts.front() {
                    let Unit::Parquet { file: next, row_group } = &part.unit else { break };
                    if !Arc::ptr_eq(next, &file) || !required.is_empty() || !part.required.is_empty() {
                        break;
                    }
                    spans.push(Span { group: *row_group, offset: part.offset, length: part.length });
                    self.parts.pop_front();
                }
                match self.predicate.is_empty() && required.is_empty() {
                    true => parquet::read(&file, &spans, projection, self.batch_rows)?,
                    false => {
                        let rows = Filtered::new(&file, spans, projection, self.batch_rows, &self.predicate)?;
                        Box::new(rows.with_required(required))
                    }
                }
            }
            Unit::Csv { file } => csv::read(&file, projection, self.batch_rows)?,
            Unit::Json { file } => json::read(&file, projection, self.batch_rows)?,
            Unit::Ipc { file, batch } => ipc::read(&file, batch, projection)?,
            Unit::IpcStream { location } => ipc::read_stream(&location, projection)?,
        }))
    }
}

impl Files {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
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

impl Reader for Files {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if !self.begun {
            self.files.check()?;
            self.begun = true;
        }
        let next = self.next_batch();
        if !matches!(next, Ok(Some(_))) {
            self.files.check()?;
        }
        next
    }
}
