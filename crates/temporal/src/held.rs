//! What an operator keeps, for whoever watches a query while it runs.

use crate::batch::Batch;
use crate::time::Time;
use arrow::array::{Array, ArrayData, RecordBatch};
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// How much an operator keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// How many rows, or groups of rows.
    pub rows: usize,
    /// About how many bytes of memory they take.
    pub bytes: usize,
    /// The earliest instant of what is kept; none: nothing is kept, or it is kept without its start.
    pub oldest: Option<Time>,
}

impl Held {
    /// So many rows, of which the earliest began at `oldest`, in what becomes of `state` in a checkpoint.
    pub(crate) fn saved(rows: usize, oldest: Option<Time>, state: Result<Vec<u8>>) -> Held {
        match rows {
            // What is saved beside rows are a few instants.
            0 => Held::default(),
            // A state that cannot be saved is reported when a checkpoint is taken.
            rows => Held { rows, bytes: state.map_or(0, |state| state.len()), oldest },
        }
    }

    /// The rows of these batches, which are in order of time.
    pub(crate) fn batches<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Held {
        let batches: Vec<&Batch> = batches.into_iter().collect();
        Held {
            rows: batches.iter().map(|batch| batch.len()).sum(),
            bytes: memory_of(batches.iter().map(|batch| &batch.rows)),
            oldest: batches.iter().filter_map(|batch| batch.sync.first().copied()).min(),
        }
    }

    /// This and another.
    pub(crate) fn and(self, other: Held) -> Held {
        Held {
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
            oldest: self.oldest.into_iter().chain(other.oldest).min(),
        }
    }
}

/// The bytes of the buffers that these batches keep alive. What several of them share counts once.
pub(crate) fn memory_of<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> usize {
    let mut seen = HashSet::new();
    let columns = batches.into_iter().flat_map(RecordBatch::columns);
    columns.map(|column| new_bytes(&column.to_data(), &mut seen)).sum()
}

/// The bytes of the buffers of an array that have not been seen.
fn new_bytes(data: &ArrayData, seen: &mut HashSet<*const u8>) -> usize {
    let nulls = data.nulls().map(|nulls| nulls.buffer());
    let buffers = data.buffers().iter().chain(nulls);
    // A slice of a buffer begins within it: it is told by where the whole begins.
    let own =
        buffers.filter(|buffer| seen.insert(buffer.data_ptr().as_ptr())).map(|buffer| buffer.capacity());
    let own: usize = own.sum();
    own + data.child_data().iter().map(|child| new_bytes(child, seen)).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Other;
    use arrow::array::{Int64Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn slices_of_one_batch_count_once() {
        let rows = RecordBatch::try_from_iter([
            ("n", Arc::new(Int64Array::from(vec![1; 1000])) as _),
            ("s", Arc::new(StringArray::from(vec!["some text"; 1000])) as _),
        ])
        .unwrap();
        let whole = memory_of([&rows]);
        assert!(whole >= 8 * 1000 + 9 * 1000, "{whole}");
        assert_eq!(memory_of([&rows.slice(0, 10), &rows.slice(500, 10)]), whole);
        assert_eq!(memory_of([]), 0);
    }

    #[test]
    fn the_oldest_of_two_is_that_of_either() {
        let batch = |sync: i64| {
            let rows = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1])) as _)]).unwrap();
            Batch::new(vec![sync].into(), Other::After(1), rows)
        };
        let (early, late) = (batch(3), batch(8));
        assert_eq!(Held::batches([&late]).and(Held::batches([&early])).oldest, Some(3));
        assert_eq!(Held::batches([&late]).and(Held::default()).oldest, Some(8));
        assert_eq!(Held::batches([]), Held::default());
    }
}
