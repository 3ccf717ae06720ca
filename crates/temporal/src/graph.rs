//! Operators wired together: what runs on one thread, and is saved and restored as one.
//!
//! Invariants: a node's inputs are nodes that were added before it, so the nodes are in topological
//! order; a message reaches all consumers of a node before the next message of that node is worked on.

use crate::activity::{Activity, NodeActivity, SharedOperator, Watched, lock};
use crate::batch::Message;
use crate::checkpoint::{decode, encode, open, seal};
use crate::operator::Operator;
use arrow::array::RecordBatch;
use datafusion::common::Result;
use serde_bytes::ByteBuf;
use std::sync::{Arc, Mutex, Weak};

/// A node of a [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(usize);

/// Where a node's messages go.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// A node, and the number of its input.
    Node(usize, usize),
    /// An output of the graph, by its number.
    Output(usize),
}

/// An operator or an input of the graph, and whom it feeds.
struct Node {
    /// None: an input of the graph.
    operator: Option<SharedOperator>,
    targets: Vec<Target>,
    activity: Arc<Activity>,
}

/// A directed acyclic graph of operators.
///
/// # Examples
/// ```
/// use arrow::array::{Int64Array, RecordBatch};
/// use std::sync::Arc;
/// use whimbrel_temporal::operators::PointAtEnd;
/// use whimbrel_temporal::{Batch, Graph, INFINITY, Message, Other};
///
/// # fn main() -> datafusion::common::Result<()> {
/// let mut graph = Graph::new();
/// let input = graph.input();
/// let ends = graph.add(Box::new(PointAtEnd::new()), &[input]);
/// graph.output(ends);
///
/// let rows = RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(vec![7])) as _)])?;
/// let mut out = Vec::new();
/// graph.push(0, Message::Batch(Batch::new(vec![10].into(), Other::After(5), rows)), &mut out)?;
/// assert!(out.is_empty()); // Time has not come to 15.
/// graph.push(0, Message::Punctuation(INFINITY), &mut out)?;
/// let (_, Message::Batch(points)) = &out[0] else { panic!() };
/// assert_eq!(points.sync[0], 15);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Graph {
    nodes: Vec<Node>,
    /// The nodes of the inputs, by the number of the input.
    inputs: Vec<usize>,
    outputs: usize,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Adds an input; inputs are numbered in the order in which they are added.
    pub fn input(&mut self) -> NodeId {
        self.nodes.push(Node { operator: None, targets: Vec::new(), activity: Arc::default() });
        self.inputs.push(self.nodes.len() - 1);
        NodeId(self.nodes.len() - 1)
    }

    /// Adds an operator fed by these nodes, in the order of its inputs.
    ///
    /// # Panics
    /// If the operator does not have so many inputs.
    pub fn add(&mut self, operator: Box<dyn Operator>, inputs: &[NodeId]) -> NodeId {
        assert_eq!(operator.inputs(), inputs.len(), "an operator is wired to each of its inputs once");
        let node = self.nodes.len();
        for (input, from) in inputs.iter().enumerate() {
            self.nodes[from.0].targets.push(Target::Node(node, input));
        }
        let operator = Some(Arc::new(Mutex::new(operator)));
        self.nodes.push(Node { operator, targets: Vec::new(), activity: Arc::default() });
        NodeId(node)
    }

    /// Makes a node's messages an output; outputs are numbered in the order in which they are added.
    pub fn output(&mut self, node: NodeId) {
        self.nodes[node.0].targets.push(Target::Output(self.outputs));
        self.outputs += 1;
    }

    /// How many inputs there are.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// How many outputs there are.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Pushes a message into an input, and appends what comes out, with the number of the output.
    /// Who feeds several consumers hands each the same columns, not a copy of them.
    ///
    /// # Errors
    /// The first error of an operator. The graph must not be pushed to again.
    pub fn push(&mut self, input: usize, message: Message, out: &mut Vec<(usize, Message)>) -> Result<()> {
        self.deliver(self.inputs[input], message, out)
    }

    /// Hands a message of `node` to all that it feeds, and what these make of it to all that they feed.
    fn deliver(&mut self, node: usize, message: Message, out: &mut Vec<(usize, Message)>) -> Result<()> {
        self.nodes[node].activity.hand_out(&message);
        for i in 0..self.nodes[node].targets.len() {
            match self.nodes[node].targets[i] {
                Target::Output(output) => out.push((output, message.clone())),
                Target::Node(target, input) => {
                    let Some(operator) = self.nodes[target].operator.clone() else { continue };
                    let mut produced = Vec::new();
                    lock(&operator).push(input, message.clone(), &mut produced)?;
                    while !produced.is_empty() {
                        for message in produced.drain(..) {
                            self.deliver(target, message, out)?;
                        }
                        lock(&operator).proceed(&mut produced)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// What each node has done, inputs first. The counters go on while the graph does.
    pub fn activity(&self) -> Vec<NodeActivity> {
        let mut inputs = vec![Vec::new(); self.nodes.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            for target in &node.targets {
                if let Target::Node(target, _) = target {
                    inputs[*target].push(number);
                }
            }
        }
        let of = |(node, inputs): (&Node, Vec<usize>)| {
            let name = node.operator.as_ref().map_or("input", |operator| lock(operator).name());
            let operator = node.operator.as_ref().map_or_else(Weak::new, Arc::downgrade);
            NodeActivity::new(name, inputs, Watched { activity: Arc::clone(&node.activity), operator })
        };
        self.nodes.iter().zip(inputs).map(of).collect()
    }

    /// The operators, inputs first.
    fn operators(&self) -> impl Iterator<Item = &SharedOperator> {
        self.nodes.iter().filter_map(|node| node.operator.as_ref())
    }

    /// How many rows came too late for an operator and were dropped.
    pub fn rows_late(&self) -> u64 {
        self.operators().map(|operator| lock(operator).rows_late()).sum()
    }

    /// The rows that were dropped since the last call.
    pub fn take_late(&mut self) -> Vec<RecordBatch> {
        self.operators().flat_map(|operator| lock(operator).take_late()).collect()
    }

    /// The state of all operators, [sealed](crate::checkpoint).
    ///
    /// # Errors
    /// `Internal` if a state cannot be encoded.
    pub fn save(&self) -> Result<Vec<u8>> {
        let states = self.operators().map(|operator| lock(operator).save().map(ByteBuf::from));
        let states: Vec<ByteBuf> = states.collect::<Result<_>>()?;
        seal(&self.describe(), &encode(&states)?)
    }

    /// Takes over a saved state of a graph built in the same way.
    ///
    /// # Errors
    /// `Execution` if the bytes are not a state of such a graph. If it is a checkpoint's seal that is
    /// refused the graph is as before; else it must not be pushed to.
    pub fn restore(&mut self, state: &[u8]) -> Result<()> {
        let states: Vec<ByteBuf> = decode(open(&self.describe(), state)?)?;
        self.operators().zip(&states).try_for_each(|(operator, state)| lock(operator).restore(state))
    }

    /// A line for each node: what it is, and what it feeds.
    fn describe(&self) -> String {
        let mut lines = String::from("graph of operators");
        for (number, Node { operator, targets, .. }) in self.nodes.iter().enumerate() {
            let name = operator.as_ref().map_or("input", |operator| lock(operator).name());
            lines.push_str(&format!("\nnode {number}: {name}, feeds"));
            for target in targets {
                lines.push_str(&match target {
                    Target::Node(node, input) => format!(" {node}.{input}"),
                    Target::Output(output) => format!(" output {output}"),
                });
            }
        }
        lines
    }
}
