//! `list_histogram(l)`: a map from each value to how often it is there, in the order of the values.
//! `histogram(x)` is one of the values of a group (`words`).
//!
//! ```sql
//! select list_histogram(['b', 'a', 'b']);  -- {a: 1, b: 2}
//! ```

use super::Mapped;
use super::reductions::{element, lists};
use datafusion::arrow::array::{
    Array, ArrayRef, MapArray, StructArray, UInt32Array, UInt64Array, new_empty_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{concat, partition, sort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::Arc;

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let one = Signature::any(1, Volatility::Immutable);
    vec![Mapped::function("list_histogram", one, map_type, |args| histograms(&args[0]))]
}

/// The type of the map for a type of lists.
fn map_type(arguments: &[DataType]) -> Result<DataType> {
    let entries = DataType::Struct(fields(element(arguments)?));
    Ok(DataType::Map(Arc::new(Field::new("entries", entries, false)), false))
}

/// The fields of an entry of the map.
fn fields(key: DataType) -> Fields {
    Fields::from(vec![Field::new("key", key, false), Field::new("value", DataType::UInt64, true)])
}

/// The histogram of each list.
fn histograms(column: &ArrayRef) -> Result<ArrayRef> {
    let key = element(&[column.data_type().clone()])?;
    let (mut keys, mut counts, mut lengths, mut present) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for values in lists(column)? {
        let values = values.filter(|values| !values.is_empty());
        present.push(values.is_some());
        let (distinct, times) = match &values {
            Some(values) => counted(values)?,
            None => (new_empty_array(&key), vec![]),
        };
        lengths.push(times.len());
        counts.extend(times);
        keys.push(distinct);
    }
    let keys: Vec<&dyn Array> = keys.iter().map(AsRef::as_ref).collect();
    let keys = if keys.is_empty() { new_empty_array(&key) } else { concat(&keys)? };
    let fields = fields(key);
    let entries =
        StructArray::try_new(fields.clone(), vec![keys, Arc::new(UInt64Array::from(counts))], None)?;
    let entry = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(MapArray::try_new(entry, offsets, entries, Some(NullBuffer::from(present)), false)?))
}

/// The different values in their order, and how often each is there.
fn counted(values: &ArrayRef) -> Result<(ArrayRef, Vec<u64>)> {
    let sorted = take(values, &sort_to_indices(values, None, None)?, None)?;
    let runs = partition(&[Arc::clone(&sorted)])?.ranges();
    let firsts = UInt32Array::from_iter_values(runs.iter().map(|run| run.start as u32));
    Ok((take(&sorted, &firsts, None)?, runs.iter().map(|run| run.len() as u64).collect()))
}
