//! `where`: keeps the rows for which a predicate is true. Rows are marked absent, not moved (trill.txt
//! §4.1.1).

use crate::batch::Message;
use crate::operator::Operator;
use arrow::array::AsArray;
use datafusion::common::{Result, exec_err};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// A filter.
pub struct Where {
    predicate: Arc<dyn PhysicalExpr>,
}

impl Where {
    /// Keeps the rows for which `predicate`, over the payload, is true.
    pub fn new(predicate: Arc<dyn PhysicalExpr>) -> Where {
        Where { predicate }
    }
}

impl Operator for Where {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        let Message::Batch(batch) = message else {
            out.push(message);
            return Ok(());
        };
        // The predicate must not be evaluated over rows that another filter has taken out.
        let mut batch = batch.compact()?;
        let verdict = self.predicate.evaluate(&batch.rows)?.into_array(batch.len())?;
        let Some(selection) = verdict.as_boolean_opt() else {
            return exec_err!("the condition {} is not a truth value", self.predicate);
        };
        batch.retain(selection);
        if batch.present().is_none_or(|p| p.count_set_bits() > 0) {
            out.push(Message::Batch(batch));
        }
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn restore(&mut self, _state: &[u8]) -> Result<()> {
        Ok(())
    }
}
