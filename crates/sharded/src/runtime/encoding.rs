//! The contents of frames as bytes: rows as Arrow IPC, in parts that share the memory of their columns.
//!
//! Rows with lifetimes have their times as columns behind the others, so that these are not copied either.

use super::epoch::Marker;
use super::ipc;
use crate::relation::{always, is_always};
use bytes::Bytes;
use datafusion::arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::buffer::{Buffer, ScalarBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use whimbrel_temporal::{Batch, Message, Other, Time};
use xxhash_rust::xxh3::Xxh3;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// Rows that are always alive.
    Rows,
    /// Rows with lifetimes.
    Events(Extent),
    /// No row before this time follows.
    Punctuation(Time),
    /// The end of the queue.
    End,
    /// The end of an epoch.
    Marker(Marker),
    /// What processes tell each other beside the items of channels.
    Note,
}

/// Where the other times of rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Extent {
    /// All rows are start edges.
    Open,
    /// All rows live so long.
    After(i64),
    /// In the last column; the sync times are in the one before.
    Column,
}

/// A checksum of bytes: it guards against accidents, not against forgers.
pub(super) type Checksum = u128;

/// Rows as bytes.
#[derive(Debug, Clone)]
pub(super) struct Encoding {
    pub kind: Kind,
    pub checksum: Checksum,
    parts: Arc<[Buffer]>,
}

impl Encoding {
    /// The bytes of a batch, which is compact.
    ///
    /// # Errors
    /// `ArrowError` if its columns cannot be written.
    pub fn of(batch: &Batch) -> Result<Encoding> {
        let (kind, parts) = match is_always(batch) {
            true => (Kind::Rows, ipc::to_parts(&batch.rows)?),
            false => {
                let (extent, rows) = with_times(batch)?;
                (Kind::Events(extent), ipc::to_parts(&rows)?)
            }
        };
        Ok(Encoding {
            kind,
            checksum: checksum(kind, parts.iter().map(Buffer::as_slice))?,
            parts: parts.into(),
        })
    }

    /// The bytes in one piece.
    pub fn body(&self) -> Bytes {
        ipc::concat(&self.parts).into()
    }
}

/// The rows of bytes, and their lifetimes.
///
/// # Errors
/// `ArrowError` or `Execution` if the bytes are none; `Internal` for another kind.
pub(super) fn decode(kind: Kind, body: Bytes) -> Result<Message> {
    match kind {
        Kind::Rows => Ok(always(ipc::from_bytes(body)?)),
        Kind::Events(extent) => Ok(Message::Batch(without_times(extent, &ipc::from_bytes(body)?)?)),
        other => internal_err!("{other:?} has no rows"),
    }
}

/// The checksum of a frame: bytes of one kind are not read as those of another.
///
/// # Errors
/// `Internal` if the kind cannot be encoded.
pub(super) fn checksum<'a>(kind: Kind, parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Checksum> {
    let kind = postcard::to_stdvec(&kind).map_err(|error| DataFusionError::Internal(error.to_string()))?;
    let mut hasher = Xxh3::new();
    hasher.update(&kind);
    parts.into_iter().for_each(|part| hasher.update(part));
    Ok(hasher.digest128())
}

/// The rows with their times as last columns.
fn with_times(batch: &Batch) -> Result<(Extent, RecordBatch)> {
    let (extent, times) = match &batch.other {
        Other::Open => (Extent::Open, vec![("sync", &batch.sync)]),
        Other::After(duration) => (Extent::After(*duration), vec![("sync", &batch.sync)]),
        Other::Column(other) => (Extent::Column, vec![("sync", &batch.sync), ("other", other)]),
    };
    let schema = batch.rows.schema();
    let (mut fields, mut columns) = (schema.fields().to_vec(), batch.rows.columns().to_vec());
    for (name, times) in times {
        fields.push(Arc::new(Field::new(name, DataType::Int64, false)));
        columns.push(Arc::new(Int64Array::new(times.clone(), None)));
    }
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    Ok((extent, RecordBatch::try_new(Arc::new(schema), columns)?))
}

/// The batch of rows that have their times as last columns.
fn without_times(extent: Extent, rows: &RecordBatch) -> Result<Batch> {
    let count = 1 + usize::from(extent == Extent::Column);
    let Some(payload) = rows.num_columns().checked_sub(count) else {
        return exec_err!("a frame of events has no times");
    };
    let sync = times(rows, payload)?;
    if !sync.is_sorted() {
        return exec_err!("the times of a frame are not in order");
    }
    let other = match extent {
        Extent::Open => Other::Open,
        Extent::After(duration) => Other::After(duration),
        Extent::Column => Other::Column(times(rows, payload + 1)?),
    };
    Ok(Batch::new(sync, other, rows.project(&(0..payload).collect::<Vec<_>>())?))
}

/// A column of times.
fn times(rows: &RecordBatch, column: usize) -> Result<ScalarBuffer<i64>> {
    match rows.column(column).as_primitive_opt::<Int64Type>() {
        Some(times) if times.null_count() == 0 => Ok(times.values().clone()),
        _ => exec_err!("the times of a frame are none"),
    }
}
