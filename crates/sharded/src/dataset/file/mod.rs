//! A dataset in files: Parquet, CSV, JSON lines and Arrow IPC, recognized by their suffixes, on this
//! machine or in an object store.
//!
//! All files have the same columns. That is checked when the dataset is opened, so nothing is read before
//! all of it can be. Files come in the order in which they were named, those of one pattern in the order
//! of their names. Where the number of rows is known beforehand (Parquet), shards are cut evenly between
//! rows or by ranges of a column; else between files or batches. Every error names its file.
//!
//! A process that is given a dataset of Parquet files in an object store opens only those that it reads
//! (`unopened`); what planners want to know of the others comes along (`frozen`, `frozen_statistics`).
//!
//! What a file says of itself is not trusted: lengths and offsets are compared with the file before
//! memory is allocated for them (`footer`, `verified`, `messages`, `decompression`).

mod block_reader;
mod buffer_pool;
mod csv;
mod decompression;
mod discover;
mod filtered;
mod follow;
mod footer;
mod format;
mod frozen;
mod frozen_statistics;
mod frozen_table;
mod ipc;
mod json;
mod location;
mod messages;
mod object_reader;
mod object_runtime;
mod pages;
mod parallel;
mod parquet;
mod position;
mod quotes;
mod ranges;
mod sample;
mod shard_reader;
mod stamp;
mod statistics;
mod text;
mod thrift;
mod unopened;
mod verified;

pub use follow::FollowDataset;
pub use format::{FileFormat, ReadOptions};
pub(super) use frozen::{FrozenFiles, FrozenFollow};

use super::split::{self, contiguous};
use super::{Dataset, Predicate, Shard};
use crate::error::untrusted;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, Statistics, exec_err, plan_err};
use discover::discover;
use location::Location;
use parallel::in_parallel;
use ranges::RangeShards;
use shard_reader::{FilePart, Progress, ShardReader};
use stamp::Stamp;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use unopened::Unopened;
use whimbrel_plan::{Ranges, Source, SourceInfo};

/// A part of a file that can be read by itself.
#[derive(Debug, Clone)]
enum Unit {
    /// A row group.
    Parquet { file: Arc<parquet::File>, row_group: usize },
    /// A row group of a file that is not open yet.
    Unopened { file: Arc<Unopened>, row_group: usize },
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
    /// The file that it is in.
    fn location(&self) -> &Location {
        match self {
            Unit::Parquet { file, .. } => &file.location,
            Unit::Unopened { file, .. } => &file.location,
            Unit::Csv { file } => &file.location,
            Unit::Json { file } => &file.location,
            Unit::Ipc { file, .. } => &file.location,
            Unit::IpcStream { location } => location,
        }
    }

    /// How many rows it has; as many as there can be if that is not known.
    fn rows(&self) -> usize {
        match self {
            Unit::Parquet { file, row_group } => {
                file.metadata.metadata().row_group(*row_group).num_rows() as usize
            }
            Unit::Unopened { file, row_group } => file.row_groups()[*row_group],
            Unit::Csv { .. } | Unit::Json { .. } | Unit::Ipc { .. } | Unit::IpcStream { .. } => usize::MAX,
        }
    }

    /// The number of the row group that it is, if it is one.
    fn row_group(&self) -> Option<usize> {
        match self {
            Unit::Parquet { row_group, .. } | Unit::Unopened { row_group, .. } => Some(*row_group),
            Unit::Csv { .. } | Unit::Json { .. } | Unit::Ipc { .. } | Unit::IpcStream { .. } => None,
        }
    }
}

/// Rows in files.
///
/// ```
/// use whimbrel_plan::Source;
/// use whimbrel_sharded::dataset::FileDataset;
///
/// let folder = std::env::temp_dir().join(format!("whimbrel-doc-files-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// std::fs::write(folder.join("a.csv"), "carrier,delay\nUA,4\nDL,-2\n")?;
/// let pattern = format!("{}/*.csv", folder.display());
/// let flights = FileDataset::open(&[pattern], None)?;
/// assert_eq!(flights.schema().field(1).name(), "delay");
/// assert_eq!(flights.info().shards, 1);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct FileDataset {
    names: Vec<String>,
    schema: SchemaRef,
    units: Vec<Unit>,
    /// The rows of each unit, if that is known of all.
    rows: Option<Vec<usize>>,
    /// The files, as they were when they were opened.
    files: Arc<OpenedAs>,
    shards: usize,
    /// The machines that the shards are divided among, for exchanges of local scope.
    machines: usize,
    /// Which shard each row is in, if shards are cut by ranges of a column.
    cut: Option<RangeShards>,
    statistics: Arc<OnceLock<Arc<Statistics>>>,
    /// The samples of columns that were asked for.
    samples: Arc<Mutex<HashMap<usize, Option<ArrayRef>>>>,
}

