//! The rows of a shard: its files, or parts of them, one after the other.

use super::filtered::{Filtered, Span};
use super::location::Location;
use super::{Known, Unit, csv, ipc, json, parquet};
use crate::dataset::{Predicate, Reader, conform};
use crate::error::untrusted;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows of a unit: `length` from `offset` on.
#[derive(Debug)]
pub(super) struct Part {
    pub unit: Unit,
    pub offset: usize,
    pub length: usize,
    /// What is true of those rows that belong to the shard, over the columns of the file; all rows do, if nothing is
    /// said.
    pub required: Vec<Arc<dyn PhysicalExpr>>,
}

/// The readers of a shard, one after the other.
pub(super) struct Files {
    pub files: Arc<Known>,
    pub parts: VecDeque<Part>,
    pub schema: SchemaRef,
    pub projection: Option<Vec<usize>>,
    pub batch_rows: usize,
    /// Which rows are wanted; files that are not Parquet know of no such thing.
    pub predicate: Predicate,
    /// What is read, and where that is.
    pub reading: Reading,
}

/// What is read of a shard.
#[derive(Default)]
pub(super) struct Reading {
    /// Whether the files have been looked at.
    begun: bool,
    reader: Option<Box<dyn Reader>>,
    location: Option<Location>,
}

impl Files {
    fn open_next(&mut self) -> Result<Option<Box<dyn Reader>>> {
        let Some(Part { unit, offset, length, required }) = self.parts.pop_front() else {
            return Ok(None);
        };
        let projection = self.projection.as_deref();
        Ok(Some(match unit {
            Unit::Parquet { file, row_group } => {
                let mut spans = vec![Span { group: row_group, offset, length }];
                // What follows in the same file is read by the same reader: batches may cross row groups.
                while let Some(part) = self.parts.front() {
                    let Unit::Parquet { file: next, row_group } = &part.unit else { break };
                    if !Arc::ptr_eq(next, &file) || !required.is_empty() || !part.required.is_empty() {
                        break;
                    }
                    spans.push(Span { group: *row_group, offset: part.offset, length: part.length });
                    self.parts.pop_front();
                }
                match self.predicate.is_empty() && required.is_empty() {
                    true => parquet::read(&file, &spans, projection, self.batch_rows)?,
                    false => {
                        let rows = Filtered::new(&file, spans, projection, self.batch_rows, &self.predicate)?;
                        Box::new(rows.with_required(required))
                    }
                }
            }
            Unit::Csv { file } => csv::read(&file, projection, self.batch_rows)?,
            Unit::Json { file } => json::read(&file, projection, self.batch_rows)?,
            Unit::Ipc { file, batch } => {
                let mut batches = vec![batch];
                while let Some(Part { unit: Unit::Ipc { file: next, batch }, .. }) = self.parts.front()
                    && Arc::ptr_eq(next, &file)
                {
                    batches.push(*batch);
                    self.parts.pop_front();
                }
                ipc::read(&file, batches, projection)?
            }
            Unit::IpcStream { location } => ipc::read_stream(&location, projection)?,
        }))
    }
}

impl Files {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.reading.reader.is_none() {
                let Some(part) = self.parts.front() else { return Ok(None) };
                let location = part.unit.location().clone();
                self.reading.reader = untrusted(&location, || self.open_next())?;
                self.reading.location = Some(location);
            }
            let Reading { reader: Some(reader), location: Some(location), .. } = &mut self.reading else {
                return Ok(None);
            };
            let next = || reader.next()?.map(|batch| conform(batch, &self.schema)).transpose();
            match untrusted(location, next)? {
                None => self.reading.reader = None,
                batch => return Ok(batch),
            }
        }
    }
}

impl Reader for Files {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if !self.reading.begun {
            self.files.check()?;
            self.reading.begun = true;
        }
        let next = self.next_batch();
        if !matches!(next, Ok(Some(_))) {
            self.files.check()?;
        }
        next
    }
}
