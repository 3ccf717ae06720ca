//! The files that a statement names, and tables in memory.

use crate::stdin::{LOCATION, StandardInput};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, plan_err};
use std::path::Path;
use std::sync::Arc;
use whimbrel_plan::Source;
use whimbrel_sharded::dataset::{FileDataset, FileFormat, FollowDataset, MemoryDataset, ReadOptions};
use whimbrel_sql::{FileOptions, Files, Format};

/// Opens files of this machine and of object stores.
#[derive(Default)]
pub struct Datasets {
    /// What the location `-` names. Without it, `-` is a file like others.
    pub stdin: Option<Arc<StandardInput>>,
}

impl Files for Datasets {
    fn open(&self, location: &str, options: &FileOptions) -> Result<Arc<dyn Source>> {
        if let (LOCATION, Some(stdin)) = (location, &self.stdin) {
            if let Some(option) = options.options.keys().next() {
                return plan_err!("standard input takes no option {option:?}; leave it out");
            }
            return Ok(stdin.open(options.format, options.schema.clone())?);
        }
        let locations: Vec<String> = location.lines().map(str::to_string).collect();
        let mut read = ReadOptions {
            format: options.format.map(file_format),
            shards: options.shards,
            schema: options.schema.clone(),
            ..ReadOptions::default()
        };
        let mut follow = false;
        for (name, value) in &options.options {
            match name.as_str() {
                "follow" => follow = parse_flag(name, value)?,
                _ => read.set(name, value)?,
            }
        }
        if follow {
            return Ok(Arc::new(FollowDataset::open(&locations, &read)?));
        }
        Ok(Arc::new(FileDataset::open_as(&locations, &read)?))
    }

    fn is_folder(&self, location: &str) -> bool {
        Path::new(location).is_dir()
    }

    fn table(&self, schema: SchemaRef, rows: Vec<RecordBatch>) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(MemoryDataset::new(schema, vec![rows])?))
    }
}

/// True or false.
fn parse_flag(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().parse() {
        Ok(flag) => Ok(flag),
        Err(_) => plan_err!("{name} is true or false, not {value:?}"),
    }
}

/// The format of whimbrel-sharded for one of SQL.
fn file_format(format: Format) -> FileFormat {
    match format {
        Format::Parquet => FileFormat::Parquet,
        Format::Csv => FileFormat::Csv,
        Format::Json => FileFormat::Json,
        Format::Arrow => FileFormat::Ipc,
    }
}
