//! The columnar unit that flows (trill.txt §4).
//!
//! Invariants: `sync` never decreases within a batch; all columns have `len()` rows; a row that is absent
//! (its bit in `present` is 0) means nothing, whatever its values are, and operators that compute compact
//! first, so an expression is never evaluated over a row that a filter has taken out.

use crate::key::{Key, has_floats};
use crate::places;
use crate::row_filter::RowFilter;
use crate::time::{INFINITY, Kind, Time};
use arrow::array::{Array, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use datafusion::common::Result;
use std::sync::Arc;

/// The other times of a batch. The two frequent cases are one number for all rows, not a column: temporality
/// is paid for only where it is used (trill.txt §1.3).
#[derive(Debug, Clone)]
pub enum Other {
    /// Start edges.
    Open,
    /// Intervals of so many ticks each.
    After(i64),
    /// One by one.
    Column(ScalarBuffer<i64>),
}

/// Rows of a stream in order of their sync times.
///
/// ```
/// use arrow::array::{Int64Array, RecordBatch};
/// use std::sync::Arc;
/// use whimbrel_temporal::{Batch, Kind, Other};
///
/// # fn main() -> datafusion::common::Result<()> {
/// let rows = RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(vec![1, 2])) as _)])?;
/// let batch = Batch::new(vec![10, 20].into(), Other::After(5), rows);
/// assert_eq!((batch.kind_at(0), batch.other_at(0)), (Kind::Interval, 15));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Batch {
    /// When each row becomes known; never decreasing.
    pub sync: ScalarBuffer<i64>,
    /// The extent of each row's lifetime.
    pub other: Other,
    /// The payload.
    pub rows: RecordBatch,
    /// One bit a row, 1 where it is present; none: all are. Trill's bitvector has its bits the other way
    /// round (trill.txt §4).
    present: Option<BooleanBuffer>,
    /// The key that was asked for last. It stays through slices, new lifetimes and projections that say where
    /// its columns are, and is dropped where rows are moved or replaced.
    key: Option<Arc<Key>>,
}

/// What flows: rows, or the news that nothing before an instant will follow.
#[derive(Debug, Clone)]
pub enum Message {
    /// Rows.
    Batch(Batch),
    /// No row with a sync time before this will follow. [`INFINITY`](crate::INFINITY): the stream has ended.
    Punctuation(Time),
}

impl Batch {
    /// A batch of rows that are all present. The caller vouches for the order of `sync`.
    pub fn new(sync: ScalarBuffer<i64>, other: Other, rows: RecordBatch) -> Batch {
        debug_assert_eq!(sync.len(), rows.num_rows());
        debug_assert!(sync.is_sorted());
        Batch { sync, other, rows, present: None, key: None }
    }

    /// The number of rows, absent ones included.
    pub fn len(&self) -> usize {
        self.sync.len()
    }

    /// Whether there are no rows at all.
    pub fn is_empty(&self) -> bool {
        self.sync.is_empty()
    }

    /// The other time of row `i`.
    #[inline]
    pub fn other_at(&self, i: usize) -> Time {
        match &self.other {
            Other::Open => INFINITY,
            Other::After(duration) => self.sync[i].saturating_add(*duration),
            Other::Column(other) => other[i],
        }
    }

    /// The kind of row `i`.
    #[inline]
    pub fn kind_at(&self, i: usize) -> Kind {
        Kind::of(self.sync[i], self.other_at(i))
    }

    /// When the lifetime of row `i` starts: for an end edge, that of the edge it ends.
    #[inline]
    pub fn start_at(&self, i: usize) -> Time {
        match self.kind_at(i) {
            Kind::End => self.other_at(i),
            _ => self.sync[i],
        }
    }

    /// The other times, one by one.
    pub fn other_column(&self) -> ScalarBuffer<i64> {
        match &self.other {
            Other::Open => vec![INFINITY; self.len()].into(),
            Other::After(d) => self.sync.iter().map(|s| s.saturating_add(*d)).collect::<Vec<_>>().into(),
            Other::Column(other) => other.clone(),
        }
    }

    /// The same lifetimes over other columns: a projection. The key goes along if `key` says where its
    /// columns are.
    pub fn with_rows(&self, rows: RecordBatch, key: Option<Vec<usize>>) -> Batch {
        let key = match (&self.key, key) {
            (Some(old), Some(columns)) => Some(Arc::new(old.renumbered(columns))),
            _ => None,
        };
        Batch { sync: self.sync.clone(), other: self.other.clone(), rows, present: self.present.clone(), key }
    }

    /// The same rows with other lifetimes.
    pub fn with_times(&self, sync: ScalarBuffer<i64>, other: Other) -> Batch {
        debug_assert!(sync.is_sorted());
        Batch { sync, other, ..self.clone() }
    }

