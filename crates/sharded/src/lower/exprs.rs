//! Physical expressions, and the columns of keys.

use super::specialize::specialize;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use std::sync::Arc;
use whimbrel_temporal::operators::Select;
use whimbrel_temporal::{Graph, NodeId};

/// A physical expression, with the parts replaced that have a faster way.
///
/// # Errors
/// `Plan` if the expression cannot be evaluated over these columns.
pub(super) fn physical(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    specialize(whimbrel_plan::physical(expr, schema)?, schema.as_arrow())
}

/// Physical expressions, in order.
///
/// # Errors
/// As [`physical`].
pub(super) fn physical_exprs(exprs: &[Expr], schema: &DFSchema) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    exprs.iter().map(|e| physical(e, schema)).collect()
}

/// The column at a place.
pub(super) fn column(schema: &Schema, index: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(schema.field(index).name(), index))
}

/// The columns at these places.
pub(super) fn columns(schema: &Schema, indices: impl Iterator<Item = usize>) -> Vec<Arc<dyn PhysicalExpr>> {
    indices.map(|index| column(schema, index)).collect()
}

/// Nulls of the types of these columns.
///
/// # Errors
/// If a type has no null.
pub(super) fn nulls(schema: &Schema) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let null = |field: &Arc<Field>| -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Literal::new(ScalarValue::try_from(field.data_type())?)))
    };
    schema.fields().iter().map(null).collect()
}

/// A stream in a graph, with the columns of a key.
pub(super) struct Keyed {
    pub node: NodeId,
    /// Its columns.
    pub schema: SchemaRef,
    /// The places of the key columns.
    pub key: Vec<usize>,
}

/// The stream with the columns of a key. Expressions that are no columns are computed and appended.
///
/// # Errors
/// `Plan` if an expression cannot be evaluated.
pub(super) fn keyed(graph: &mut Graph, node: NodeId, schema: &DFSchema, key: &[Expr]) -> Result<Keyed> {
    let mut exprs = columns(schema.as_arrow(), 0..schema.fields().len());
    let mut fields = schema.fields().to_vec();
    let mut indices = Vec::with_capacity(key.len());
    for expr in key {
        let column = expr.clone().unalias_nested().data;
        let index = column.try_as_col().and_then(|c| schema.maybe_index_of_column(c));
        indices.push(index.unwrap_or(fields.len()));
        if index.is_none() {
            let (_, field) = expr.to_field(schema)?;
            exprs.push(physical(expr, schema)?);
            fields.push(field);
        }
    }
    if fields.len() == schema.fields().len() {
        return Ok(Keyed { node, schema: schema.inner().clone(), key: indices });
    }
    let schema = Arc::new(Schema::new(fields));
    let node = graph.add(Box::new(Select::new(exprs, schema.clone())), &[node]);
    Ok(Keyed { node, schema, key: indices })
}

/// The stream under a schema with other names; the same node if the names are equal.
pub(super) fn relabel(graph: &mut Graph, node: NodeId, from: &Schema, to: &SchemaRef) -> NodeId {
    if from.fields() == to.fields() {
        return node;
    }
    let exprs = columns(from, 0..to.fields().len());
    graph.add(Box::new(Select::new(exprs, to.clone())), &[node])
}
