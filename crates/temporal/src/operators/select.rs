//! `select`: computes the columns of the payload. A column that is only kept or renamed is a pointer that
//! moves (trill.txt §4.1.2); and the key goes along if its columns do.

use crate::batch::{Batch, Message};
use crate::operator::Operator;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::sync::Arc;

/// A projection.
pub struct Select {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// The input column that each expression merely passes on.
    passed: Vec<Option<usize>>,
    schema: SchemaRef,
}

impl Select {
    /// Computes one column for each expression; `schema` names them.
    pub fn new(exprs: Vec<Arc<dyn PhysicalExpr>>, schema: SchemaRef) -> Select {
        let passed = exprs.iter().map(|e| e.downcast_ref::<Column>().map(Column::index)).collect();
        Select { exprs, passed, schema }
    }

    /// Whether it does more than to pass columns on.
    fn computes(&self) -> bool {
        self.passed.iter().any(Option::is_none)
    }

    fn project(&self, batch: Batch) -> Result<Batch> {
        // An expression must not be evaluated over rows that a filter has taken out: it could fail on them.
        let batch = if self.computes() { batch.compact()? } else { batch };
        let columns: Vec<ArrayRef> = self
            .exprs
            .iter()
            .map(|e| e.evaluate(&batch.rows)?.into_array(batch.len()))
            .collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let key = batch.key_columns().and_then(|columns| {
            columns
                .iter()
                .map(|c| self.passed.iter().position(|p| *p == Some(*c)))
                .collect::<Option<Vec<_>>>()
        });
        Ok(batch.with_rows(rows, key))
    }
}

impl Operator for Select {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        out.push(match message {
            Message::Batch(batch) => Message::Batch(self.project(batch)?),
            punctuation => punctuation,
        });
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn restore(&mut self, _state: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// Adds a column with the start of each row's lifetime; for an end edge, of the edge it ends, so that the two
/// stay equal.
pub struct WithStart {
    schema: SchemaRef,
}

impl WithStart {
    /// `schema`: the input's columns and the new one, an int64 or a timestamp.
    pub fn new(schema: SchemaRef) -> WithStart {
        WithStart { schema }
    }
}

impl Operator for WithStart {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        let Message::Batch(batch) = message else {
            out.push(message);
            return Ok(());
        };
        let starts = Int64Array::from_iter_values((0..batch.len()).map(|i| batch.start_at(i)));
        let last = self.schema.field(self.schema.fields().len() - 1);
        let mut columns = batch.rows.columns().to_vec();
        columns.push(cast(&starts, last.data_type())?);
        let key = batch.key_columns().map(<[usize]>::to_vec);
        out.push(Message::Batch(batch.with_rows(RecordBatch::try_new(self.schema.clone(), columns)?, key)));
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn restore(&mut self, _state: &[u8]) -> Result<()> {
        Ok(())
    }
}
