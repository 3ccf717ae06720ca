//! Joins. Outer joins are made of what there is: the pairs, and the rows of a side while it has no partner.

use super::express::{Keyed, columns, keyed, nulls, relabel};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{JoinType, NullEquality, Result, plan_err};
use datafusion::logical_expr::{Expr, Join};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;
use whimbrel_temporal::operators::{self, Exists, Select, Union};
use whimbrel_temporal::{Graph, NodeId};

/// The two sides of a join, and how many columns of each come out.
struct Sides {
    left: Keyed,
    right: Keyed,
    left_width: usize,
    right_width: usize,
    schema: SchemaRef,
}

pub(super) fn join(graph: &mut Graph, plan: &Join, left: NodeId, right: NodeId) -> Result<NodeId> {
    if plan.null_equality == NullEquality::NullEqualsNull && !plan.on.is_empty() {
        return plan_err!("in a join of streams nulls equal nothing");
    }
    if plan.filter.is_some() && plan.join_type != JoinType::Inner {
        return plan_err!(
            "a {} join of streams has no condition beside equal columns: filter its inputs, or its result",
            plan.join_type
        );
    }
    let (left_on, right_on): (Vec<Expr>, Vec<Expr>) = plan.on.iter().cloned().unzip();
    let (left_schema, right_schema) = (plan.left.schema(), plan.right.schema());
    let sides = Sides {
        left: keyed(graph, left, left_schema, &left_on)?,
        right: keyed(graph, right, right_schema, &right_on)?,
        left_width: left_schema.fields().len(),
        right_width: right_schema.fields().len(),
        schema: plan.schema.inner().clone(),
    };
    match plan.join_type {
        JoinType::Inner => inner(graph, plan, &sides),
        JoinType::Left => outer(graph, &sides, &[Side::Left]),
        JoinType::Right => outer(graph, &sides, &[Side::Right]),
        JoinType::Full => outer(graph, &sides, &[Side::Left, Side::Right]),
        JoinType::LeftSemi => Ok(exists(graph, &sides, Side::Left, false)),
        JoinType::LeftAnti => Ok(exists(graph, &sides, Side::Left, true)),
        JoinType::RightSemi => Ok(exists(graph, &sides, Side::Right, false)),
        JoinType::RightAnti => Ok(exists(graph, &sides, Side::Right, true)),
        other => plan_err!("streams have no {other} join"),
    }
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

fn inner(graph: &mut Graph, plan: &Join, sides: &Sides) -> Result<NodeId> {
    let pairs = pairs(graph, sides);
    let Some(filter) = &plan.filter else { return Ok(pairs) };
    let predicate = whimbrel_plan::physical(filter, &plan.schema)?;
    Ok(graph.add(Box::new(operators::Where::new(predicate)), &[pairs]))
}

/// The pairs, under the join's schema.
fn pairs(graph: &mut Graph, sides: &Sides) -> NodeId {
    let Sides { left, right, .. } = sides;
    let operator =
        operators::Join::new(left.schema.clone(), right.schema.clone(), left.key.clone(), right.key.clone());
    let node = graph.add(Box::new(operator), &[left.node, right.node]);
    let fields = left.schema.fields().iter().chain(right.schema.fields()).cloned();
    let joined = Schema::new(fields.collect::<Vec<_>>());
    if joined.fields().len() == sides.schema.fields().len() {
        return relabel(graph, node, &joined, &sides.schema);
    }
    // Computed keys were appended to a side: they go.
    let right_start = left.schema.fields().len();
    let kept = (0..sides.left_width).chain(right_start..right_start + sides.right_width);
    let exprs = columns(&joined, kept);
    graph.add(Box::new(Select::new(exprs, sides.schema.clone())), &[node])
}

/// The pairs, and what of these sides has no partner, padded with nulls.
fn outer(graph: &mut Graph, sides: &Sides, alone: &[Side]) -> Result<NodeId> {
    let mut parts = vec![pairs(graph, sides)];
    for side in alone {
        let node = exists_raw(graph, sides, *side, true);
        let exprs: Vec<Arc<dyn PhysicalExpr>> = match side {
            Side::Left => {
                let own = columns(&sides.left.schema, 0..sides.left_width);
                let padding = nulls(&narrow(&sides.right.schema, sides.right_width))?;
                own.into_iter().chain(padding).collect()
            }
            Side::Right => {
                let own = columns(&sides.right.schema, 0..sides.right_width);
                let padding = nulls(&narrow(&sides.left.schema, sides.left_width))?;
                padding.into_iter().chain(own).collect()
            }
        };
        parts.push(graph.add(Box::new(Select::new(exprs, sides.schema.clone())), &[node]));
    }
    Ok(graph.add(Box::new(Union::new(parts.len())), &parts))
}

/// The first columns.
fn narrow(schema: &SchemaRef, width: usize) -> Schema {
    Schema::new(schema.fields().iter().take(width).cloned().collect::<Vec<_>>())
}

/// The rows of a side while they have a partner, or while they have none, with all columns of the side.
fn exists_raw(graph: &mut Graph, sides: &Sides, side: Side, negate: bool) -> NodeId {
    let (this, other) = match side {
        Side::Left => (&sides.left, &sides.right),
        Side::Right => (&sides.right, &sides.left),
    };
    let operator = Exists::new(negate, this.key.clone(), other.key.clone());
    graph.add(Box::new(operator), &[this.node, other.node])
}

fn exists(graph: &mut Graph, sides: &Sides, side: Side, negate: bool) -> NodeId {
    let node = exists_raw(graph, sides, side, negate);
    let (this, width) = match side {
        Side::Left => (&sides.left, sides.left_width),
        Side::Right => (&sides.right, sides.right_width),
    };
    if this.schema.fields().len() == width {
        return relabel(graph, node, &this.schema, &sides.schema);
    }
    let exprs = columns(&this.schema, 0..width);
    graph.add(Box::new(Select::new(exprs, sides.schema.clone())), &[node])
}
