//! The groups of an aggregate, with the states of its functions.

use super::index::GroupIndex;
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, aggregate_expressions};
use std::sync::Arc;

/// The groups and states of an aggregate.
pub(super) struct Table {
    schema: SchemaRef,
    key: Arc<dyn PhysicalExpr>,
    index: GroupIndex,
    calls: Vec<Call>,
    /// The group of each row of the current batch. The buffer is kept.
    groups: Vec<usize>,
}

/// A function of the aggregate, with its states.
struct Call {
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    states: Box<dyn GroupsAccumulator>,
}

impl Table {
    /// No groups yet.
    ///
    /// # Errors
    /// `Internal` if the aggregate is not supported.
    pub fn new(aggregate: &AggregateExec) -> Result<Table> {
        let [(key, _)] = aggregate.group_expr().expr() else {
            return internal_err!("a direct index has one key");
        };
        let arguments = aggregate_expressions(aggregate.aggr_expr(), aggregate.mode(), 1)?;
        let filters = aggregate.filter_expr().iter().cloned();
        let calls = aggregate.aggr_expr().iter().zip(arguments).zip(filters);
        let calls = calls.map(|((call, arguments), filter)| {
            Ok(Call { arguments, filter, states: call.create_groups_accumulator()? })
        });
        Ok(Table {
            schema: aggregate.schema(),
            key: Arc::clone(key),
            index: GroupIndex::new(key.data_type(&aggregate.input_schema())?),
            calls: calls.collect::<Result<_>>()?,
            groups: vec![],
        })
    }

    /// Adds rows of the input.
    ///
    /// # Errors
    /// Those of the expressions and functions.
    pub fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        self.index.groups(&evaluate(&self.key, rows)?, &mut self.groups)?;
        for call in &mut self.calls {
            let arguments = call.arguments.iter().map(|argument| evaluate(argument, rows));
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            let filter = call.filter.as_ref().map(|filter| evaluate(filter, rows)).transpose()?;
            let filter = filter.as_ref().map(AsArray::as_boolean);
            call.states.update_batch(&arguments, &self.groups, filter, self.index.len())?;
        }
        Ok(())
    }

    /// The key and the results of each group.
    ///
    /// # Errors
    /// Those of the functions.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let mut columns = vec![self.index.finish()?];
        for call in &mut self.calls {
            columns.push(call.states.evaluate(EmitTo::All)?);
        }
        Ok(RecordBatch::try_new(self.schema, columns)?)
    }
}

/// The values of an expression.
fn evaluate(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(rows)?.into_array(rows.num_rows())
}
