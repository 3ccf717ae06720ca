//! `multicast`: an expression names the consumers of each row: one (an integer) or any number (a list of
//! integers).

use super::Partitioner;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt32Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DFSchema, Result, exec_err};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;
use whimbrel_temporal::Batch;

/// Sends every row to the consumers that an expression names.
pub(super) struct Multicast {
    to: Arc<dyn PhysicalExpr>,
}

impl Multicast {
    /// A partitioner by this expression over the columns of the producer.
    ///
    /// # Errors
    /// `Plan` if it cannot be evaluated over them.
    pub fn new(to: &Expr, schema: &DFSchema) -> Result<Multicast> {
        Ok(Multicast { to: whimbrel_plan::physical(to, schema)? })
    }

    /// Which rows go to each consumer.
    fn rows(&self, batch: &Batch, targets: usize) -> Result<Vec<Vec<u32>>> {
        let to = self.to.evaluate(&batch.rows)?.into_array(batch.len())?;
        let mut rows = vec![Vec::new(); targets];
        match to.data_type() {
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => {
                let lists = integer_lists(&to)?;
                for row in 0..lists.len() {
                    if lists.is_null(row) {
                        return no_consumer(&self.to, row);
                    }
                    for shard in integers(&lists.value(row))?.iter() {
                        add(&mut rows, shard, row, &self.to)?;
                    }
                }
            }
            _ => {
                for (row, shard) in integers(&to)?.iter().enumerate() {
                    add(&mut rows, shard, row, &self.to)?;
                }
            }
        }
        Ok(rows)
    }
}

/// The consumers of each row, as lists of 64-bit integers.
fn integer_lists(to: &ArrayRef) -> Result<datafusion::arrow::array::ListArray> {
    let item = datafusion::arrow::datatypes::Field::new_list_field(DataType::Int64, true);
    let lists = cast(to, &DataType::List(Arc::new(item)))?;
    Ok(lists.as_list::<i32>().clone())
}

/// The consumer of each row, as a 64-bit integer.
fn integers(to: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(to, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// Adds a row to those of a consumer.
fn add(rows: &mut [Vec<u32>], shard: Option<i64>, row: usize, to: &Arc<dyn PhysicalExpr>) -> Result<()> {
    let Some(shard) = shard else { return no_consumer(to, row) };
    let targets = rows.len();
    match usize::try_from(shard).ok().and_then(|s| rows.get_mut(s)) {
        // A consumer that is named twice gets the row twice: lists are multisets.
        Some(rows) => rows.push(row as u32),
        None => {
            return exec_err!(
                "multicast to {to}: row {row} of a batch goes to shard {shard}, but the shards are 0 to {}",
                targets - 1
            );
        }
    }
    Ok(())
}

/// The error of a row without a consumer.
fn no_consumer<T>(to: &Arc<dyn PhysicalExpr>, row: usize) -> Result<T> {
    exec_err!(
        "multicast to {to}: row {row} of a batch has no target (null); to send it nowhere, give an empty list"
    )
}

impl Partitioner for Multicast {
    fn partition(&mut self, batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        for (rows, part) in self.rows(&batch, parts.len())?.into_iter().zip(parts) {
            if !rows.is_empty() {
                *part = Some(batch.take(&UInt32Array::from(rows))?);
            }
        }
        Ok(())
    }
}