    /// Takes out the rows for which `keep` is not true.
    /// A null is not true. One bit a row changes, and no column is touched.
    pub fn retain(&mut self, keep: &BooleanArray) {
        let keep = match keep.nulls() {
            Some(nulls) => keep.values() & nulls.inner(),
            None => keep.values().clone(),
        };
        self.present = Some(match self.present.take() {
            Some(present) => &present & &keep,
            None => keep,
        });
    }

    /// Which rows are present; none: all.
    pub fn present(&self) -> Option<&BooleanBuffer> {
        self.present.as_ref()
    }

    /// The batch without its absent rows.
    /// Each column is copied once; a batch of which all rows are present goes on as it is, with its key.
    ///
    /// # Errors
    /// `ArrowError` if a column cannot be filtered.
    pub fn compact(self) -> Result<Batch> {
        let Some(present) = &self.present else { return Ok(self) };
        if present.count_set_bits() == present.len() {
            return Ok(Batch { present: None, ..self });
        }
        let columns = self.rows.num_columns() + 1 + matches!(self.other, Other::Column(_)) as usize;
        let filter = RowFilter::new(present, columns);
        let rows = filter.batch(&self.rows)?;
        let sync = match self.has_one_time() {
            true => self.sync.slice(0, rows.num_rows()),
            false => filter_times(&filter, &self.sync)?,
        };
        let other = match &self.other {
            Other::Column(other) => Other::Column(filter_times(&filter, other)?),
            constant => constant.clone(),
        };
        Ok(Batch { sync, other, rows, present: None, key: None })
    }

    /// The key made of these columns; computed once and kept. The batch must be compact.
    ///
    /// # Errors
    /// `ArrowError` if a column cannot be encoded.
    pub fn key(&mut self, columns: &[usize]) -> Result<Arc<Key>> {
        if let Some(key) = &self.key
            && key.columns() == columns
        {
            return Ok(key.clone());
        }
        let key = Arc::new(Key::of(&self.rows, columns)?);
        self.key = Some(key.clone());
        Ok(key)
    }

    /// All columns as a key by which a row is found again, see [`Key::exact`]. The batch must be compact.
    pub(crate) fn identity(&mut self) -> Result<Arc<Key>> {
        let all: Vec<usize> = (0..self.rows.num_columns()).collect();
        match self.rows.columns().iter().any(|column| has_floats(column.data_type())) {
            true => Ok(Arc::new(Key::exact(&self.rows, &all)?)),
            false => self.key(&all),
        }
    }

    /// The columns of the key that the batch carries.
    pub fn key_columns(&self) -> Option<&[usize]> {
        self.key.as_ref().map(|k| k.columns())
    }

    /// `len` rows from `offset` on; no copy.
    pub fn slice(&self, offset: usize, len: usize) -> Batch {
        if offset == 0 && len == self.len() {
            return self.clone();
        }
        Batch {
            sync: self.sync.slice(offset, len),
            other: match &self.other {
                Other::Column(other) => Other::Column(other.slice(offset, len)),
                constant => constant.clone(),
            },
            rows: self.rows.slice(offset, len),
            present: self.present.as_ref().map(|p| p.slice(offset, len)),
            key: self.key.as_ref().map(|k| Arc::new(k.slice(offset, len))),
        }
    }

    /// The rows at these places, in this order. The batch must be compact, and the order keep `sync` sorted.
    ///
    /// # Errors
    /// `ArrowError` if there is no such place.
    pub fn take(&self, indices: &UInt32Array) -> Result<Batch> {
        let gather = |times: &ScalarBuffer<i64>| -> ScalarBuffer<i64> {
            indices.values().iter().map(|&i| times[i as usize]).collect::<Vec<_>>().into()
        };
        let other = match &self.other {
            Other::Column(other) => Other::Column(gather(other)),
            constant => constant.clone(),
        };
        let rows = places::take(&self.rows, indices)?;
        let sync = match self.has_one_time() && rows.num_rows() <= self.len() {
            true => self.sync.slice(0, rows.num_rows()),
            false => gather(&self.sync),
        };
        Ok(Batch::new(sync, other, rows))
    }

    /// Whether all rows become known at once, as those of a relation do. Times never decrease.
    fn has_one_time(&self) -> bool {
        self.sync.first() == self.sync.last()
    }

    /// The same rows and lifetimes with other columns.
    pub(crate) fn map_rows(self, rows: RecordBatch) -> Batch {
        debug_assert_eq!(self.len(), rows.num_rows());
        Batch { rows, key: None, ..self }
    }
}

/// The times of the rows that a filter keeps.
fn filter_times(filter: &RowFilter, times: &ScalarBuffer<i64>) -> Result<ScalarBuffer<i64>> {
    let array = arrow::array::Int64Array::new(times.clone(), None);
    let kept = filter.column(&array)?;
    let data = kept.to_data();
    Ok(ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()))
}
