//! Nodes that read or change lifetimes: windows, sessions, clips.

use super::exprs::{keyed, physical};
use super::{aggregate, arithmetic, pattern};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::{Expr, Operator as Op, UserDefinedLogicalNodeCore, lit};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;
use whimbrel_plan::calendar::Grid;
use whimbrel_plan::nodes::{
    self, Assertion, HoppingWindows, LifetimeChange, Node, QuantizeGrid, lifetime_schema, start_schema,
};
use whimbrel_plan::{column, properties};
use whimbrel_temporal::operators;
use whimbrel_temporal::{DurationRule, Graph, Lifetimes, NodeId, Operator, StartRule, unit_of};

/// Lowers an extension node.
///
/// # Errors
/// `Plan` if its expressions cannot be evaluated.
pub(super) fn lower(graph: &mut Graph, node: Node<'_>, inputs: &[NodeId]) -> Result<NodeId> {
    let operator: Box<dyn Operator> = match node {
        Node::AlterLifetime(n) => Box::new(alter(n)?),
        Node::WithStart(n) => Box::new(operators::WithStart::new(n.schema().inner().clone())),
        Node::Session(n) => return session(graph, n, inputs[0]),
        Node::ChangeLifetimes(n) => change(n)?,
        Node::Clip(n) => return clip(graph, n, inputs),
        Node::Detect(n) => Box::new(pattern::detect(n)?),
        Node::MatchRecognize(n) => Box::new(pattern::match_recognize(n)?),
        Node::Process(n) => {
            let (operator, input) = (n.operator.0.as_ref(), n.input.schema().inner());
            Box::new(operators::Process::try_new(operator, input, n.key_places()?)?)
        }
        Node::FillGaps(n) => Box::new(fill_gaps(n)?),
        Node::Changes(n) => Box::new(changes(n)),
        Node::Accumulate(_) => {
            Box::new(operators::AlterLifetime::new(StartRule::Keep, DurationRule::Infinite))
        }
        Node::AllowedLateness(n) => {
            Box::new(operators::AllowedLateness::new(n.time_column()?, n.lateness, n.retention))
        }
        Node::Require(n) => require(n)?,
        Node::Combine(n) => return aggregate::combine(graph, n, inputs[0]),
        Node::Ingress(_) | Node::ReKey(_) | Node::Colocated(_) | Node::Exchange(_) => {
            return internal_err!("{node:?} has no place within a stage");
        }
    };
    Ok(graph.add(operator, inputs))
}

/// The operator that changes each lifetime.
fn change(node: &nodes::ChangeLifetimes) -> Result<Box<dyn Operator>> {
    Ok(match &node.change {
        LifetimeChange::Chop(Grid::Ticks { hop, offset }) => Box::new(operators::Chop::new(*hop, *offset)),
        LifetimeChange::Chop(Grid::Calendar(calendar)) => {
            let next = calendar.boundary(column("start"), lit(1_i64));
            Box::new(operators::Chop::at_next(rule(&next, start_schema())?))
        }
        LifetimeChange::Clip(limit) => Box::new(operators::ClipConstant::new(*limit)),
        LifetimeChange::PointAtEnd => Box::new(operators::PointAtEnd::new()),
        LifetimeChange::Extend(by) => Box::new(operators::ExtendLifetime::new(*by)),
        LifetimeChange::Stitch => Box::new(operators::Stitch::new(node.schema().inner().clone())),
        LifetimeChange::Hop(HoppingWindows { size, hop, offset, closed }) => {
            Box::new(operators::Hopping::new(*size, *hop, *offset, *closed)?)
        }
        LifetimeChange::Quantize(QuantizeGrid { size, period, progress, offset }) => {
            Box::new(operators::Quantize::new(*size, *period, *offset, *progress)?)
        }
    })
}

/// The operator that checks what is asserted.
fn require(node: &nodes::Require) -> Result<Box<dyn Operator>> {
    let input = properties(&node.input)?;
    let unit = input.time.as_ref().and_then(unit_of);
    Ok(match &*node.assertion {
        Assertion::Duration(duration) => Box::new(operators::RequireDuration::new(*duration, unit)),
        Assertion::Sorted(columns) => {
            let columns = places(columns, node.schema())?;
            Box::new(operators::RequireSorted::new(node.schema().inner().clone(), columns, unit))
        }
        Assertion::DistinctStarts => {
            Box::new(operators::RequireDistinctStarts::new(input.lifetimes.has_end_edges(), unit))
        }
    })
}

