//! Snapshot aggregates.

use super::express::{columns, keyed};
use super::{grouping, replay};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, UserDefinedLogicalNodeCore, lit};
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
    let sets = grouping::sets(plan)?;
    let input = match &sets {
        Some(sets) => grouping::unfolded(graph, plan, sets, input)?,
        None => keyed(graph, input, schema, &plan.group_expr)?,
    };
    let calls = plan.aggr_expr.iter().map(|e| call(e, schema)).collect::<Result<Vec<_>>>()?;
    let lifetimes = properties(&plan.input)?.lifetimes;
    let operator = told.aggregate(input.schema, input.key, calls, lifetimes)?;
    let computed = operator.schema().clone();
    let node = graph.add(Box::new(operator), &[input.node]);
    let node = as_planned(graph, node, &computed, plan.schema.inner());
    if properties(&plan.input)?.time.is_some() {
        return Ok(node);
    }
    match sets {
        Some(sets) => with_totals(graph, plan, &grouping::totals(plan, &sets)?, node),
        None if plan.group_expr.is_empty() => or_nothing(graph, plan, vec![], node),
        None => Ok(node),
    }
}

/// An aggregate whose operator is made already, over the input of the lowest step that the operator includes.
pub(super) fn fused(
    graph: &mut Graph,
    plan: &Aggregate,
    operator: operators::Aggregate,
    input: NodeId,
) -> Result<NodeId> {
    let computed = operator.schema().clone();
    let node = graph.add(Box::new(operator), &[input]);
    Ok(as_planned(graph, node, &computed, plan.schema.inner()))
}

/// What the aggregates say of no rows, while there are none: over a relation an aggregate without a key has a row where
/// there is nothing. `group`: the values of its groups.
fn or_nothing(graph: &mut Graph, plan: &Aggregate, group: Vec<ScalarValue>, node: NodeId) -> Result<NodeId> {
    let schema = plan.schema.inner();
    let calls = plan.aggr_expr.iter().zip(&schema.fields()[group.len()..]);
    let of_nothing = |(expr, field): (&Expr, &Arc<Field>)| {
        replay::of_nothing(expr, plan.input.schema())?.cast_to(field.data_type())
    };
    let values = calls.map(of_nothing).collect::<Result<Vec<_>>>()?;
    let columns = group.iter().chain(&values).map(ScalarValue::to_array).collect::<Result<Vec<_>>>()?;
    let row = RecordBatch::try_new(schema.clone(), columns)?;
    Ok(graph.add(Box::new(operators::OrElse::new(row)?), &[node]))
}

/// The same for the grouping sets with these numbers, which group by nothing.
fn with_totals(graph: &mut Graph, plan: &Aggregate, totals: &[ScalarValue], node: NodeId) -> Result<NodeId> {
    if totals.is_empty() {
        return Ok(node);
    }
    let place = plan.schema.fields().len() - plan.aggr_expr.len() - 1;
    let filtered = |graph: &mut Graph, numbers: &[ScalarValue], negated| -> Result<NodeId> {
        let number = Expr::from(plan.schema.qualified_field(place));
        let among = number.in_list(numbers.iter().cloned().map(lit).collect(), negated);
        let predicate = whimbrel_plan::physical(&among, &plan.schema)?;
        Ok(graph.add(Box::new(operators::Where::new(predicate)), &[node]))
    };
    let mut parts = vec![filtered(graph, totals, true)?];
    for number in totals {
        let fields = plan.schema.fields()[..place].iter();
        let nulls = fields.map(|f| ScalarValue::try_from(f.data_type())).collect::<Result<Vec<_>>>()?;
        let group = nulls.into_iter().chain([number.clone()]).collect();
        let rows = filtered(graph, std::slice::from_ref(number), false)?;
        parts.push(or_nothing(graph, plan, group, rows)?);
    }
    Ok(graph.add(Box::new(operators::Union::new(parts.len())), &parts))
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

pub(super) fn call(expr: &Expr, schema: &DFSchema) -> Result<AggregateCall> {
    let Ok((name, aggregate)) = aggregate_of(expr) else { return replay::call(expr, schema) };
    let physical = |e: &Expr| whimbrel_plan::physical(e, schema);
    Ok(AggregateCall {
        function: function(&aggregate.function),
        argument: aggregate.argument.as_ref().map(physical).transpose()?,
        filter: aggregate.filter.as_ref().map(physical).transpose()?,
        name,
    })
}

pub(super) fn function(function: &AggFunction) -> AggregateFunction {
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
