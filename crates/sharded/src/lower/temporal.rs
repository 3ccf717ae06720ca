//! A temporal stage as a graph of operators.

use super::session_aggregate::{self, Role};
use super::{aggregate, arithmetic, canonical, join, lifetime, rows, top_k, window};
use crate::stage::{Node, Operand, OutputMode, Stage};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::{Distinct, LogicalPlan};
use whimbrel_plan::nodes;
use whimbrel_temporal::operators::{Coalesce, CoalesceOrder, Emission, LastSnapshot};
use whimbrel_temporal::{Graph, NodeId};

/// The graph of a stage. `coalesce` names the output, if there is one, that hands out intervals instead of
/// edges, and their order.
///
/// If that output is the snapshots of an aggregate, in the order of their starts, the aggregate emits
/// intervals itself, and no operator has to coalesce edges.
///
/// # Errors
/// `Plan` if a node has no meaning on a stream.
pub(crate) fn graph(stage: &Stage, coalesce: Option<(usize, CoalesceOrder)>) -> Result<Graph> {
    let mut graph = Graph::new();
    let inputs: Vec<NodeId> = stage.inputs.iter().map(|_| graph.input()).collect();
    let mut nodes: Vec<NodeId> = Vec::with_capacity(stage.nodes.len());
    let node_of = |operand: &Operand, nodes: &[NodeId]| match operand {
        Operand::Input(input) => inputs[*input],
        Operand::Node(node) => nodes[*node],
    };
    let emits_intervals = coalesce.and_then(|(output, order)| match order {
        CoalesceOrder::Start => aggregate_of_output(stage, output),
        CoalesceOrder::End => None,
    });
    let mut roles = session_aggregate::roles(stage)?;
    let selections = selections(stage)?;
    for (number, Node { plan, inputs }) in stage.nodes.iter().enumerate() {
        if selections.iter().any(|selection| selection.join == number) {
            // The projection joins, and it is the only reader.
            nodes.push(node_of(&inputs[0], &nodes));
            continue;
        }
        let selection = selections.iter().find(|selection| selection.projection == number);
        let inputs = selection.map_or(inputs, |selection| &stage.nodes[selection.join].inputs);
        let inputs: Vec<NodeId> = inputs.iter().map(|i| node_of(i, &nodes)).collect();
        let emission = if emits_intervals == Some(number) { Emission::OnClose } else { Emission::OnStart };
        nodes.push(match (roles.remove(&number), selection) {
            (Some(Role::Part), _) => inputs[0],
            (Some(Role::Whole(aggregate)), _) => aggregate.lower(&mut graph, inputs[0])?,
            (None, Some(selection)) => selection.lower(&mut graph, stage, &inputs)?,
            (None, None) => lower(&mut graph, plan, &inputs, emission)?,
        });
    }
    for (number, output) in stage.outputs.iter().enumerate() {
        let mut node = node_of(&output.operand, &nodes);
        if output.mode == OutputMode::FinalSnapshot {
            node = graph.add(Box::new(LastSnapshot::new(output.schema.inner().clone())), &[node]);
        }
        if let Some((_, order)) =
            coalesce.filter(|(coalesced, _)| *coalesced == number && emits_intervals.is_none())
        {
            node = graph.add(Box::new(Coalesce::new(order)), &[node]);
        }
        graph.output(node);
    }
    Ok(graph)
}

/// A projection that takes some columns of a join, which nobody else reads.
struct Selection {
    projection: usize,
    join: usize,
    columns: Vec<usize>,
}

impl Selection {
    /// Lowers the join, of which only the columns come out.
    fn lower(&self, graph: &mut Graph, stage: &Stage, inputs: &[NodeId]) -> Result<NodeId> {
        match (arithmetic::rewrite_node(stage.nodes[self.join].plan.clone())?.data, inputs) {
            (LogicalPlan::Join(plan), [left, right]) => {
                join::join_columns(graph, &plan, &self.columns, *left, *right)
            }
            (plan, _) => internal_err!("a selection of columns reads {}, which is no join", plan.display()),
        }
    }
}

/// The projections of a stage that joins do on their own.
fn selections(stage: &Stage) -> Result<Vec<Selection>> {
    let mut selections = Vec::new();
    for (projection, node) in stage.nodes.iter().enumerate() {
        if let (LogicalPlan::Projection(plan), [input @ Operand::Node(join)]) = (&node.plan, &node.inputs[..])
            && let LogicalPlan::Join(joined) = &stage.nodes[*join].plan
            && stage.readers(*input) == 1
            && let Some(columns) = join::columns_of(plan, joined)?
        {
            selections.push(Selection { projection, join: *join, columns });
        }
    }
    Ok(selections)
}

/// The aggregate whose rows an output hands out, if only filters and projections are between and nobody else
/// reads them.
fn aggregate_of_output(stage: &Stage, output: usize) -> Option<usize> {
    let mut operand = stage.outputs[output].operand;
    loop {
        let Operand::Node(node) = operand else { return None };
        if stage.readers(operand) > 1 {
            return None;
        }
        match &stage.nodes[node].plan {
            LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(Distinct::All(_)) => return Some(node),
            LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
                operand = stage.nodes[node].inputs[0];
            }
            _ => return None,
        }
    }
}

/// Lowers a node.
fn lower(graph: &mut Graph, plan: &LogicalPlan, inputs: &[NodeId], emission: Emission) -> Result<NodeId> {
    // The operators compare keys as SQL does.
    let plan = match plan {
        LogicalPlan::Window(_) | LogicalPlan::Sort(_) => canonical::rewrite_node(plan.clone())?.data,
        other => other.clone(),
    };
    let plan = arithmetic::rewrite_node(plan)?.data;
    match (&plan, inputs) {
        (LogicalPlan::Filter(plan), [input]) => rows::filter(graph, plan, *input),
        (LogicalPlan::Projection(plan), [input]) => rows::project(graph, plan, *input),
        (LogicalPlan::Unnest(plan), [input]) => rows::unnest(graph, plan, *input),
        (LogicalPlan::Distinct(Distinct::All(plan)), [input]) => {
            aggregate::distinct(graph, plan, *input, emission)
        }
        (LogicalPlan::Union(plan), inputs) => rows::union(graph, plan, inputs),
        // Only names differ, and operators resolve columns by position.
        (LogicalPlan::SubqueryAlias(_), [input]) => Ok(*input),
        (LogicalPlan::Window(plan), [input]) => window::window(graph, plan, *input),
        (LogicalPlan::Sort(_) | LogicalPlan::Limit(_), [input]) => top_k::top_k(graph, &plan, *input),
        (LogicalPlan::Aggregate(plan), [input]) => aggregate::aggregate(graph, plan, *input, emission),
        (LogicalPlan::Join(plan), [left, right]) => join::join(graph, plan, *left, *right),
        (LogicalPlan::Extension(_), inputs) => match nodes::node(&plan) {
            Some(node) => lifetime::lower(graph, node, inputs),
            None => internal_err!("an unknown node in a plan: {}", plan.display()),
        },
        _ => plan_err!("{} has no meaning on a stream; use it on a table", plan.display()),
    }
}
