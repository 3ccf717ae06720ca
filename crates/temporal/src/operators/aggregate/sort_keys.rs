//! What multisets of rows are ordered by: the argument itself, another value before it, or the start of the
//! row.

use super::accumulator::Rows;
use super::state_column::{both, filter, selection};
use crate::key::{encode_sorted, with_equal_floats};
use crate::time::Time;
use crate::values::{Bytes, Column, Value};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::SortOptions;
use datafusion::common::Result;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// The keys of the loaded batch's rows.
pub(super) trait SortKeys: Send + Debug + 'static {
    /// A key holds the value that is handed out for it.
    type Key: Ord + Clone + Debug + Send + Serialize + DeserializeOwned + 'static;

    /// Reads the next batch.
    fn load(&mut self, rows: &Rows) -> Result<()>;

    /// Which rows of a batch have a key; none: all.
    fn selection(rows: &Rows) -> Option<BooleanBuffer> {
        selection(rows)
    }

    /// The key of a row.
    fn key(&self, row: usize) -> Self::Key;

    /// Appends the values that the keys hold; null where there is none.
    fn append<'a>(&self, keys: impl Iterator<Item = Option<&'a Self::Key>>, out: &mut Column);
}

/// The argument, in SQL's order.
#[derive(Debug)]
pub(super) struct Argument<V: Value>(V::Column);

impl<V: Value> Argument<V> {
    pub fn new() -> Self {
        Argument(V::Column::default())
    }
}

impl<V: Value> SortKeys for Argument<V> {
    type Key = V::Ordered;

    fn load(&mut self, rows: &Rows) -> Result<()> {
        if let Some(argument) = &rows.argument {
            self.0 = V::column(argument)?;
        }
        Ok(())
    }
    #[inline]
    fn key(&self, row: usize) -> V::Ordered {
        V::get(&self.0, row).ordered()
    }
    fn append<'a>(&self, keys: impl Iterator<Item = Option<&'a V::Ordered>>, out: &mut Column) {
        out.extend_optional(keys.map(|key| key.map(V::from_ordered)));
    }
}

/// The values of a column to the bit, nulls too.
#[derive(Debug)]
pub(super) struct Nullable<V: Value> {
    column: V::Column,
    nulls: Option<NullBuffer>,
}

impl<V: Value> Nullable<V> {
    pub fn new() -> Self {
        Nullable { column: Default::default(), nulls: None }
    }

    pub fn load(&mut self, array: &ArrayRef) -> Result<()> {
        self.nulls = array.logical_nulls();
        self.column = V::exact_column(array)?;
        Ok(())
    }

    pub fn get(&self, row: usize) -> Option<V::Ordered> {
        let valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        valid.then(|| V::get(&self.column, row).exact())
    }
}

/// Of an argument of two fields, the first, then the second, of which a null comes last. Rows without the
/// first have no key; what is handed out is the second.
#[derive(Debug)]
pub(super) struct ByThenValue<V: Value> {
    /// The first field, encoded.
    by: BinaryArray,
    /// The largest of it comes first.
    descending: bool,
    value: Nullable<V>,
}

impl<V: Value> ByThenValue<V> {
    pub fn new(descending: bool) -> Self {
        ByThenValue { by: BinaryBuilder::new().finish(), descending, value: Nullable::new() }
    }
}

impl<V: Value> SortKeys for ByThenValue<V> {
    type Key = (Bytes, (bool, Option<V::Ordered>));

    fn load(&mut self, rows: &Rows) -> Result<()> {
        if let Some(fields) = rows.argument.as_ref().and_then(|argument| argument.as_struct_opt()) {
            let by = with_equal_floats(fields.column(0))?;
            // A null within a key is the smallest in either order.
            let order = SortOptions { descending: self.descending, nulls_first: !self.descending };
            self.by = encode_sorted(&[by], order)?;
            self.value.load(fields.column(1))?;
        }
        Ok(())
    }
    fn selection(rows: &Rows) -> Option<BooleanBuffer> {
        let by = rows.argument.as_ref().and_then(|argument| argument.as_struct_opt()).map(|f| f.column(0));
        let nulls = by.and_then(|by| by.logical_nulls()).filter(|nulls| nulls.null_count() > 0);
        both(selection(rows), nulls.map(|nulls| nulls.inner().clone()))
    }
    fn key(&self, row: usize) -> Self::Key {
        let value = self.value.get(row);
        (self.by.value(row).into(), (value.is_none(), value))
    }
    fn append<'a>(&self, keys: impl Iterator<Item = Option<&'a Self::Key>>, out: &mut Column) {
        out.extend_optional(
            keys.map(|key| key.and_then(|(_, (_, value))| value.as_ref().map(V::from_ordered))),
        );
    }
}

/// The start of the row, then the argument, of which a null comes first.
#[derive(Debug)]
pub(super) struct StartThenValue<V: Value> {
    starts: Vec<Time>,
    value: Nullable<V>,
}

impl<V: Value> StartThenValue<V> {
    pub fn new() -> Self {
        StartThenValue { starts: Vec::new(), value: Nullable::new() }
    }
}

impl<V: Value> SortKeys for StartThenValue<V> {
    type Key = (Time, Option<V::Ordered>);

    fn load(&mut self, rows: &Rows) -> Result<()> {
        self.starts = rows.starts.clone();
        rows.argument.as_ref().map_or(Ok(()), |argument| self.value.load(argument))
    }
    fn selection(rows: &Rows) -> Option<BooleanBuffer> {
        filter(rows)
    }
    fn key(&self, row: usize) -> Self::Key {
        (self.starts[row], self.value.get(row))
    }
    fn append<'a>(&self, keys: impl Iterator<Item = Option<&'a Self::Key>>, out: &mut Column) {
        out.extend_optional(keys.map(|key| key.and_then(|(_, value)| value.as_ref().map(V::from_ordered))));
    }
}
