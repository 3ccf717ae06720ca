//! Nodes that work row by row: `where`, `select`, `unnest`; and `union`.

use super::exprs::{physical, physical_exprs, relabel};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Filter, Projection, Union, Unnest};
use whimbrel_temporal::operators;
use whimbrel_temporal::{Graph, NodeId};

/// Lowers a filter.
///
/// # Errors
/// `Plan` if the predicate cannot be evaluated.
pub(super) fn filter(graph: &mut Graph, plan: &Filter, input: NodeId) -> Result<NodeId> {
    let predicate = physical(&plan.predicate, plan.input.schema())?;
    Ok(graph.add(Box::new(operators::Where::new(predicate)), &[input]))
}

/// Lowers a projection.
///
/// # Errors
/// `Plan` if an expression cannot be evaluated.
pub(super) fn project(graph: &mut Graph, plan: &Projection, input: NodeId) -> Result<NodeId> {
    let exprs = physical_exprs(&plan.expr, plan.input.schema())?;
    Ok(graph.add(Box::new(operators::Select::new(exprs, plan.schema.inner().clone())), &[input]))
}

/// Lowers an unnest of one list column.
///
/// # Errors
/// `Plan` if there are several columns, or lists of lists.
pub(super) fn unnest(graph: &mut Graph, plan: &Unnest, input: NodeId) -> Result<NodeId> {
    let [(column, list)] = plan.list_type_columns.as_slice() else {
        return plan_err!(
            "a stream is unnested by one list at a time, not by {}",
            plan.list_type_columns.len()
        );
    };
    let in_place = plan.dependency_indices.iter().copied().eq(0..plan.input.schema().fields().len());
    if !plan.struct_type_columns.is_empty() || list.depth != 1 || !in_place {
        return plan_err!("a stream is unnested by one list column, one level deep");
    }
    let operator = operators::Unnest::new(*column, plan.schema.inner().clone());
    let operator = if plan.options.preserve_nulls() { operator.keeping_nulls() } else { operator };
    Ok(graph.add(Box::new(operator), &[input]))
}

/// Lowers a union.
///
/// # Errors
/// `Plan` if the inputs have columns of different types.
pub(super) fn union(graph: &mut Graph, plan: &Union, inputs: &[NodeId]) -> Result<NodeId> {
    let schema = plan.schema.inner();
    let mut aligned = Vec::with_capacity(inputs.len());
    for (node, input) in inputs.iter().zip(&plan.inputs) {
        let from = input.schema().inner();
        for (a, b) in from.fields().iter().zip(schema.fields()) {
            if a.data_type() != b.data_type() {
                return plan_err!(
                    "the inputs of a union differ: column `{}` is {} in one, {} in another; cast one of them",
                    b.name(),
                    a.data_type(),
                    b.data_type()
                );
            }
        }
        aligned.push(relabel(graph, *node, from, schema));
    }
    Ok(graph.add(Box::new(operators::Union::new(aligned.len())), &aligned))
}
