//! Aggregates over the windows of sessions, for which no row is kept: those by the key of the sessions, maybe
//! with their first instant and their end. Between the two are only projections.

use super::aggregate::{call, select_as_planned};
use super::{arithmetic, grouping_sets};
use crate::stage::{Operand, Stage};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashMap;
use std::sync::Arc;
use whimbrel_plan::nodes::{self, Session};
use whimbrel_temporal::operators::{self, AggregateCall};
use whimbrel_temporal::{Graph, NodeId};

/// The most nodes of an expression that is put in the place of a column: projections that each use a column
/// twice double it again and again.
const MOST_NODES: usize = 256;

/// What a node of a stage is to such an aggregate.
pub(super) enum Role {
    /// It is computed by the aggregate, which reads what this node reads.
    Part,
    /// It is the aggregate.
    Whole(Box<SessionAggregate>),
}

/// An aggregate over sessions.
pub(super) struct SessionAggregate {
    session: Session,
    /// The places of the key in the rows of the sessions.
    key: Vec<usize>,
    calls: Vec<AggregateCall>,
    /// Where the operator has the columns of the result.
    places: Vec<usize>,
    result: Aggregate,
}

/// A column between the sessions and the aggregate.
#[derive(Clone)]
enum Origin {
    /// Of the rows of the sessions.
    Row(Expr),
    /// The first instant of the session.
    First,
    /// The end of the session.
    End,
    /// Of several of them, or of another kind.
    Other,
}

/// The nodes of a stage that have to do with such aggregates.
///
/// # Errors
/// `Plan` if an aggregate cannot be computed.
pub(super) fn roles(stage: &Stage) -> Result<HashMap<usize, Role>> {
    let mut roles = HashMap::new();
    for (number, node) in stage.nodes.iter().enumerate() {
        let LogicalPlan::Aggregate(plan) = &node.plan else { continue };
        let Some(parts) = path_to_session(stage, node.inputs[0]) else { continue };
        if let Some(aggregate) = session_aggregate(stage, &parts, plan)? {
            roles.extend(parts.into_iter().map(|part| (part, Role::Part)));
            roles.insert(number, Role::Whole(Box::new(aggregate)));
        }
    }
    Ok(roles)
}

/// The nodes from an operand down to windows of sessions, if only projections are between and nobody else
/// reads them.
fn path_to_session(stage: &Stage, mut operand: Operand) -> Option<Vec<usize>> {
    let mut path = Vec::new();
    loop {
        let Operand::Node(number) = operand else { return None };
        if stage.readers(operand) > 1 {
            return None;
        }
        path.push(number);
        let node = &stage.nodes[number];
        match (&node.plan, nodes::node(&node.plan)) {
            (LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_), _)
            | (_, Some(nodes::Node::WithStart(_))) => operand = node.inputs[0],
            (_, Some(nodes::Node::Session(session))) if session.start.is_some() => return Some(path),
            _ => return None,
        }
    }
}

/// The aggregate over the sessions at the end of a path, if it is by their key.
fn session_aggregate(stage: &Stage, path: &[usize], plan: &Aggregate) -> Result<Option<SessionAggregate>> {
    let [above @ .., bottom] = path else { return Ok(None) };
    let Some(nodes::Node::Session(session)) = nodes::node(&stage.nodes[*bottom].plan) else {
        return Ok(None);
    };
    let rows = session.input.schema();
    let mut origins: Vec<Origin> = rows.columns().into_iter().map(|c| Origin::Row(c.into())).collect();
    origins.push(Origin::First);
    for number in above.iter().rev() {
        origins = origins_above(&stage.nodes[*number].plan, origins)?;
    }
    let Some(key) = session.key.iter().map(|e| place(rows, e)).collect::<Option<Vec<usize>>>() else {
        return Ok(None);
    };
    let Some(mut places) = group_places(session, &key, plan, &origins)? else { return Ok(None) };
    let Some(calls) = calls_over_rows(session, plan, &origins)? else { return Ok(None) };
    // The results come after the key, the first instant and the end.
    places.extend(key.len() + 2..key.len() + 2 + calls.len());
    Ok(Some(SessionAggregate { session: session.clone(), key, calls, places, result: plan.clone() }))
}

