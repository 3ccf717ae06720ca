//! `reshard` of runs: rows that follow each other with equal keys to the same consumer, and runs in turns
//! (trill.txt §6.2, packing).
//!
//! Every batch is cut into slices of about equal length, where the key changes; a slice that goes on with the
//! key of the last row goes to the consumer of that row. Nothing is copied, and no row waits.
//!
//! Runs are told by the hash of the key: two keys of one hash that follow each other stay together, too.

use super::Partitioner;
use super::redistribute::key_columns;
use datafusion::common::{DFSchema, Result, exec_err};
use datafusion::logical_expr::Expr;
use whimbrel_temporal::Batch;

/// Deals out runs.
pub(super) struct Runs {
    key: Vec<usize>,
    /// The consumer of the last row, and the hash of its key.
    last: Option<(u32, u32)>,
}

impl Runs {
    /// A partitioner of runs of these columns.
    ///
    /// # Errors
    /// `Internal` if the key has anything else than columns.
    pub fn new(key: &[Expr], schema: &DFSchema) -> Result<Runs> {
        Ok(Runs { key: key_columns(key, schema)?, last: None })
    }
}

/// Where a run starts, at or after a row.
fn run_start(hashes: &[u32], row: usize) -> usize {
    let goes_on = |row: &usize| *row > 0 && hashes[*row] == hashes[*row - 1];
    (row..hashes.len()).find(|row| !goes_on(row)).unwrap_or(hashes.len())
}

impl Partitioner for Runs {
    fn partition(&mut self, mut batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        let key = batch.key(&self.key)?;
        let (hashes, rows, consumers) = (key.hashes(), batch.len(), parts.len());
        let mut consumer = match self.last {
            Some((last, hash)) if hashes.first() == Some(&hash) => last as usize,
            Some((last, _)) => (last as usize + 1) % consumers,
            None => 0,
        };
        let mut start = 0;
        for slice in 1..=consumers {
            let end = run_start(hashes, (rows * slice / consumers).max(start));
            if end > start {
                parts[consumer] = Some(batch.slice(start, end - start));
                self.last = Some((consumer as u32, hashes[end - 1]));
                consumer = (consumer + 1) % consumers;
                start = end;
            }
        }
        Ok(())
    }

    fn save(&self) -> Vec<u8> {
        self.last.map_or(vec![], |(consumer, hash)| [consumer.to_le_bytes(), hash.to_le_bytes()].concat())
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.last = match state.as_chunks::<4>() {
            ([], []) => None,
            ([consumer, hash], []) => Some((u32::from_le_bytes(*consumer), u32::from_le_bytes(*hash))),
            _ => return exec_err!("the checkpoint has another exchange than the query; take a new one"),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::partitioner;
    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::logical_expr::col;
    use std::collections::HashMap;
    use std::sync::Arc;
    use whimbrel_plan::nodes::{Exchange, Movement, Scope};
    use whimbrel_temporal::Other;

    fn batch(keys: &[i64]) -> Batch {
        let column: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
        let rows = RecordBatch::try_from_iter([("k", column)]).unwrap();
        Batch::new(vec![0; keys.len()].into(), Other::Open, rows)
    }

    fn runs(schema: &DFSchema) -> Box<dyn Partitioner> {
        let rows =
            datafusion::logical_expr::LogicalPlan::EmptyRelation(datafusion::logical_expr::EmptyRelation {
                produce_one_row: false,
                schema: Arc::new(schema.clone()),
            });
        let movement = Movement::Runs { key: vec![col("k")] };
        let exchange = Exchange::try_new(rows, movement, Some(3), Scope::Global).unwrap();
        partitioner(Some(&exchange), 0, schema, false).unwrap()
    }

    /// The keys that each of three consumers gets of batches of some length.
    fn dealt(keys: &[i64], size: usize) -> Vec<Vec<i64>> {
        let schema: DFSchema = batch(&[]).rows.schema().try_into().unwrap();
        let mut dealer = runs(&schema);
        let mut dealt = vec![vec![]; 3];
        for chunk in keys.chunks(size) {
            let state = dealer.save();
            dealer = runs(&schema);
            dealer.restore(&state).unwrap();
            let mut parts = vec![None; 3];
            dealer.partition(batch(chunk), &mut parts).unwrap();
            for (part, dealt) in parts.into_iter().zip(&mut dealt) {
                let keys = part.map(|part| part.rows.column(0).as_primitive::<Int64Type>().values().to_vec());
                dealt.extend(keys.unwrap_or_default());
            }
        }
        dealt
    }

    #[test]
    fn runs_stay_together_and_are_dealt_out() {
        let keys: Vec<i64> = (0..3000).map(|row| (row * row) / 4000).collect();
        for size in [1, 2, 7, 100, 3000] {
            let dealt = dealt(&keys, size);
            let mut consumers: HashMap<i64, usize> = HashMap::new();
            for (consumer, keys) in dealt.iter().enumerate() {
                assert!(keys.is_sorted(), "in batches of {size}");
                assert!(keys.len() > 500, "in batches of {size}: {} rows of 3000", keys.len());
                keys.iter().for_each(|key| assert_eq!(*consumers.entry(*key).or_insert(consumer), consumer));
            }
            assert_eq!(dealt.iter().map(Vec::len).sum::<usize>(), keys.len());
        }
    }

    #[test]
    fn one_run_goes_to_one_consumer() {
        let dealt = dealt(&[7; 50], 8);
        assert_eq!(dealt.iter().filter(|keys| keys.len() == 50).count(), 1);
    }

    #[test]
    fn a_state_of_another_exchange_is_refused() {
        let schema: DFSchema = batch(&[]).rows.schema().try_into().unwrap();
        assert!(runs(&schema).restore(&[1, 2, 3]).is_err());
    }
}