/// The places of columns.
fn places(columns: &[Expr], schema: &DFSchema) -> Result<Vec<usize>> {
    let place = |expr: &Expr| match expr {
        Expr::Column(column) => schema.index_of_column(column),
        other => internal_err!("{other} is no column"),
    };
    columns.iter().map(place).collect()
}

/// The operator that tells what changes.
fn changes(node: &nodes::Changes) -> operators::Changes {
    let changes = operators::Changes::new(node.schema().inner().clone());
    if node.forgets { changes.forgetting() } else { changes }
}

/// The operator that fills gaps.
fn fill_gaps(node: &nodes::FillGaps) -> Result<operators::FillGaps> {
    let fill = |fill: &nodes::Fill| match fill {
        nodes::Fill::Constant(value) => operators::Fill::Constant(value.clone()),
        nodes::Fill::Previous => operators::Fill::Previous,
        nodes::Fill::Linear => operators::Fill::Linear,
    };
    let (schema, fills) = (node.schema().inner().clone(), node.fills.iter().map(fill).collect());
    operators::FillGaps::new(schema, node.key_places()?, fills, (node.period, node.offset), node.max_gap)
}

/// The operator that alters lifetimes.
fn alter(node: &nodes::AlterLifetime) -> Result<operators::AlterLifetime> {
    let input = properties(&node.input)?;
    let start = node.start.try_map(|e| rule(e, start_schema()))?;
    let duration = match &*node.duration {
        DurationRule::ByStart(e) => DurationRule::ByStart(rule(e, start_schema())?),
        DurationRule::ByLifetime(e) if keeps_duration(e) => DurationRule::Keep,
        // Start edges have no ends to wait for: the new rows never end either.
        DurationRule::ByLifetime(_) if input.lifetimes == Lifetimes::StartEdges => DurationRule::Infinite,
        other => other.try_map(|e| rule(e, lifetime_schema()))?,
    };
    let unit = input.time.as_ref().and_then(unit_of);
    Ok(operators::AlterLifetime::new(start, duration).in_unit(unit))
}

/// An expression over a lifetime, with checked arithmetic: an instant that is too large is an error.
fn rule(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    physical(&arithmetic::expression(expr.clone(), schema)?, schema)
}

/// Whether a duration is `end - start`.
fn keeps_duration(duration: &Expr) -> bool {
    let is = |expr: &Expr, name: &str| matches!(expr, Expr::Column(column) if column.name == name);
    matches!(duration, Expr::BinaryExpr(difference) if difference.op == Op::Minus
        && is(&difference.left, "end") && is(&difference.right, "start"))
}

/// Lowers a session.
fn session(graph: &mut Graph, node: &nodes::Session, input: NodeId) -> Result<NodeId> {
    let input = keyed(graph, input, node.input.schema(), &node.key)?;
    if input.schema.fields().len() != node.input.schema().fields().len() {
        return internal_err!("the key of a session is columns");
    }
    let mut operator = operators::Session::new(input.key, node.timeout, node.cap);
    if node.start.is_some() {
        operator = operator.windows(node.schema().inner().clone());
    }
    Ok(graph.add(Box::new(operator), &[input.node]))
}

/// Lowers a clip.
fn clip(graph: &mut Graph, node: &nodes::Clip, inputs: &[NodeId]) -> Result<NodeId> {
    let (left_on, right_on): (Vec<Expr>, Vec<Expr>) = node.on.iter().cloned().unzip();
    let left = keyed(graph, inputs[0], node.left.schema(), &left_on)?;
    let right = keyed(graph, inputs[1], node.right.schema(), &right_on)?;
    if left.schema.fields().len() != node.left.schema().fields().len() {
        return internal_err!("the key of a clip is columns");
    }
    let operator = operators::Clip::new(left.key, right.key);
    Ok(graph.add(Box::new(operator), &[left.node, right.node]))
}
