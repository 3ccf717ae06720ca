//! Rows that stand in the plan itself.

use super::Stream;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{EmptyRelation, LogicalPlan, Values, lit};
use std::collections::HashMap;
use std::sync::Arc;

impl Stream {
    /// A relation of these rows, in one shard. The columns are those named, of these types, to which the
    /// values are cast.
    ///
    /// A row without columns is what `select 1` selects from.
    ///
    /// # Errors
    /// `Plan` if a row has more or fewer values than there are columns, or a value cannot be cast.
    pub fn values(columns: &[(String, DataType)], rows: Vec<Vec<ScalarValue>>) -> Result<Stream> {
        let fields = columns.iter().map(|(name, of)| Field::new(name, of.clone(), true)).collect();
        let schema = Arc::new(DFSchema::from_unqualified_fields(fields, HashMap::new())?);
        if rows.iter().any(|row| row.len() != columns.len()) {
            return plan_err!("values: every row needs {} values, one a column", columns.len());
        }
        if columns.is_empty() && rows.len() > 1 {
            return plan_err!("values: {} rows without columns; there can be one or none", rows.len());
        }
        if rows.is_empty() || columns.is_empty() {
            let produce_one_row = !rows.is_empty();
            return Stream::from_plan(LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row, schema }));
        }
        let row = |row: Vec<ScalarValue>| {
            row.into_iter().zip(columns).map(|(value, (_, of))| Ok(lit(value.cast_to(of)?))).collect()
        };
        let values = rows.into_iter().map(row).collect::<Result<_>>()?;
        Stream::from_plan(LogicalPlan::Values(Values { schema, values }))
    }
}