/// The state of files when they were opened, and the options that they were opened with.
#[derive(Debug)]
struct OpenedAs {
    locations: Vec<Location>,
    stamps: Vec<Stamp>,
    options: ReadOptions,
}

impl OpenedAs {
    /// Fails if a file has changed since.
    fn check(&self) -> Result<()> {
        let columns = |location: &Location| open(location, &self.options).map(|opened| opened.schema);
        self.stamps.iter().try_for_each(|stamp| stamp.check(columns))
    }
}

impl FileDataset {
    /// Opens files, given by paths, patterns (`*`, `?`, `[..]`, `**`), folders and URLs; in one shard by
    /// default.
    ///
    /// # Errors
    /// `Execution` if a file is missing, cannot be read, or has other columns than the first; `Plan` if
    /// no file is named, or there are no shards.
    pub fn open(paths_or_globs: &[String], shards: Option<usize>) -> Result<FileDataset> {
        FileDataset::open_as(paths_or_globs, &ReadOptions { shards, ..ReadOptions::default() })
    }

    /// Opens files with these options.
    ///
    /// # Errors
    /// As [`open`](FileDataset::open), and `Plan` if the options contradict each other or the files.
    pub fn open_as(paths_or_globs: &[String], options: &ReadOptions) -> Result<FileDataset> {
        FileDataset::open_at(paths_or_globs.to_vec(), discover(paths_or_globs)?, options)
    }

