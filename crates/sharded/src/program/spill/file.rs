//! Rows in files, by the hash of their keys.

use super::compact::compact;
use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::hash_utils::{QualityRandomState, create_hashes};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter};
use std::sync::Arc;

/// Into how many parts rows are divided.
pub(super) const PARTS: usize = 16;

/// Another seed than that of the hash tables of joins: otherwise the keys of a part would share buckets there.
const HASH: QualityRandomState = QualityRandomState::with_seed(0x7768_696d);

/// How many rows of a part are gathered before they are written.
const GATHERED: usize = 4096;

/// Rows that are divided.
pub(super) struct Parts {
    schema: SchemaRef,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// How many low bits of the hash earlier divisions have used: these are the same for all rows here.
    used: u32,
    /// Whether rows with a null among their keys, which are equal to no row, may be in any part.
    nulls_apart: bool,
    nulls: usize,
    parts: Vec<Part>,
}

/// One part: rows that are gathered, and the file that they are written to.
#[derive(Default)]
struct Part {
    gathered: Vec<RecordBatch>,
    rows: usize,
    written: Option<Written>,
}

/// A file in the making.
struct Written {
    file: Arc<dyn SpillFile>,
    writer: StreamWriter<BufWriter<File>>,
}

impl Parts {
    /// Divides rows by the hash of these keys. They have been divided `depth` times before.
    pub fn new(schema: SchemaRef, keys: Vec<Arc<dyn PhysicalExpr>>, nulls_apart: bool, depth: u32) -> Parts {
        let parts = (0..PARTS).map(|_| Part::default()).collect();
        let used = depth * PARTS.trailing_zeros();
        Parts { schema, keys, used, nulls_apart, nulls: 0, parts }
    }

    /// Takes rows.
    pub fn add(&mut self, rows: &RecordBatch, disk: &Arc<DiskManager>) -> Result<()> {
        let places = self.places(rows)?;
        for (part, places) in self.parts.iter_mut().zip(places) {
            if !places.is_empty() {
                part.rows += places.len();
                part.gathered.push(compact(&take_record_batch(rows, &UInt32Array::from(places))?)?);
                if part.rows >= GATHERED {
                    part.write(&self.schema, disk)?;
                }
            }
        }
        Ok(())
    }

    /// Which rows belong to each part.
    fn places(&mut self, rows: &RecordBatch) -> Result<Vec<Vec<u32>>> {
        let keys = self.keys.iter().map(|key| key.evaluate(rows)?.into_array(rows.num_rows()));
        let keys = keys.collect::<Result<Vec<ArrayRef>>>()?;
        let mut hashes = vec![0; rows.num_rows()];
        create_hashes(&keys, &HASH, &mut hashes)?;
        let nulls: Vec<_> = keys.iter().filter_map(|key| key.logical_nulls()).collect();
        let mut places = vec![Vec::new(); PARTS];
        for (row, hash) in hashes.iter().enumerate() {
            let part = match self.nulls_apart && nulls.iter().any(|nulls| nulls.is_null(row)) {
                true => {
                    self.nulls += 1;
                    self.nulls % PARTS
                }
                false => (hash >> self.used) as usize % PARTS,
            };
            places[part].push(row as u32);
        }
        Ok(places)
    }

    /// The parts, to be read.
    pub fn finish(mut self, disk: &Arc<DiskManager>) -> Result<Vec<SendableRecordBatchStream>> {
        let schema = self.schema.clone();
        self.parts.iter_mut().map(|part| part.finish(&schema, disk)).collect()
    }
}

impl Part {
    fn write(&mut self, schema: &SchemaRef, disk: &Arc<DiskManager>) -> Result<()> {
        let rows = concat_batches(schema, &self.gathered)?;
        self.gathered.clear();
        self.rows = 0;
        let written = match &mut self.written {
            Some(written) => written,
            None => self.written.insert(Written::new(schema, disk)?),
        };
        Ok(written.writer.write(&compact(&rows)?)?)
    }

    fn finish(&mut self, schema: &SchemaRef, disk: &Arc<DiskManager>) -> Result<SendableRecordBatchStream> {
        if !self.gathered.is_empty() {
            self.write(schema, disk)?;
        }
        match self.written.take() {
            Some(written) => written.read(schema.clone()),
            None => Ok(Box::pin(RecordBatchStreamAdapter::new(schema.clone(), stream::empty()))),
        }
    }
}

impl Written {
    fn new(schema: &SchemaRef, disk: &Arc<DiskManager>) -> Result<Written> {
        let file = disk.create_tmp_file("join")?;
        let to = OpenOptions::new().write(true).open(path(&file)?).map_err(DataFusionError::IoError)?;
        Ok(Written { writer: StreamWriter::try_new(BufWriter::new(to), schema)?, file })
    }

    /// Its rows. The file is gone when they have been read.
    fn read(self, schema: SchemaRef) -> Result<SendableRecordBatchStream> {
        let Written { file, mut writer } = self;
        writer.finish()?;
        writer.into_inner()?.into_inner().map_err(|error| DataFusionError::IoError(error.into_error()))?;
        let rows = stream::once(async move {
            let input = File::open(path(&file)?).map_err(DataFusionError::IoError)?;
            let rows = StreamReader::try_new(BufReader::new(input), None)?;
            Ok::<_, DataFusionError>(stream::iter(rows.map(move |rows| {
                let _kept = &file;
                rows.map_err(DataFusionError::from)
            })))
        });
        let rows = futures::TryStreamExt::try_flatten(rows);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

fn path(file: &Arc<dyn SpillFile>) -> Result<&std::path::Path> {
    file.path().ok_or_else(|| internal_datafusion_err!("rows are written to files of this machine"))
}
