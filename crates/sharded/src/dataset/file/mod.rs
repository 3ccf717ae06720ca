//! A dataset in files: Parquet, CSV, JSON lines and Arrow IPC, known by their suffixes, here or in an object
//! store.
//!
//! All files have the same columns, which is checked when the dataset is opened: nothing is read before all
//! of it can be. Files are in the order in which they were named, those of one pattern in the order of their
//! names. Where the number of rows is known beforehand (Parquet) shards are cut evenly between rows, or by ranges of a
//! column, else between files or batches. Every error names its file.
//!
//! What a file says of itself is not trusted: lengths and places are held against the file before memory is taken for
//! them (`footer`, `checked`, `messages`, `unpacking`).

mod checked;
mod chunks;
mod csv;
mod fetching;
mod filtered;
mod find;
mod footer;
mod form;
mod ipc;
mod json;
mod location;
mod memory;
mod messages;
mod pages;
mod parquet;
mod quotes;
mod ranges;
mod reading;
mod statistics;
mod text;
mod thrift;
mod unchanged;
mod unpacking;
mod waiting;

pub use form::{FileFormat, ReadOptions};

use super::split::{self, contiguous};
use super::{Dataset, Predicate, Shard};
use crate::error::untrusted;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, Statistics, exec_err, plan_err};
use find::find;
use location::Location;
use ranges::Cut;
use reading::{Files, Part, Reading};
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

impl Unit {
    fn location(&self) -> &Location {
        match self {
            Unit::Parquet { file, .. } => &file.location,
            Unit::Csv { file } => &file.location,
            Unit::Json { file } => &file.location,
            Unit::Ipc { file, .. } => &file.location,
            Unit::IpcStream { location } => location,
        }
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
        let reading = Reading::default();
        Ok(Files { files, parts, schema, projection, batch_rows, predicate, reading })
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
        let names = whimbrel_plan::source::redacted(&self.names.join(", "));
        match self.ranges() {
            Some(ranges) => format!("{names} {ranges}"),
            None => names,
        }
    }

    fn statistics(&self) -> Arc<Statistics> {
        // What cannot be true of a damaged file is found out when it is read.
        let known = || untrusted(&"statistics", || Ok(statistics::of(&self.units, &self.schema)));
        let known = || known().unwrap_or_else(|_| Statistics::new_unknown(&self.schema));
        Arc::clone(self.statistics.get_or_init(|| Arc::new(known())))
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
    untrusted(location, || open_as(location, options))
}

fn open_as(location: &Location, options: &ReadOptions) -> Result<Opened> {
    let guessed = || location.suffix().as_deref().and_then(FileFormat::of);
    let opened = match options.format.or_else(guessed) {
        Some(FileFormat::Parquet) => parquet::open(location)?,
        Some(FileFormat::Csv) => return csv::open(location, options),
        Some(FileFormat::Json) => return json::open(location, options.schema.as_ref()),
        Some(FileFormat::Ipc) => ipc::open(location)?,
        None => {
            return plan_err!(
                "`{location}` has no known suffix: name it .parquet, .csv, .txt, .jsonl, .arrow (file) or .arrows \
                 (stream); csv and json may end in .gz or .zst too"
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
