//! A temporal fragment as a graph of operators.

use super::{aggregate, join, lifetime, rows};
use crate::stage::{Node, Operand, Stage};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::{Distinct, LogicalPlan};
use whimbrel_plan::nodes;
use whimbrel_temporal::operators::{Coalesce, CoalesceOrder};
use whimbrel_temporal::{Graph, NodeId};

/// The graph of a stage. The output `coalesce`, if there is one, hands out intervals instead of edges.
pub(crate) fn graph(stage: &Stage, coalesce: Option<(usize, CoalesceOrder)>) -> Result<Graph> {
    let mut graph = Graph::new();
    let inputs: Vec<NodeId> = stage.inputs.iter().map(|_| graph.input()).collect();
    let mut nodes: Vec<NodeId> = Vec::with_capacity(stage.nodes.len());
    let find = |operand: &Operand, nodes: &[NodeId]| match operand {
        Operand::Input(input) => inputs[*input],
        Operand::Node(node) => nodes[*node],
    };
    for Node { plan, inputs } in &stage.nodes {
        let inputs: Vec<NodeId> = inputs.iter().map(|i| find(i, &nodes)).collect();
        let node = lower(&mut graph, plan, &inputs)?;
        nodes.push(node);
    }
    for (number, output) in stage.outputs.iter().enumerate() {
        let mut node = find(&output.operand, &nodes);
        if let Some((_, order)) = coalesce.filter(|(coalesced, _)| *coalesced == number) {
            node = graph.add(Box::new(Coalesce::new(order)), &[node]);
        }
        graph.output(node);
    }
    Ok(graph)
}

fn lower(graph: &mut Graph, plan: &LogicalPlan, inputs: &[NodeId]) -> Result<NodeId> {
    match (plan, inputs) {
        (LogicalPlan::Filter(plan), [input]) => rows::filter(graph, plan, *input),
        (LogicalPlan::Projection(plan), [input]) => rows::project(graph, plan, *input),
        (LogicalPlan::Unnest(plan), [input]) => rows::unnest(graph, plan, *input),
        (LogicalPlan::Distinct(Distinct::All(plan)), [input]) => aggregate::distinct(graph, plan, *input),
        (LogicalPlan::Union(plan), inputs) => rows::union(graph, plan, inputs),
        // Only the names of columns differ, and operators do not look at names.
        (LogicalPlan::SubqueryAlias(_), [input]) => Ok(*input),
        (LogicalPlan::Aggregate(plan), [input]) => aggregate::aggregate(graph, plan, *input),
        (LogicalPlan::Join(plan), [left, right]) => join::join(graph, plan, *left, *right),
        (LogicalPlan::Extension(_), inputs) => match nodes::node(plan) {
            Some(node) => lifetime::node(graph, node, inputs),
            None => internal_err!("an unknown node in a plan: {}", plan.display()),
        },
        _ => plan_err!("{} has no meaning on a stream; use it on a table", plan.display()),
    }
}
