//! `redistribute`: rows with equal keys to the same consumer, by the hash of the key.

use super::Partitioner;
use super::targets::send;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::Expr;
use whimbrel_temporal::Batch;

/// Sends rows to consumers by the hash of their key.
pub(super) struct ReDistribute {
    /// The columns of the key.
    key: Vec<usize>,
    /// The consumer of each row of the current batch. The buffer is kept.
    targets: Vec<u32>,
}

impl ReDistribute {
    /// A partitioner by these columns.
    ///
    /// # Errors
    /// `Internal` if the key has anything else than columns.
    pub fn new(key: &[Expr], schema: &DFSchema) -> Result<ReDistribute> {
        Ok(ReDistribute { key: key_columns(key, schema)?, targets: Vec::new() })
    }
}

/// The places of the columns of a key.
///
/// # Errors
/// `Internal` if the key has anything else than columns.
pub(super) fn key_columns(key: &[Expr], schema: &DFSchema) -> Result<Vec<usize>> {
    let place = |expr: &Expr| match expr {
        Expr::Column(column) => schema.index_of_column(column),
        other => internal_err!("rows move by columns, not by {other}"),
    };
    key.iter().map(place).collect()
}

impl Partitioner for ReDistribute {
    fn partition(&mut self, mut batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        if let [only] = parts {
            *only = Some(batch);
            return Ok(());
        }
        let consumers = parts.len();
        // The lower bits: the hash tables of operators use the upper ones, which stay even within a target.
        // Too many consumers for half of the bits get all of them.
        let target = |hash: u32| match consumers < 1 << 12 {
            true => ((hash & 0xffff) * consumers as u32) >> 16,
            false => hash % consumers as u32,
        };
        let key = batch.key(&self.key)?;
        self.targets.clear();
        self.targets.extend(key.hashes().iter().map(|hash| target(*hash)));
        send(&batch, &self.targets, parts)
    }
}
