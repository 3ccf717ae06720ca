//! Files as another process has to find them.

use super::format::{FileFormat, ReadOptions};
use super::location::{Location, is_url, objects_at};
use super::statistics::distinct_counts;
use super::{FileDataset, FollowDataset, RangeShards, Unit, parquet};
use crate::error::in_file;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::{Result, exec_err, plan_datafusion_err, plan_err};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use whimbrel_plan::Ranges;
use whimbrel_plan::source::redacted;

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
    /// The estimated distinct counts of the columns of an object: reading them again takes requests.
    distinct_counts: Option<Vec<Option<u64>>>,
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
            files: self.files.locations.iter().map(|file| self.freeze_file(file)).collect::<Result<_>>()?,
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
        })
    }

    /// The dataset of these files.
    ///
    /// # Errors
    /// `Execution` if a file is missing or has changed; `Plan` if what is said of the files is damaged.
    pub(in crate::dataset) fn thaw(frozen: FrozenFiles) -> Result<FileDataset> {
        let locations = frozen.files.iter().map(find_file).collect::<Result<Vec<_>>>()?;
        let size = |number: u64| usize::try_from(number).map_err(|e| plan_datafusion_err!("{e}"));
        let options = ReadOptions {
            format: frozen.format.as_deref().map(format_named).transpose()?,
            shards: Some(size(frozen.shards)?),
            schema: frozen.columns.as_deref().map(read_columns).transpose()?,
            header: frozen.header,
            delimiter: frozen.delimiter,
            ranges: None,
        };
        let files = FileDataset::open_at(frozen.names, locations, &options)?;
        for file in &frozen.files {
            if let (Some(parquet), Some(counts)) = (files.parquet(&file.place), &file.distinct_counts) {
                let counts = counts.iter().map(|count| count.and_then(|count| usize::try_from(count).ok()));
                // They may be known already.
                let _ = parquet.distinct_counts.set(counts.collect());
            }
        }
        let files = files.with_machines(size(frozen.machines)?)?;
        let Some((column, bounds)) = frozen.ranges else { return Ok(files) };
        let cut = RangeShards::try_new(&files.units, &files.schema, &Ranges::try_new(column, bounds)?)?;
        Ok(FileDataset { cut: Some(cut), ..files })
    }
}

impl FileDataset {
    /// A file with what planners look at.
    fn freeze_file(&self, location: &Location) -> Result<FrozenFile> {
        let frozen = freeze_file(location)?;
        let parquet = self.parquet(&frozen.place).filter(|file| !file.is_local());
        let counts = parquet.map(|file| distinct_counts(file).to_vec());
        let counts = counts.map(|counts| counts.into_iter().map(|c| c.map(|count| count as u64)).collect());
        Ok(FrozenFile { distinct_counts: counts, ..frozen })
    }

    /// The Parquet file of a place that has rows.
    fn parquet(&self, place: &str) -> Option<&Arc<parquet::File>> {
        self.units.iter().find_map(|unit| match unit {
            Unit::Parquet { file, .. } if file.location.to_string() == place => Some(file),
            _ => None,
        })
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
            Ok(FrozenFile {
                place: place.to_string(),
                bytes: metadata.len(),
                modified,
                tag: None,
                distinct_counts: None,
            })
        }
        Location::Object(object) => Ok(FrozenFile {
            place: object.url.clone(),
            bytes: object.size,
            modified: None,
            tag: object.tag.clone(),
            distinct_counts: None,
        }),
    }
}

/// The file, if it is what it was.
fn find_file(frozen: &FrozenFile) -> Result<Location> {
    let place = &frozen.place;
    let location = match is_url(place) {
        true => match <[Location; 1]>::try_from(objects_at(place)?) {
            Ok([object]) => object,
            Err(objects) => return plan_err!("`{place}` is {} objects, not one", objects.len()),
        },
        false => Location::Path(PathBuf::from(place)),
    };
    let now = freeze_file(&location)?;
    if now.bytes != frozen.bytes {
        return exec_err!(
            "`{place}` has changed since the plan was written: it had {} bytes, and has {}; write the plan again",
            frozen.bytes,
            now.bytes
        );
    }
    if (now.modified, &now.tag) != (frozen.modified, &frozen.tag) {
        return exec_err!(
            "`{place}` has been written again since the plan was written; write the plan again"
        );
    }
    Ok(location)
}

fn write_columns(schema: &SchemaRef) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    StreamWriter::try_new(&mut bytes, schema)?.finish()?;
    Ok(bytes)
}

fn read_columns(bytes: &[u8]) -> Result<Arc<Schema>> {
    crate::error::untrusted(&"the columns of a file", || Ok(StreamReader::try_new(bytes, None)?.schema()))
}