/// The origins of the columns of a node, from those of its input.
fn origins_above(plan: &LogicalPlan, mut input: Vec<Origin>) -> Result<Vec<Origin>> {
    match plan {
        LogicalPlan::Projection(plan) => {
            plan.expr.iter().map(|expr| origin(expr, plan.input.schema(), &input)).collect()
        }
        // Only names differ.
        LogicalPlan::SubqueryAlias(_) => Ok(input),
        // The rows are points at the end of their session.
        _ => {
            input.push(Origin::End);
            Ok(input)
        }
    }
}

/// The origin of an expression over columns with these origins.
fn origin(expr: &Expr, schema: &DFSchema, columns: &[Origin]) -> Result<Origin> {
    let expr = expr.clone().unalias_nested().data;
    if let Some(place) = place(schema, &expr) {
        return Ok(columns[place].clone());
    }
    Ok(over_rows(expr, schema, columns)?.map_or(Origin::Other, Origin::Row))
}

/// The expression over the rows of the sessions, if it asks for nothing else and is not too large.
fn over_rows(expr: Expr, schema: &DFSchema, columns: &[Origin]) -> Result<Option<Expr>> {
    if expr.is_volatile() {
        return Ok(None);
    }
    let mut whole = true;
    let expr = expr.transform_up(|expr| {
        let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
        match &columns[schema.index_of_column(column)?] {
            Origin::Row(row) => Ok(Transformed::yes(row.clone())),
            Origin::First | Origin::End | Origin::Other => {
                whole = false;
                Ok(Transformed::no(expr))
            }
        }
    });
    let expr = expr.data()?;
    Ok((whole && node_count(&expr)? <= MOST_NODES).then_some(expr))
}

/// The number of nodes of an expression.
fn node_count(expr: &Expr) -> Result<usize> {
    let mut count = 0;
    expr.apply(|_| {
        count += 1;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(count)
}

/// Where the operator has the columns that the aggregate groups by: the key, then the first instant, then the
/// end. None: it groups by something else, or not by the whole key.
fn group_places(
    session: &Session,
    key: &[usize],
    plan: &Aggregate,
    origins: &[Origin],
) -> Result<Option<Vec<usize>>> {
    if grouping_sets::sets(plan)?.is_some() {
        return Ok(None);
    }
    let place_of = |expr: &Expr| -> Result<Option<usize>> {
        Ok(match origin(expr, plan.input.schema(), origins)? {
            Origin::Row(row) => {
                place(session.input.schema(), &row).and_then(|column| key.iter().position(|k| *k == column))
            }
            Origin::First => Some(key.len()),
            Origin::End => Some(key.len() + 1),
            Origin::Other => None,
        })
    };
    let places = plan.group_expr.iter().map(place_of).collect::<Result<Option<Vec<usize>>>>()?;
    Ok(places.filter(|places| (0..key.len()).all(|k| places.contains(&k))))
}

/// The aggregates over the rows of the sessions' input. None: one asks for something else.
fn calls_over_rows(
    session: &Session,
    plan: &Aggregate,
    origins: &[Origin],
) -> Result<Option<Vec<AggregateCall>>> {
    let schema = session.input.schema();
    let mut calls = Vec::with_capacity(plan.aggr_expr.len());
    for expr in &plan.aggr_expr {
        let Some(expr) = over_rows(expr.clone(), plan.input.schema(), origins)? else { return Ok(None) };
        let call = call(&arithmetic::expression(expr, schema)?, schema)?;
        if call.function.asks_for_starts() {
            return Ok(None);
        }
        calls.push(call);
    }
    Ok(Some(calls))
}

/// The place of the column that an expression is.
fn place(schema: &DFSchema, expr: &Expr) -> Option<usize> {
    expr.try_as_col().and_then(|column: &Column| schema.maybe_index_of_column(column))
}

impl SessionAggregate {
    /// Lowers the aggregate over the input of the sessions.
    ///
    /// # Errors
    /// `Plan` if an aggregate cannot be computed.
    pub fn lower(self, graph: &mut Graph, input: NodeId) -> Result<NodeId> {
        let rows = self.session.input.schema().inner().clone();
        let time = self.session.schema().field(rows.fields().len()).data_type().clone();
        let sessions = (self.key, self.session.timeout, self.session.cap);
        let operator = operators::SessionAggregate::new(rows, sessions, &time, self.calls)?;
        let computed = Arc::clone(operator.schema());
        let node = graph.add(Box::new(operator), &[input]);
        Ok(select_as_planned(graph, node, &computed, &self.places, self.result.schema.inner()))
    }
}
