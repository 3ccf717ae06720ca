//! Snapshot aggregates.

use super::express::{columns, keyed};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use std::sync::Arc;
use whimbrel_plan::nodes::Combine;
use whimbrel_plan::{AggFunction, aggregate_of, properties};
use whimbrel_temporal::operators::{self, AggregateCall, AggregateFunction, Select};
use whimbrel_temporal::{Graph, Lifetimes, NodeId};

/// When a snapshot's row is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// When it begins.
    AtOnce,
    /// When it is over.
    Whole,
}

impl Told {
    fn aggregate(
        self,
        input: SchemaRef,
        key: Vec<usize>,
        calls: Vec<AggregateCall>,
        lifetimes: Lifetimes,
    ) -> Result<operators::Aggregate> {
        match self {
            Told::AtOnce => operators::Aggregate::new(input, key, calls, lifetimes),
            Told::Whole => operators::Aggregate::whole(input, key, calls, lifetimes),
        }
    }
}

pub(super) fn aggregate(graph: &mut Graph, plan: &Aggregate, input: NodeId, told: Told) -> Result<NodeId> {
    let schema = plan.input.schema();
    let input = keyed(graph, input, schema, &plan.group_expr)?;
    let calls = plan.aggr_expr.iter().map(|e| call(e, schema)).collect::<Result<Vec<_>>>()?;
    let lifetimes = properties(&plan.input)?.lifetimes;
    let operator = told.aggregate(input.schema, input.key, calls, lifetimes)?;
    let computed = operator.schema().clone();
    let node = graph.add(Box::new(operator), &[input.node]);
    Ok(as_planned(graph, node, &computed, plan.schema.inner()))
}

pub(super) fn distinct(
    graph: &mut Graph,
    input_plan: &LogicalPlan,
    input: NodeId,
    told: Told,
) -> Result<NodeId> {
    let lifetimes = properties(input_plan)?.lifetimes;
    let schema = input_plan.schema().inner().clone();
    let key = (0..schema.fields().len()).collect();
    Ok(graph.add(Box::new(told.aggregate(schema, key, Vec::new(), lifetimes)?), &[input]))
}

/// The first step of an aggregate whose parts move.
pub(super) fn combine(graph: &mut Graph, plan: &Combine, input: NodeId) -> Result<NodeId> {
    let schema = plan.input_schema();
    let input = keyed(graph, input, schema, &plan.group)?;
    let calls = plan.calls.iter().map(|e| call(e, schema)).collect::<Result<Vec<_>>>()?;
    let Lifetimes::Hop { size, .. } = properties(&plan.input)?.lifetimes else {
        return internal_err!("rows are combined within panes of windows only");
    };
    let operator = operators::Combine::new(input.schema, input.key, calls, size)?;
    let computed = operator.schema().clone();
    let node = graph.add(Box::new(operator), &[input.node]);
    Ok(as_planned(graph, node, &computed, plan.schema().inner()))
}

fn call(expr: &Expr, schema: &DFSchema) -> Result<AggregateCall> {
    let (name, aggregate) = aggregate_of(expr)?;
    let physical = |e: &Expr| whimbrel_plan::physical(e, schema);
    Ok(AggregateCall {
        function: function(&aggregate.function),
        argument: aggregate.argument.as_ref().map(physical).transpose()?,
        filter: aggregate.filter.as_ref().map(physical).transpose()?,
        name,
    })
}

fn function(function: &AggFunction) -> AggregateFunction {
    match function {
        AggFunction::Count => AggregateFunction::Count,
        AggFunction::Sum => AggregateFunction::Sum,
        AggFunction::Average => AggregateFunction::Average,
        AggFunction::Min => AggregateFunction::Min,
        AggFunction::Max => AggregateFunction::Max,
        AggFunction::First => AggregateFunction::First,
        AggFunction::Last => AggregateFunction::Last,
        AggFunction::CountDistinct => AggregateFunction::CountDistinct,
        AggFunction::User(user) => AggregateFunction::User(user.aggregate().clone()),
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
