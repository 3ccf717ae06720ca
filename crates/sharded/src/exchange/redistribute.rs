//! `redistribute`: rows with equal keys to the same target, by the key's hash.

use super::Spread;
use datafusion::arrow::array::UInt32Array;
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::Expr;
use whimbrel_temporal::Batch;

pub(super) struct ReDistribute {
    key: Vec<usize>,
    /// The target of each row, kept for its memory.
    targets: Vec<u32>,
}

impl ReDistribute {
    pub fn new(key: &[Expr], schema: &DFSchema) -> Result<ReDistribute> {
        let place = |expr: &Expr| match expr {
            Expr::Column(column) => schema.index_of_column(column),
            other => internal_err!("rows are redistributed by columns, not by {other}"),
        };
        Ok(ReDistribute { key: key.iter().map(place).collect::<Result<_>>()?, targets: Vec::new() })
    }

    /// The rows of all targets one after the other, and where each target's end.
    fn sort(&mut self, hashes: &[u32], targets: usize) -> (ScalarBuffer<u32>, Vec<usize>) {
        // The lower bits: the hash tables of operators use the upper ones, which stay even within a target.
        // Where there are too many targets for half of the bits, all are used.
        let target = |hash: u32| match targets < 1 << 12 {
            true => ((hash & 0xffff) * targets as u32) >> 16,
            false => hash % targets as u32,
        };
        self.targets.clear();
        self.targets.extend(hashes.iter().map(|hash| target(*hash)));
        let mut ends = vec![0; targets];
        self.targets.iter().for_each(|target| ends[*target as usize] += 1);
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut rows = vec![0; hashes.len()];
        for (row, target) in self.targets.iter().enumerate() {
            let place = &mut ends[*target as usize];
            rows[*place] = row as u32;
            *place += 1;
        }
        (rows.into(), ends)
    }
}

impl Spread for ReDistribute {
    fn spread(&mut self, mut batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        if let [only] = parts {
            *only = Some(batch);
            return Ok(());
        }
        let key = batch.key(&self.key)?;
        let (rows, ends) = self.sort(key.hashes(), parts.len());
        let mut start = 0;
        for (end, part) in ends.into_iter().zip(parts) {
            if end - start == batch.len() {
                *part = Some(batch.clone());
            } else if end > start {
                *part = Some(batch.take(&UInt32Array::new(rows.slice(start, end - start), None))?);
            }
            start = end;
        }
        Ok(())
    }
}
