//! Rows of several streams that are each in order, held back until they can be handed out as one.

use datafusion::arrow::array::UInt32Array;
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::common::Result;
use whimbrel_temporal::{Batch, Other, Time};

/// See the module.
#[derive(Default)]
pub(super) struct OrderedRows(Vec<Batch>);

impl OrderedRows {
    /// Holds rows back, which are in order.
    pub fn push(&mut self, batch: Batch) {
        if !batch.is_empty() {
            self.0.push(batch);
        }
    }

    /// What is held back.
    pub fn batches(&self) -> &[Batch] {
        &self.0
    }

    /// Takes the rows before `time`, in order; those of one instant in the order in which they came.
    pub fn take_before(&mut self, time: Time) -> Result<Option<Batch>> {
        let mut ready = Vec::new();
        for batch in std::mem::take(&mut self.0) {
            let before = batch.sync.partition_point(|sync| *sync < time);
            if before > 0 {
                ready.push(batch.slice(0, before).compact()?);
            }
            if before < batch.len() {
                self.0.push(batch.slice(before, batch.len() - before));
            }
        }
        match ready.as_slice() {
            [] => Ok(None),
            [_] => Ok(ready.pop()),
            [first, ..] => {
                let rows = concat_batches(&first.rows.schema(), ready.iter().map(|batch| &batch.rows))?;
                let sync: Vec<Time> = ready.iter().flat_map(|batch| batch.sync.iter().copied()).collect();
                let other: Vec<Time> = ready.iter().flat_map(|batch| batch.other_column().to_vec()).collect();
                let mut order: Vec<u32> = (0..u32::try_from(sync.len()).unwrap_or(u32::MAX)).collect();
                order.sort_by_key(|row| sync[*row as usize]);
                let in_order =
                    |times: &[Time]| order.iter().map(|row| times[*row as usize]).collect::<Vec<_>>();
                let (sync, other) = (in_order(&sync).into(), Other::Column(in_order(&other).into()));
                let rows = take_record_batch(&rows, &UInt32Array::from(order))?;
                Ok(Some(Batch::new(sync, other, rows)))
            }
        }
    }
}
