//! Snapshot aggregates: group by, distinct, and the first step of a combined aggregate.

use super::exprs::{column, keyed, physical};
use super::{grouping_sets, replay};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, UserDefinedLogicalNodeCore, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use std::sync::Arc;
use whimbrel_plan::nodes::Combine;
use whimbrel_plan::{aggregate_of, properties};
use whimbrel_temporal::operators::{self, AggregateCall, Emission, Select};
use whimbrel_temporal::{Graph, Lifetimes, NodeId};

/// Lowers a group by. Over a relation, an aggregate without a key has a row also where there are no rows.
///
/// # Errors
/// `Plan` if an aggregate cannot be computed.
pub(super) fn aggregate(
    graph: &mut Graph,
    plan: &Aggregate,
    input: NodeId,
    emission: Emission,
) -> Result<NodeId> {
    let schema = plan.input.schema();
    let sets = grouping_sets::sets(plan)?;
    let input = match &sets {
        Some(sets) => grouping_sets::expand(graph, plan, sets, input)?,
        None => keyed(graph, input, schema, &plan.group_expr)?,
    };
    let calls = plan.aggr_expr.iter().map(|e| call(e, schema)).collect::<Result<Vec<_>>>()?;
    let lifetimes = properties(&plan.input)?.lifetimes;
    let operator = operators::Aggregate::emitting(emission, input.schema, input.key, calls, lifetimes)?;
    let computed = operator.schema().clone();
    let node = graph.add(Box::new(operator), &[input.node]);
    let node = as_planned(graph, node, &computed, plan.schema.inner());
    if properties(&plan.input)?.time.is_some() {
        return Ok(node);
    }
    match sets {
        Some(sets) => with_totals(graph, plan, &grouping_sets::totals(plan, &sets)?, node),
        None if plan.group_expr.is_empty() => or_empty_result(graph, plan, vec![], node),
        None => Ok(node),
    }
}

/// Adds the row of an empty input while there is no other: over a relation, an aggregate without a key has
/// such a row. `group` are the values of its group columns.
fn or_empty_result(
    graph: &mut Graph,
    plan: &Aggregate,
    group: Vec<ScalarValue>,
    node: NodeId,
) -> Result<NodeId> {
    let schema = plan.schema.inner();
    let calls = plan.aggr_expr.iter().zip(&schema.fields()[group.len()..]);
    let of_empty = |(expr, field): (&Expr, &Arc<Field>)| {
        replay::empty_result(expr, plan.input.schema())?.cast_to(field.data_type())
    };
    let values = calls.map(of_empty).collect::<Result<Vec<_>>>()?;
    let columns = group.iter().chain(&values).map(ScalarValue::to_array).collect::<Result<Vec<_>>>()?;
    let row = RecordBatch::try_new(schema.clone(), columns)?;
    Ok(graph.add(Box::new(operators::OrElse::new(row)?), &[node]))
}

/// Adds the rows of an empty input for the grouping sets with these numbers, which have no key.
fn with_totals(graph: &mut Graph, plan: &Aggregate, totals: &[ScalarValue], node: NodeId) -> Result<NodeId> {
    if totals.is_empty() {
        return Ok(node);
    }
    let index = plan.schema.fields().len() - plan.aggr_expr.len() - 1;
    let filtered = |graph: &mut Graph, numbers: &[ScalarValue], negated| -> Result<NodeId> {
        let number = Expr::from(plan.schema.qualified_field(index));
        let is_one = number.in_list(numbers.iter().cloned().map(lit).collect(), negated);
        let predicate = physical(&is_one, &plan.schema)?;
        Ok(graph.add(Box::new(operators::Where::new(predicate)), &[node]))
    };
    let mut parts = vec![filtered(graph, totals, true)?];
    for number in totals {
        let fields = plan.schema.fields()[..index].iter();
        let nulls = fields.map(|f| ScalarValue::try_from(f.data_type())).collect::<Result<Vec<_>>>()?;
        let group = nulls.into_iter().chain([number.clone()]).collect();
        let rows = filtered(graph, std::slice::from_ref(number), false)?;
        parts.push(or_empty_result(graph, plan, group, rows)?);
    }
    Ok(graph.add(Box::new(operators::Union::new(parts.len())), &parts))
}

/// Lowers a distinct: an aggregate by all columns, without functions.
///
/// # Errors
/// `Plan` if the columns cannot be a key.
pub(super) fn distinct(
    graph: &mut Graph,
    input_plan: &LogicalPlan,
    input: NodeId,
    emission: Emission,
) -> Result<NodeId> {
    let lifetimes = properties(input_plan)?.lifetimes;
    let schema = input_plan.schema().inner().clone();
    let key = (0..schema.fields().len()).collect();
    Ok(graph.add(
        Box::new(operators::Aggregate::emitting(emission, schema, key, Vec::new(), lifetimes)?),
        &[input],
    ))
}

/// Lowers the first step of an aggregate, before an exchange.
///
/// # Errors
/// `Internal` if its input has no windows.
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

/// An aggregate function of ours, or one of DataFusion's that is recomputed.
///
/// # Errors
/// `Plan` if it cannot be computed.
pub(super) fn call(expr: &Expr, schema: &DFSchema) -> Result<AggregateCall> {
    let Ok((name, aggregate)) = aggregate_of(expr) else { return replay::call(expr, schema) };
    let physical = |e: &Expr| physical(e, schema);
    Ok(AggregateCall {
        function: aggregate.function.map_user(|user| user.aggregate().clone()),
        argument: aggregate.argument.as_ref().map(physical).transpose()?,
        filter: aggregate.filter.as_ref().map(physical).transpose()?,
        name,
    })
}

/// Renames and casts columns to the schema of the plan.
fn as_planned(graph: &mut Graph, node: NodeId, from: &SchemaRef, to: &SchemaRef) -> NodeId {
    if from.fields() == to.fields() {
        return node;
    }
    select_as_planned(graph, node, from, &Vec::from_iter(0..to.fields().len()), to)
}

/// Renames and casts the columns at these places to the schema of the plan.
pub(super) fn select_as_planned(
    graph: &mut Graph,
    node: NodeId,
    from: &SchemaRef,
    places: &[usize],
    to: &SchemaRef,
) -> NodeId {
    let exprs = places.iter().zip(to.fields()).map(|(&place, field)| {
        let column = column(from, place);
        match from.field(place).data_type() == field.data_type() {
            true => column,
            false => {
                Arc::new(CastExpr::new(column, field.data_type().clone(), None)) as Arc<dyn PhysicalExpr>
            }
        }
    });
    graph.add(Box::new(Select::new(exprs.collect(), to.clone())), &[node])
}
