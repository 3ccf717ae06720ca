//! Files as another process has to find them.

use super::format::{FileFormat, ReadOptions};
use super::frozen_statistics::FrozenStatistics;
use super::frozen_table::{read_table, write_table};
use super::location::{Location, is_url, known_object};
use super::unopened::{Unopened, changed, object_at, written_again};
use super::{FileDataset, FollowDataset, OpenedAs, RangeShards, Unit};
use crate::error::in_file;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};
use whimbrel_plan::source::redacted;
use whimbrel_plan::{Ranges, Source};

/// Files, how they are read, and how they lie in shards.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::dataset) struct FrozenFiles {
    /// What the user named; for people.
    names: Vec<String>,
    files: Vec<FrozenFile>,
    shards: u64,
    machines: u64,
    format: Option<String>,
    header: Option<bool>,
    delimiter: Option<u8>,
    /// The declared columns, as a stream of Arrow IPC without rows.
    columns: Option<Vec<u8>>,
    /// The column and the bounds that shards are cut by.
    ranges: Option<(String, Vec<i64>)>,
    /// What the footers say of Parquet files that are all in object stores.
    footers: Option<Box<FrozenFooters>>,
}

/// What is known of Parquet files, so that a process opens only those that it reads.
#[derive(Debug, Serialize, Deserialize)]
struct FrozenFooters {
    /// The columns, as a stream of Arrow IPC without rows.
    #[serde(with = "serde_bytes")]
    columns: Vec<u8>,
    /// The rows of each row group of each file.
    row_groups: Vec<Vec<u64>>,
    statistics: FrozenStatistics,
}

/// A file as it was.
#[derive(Debug, Serialize, Deserialize)]
struct FrozenFile {
    /// An absolute path or a URL.
    place: String,
    bytes: u64,
    /// Since 1970; none for an object.
    modified: Option<Duration>,
    /// The version of an object, if its store has versions.
    tag: Option<String>,
}

impl FileDataset {
    /// Where the files are and what they are.
    ///
    /// # Errors
    /// `Plan` if a path is no text, or a URL has a password; `Execution` if a file has changed.
    pub(in crate::dataset) fn freeze(&self) -> Result<FrozenFiles> {
        self.files.check()?;
        check_passwords(&self.names)?;
        let ReadOptions { format, header, delimiter, schema, .. } = &self.files.options;
        Ok(FrozenFiles {
            names: self.names.clone(),
            files: self.files.locations.iter().map(freeze_file).collect::<Result<_>>()?,
            shards: self.shards as u64,
            machines: self.machines as u64,
            format: format.map(|format| format.name().to_string()),
            header: *header,
            delimiter: *delimiter,
            columns: schema.as_ref().map(write_columns).transpose()?,
            ranges: self
                .cut
                .as_ref()
                .map(|cut| (cut.ranges.column().to_string(), cut.ranges.bounds().to_vec())),
            footers: self.freeze_footers()?,
        })
    }

    /// The dataset of these files.
    ///
    /// # Errors
    /// `Execution` if a file is missing or has changed; `Plan` if what is said of the files is damaged.
    pub(in crate::dataset) fn thaw(frozen: FrozenFiles) -> Result<FileDataset> {
        let size = |number: u64| usize::try_from(number).map_err(|e| plan_datafusion_err!("{e}"));
        let options = ReadOptions {
            format: frozen.format.as_deref().map(format_named).transpose()?,
            shards: Some(size(frozen.shards)?),
            schema: frozen.columns.as_deref().map(read_columns).transpose()?,
            header: frozen.header,
            delimiter: frozen.delimiter,
            ranges: None,
        };
        let files = match &frozen.footers {
            Some(footers) => FileDataset::unopened(frozen.names, &frozen.files, footers, options)?,
            None => {
                let locations = frozen.files.iter().map(find_file).collect::<Result<Vec<_>>>()?;
                FileDataset::open_at(frozen.names, locations, &options)?
            }
        };
        let files = files.with_machines(size(frozen.machines)?)?;
        let Some((column, bounds)) = frozen.ranges else { return Ok(files) };
        let cut = RangeShards::try_new(&files.units, &files.schema, &Ranges::try_new(column, bounds)?)?;
        Ok(FileDataset { cut: Some(cut), ..files })
    }

    /// What the footers say, if all files are Parquet in object stores.
    fn freeze_footers(&self) -> Result<Option<Box<FrozenFooters>>> {
        let is_object = |unit: &Unit| matches!(unit.location(), Location::Object(_));
        if self.units.is_empty()
            || !self.units.iter().all(|unit| is_object(unit) && unit.row_group().is_some())
        {
            return Ok(None);
        }
        let mut units = self.units.iter().peekable();
        let row_groups = self.files.locations.iter().map(|location| {
            let (place, mut rows) = (location.to_string(), Vec::new());
            // A file may be named twice, and may have no row groups.
            let is_next =
                |unit: &Unit, known| unit.row_group() == Some(known) && unit.location().to_string() == place;
            while let Some(unit) = units.next_if(|unit| is_next(unit, rows.len())) {
                rows.push(unit.rows() as u64);
            }
            rows
        });
        Ok(Some(Box::new(FrozenFooters {
            row_groups: row_groups.collect(),
            columns: write_columns(&self.schema)?,
            statistics: FrozenStatistics::of(&self.statistics(), &self.schema)?,
        })))
    }

