//! Physical expressions, and the columns of keys.

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use std::sync::Arc;
use whimbrel_temporal::operators::Select;
use whimbrel_temporal::{Graph, NodeId};

/// Physical expressions, in order.
///
/// # Errors
/// `Plan` if an expression cannot be evaluated over these columns.
pub(super) fn physical_exprs(exprs: &[Expr], schema: &DFSchema) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    exprs.iter().map(|e| whimbrel_plan::physical(e, schema)).collect()
}

/// The column at a place.
pub(super) fn column(schema: &Schema, place: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(schema.field(place).name(), place))
}

/// The columns at these places.
pub(super) fn columns(schema: &Schema, places: impl Iterator<Item = usize>) -> Vec<Arc<dyn PhysicalExpr>> {
    places.map(|place| column(schema, place)).collect()
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
    let mut places = Vec::with_capacity(key.len());
    for expr in key {
        let column = expr.clone().unalias_nested().data;
        let place = column.try_as_col().and_then(|c| schema.maybe_index_of_column(c));
        places.push(place.unwrap_or(fields.len()));
        if place.is_none() {
            let (_, field) = expr.to_field(schema)?;
            exprs.push(whimbrel_plan::physical(expr, schema)?);
            fields.push(field);
        }
    }
    if fields.len() == schema.fields().len() {
        return Ok(Keyed { node, schema: schema.inner().clone(), key: places });
    }
    let schema = Arc::new(Schema::new(fields));
    let node = graph.add(Box::new(Select::new(exprs, schema.clone())), &[node]);
    Ok(Keyed { node, schema, key: places })
}

/// The stream under a schema with other names; the same node if the names are equal.
pub(super) fn relabel(graph: &mut Graph, node: NodeId, from: &Schema, to: &SchemaRef) -> NodeId {
    if from.fields() == to.fields() {
        return node;
    }
    let exprs = columns(from, 0..to.fields().len());
    graph.add(Box::new(Select::new(exprs, to.clone())), &[node])
}
