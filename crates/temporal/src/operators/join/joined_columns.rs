//! The columns of joined rows: each is one of a side.

use super::pairs::Pairs;
use crate::batch::{Batch, Message, Other};
use crate::pieces::first_piece;
use crate::synopsis::KeptBatches;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use std::ops::Range;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(in crate::operators) struct JoinedColumns {
    schema: SchemaRef,
    /// Of each column: its side, and its place there.
    columns: Vec<(usize, usize)>,
}

impl JoinedColumns {
    /// The left columns, then the right ones.
    pub fn of(left: &Schema, right: &Schema) -> JoinedColumns {
        let fields: Vec<_> = left.fields().iter().chain(right.fields()).cloned().collect();
        let columns_of = |side, schema: &Schema| (0..schema.fields().len()).map(move |column| (side, column));
        let columns = columns_of(0, left).chain(columns_of(1, right)).collect();
        JoinedColumns { schema: Arc::new(Schema::new(fields)), columns }
    }

    /// Some of them, in this order.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn select(&self, columns: &[usize]) -> JoinedColumns {
        let fields: Vec<_> = columns.iter().map(|column| self.schema.field(*column).clone()).collect();
        let columns = columns.iter().map(|column| self.columns[*column]).collect();
        JoinedColumns { schema: Arc::new(Schema::new(fields)), columns }
    }

    /// Their fields.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Hands out the first of the pairs that are left, whose rows are in the batches of their sides.
    pub fn hand_out(
        &self,
        pairs: &mut Pairs,
        batches: [&KeptBatches; 2],
        out: &mut Vec<Message>,
    ) -> Result<()> {
        if pairs.left().is_empty() {
            return Ok(());
        }
        let end = first_piece(pairs.left(), |piece| {
            let options = RecordBatchOptions::new().with_row_count(Some(piece.len()));
            let columns = self.gather(pairs, &piece, batches)?;
            let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
            let (sync, other) = pairs.times(piece);
            out.push(Message::Batch(Batch::new(sync.into(), Other::Column(other.into()), rows)));
            Ok(())
        })?;
        pairs.hand_out(end);
        Ok(())
    }

    /// The columns of some pairs.
    fn gather(
        &self,
        pairs: &Pairs,
        piece: &Range<usize>,
        batches: [&KeptBatches; 2],
    ) -> Result<Vec<ArrayRef>> {
        let of_side = |side: usize| -> Result<_> {
            let columns = self.columns.iter().filter(|column| column.0 == side);
            let columns: Vec<usize> = columns.map(|column| column.1).collect();
            Ok(batches[side].gather_columns(pairs.rows(side, piece), &columns)?.into_iter())
        };
        let mut sides = [of_side(0)?, of_side(1)?];
        Ok(self.columns.iter().filter_map(|column| sides[column.0].next()).collect())
    }
}