    /// Files whose footers are known, and which are opened when rows of them are read.
    fn unopened(
        names: Vec<String>,
        files: &[FrozenFile],
        footers: &FrozenFooters,
        options: ReadOptions,
    ) -> Result<FileDataset> {
        let schema = read_columns(&footers.columns)?;
        let statistics = Arc::new(OnceLock::from(Arc::new(footers.statistics.thaw(&schema)?)));
        if files.len() != footers.row_groups.len() {
            return plan_err!("a source of this plan is damaged: it has other footers than files");
        }
        let mut counts = footers.row_groups.iter().flatten();
        if counts.try_fold(0_i64, |sum, rows| sum.checked_add_unsigned(*rows)).is_none() {
            return plan_err!("a source of this plan is damaged: it has more rows than can be counted");
        }
        let (mut units, mut locations) = (Vec::new(), Vec::new());
        for (file, rows) in files.iter().zip(&footers.row_groups) {
            let location = known_object(&file.place, file.bytes, file.tag.clone())?;
            let rows = rows.iter().map(|rows| usize::try_from(*rows));
            let rows = rows.collect::<Result<_, _>>().map_err(|e| plan_datafusion_err!("{e}"))?;
            let file = Arc::new(Unopened::new(location.clone(), rows));
            let unit = |row_group| Unit::Unopened { file: Arc::clone(&file), row_group };
            units.extend((0..file.row_groups().len()).map(unit));
            locations.push(location);
        }
        let (shards, rows) = (options.shards.unwrap_or(1), Some(units.iter().map(Unit::rows).collect()));
        let files = Arc::new(OpenedAs { locations, stamps: vec![], options });
        let (machines, cut, samples) = (1, None, Arc::default());
        Ok(FileDataset { names, schema, units, rows, files, shards, machines, cut, statistics, samples })
    }
}

/// Files that grow: where they are, and how they are read.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::dataset) struct FrozenFollow {
    names: Vec<String>,
    format: Option<String>,
    header: Option<bool>,
    delimiter: Option<u8>,
    columns: Vec<u8>,
}

impl FollowDataset {
    /// Where the files are.
    ///
    /// # Errors
    /// `Plan` if a URL has a password.
    pub(in crate::dataset) fn freeze(&self) -> Result<FrozenFollow> {
        check_passwords(&self.names)?;
        let ReadOptions { format, header, delimiter, .. } = &self.options;
        Ok(FrozenFollow {
            names: self.names.clone(),
            format: format.map(|format| format.name().to_string()),
            header: *header,
            delimiter: *delimiter,
            columns: write_columns(&self.schema)?,
        })
    }

    /// The dataset of these files.
    ///
    /// # Errors
    /// `Plan` if what is said of the files is damaged.
    pub(in crate::dataset) fn thaw(frozen: FrozenFollow) -> Result<FollowDataset> {
        let options = ReadOptions {
            format: frozen.format.as_deref().map(format_named).transpose()?,
            schema: Some(read_columns(&frozen.columns)?),
            header: frozen.header,
            delimiter: frozen.delimiter,
            ..ReadOptions::default()
        };
        FollowDataset::open(&frozen.names, &options)
    }
}

/// Refuses addresses that cannot be written down.
fn check_passwords(names: &[String]) -> Result<()> {
    match names.iter().find(|name| redacted(name) != **name) {
        Some(name) => plan_err!(
            "{} has a password, which would be written with the plan; give it in the environment",
            redacted(name)
        ),
        None => Ok(()),
    }
}

fn format_named(name: &str) -> Result<FileFormat> {
    FileFormat::named(name).ok_or_else(|| plan_datafusion_err!("there is no file format {name:?}"))
}

fn freeze_file(location: &Location) -> Result<FrozenFile> {
    match location {
        Location::Path(path) => {
            let path = std::path::absolute(path).map_err(|e| in_file(path, e))?;
            let metadata = path.metadata().map_err(|e| in_file(&path, e))?;
            let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let Some(place) = path.to_str() else {
                return plan_err!("the path `{}` is no text; rename it", path.display());
            };
            Ok(FrozenFile { place: place.to_string(), bytes: metadata.len(), modified, tag: None })
        }
        Location::Object(object) => Ok(FrozenFile {
            place: object.url.clone(),
            bytes: object.size,
            modified: None,
            tag: object.tag.clone(),
        }),
    }
}

/// The file, if it is what it was.
fn find_file(frozen: &FrozenFile) -> Result<Location> {
    let place = &frozen.place;
    let location = match is_url(place) {
        true => object_at(place)?,
        false => Location::Path(PathBuf::from(place)),
    };
    let now = freeze_file(&location)?;
    if now.bytes != frozen.bytes {
        return changed(place, frozen.bytes, now.bytes);
    }
    if (now.modified, &now.tag) != (frozen.modified, &frozen.tag) {
        return written_again(place);
    }
    Ok(location)
}

fn write_columns(schema: &SchemaRef) -> Result<Vec<u8>> {
    write_table(&RecordBatch::new_empty(Arc::clone(schema)))
}

fn read_columns(bytes: &[u8]) -> Result<Arc<Schema>> {
    Ok(read_table(bytes)?.schema())
}