    /// Opens files that were found under these names.
    fn open_at(names: Vec<String>, locations: Vec<Location>, options: &ReadOptions) -> Result<FileDataset> {
        let ranges = options.ranges.as_ref().map(Ranges::shards);
        let shards = options.shards.or(ranges).unwrap_or(1);
        if shards == 0 {
            return plan_err!("a dataset has at least one shard");
        }
        if ranges.is_some_and(|ranges| ranges != shards) {
            return plan_err!(
                "there are {} ranges for {shards} shards; leave one of them out",
                ranges.unwrap_or(0)
            );
        }
        let mut units = Vec::new();
        let mut stamps = Vec::new();
        let mut rows = Some(Vec::new());
        let mut schema: Option<(Location, SchemaRef)> = None;
        for (path, opened) in locations.iter().cloned().zip(open_all(&locations, options)) {
            let opened = opened?;
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
        let files = Arc::new(OpenedAs { locations, stamps, options: options.clone() });
        let (statistics, samples) = (Arc::default(), Arc::default());
        let cut = options
            .ranges
            .as_ref()
            .map(|ranges| RangeShards::try_new(&units, &schema, ranges))
            .transpose()?;
        Ok(FileDataset { names, schema, units, rows, files, shards, machines: 1, cut, statistics, samples })
    }

    /// The same shards, divided evenly among so many machines, for exchanges of local scope.
    ///
    /// # Errors
    /// `Plan` if they cannot be divided evenly.
    pub fn with_machines(mut self, machines: usize) -> Result<FileDataset> {
        if machines == 0 || !self.shards.is_multiple_of(machines) {
            return plan_err!("{} shards cannot be divided evenly among {machines} machines", self.shards);
        }
        self.machines = machines;
        Ok(self)
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A reader of a shard, without a predicate.
    fn reader(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<ShardReader> {
        self.reader_of(self.parts(shard), projection, batch_rows)
    }

    /// A reader of parts of the files, without a predicate.
    fn reader_of(
        &self,
        parts: Vec<FilePart>,
        projection: Option<&[usize]>,
        batch_rows: usize,
    ) -> Result<ShardReader> {
        let (schema, parts) = (super::project(&self.schema, projection)?, parts.into());
        let projection = projection.map(<[usize]>::to_vec);
        let files = Arc::clone(&self.files);
        let predicate = Predicate::default();
        let progress = Progress::default();
        Ok(ShardReader { files, parts, schema, projection, batch_rows, predicate, progress })
    }

    /// The parts of files that are in a shard.
    fn parts(&self, shard: usize) -> Vec<FilePart> {
        if let (Some(cut), Some(rows)) = (&self.cut, &self.rows) {
            return cut.parts(shard, &self.units, rows);
        }
        let lengths = match &self.rows {
            Some(rows) => rows.clone(),
            None => vec![1; self.units.len()],
        };
        let run = contiguous(&lengths, self.shards).swap_remove(shard);
        let part = |part: &split::Part| {
            let unit = self.units[part.piece].clone();
            // Where the rows of some units are not known, units are not divided.
            let length = self.rows.as_ref().map_or_else(|| unit.rows(), |_| part.length);
            FilePart { unit, offset: part.offset, length, required: vec![] }
        };
        run.iter().map(part).collect()
    }
}

impl Source for FileDataset {
    fn info(&self) -> SourceInfo {
        SourceInfo { schema: self.schema.clone(), bounded: true, shards: self.shards, groups: self.machines }
    }

    fn describe(&self) -> String {
        let names = whimbrel_plan::source::redacted(&self.names.join(", "));
        match self.ranges() {
            Some(ranges) => format!("{names} {ranges}"),
            None => names,
        }
    }

    fn statistics(&self) -> Arc<Statistics> {
        // A damaged file is reported when it is read.
        let read = || untrusted(&"statistics", || Ok(statistics::of(&self.units, &self.schema)));
        let statistics = || read().unwrap_or_else(|_| Statistics::new_unknown(&self.schema));
        Arc::clone(self.statistics.get_or_init(|| Arc::new(statistics())))
    }

    fn sample(&self, column: usize) -> Option<ArrayRef> {
        // A damaged file is reported when it is read.
        let sample = || untrusted(&"statistics", || Ok(sample::of(self, column))).ok().flatten();
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.entry(column).or_insert_with(sample).clone()
    }

    fn with_shards(&self, shards: usize) -> Option<Arc<dyn Source>> {
        let even = || FileDataset { shards, machines: 1, cut: None, ..self.clone() };
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
        let cut = RangeShards::try_new(&self.units, &self.schema, ranges).ok()?;
        let cheap = cut.is_cheap(self.rows.as_ref()?);
        let shards = ranges.shards();
        cheap.then(|| {
            Arc::new(FileDataset { shards, machines: 1, cut: Some(cut), ..self.clone() }) as Arc<dyn Source>
        })
    }

    fn location(&self) -> Option<whimbrel_plan::Location> {
        let ReadOptions { format, header, delimiter, schema: declared, .. } = &self.files.options;
        let mut options = Vec::new();
        let mut set = |name: &str, value: String| options.push((name.to_string(), value));
        if let Some(format) = format {
            set("format", format!("\"{}\"", format.name()));
        }
        if let Some(header) = header {
            set("header", if *header { "True" } else { "False" }.to_string());
        }
        if let Some(delimiter) = delimiter {
            set("delimiter", format!("{:?}", char::from(*delimiter).to_string()));
        }
        if let Some(ranges) = self.ranges() {
            set("ranges", format!("({:?}, {:?})", ranges.column(), ranges.bounds()));
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
        Ok(Shard::Reader(Box::new(self.reader(shard, projection, batch_rows)?)))
    }

    fn objects(&self) -> usize {
        self.files.locations.iter().filter(|location| matches!(location, Location::Object(_))).count()
    }

    fn requests(&self, columns: Option<&[usize]>) -> usize {
        let of_unit = |unit: &Unit| match (unit.location(), unit) {
            (Location::Path(_), _) => 0,
            (Location::Object(_), Unit::Parquet { file, row_group }) => file.requests(*row_group, columns),
            (Location::Object(_), Unit::Unopened { file, row_group }) => {
                file.open().map_or(1, |file| file.requests(*row_group, columns))
            }
            (Location::Object(_), _) => 1,
        };
        self.units.iter().map(of_unit).sum()
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
        let files = self.reader(shard, projection, batch_rows)?;
        Ok(Shard::Reader(Box::new(ShardReader { predicate, ..files })))
    }
}

/// A file that was opened: its columns, its parts and, if they are known, the rows of each.
struct Opened {
    schema: SchemaRef,
    units: Vec<Unit>,
    rows: Option<Vec<usize>>,
}

/// Opens files; those in an object store at the same time.
fn open_all(locations: &[Location], options: &ReadOptions) -> Vec<Result<Opened>> {
    let open = |location: &Location| open(location, options);
    match locations.iter().any(|location| matches!(location, Location::Object(_))) {
        true => in_parallel(locations, open),
        false => locations.iter().map(open).collect(),
    }
}

/// Opens a file that may be damaged.
fn open(location: &Location, options: &ReadOptions) -> Result<Opened> {
    untrusted(location, || open_as(location, options))
}

/// Opens a file by its format, and checks the declared columns.
fn open_as(location: &Location, options: &ReadOptions) -> Result<Opened> {
    let guessed = || location.suffix().as_deref().and_then(FileFormat::of);
    let opened = match options.format.or_else(guessed) {
        Some(FileFormat::Parquet) => parquet::open(location)?,
        Some(FileFormat::Csv) => return csv::open(location, options),
        Some(FileFormat::Json) => return json::open(location, options.schema.as_ref()),
        Some(FileFormat::Ipc) => ipc::open(location)?,
        None => {
            return plan_err!(
                "`{location}` has no known suffix: name it .parquet, .csv, .txt, .jsonl, .arrow (file) or \
                 .arrows (stream); csv and json may end in .gz or .zst too"
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

/// The columns of a file, if they are those that were declared.
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

/// The schema of two files with the same columns; a column is nullable if it is in one of them.
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
