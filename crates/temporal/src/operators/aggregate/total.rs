//! What sums are kept in: a word, a word that counts how often it overflowed, a float of twice the precision,
//! or as many digits as are needed.

use crate::values::Value;
use arrow::buffer::BooleanBuffer;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
use std::ops::Range;

/// A sum to and from which values are added and taken.
pub(super) trait Total:
    Clone + Default + Debug + Send + Serialize + DeserializeOwned + 'static
{
    type Value: Value;
    fn add(&mut self, value: &Self::Value);
    /// Takes out a value that was added.
    fn remove(&mut self, value: &Self::Value);
    /// Adds all that another sum holds.
    fn merge(&mut self, other: &Self);
    /// Takes out what was merged, or added value by value.
    fn unmerge(&mut self, other: &Self);

    /// Whether it is a number of its type.
    fn fits(&self) -> bool {
        true
    }

    /// Adds those of the rows whose bit is set in `selection`, which begins at the first of them; none: all.
    fn add_run(
        &mut self,
        column: &<Self::Value as Value>::Column,
        rows: Range<usize>,
        selection: Option<&BooleanBuffer>,
    ) {
        let mut add = |row| self.add(&Self::Value::get(column, row));
        match selection {
            None => rows.for_each(add),
            Some(bits) => bits.set_indices().for_each(|place| add(rows.start + place)),
        }
    }
}
