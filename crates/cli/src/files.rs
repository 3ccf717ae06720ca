//! What a statement names and a session cannot open by itself: files, and tables in memory.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::sync::Arc;
use whimbrel_plan::Source;
use whimbrel_sharded::dataset::{FileDataset, FileFormat, MemoryDataset, ReadOptions};
use whimbrel_sql::{FileOptions, Files, Format};

/// Files, here and in object stores.
pub struct Datasets;

impl Files for Datasets {
    fn open(&self, location: &str, options: &FileOptions) -> Result<Arc<dyn Source>> {
        let locations: Vec<String> = location.lines().map(str::to_string).collect();
        let mut read = ReadOptions {
            format: options.format.map(format),
            shards: options.shards,
            schema: options.schema.clone(),
            ..ReadOptions::default()
        };
        for (name, value) in &options.options {
            read.set(name, value)?;
        }
        Ok(Arc::new(FileDataset::open_as(&locations, &read)?))
    }

    fn table(&self, schema: SchemaRef, rows: Vec<RecordBatch>) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(MemoryDataset::new(schema, vec![rows])?))
    }
}

fn format(format: Format) -> FileFormat {
    match format {
        Format::Parquet => FileFormat::Parquet,
        Format::Csv => FileFormat::Csv,
        Format::Json => FileFormat::Json,
        Format::Arrow => FileFormat::Ipc,
    }
}
