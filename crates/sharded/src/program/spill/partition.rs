//! Rows partitioned by the hash of their keys, in files.

use crate::compact::compact;
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
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter};
use std::sync::Arc;

/// The number of partitions.
const PARTITIONS: usize = 16;

/// The seed differs from that of the hash tables of joins: otherwise the keys of a partition would share
/// buckets there.
const HASH: QualityRandomState = QualityRandomState::with_seed(0x7768_696d);

/// How many rows of a partition are buffered before they are written.
const BUFFERED_ROWS: usize = 4096;

/// Rows that are being partitioned.
pub(super) struct HashPartitions {
    schema: SchemaRef,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// How many low bits of the hash are the same for all rows: earlier partitionings have used them.
    used_bits: u32,
    /// Whether rows with a null key match no row, and so may be in any partition: they are dealt out evenly.
    spread_nulls: bool,
    nulls: usize,
    partitions: Vec<Partition>,
}

/// One partition: rows that are buffered, and the file that they are written to.
#[derive(Default)]
struct Partition {
    buffered: Vec<RecordBatch>,
    rows: usize,
    writer: Option<SpillWriter>,
}

/// A file that is being written.
struct SpillWriter {
    file: Arc<dyn SpillFile>,
    stream: StreamWriter<BufWriter<File>>,
}

impl HashPartitions {
    /// Partitions rows by the hash of these keys. They have been partitioned `depth` times before.
    pub fn new(
        schema: SchemaRef,
        keys: Vec<Arc<dyn PhysicalExpr>>,
        spread_nulls: bool,
        depth: u32,
    ) -> HashPartitions {
        let partitions = (0..PARTITIONS).map(|_| Partition::default()).collect();
        let used_bits = depth * PARTITIONS.trailing_zeros();
        HashPartitions { schema, keys, used_bits, spread_nulls, nulls: 0, partitions }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// Those of the keys; if the rows cannot be written.
    pub fn add(&mut self, rows: &RecordBatch, disk: &Arc<DiskManager>) -> Result<()> {
        let indices = self.indices(rows)?;
        for (partition, indices) in self.partitions.iter_mut().zip(indices) {
            if !indices.is_empty() {
                partition.rows += indices.len();
                partition.buffered.push(compact(&take_record_batch(rows, &UInt32Array::from(indices))?)?);
                if partition.rows >= BUFFERED_ROWS {
                    partition.write(&self.schema, disk)?;
                }
            }
        }
        Ok(())
    }

    /// Which rows belong to each partition.
    fn indices(&mut self, rows: &RecordBatch) -> Result<Vec<Vec<u32>>> {
        let keys = self.keys.iter().map(|key| key.evaluate(rows)?.into_array(rows.num_rows()));
        let keys = keys.collect::<Result<Vec<ArrayRef>>>()?;
        let mut hashes = vec![0; rows.num_rows()];
        create_hashes(&keys, &HASH, &mut hashes)?;
        let nulls: Vec<_> = keys.iter().filter_map(|key| key.logical_nulls()).collect();
        let mut indices = vec![Vec::new(); PARTITIONS];
        for (row, hash) in hashes.iter().enumerate() {
            let partition = match self.spread_nulls && nulls.iter().any(|nulls| nulls.is_null(row)) {
                true => {
                    self.nulls += 1;
                    self.nulls % PARTITIONS
                }
                false => (hash >> self.used_bits) as usize % PARTITIONS,
            };
            indices[partition].push(row as u32);
        }
        Ok(indices)
    }

    /// The rows of each partition.
    ///
    /// # Errors
    /// If the rows cannot be written.
    pub fn finish(mut self, disk: &Arc<DiskManager>) -> Result<Vec<SendableRecordBatchStream>> {
        let schema = self.schema.clone();
        self.partitions.iter_mut().map(|partition| partition.finish(&schema, disk)).collect()
    }
}

impl Partition {
    /// Writes the buffered rows.
    fn write(&mut self, schema: &SchemaRef, disk: &Arc<DiskManager>) -> Result<()> {
        let rows = concat_batches(schema, &self.buffered)?;
        self.buffered.clear();
        self.rows = 0;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(SpillWriter::new(schema, disk)?),
        };
        Ok(writer.stream.write(&compact(&rows)?)?)
    }

    /// Writes the rest, and reads all rows again.
    fn finish(&mut self, schema: &SchemaRef, disk: &Arc<DiskManager>) -> Result<SendableRecordBatchStream> {
        if !self.buffered.is_empty() {
            self.write(schema, disk)?;
        }
        match self.writer.take() {
            Some(writer) => writer.read(schema.clone()),
            None => Ok(Box::pin(RecordBatchStreamAdapter::new(schema.clone(), futures::stream::empty()))),
        }
    }
}

impl SpillWriter {
    /// A new file in the folder for spilled rows.
    fn new(schema: &SchemaRef, disk: &Arc<DiskManager>) -> Result<SpillWriter> {
        let file = disk.create_tmp_file("join")?;
        let to = OpenOptions::new().write(true).open(path(&file)?).map_err(DataFusionError::IoError)?;
        Ok(SpillWriter { stream: StreamWriter::try_new(BufWriter::new(to), schema)?, file })
    }

    /// The rows of the file, which is removed when they have been read.
    fn read(self, schema: SchemaRef) -> Result<SendableRecordBatchStream> {
        let SpillWriter { file, mut stream } = self;
        stream.finish()?;
        stream.into_inner()?.into_inner().map_err(|error| DataFusionError::IoError(error.into_error()))?;
        let rows = futures::stream::once(async move {
            let input = File::open(path(&file)?).map_err(DataFusionError::IoError)?;
            let rows = StreamReader::try_new(BufReader::new(input), None)?;
            Ok::<_, DataFusionError>(futures::stream::iter(rows.map(move |rows| {
                let _kept = &file;
                rows.map_err(DataFusionError::from)
            })))
        });
        let rows = futures::TryStreamExt::try_flatten(rows);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Where a file is.
fn path(file: &Arc<dyn SpillFile>) -> Result<&std::path::Path> {
    file.path().ok_or_else(|| internal_datafusion_err!("rows are written to files of this machine"))
}
