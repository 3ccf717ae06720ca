//! A folder that grows: files that come, and text files that get longer, as one stream of rows.
//!
//! CSV files and JSON lines are read as far as they have whole lines; the rest waits. Parquet, Arrow and
//! compressed files are read once and as a whole, so whoever writes one gives it its name when it is
//! complete (names that begin with `_` or `.`, or end in `.tmp` or `.partial`, are left alone). Files
//! that are found together come in the order of their names.
//!
//! A text file is known by its inode and its first bytes, not by its name: one that is renamed by a
//! rotation of logs is read to its end. One that is cut off and written anew is read anew; what was in it
//! and had not been read is gone, so rename files instead of copying and truncating them.

mod identity;
mod log;
mod reader;

use super::discover::discover_now;
use super::location::Location;
use super::{FileDataset, FileFormat, ReadOptions};
use crate::dataset::{Dataset, ReplayableShard, Shard};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};
use log::FollowLog;
use reader::FollowReader;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use whimbrel_plan::{Source, SourceInfo};

/// Files that come and grow while they are read.
///
/// ```
/// use whimbrel_plan::Source;
/// use whimbrel_sharded::dataset::{FollowDataset, ReadOptions};
///
/// let folder = std::env::temp_dir().join(format!("whimbrel-doc-follow-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// std::fs::write(folder.join("a.csv"), "time,item\n1,x\n")?;
/// let clicks = FollowDataset::open(&[format!("{}/*.csv", folder.display())], &ReadOptions::default())?;
/// assert!(!clicks.info().bounded);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct FollowDataset {
    /// Absolute paths, patterns, folders or URLs.
    pub(in crate::dataset) names: Vec<String>,
    pub(in crate::dataset) options: ReadOptions,
    pub(in crate::dataset) schema: SchemaRef,
}

impl FollowDataset {
    /// Follows files, given by paths, patterns, folders and URLs. The columns are those of the files that
    /// are there, unless they are declared.
    ///
    /// # Errors
    /// `Plan` if no file is there to take the columns from, or shards are asked for; `Execution` if a
    /// file cannot be read.
    pub fn open(names: &[String], options: &ReadOptions) -> Result<FollowDataset> {
        if options.shards.is_some_and(|shards| shards != 1) || options.ranges.is_some() {
            return plan_err!(
                "files that grow come in one shard, in the order in which they were written; redistribute them"
            );
        }
        let names = names.iter().map(|name| absolute(name)).collect::<Result<Vec<_>>>()?;
        let schema = match &options.schema {
            Some(schema) => Arc::clone(schema),
            None => columns_of_first(&names, options)?,
        };
        Ok(FollowDataset { names, options: options.clone(), schema })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

/// The columns of the first file that is there.
fn columns_of_first(names: &[String], options: &ReadOptions) -> Result<SchemaRef> {
    let found = discover_now(names)?;
    let has_rows = |location: &&Location| match location {
        Location::Path(path) => path.metadata().is_ok_and(|metadata| metadata.len() > 0),
        Location::Object(object) => object.size > 0,
    };
    match found.iter().find(has_rows) {
        Some(first) => {
            let first = FileDataset::open_at(names.to_vec(), vec![first.clone()], options)?;
            Ok(Arc::clone(first.schema()))
        }
        None => plan_err!(
            "there is no file at {} yet to take the columns from; declare them (schema=)",
            whimbrel_plan::source::redacted(&names.join(", "))
        ),
    }
}

/// The same place for a process that runs in another folder.
fn absolute(name: &str) -> Result<String> {
    let name = name.strip_prefix("file://").unwrap_or(name);
    if super::location::is_url(name) {
        return Ok(name.to_string());
    }
    let path = std::path::absolute(Path::new(name)).map_err(|e| crate::error::in_file(Path::new(name), e))?;
    match path.to_str() {
        Some(path) => Ok(path.to_string()),
        None => plan_err!("the path `{}` is no text; rename it", path.display()),
    }
}

/// The format of a file, if it is text that may grow.
fn growing(location: &Location, options: &ReadOptions) -> Option<FileFormat> {
    if location.compression().is_some() || matches!(location, Location::Object(_)) {
        return None;
    }
    let format = options.format.or_else(|| location.suffix().as_deref().and_then(FileFormat::of));
    format.filter(|format| matches!(format, FileFormat::Csv | FileFormat::Json))
}

impl Source for FollowDataset {
    fn info(&self) -> SourceInfo {
        SourceInfo { schema: self.schema.clone(), bounded: false, shards: 1, groups: 1 }
    }

    fn describe(&self) -> String {
        format!("follow {}", whimbrel_plan::source::redacted(&self.names.join(", ")))
    }
}

impl Dataset for FollowDataset {
    fn rows(&self) -> Option<u64> {
        None
    }

    fn open(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Shard> {
        Ok(Shard::Log(self.replayable(shard, projection, batch_rows)?))
    }

    fn replayable(
        &self,
        _: usize,
        projection: Option<&[usize]>,
        batch_rows: usize,
    ) -> Result<ReplayableShard> {
        let reader = FollowReader::new(self, projection.map(<[usize]>::to_vec), batch_rows);
        Ok(ReplayableShard { log: Box::new(FollowLog::new(self)), reader: Box::new(reader) })
    }
}

impl fmt::Display for FollowDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}
