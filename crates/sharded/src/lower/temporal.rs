//! A temporal fragment as a graph of operators.

use super::aggregate::{self, Told};
use super::{arithmetic, canonical, fold, join, lifetime, order, rows, window};
use crate::stage::{Form, Node, Operand, Stage};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::{Distinct, LogicalPlan};
use whimbrel_plan::nodes;
use whimbrel_temporal::operators::{Coalesce, CoalesceOrder, LastSnapshot};
use whimbrel_temporal::{Graph, NodeId};

/// The graph of a stage. The output `coalesce`, if there is one, hands out intervals instead of edges.
///
/// Where that output is the snapshots of an aggregate, in the order of their starts, the aggregate tells them whole
/// by itself, and nothing has to put edges together again. A relation that changes hands out its last snapshot.
pub(crate) fn graph(stage: &Stage, coalesce: Option<(usize, CoalesceOrder)>) -> Result<Graph> {
    let mut graph = Graph::new();
    let inputs: Vec<NodeId> = stage.inputs.iter().map(|_| graph.input()).collect();
    let mut nodes: Vec<NodeId> = Vec::with_capacity(stage.nodes.len());
    let find = |operand: &Operand, nodes: &[NodeId]| match operand {
        Operand::Input(input) => inputs[*input],
        Operand::Node(node) => nodes[*node],
    };
    let whole = coalesce.and_then(|(output, order)| match order {
        CoalesceOrder::Start => snapshots_of(stage, output),
        CoalesceOrder::Known => None,
    });
    let (mut folds, done) = fold::folds(stage)?;
    for (number, Node { plan, inputs }) in stage.nodes.iter().enumerate() {
        let inputs: Vec<NodeId> = inputs.iter().map(|i| find(i, &nodes)).collect();
        if done.contains(&number) {
            nodes.push(inputs[0]);
            continue;
        }
        if let (Some(fold), LogicalPlan::Aggregate(plan)) = (folds.remove(&number), plan) {
            nodes.push(aggregate::fused(&mut graph, plan, fold.operator()?, inputs[0])?);
            continue;
        }
        let told = if whole == Some(number) { Told::Whole } else { Told::AtOnce };
        let node = lower(&mut graph, plan, &inputs, told)?;
        nodes.push(node);
    }
    for (number, output) in stage.outputs.iter().enumerate() {
        let mut node = find(&output.operand, &nodes);
        if output.form == Form::LastSnapshot {
            node = graph.add(Box::new(LastSnapshot::new(output.schema.inner().clone())), &[node]);
        }
        if let Some((_, order)) = coalesce.filter(|(coalesced, _)| *coalesced == number && whole.is_none()) {
            node = graph.add(Box::new(Coalesce::new(order)), &[node]);
        }
        graph.output(node);
    }
    Ok(graph)
}

/// The aggregate whose rows an output hands out, each as it is or not at all, if nobody else reads them.
fn snapshots_of(stage: &Stage, output: usize) -> Option<usize> {
    let mut operand = stage.outputs[output].operand;
    loop {
        let Operand::Node(node) = operand else { return None };
        let readers = stage.nodes.iter().flat_map(|n| &n.inputs).filter(|input| **input == operand).count();
        let outputs = stage.outputs.iter().filter(|o| o.operand == operand).count();
        if readers + outputs > 1 {
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

fn lower(graph: &mut Graph, plan: &LogicalPlan, inputs: &[NodeId], told: Told) -> Result<NodeId> {
    // Keys are compared as SQL does by the operators themselves.
    let plan = match plan {
        LogicalPlan::Window(_) | LogicalPlan::Sort(_) => canonical::of_step(plan.clone())?.data,
        other => other.clone(),
    };
    let plan = arithmetic::of_step(plan)?.data;
    match (&plan, inputs) {
        (LogicalPlan::Filter(plan), [input]) => rows::filter(graph, plan, *input),
        (LogicalPlan::Projection(plan), [input]) => rows::project(graph, plan, *input),
        (LogicalPlan::Unnest(plan), [input]) => rows::unnest(graph, plan, *input),
        (LogicalPlan::Distinct(Distinct::All(plan)), [input]) => {
            aggregate::distinct(graph, plan, *input, told)
        }
        (LogicalPlan::Union(plan), inputs) => rows::union(graph, plan, inputs),
        // Only the names of columns differ, and operators do not look at names.
        (LogicalPlan::SubqueryAlias(_), [input]) => Ok(*input),
        (LogicalPlan::Window(plan), [input]) => window::window(graph, plan, *input),
        (LogicalPlan::Sort(_) | LogicalPlan::Limit(_), [input]) => order::first(graph, &plan, *input),
        (LogicalPlan::Aggregate(plan), [input]) => aggregate::aggregate(graph, plan, *input, told),
        (LogicalPlan::Join(plan), [left, right]) => join::join(graph, plan, *left, *right),
        (LogicalPlan::Extension(_), inputs) => match nodes::node(&plan) {
            Some(node) => lifetime::node(graph, node, inputs),
            None => internal_err!("an unknown node in a plan: {}", plan.display()),
        },
        _ => plan_err!("{} has no meaning on a stream; use it on a table", plan.display()),
    }
}
