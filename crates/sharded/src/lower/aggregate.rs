//! Snapshot aggregates.

use super::express::{columns, keyed};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use std::sync::Arc;
use whimbrel_plan::{AggFunction, aggregate_of, properties};
use whimbrel_temporal::operators::{self, AggregateCall, AggregateFunction, Select};
use whimbrel_temporal::{Graph, NodeId};

pub(super) fn aggregate(graph: &mut Graph, plan: &Aggregate, input: NodeId) -> Result<NodeId> {
    let schema = plan.input.schema();
    let input = keyed(graph, input, schema, &plan.group_expr)?;
    let calls = plan.aggr_expr.iter().map(|e| call(e, schema)).collect::<Result<Vec<_>>>()?;
    let lifetimes = properties(&plan.input)?.lifetimes;
    let operator = operators::Aggregate::new(input.schema, input.key, calls, lifetimes)?;
    let computed = operator.schema().clone();
    let node = graph.add(Box::new(operator), &[input.node]);
    Ok(as_planned(graph, node, &computed, plan.schema.inner()))
}

pub(super) fn distinct(graph: &mut Graph, input_plan: &LogicalPlan, input: NodeId) -> Result<NodeId> {
    let lifetimes = properties(input_plan)?.lifetimes;
    let operator = operators::Aggregate::distinct(input_plan.schema().inner().clone(), lifetimes)?;
    Ok(graph.add(Box::new(operator), &[input]))
}

fn call(expr: &Expr, schema: &DFSchema) -> Result<AggregateCall> {
    let (name, aggregate) = aggregate_of(expr)?;
    let physical = |e: &Expr| whimbrel_plan::physical(e, schema);
    Ok(AggregateCall {
        function: function(aggregate.function),
        argument: aggregate.argument.as_ref().map(physical).transpose()?,
        filter: aggregate.filter.as_ref().map(physical).transpose()?,
        name,
    })
}

fn function(function: AggFunction) -> AggregateFunction {
    match function {
        AggFunction::Count => AggregateFunction::Count,
        AggFunction::Sum => AggregateFunction::Sum,
        AggFunction::Average => AggregateFunction::Average,
        AggFunction::Min => AggregateFunction::Min,
        AggFunction::Max => AggregateFunction::Max,
        AggFunction::First => AggregateFunction::First,
        AggFunction::Last => AggregateFunction::Last,
        AggFunction::CountDistinct => AggregateFunction::CountDistinct,
    }
}

/// The columns with the names and types that the plan promises.
fn as_planned(graph: &mut Graph, node: NodeId, from: &SchemaRef, to: &SchemaRef) -> NodeId {
    if from.fields() == to.fields() {
        return node;
    }
    let exprs = columns(from, 0..to.fields().len()).into_iter().zip(to.fields()).enumerate().map(
        |(i, (e, field))| match from.field(i).data_type() == field.data_type() {
            true => e,
            false => Arc::new(CastExpr::new(e, field.data_type().clone(), None)) as Arc<dyn PhysicalExpr>,
        },
    );
    graph.add(Box::new(Select::new(exprs.collect(), to.clone())), &[node])
}
