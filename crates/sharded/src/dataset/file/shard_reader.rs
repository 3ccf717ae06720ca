//! The rows of a shard: parts of files, read one after the other.

use super::filtered::FilteredReader;
use super::location::Location;
use super::parquet::Span;
use super::{OpenedAs, Unit, csv, ipc, json, parquet};
use crate::dataset::{Predicate, Reader, conform};
use crate::error::untrusted;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use std::collections::VecDeque;
use std::sync::Arc;

/// `length` rows of a unit from `offset` on.
#[derive(Debug)]
pub(super) struct FilePart {
    pub unit: Unit,
    pub offset: usize,
    pub length: usize,
    /// Conditions over the columns of the file that hold for the rows of the shard only. If there are none,
    /// all rows belong to the shard.
    pub required: Vec<Arc<dyn PhysicalExpr>>,
}

/// The reader of a shard.
pub(super) struct ShardReader {
    pub files: Arc<OpenedAs>,
    pub parts: VecDeque<FilePart>,
    pub schema: SchemaRef,
    pub projection: Option<Vec<usize>>,
    pub batch_rows: usize,
    /// Leaves rows of Parquet files out.
    pub predicate: Predicate,
    /// How far it has come.
    pub progress: Progress,
}

/// How far a shard has been read.
#[derive(Default)]
pub(super) struct Progress {
    /// Whether the files were checked for changes.
    begun: bool,
    /// The reader of the current part, and its file.
    reader: Option<Box<dyn Reader>>,
    location: Option<Location>,
    /// The size of the parts before the current reader, and of its parts.
    before: f64,
    current: f64,
}

impl Progress {
    /// Takes the next part for the current reader.
    fn take(&mut self, parts: &mut VecDeque<FilePart>) -> Option<FilePart> {
        let part = parts.pop_front()?;
        self.current += part.size();
        Some(part)
    }
}

impl FilePart {
    /// How many rows it has; of a text nobody knows, so all texts are taken to be of one size.
    fn size(&self) -> f64 {
        if self.length == usize::MAX { 1.0 } else { self.length as f64 }
    }
}

impl ShardReader {
    /// Opens the file of the next part, if it is not open yet, for all parts of it that follow.
    fn open_file(&mut self) -> Result<()> {
        let Some(FilePart { unit: Unit::Unopened { file, .. }, .. }) = self.parts.front() else {
            return Ok(());
        };
        let (unopened, opened) = (Arc::clone(file), file.open()?);
        for part in &mut self.parts {
            match &part.unit {
                Unit::Unopened { file, row_group } if Arc::ptr_eq(file, &unopened) => {
                    part.unit = Unit::Parquet { file: Arc::clone(&opened), row_group: *row_group };
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Opens the next part, together with those that the same reader can read.
    fn open_next(&mut self) -> Result<Option<Box<dyn Reader>>> {
        self.open_file()?;
        self.progress.before += std::mem::take(&mut self.progress.current);
        let Some(FilePart { unit, offset, length, required }) = self.progress.take(&mut self.parts) else {
            return Ok(None);
        };
        let projection = self.projection.as_deref();
        Ok(Some(match unit {
            Unit::Parquet { file, row_group } => {
                let mut spans = vec![Span { row_group, offset, length }];
                // Row groups of one file share a reader, so batches may cross them.
                while let Some(part) = self.parts.front() {
                    let Unit::Parquet { file: next, row_group } = &part.unit else { break };
                    if !Arc::ptr_eq(next, &file) || !required.is_empty() || !part.required.is_empty() {
                        break;
                    }
                    spans.push(Span { row_group: *row_group, offset: part.offset, length: part.length });
                    self.progress.take(&mut self.parts);
                }
                match self.predicate.is_empty() && required.is_empty() {
                    true => parquet::read(&file, &spans, projection, self.batch_rows)?,
                    false => {
                        let rows =
                            FilteredReader::new(&file, spans, projection, self.batch_rows, &self.predicate)?;
                        Box::new(rows.with_required(required))
                    }
                }
            }
            Unit::Csv { file } => csv::read(&file, projection, self.batch_rows)?,
            Unit::Json { file } => json::read(&file, projection, self.batch_rows)?,
            Unit::Ipc { file, batch } => {
                let mut batches = vec![batch];
                while let Some(FilePart { unit: Unit::Ipc { file: next, batch }, .. }) = self.parts.front()
                    && Arc::ptr_eq(next, &file)
                {
                    batches.push(*batch);
                    self.progress.take(&mut self.parts);
                }
                ipc::read(&file, batches, projection)?
            }
            Unit::IpcStream { location } => ipc::read_stream(&location, projection)?,
            Unit::Unopened { file, .. } => return internal_err!("`{}` was not opened", file.location),
        }))
    }
}

impl ShardReader {
    /// The next batch of the current part, or of the parts behind it.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.progress.reader.is_none() {
                let Some(part) = self.parts.front() else { return Ok(None) };
                let location = part.unit.location().clone();
                self.progress.reader = untrusted(&location, || self.open_next())?;
                self.progress.location = Some(location);
            }
            let Progress { reader: Some(reader), location: Some(location), .. } = &mut self.progress else {
                return Ok(None);
            };
            let next = || reader.next()?.map(|batch| conform(batch, &self.schema)).transpose();
            match untrusted(location, next)? {
                None => self.progress.reader = None,
                batch => return Ok(batch),
            }
        }
    }
}

impl Reader for ShardReader {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if !self.progress.begun {
            self.files.check()?;
            self.progress.begun = true;
        }
        let next = self.next_batch();
        if !matches!(next, Ok(Some(_))) {
            self.files.check()?;
        }
        next
    }

    fn share(&self) -> f64 {
        let Progress { before, current, reader, .. } = &self.progress;
        let passed = before + current * reader.as_ref().map_or(1.0, |reader| reader.share());
        let all = before + current + self.parts.iter().map(FilePart::size).sum::<f64>();
        if all > 0.0 { passed / all } else { 0.0 }
    }
}
