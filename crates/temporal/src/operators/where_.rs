//! `where`: keeps the rows for which a predicate is true. Rows are marked absent, not moved (trill.txt
//! §4.1.1).

use crate::batch::Message;
use crate::operator::{Operator, Role};
use datafusion::common::Result;
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
    fn role(&self) -> Role {
        Role::Map
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        let Message::Batch(batch) = message else {
            out.push(message);
            return Ok(());
        };
        let batch = batch.compact()?.picked(&self.predicate)?;
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
