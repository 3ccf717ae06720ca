//! `select_many`: one row for each element of a list, with the lifetime of the row that the list is in.

use crate::batch::{Batch, Message};
use crate::operator::Operator;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, exec_err};
use std::sync::Arc;

/// Unfolds a list column.
pub struct Unnest {
    column: usize,
    keeps_nulls: bool,
    schema: SchemaRef,
}

impl Unnest {
    /// Unfolds this column; `schema` has its elements in its place. A null or empty list gives no row.
    pub fn new(column: usize, schema: SchemaRef) -> Unnest {
        Unnest { column, keeps_nulls: false, schema }
    }

    /// The same, but a null list gives a row with a null: SQL's `unnest`.
    pub fn keeping_nulls(self) -> Unnest {
        Unnest { keeps_nulls: true, ..self }
    }

    fn unfold(&self, batch: Batch) -> Result<Batch> {
        let batch = batch.compact()?;
        let lists = as_list(batch.rows.column(self.column))?;
        let (mut rows, mut elements) = (Vec::new(), Vec::new());
        for row in 0..lists.len() {
            if lists.is_null(row) {
                if self.keeps_nulls {
                    rows.push(row as u32);
                    elements.push(None);
                }
                continue;
            }
            for element in lists.value_offsets()[row]..lists.value_offsets()[row + 1] {
                rows.push(row as u32);
                elements.push(Some(element as u32));
            }
        }
        let rows = UInt32Array::from(rows);
        let repeated = batch.take(&rows)?;
        let mut columns = repeated.rows.columns().to_vec();
        columns[self.column] = take(lists.values(), &UInt32Array::from(elements), None)?;
        Ok(repeated.map_rows(RecordBatch::try_new(self.schema.clone(), columns)?))
    }
}

/// A column of lists of any kind, as lists with offsets of 32 bits.
fn as_list(array: &ArrayRef) -> Result<ListArray> {
    match array.data_type() {
        DataType::List(_) => Ok(array.as_list::<i32>().clone()),
        DataType::LargeList(field) | DataType::FixedSizeList(field, _) | DataType::ListView(field) => {
            Ok(cast(array, &DataType::List(Arc::clone(field)))?.as_list::<i32>().clone())
        }
        other => exec_err!("select_many unfolds lists, not {other}"),
    }
}

impl Operator for Unnest {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        out.push(match message {
            Message::Batch(batch) => Message::Batch(self.unfold(batch)?),
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
