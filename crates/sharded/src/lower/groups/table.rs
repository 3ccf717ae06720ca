//! The groups of an aggregate and what is known of each.

use super::numbers::Numbers;
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, aggregate_expressions};
use std::sync::Arc;

/// See the module.
pub(super) struct Table {
    schema: SchemaRef,
    key: Arc<dyn PhysicalExpr>,
    numbers: Numbers,
    calls: Vec<Call>,
    /// For each row of a batch the number of its group.
    groups: Vec<usize>,
}

/// One of the aggregate's functions.
struct Call {
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    states: Box<dyn GroupsAccumulator>,
}

impl Table {
    pub fn new(aggregate: &AggregateExec) -> Result<Table> {
        let [(key, _)] = aggregate.group_expr().expr() else {
            return internal_err!("groups are found by the place of one key");
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
            numbers: Numbers::new(key.data_type(&aggregate.input_schema())?),
            calls: calls.collect::<Result<_>>()?,
            groups: vec![],
        })
    }

    /// Adds rows of the input.
    pub fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        self.numbers.groups(&of(&self.key, rows)?, &mut self.groups)?;
        for call in &mut self.calls {
            let arguments = call.arguments.iter().map(|argument| of(argument, rows));
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            let filter = call.filter.as_ref().map(|filter| of(filter, rows)).transpose()?;
            let filter = filter.as_ref().map(AsArray::as_boolean);
            call.states.update_batch(&arguments, &self.groups, filter, self.numbers.len())?;
        }
        Ok(())
    }

    /// The key of each group and its aggregates.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let mut columns = vec![self.numbers.finish()?];
        for call in &mut self.calls {
            columns.push(call.states.evaluate(EmitTo::All)?);
        }
        Ok(RecordBatch::try_new(self.schema, columns)?)
    }
}

/// The values of an expression, one a row.
fn of(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(rows)?.into_array(rows.num_rows())
}
