//! Operators wired together: what runs on one thread, and is saved and restored as one.
//!
//! Invariants: a node's inputs are nodes that were added before it, so the nodes are in topological
//! order; a message reaches all consumers of a node before the next message of that node is worked on. The
//! steps that a message begins are finished before the next message of the inputs is worked on; those that
//! are not are in `work`, the innermost last.

use crate::activity::{Activity, NodeActivity, SharedOperator, Watched, lock};
use crate::batch::Message;
use crate::checkpoint::{decode, encode, open, seal};
use crate::operator::Operator;
use crate::pieces::PIECE_ROWS;
use arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use serde_bytes::ByteBuf;
use std::collections::VecDeque;
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

/// A step that is not finished.
enum Work {
    /// A message of a node, on its way to the target of this number.
    Delivery { node: usize, message: Message, target: usize },
    /// What a node has made of the message pushed to it, and may make still.
    Results { node: usize, messages: VecDeque<Message> },
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
    /// Messages of the inputs that are not worked on yet, by the node.
    waiting: VecDeque<(usize, Message)>,
    work: Vec<Work>,
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

    /// Pushes a message into an input, and appends all that comes out, with the number of the output.
    /// Who feeds several consumers hands each the same columns, not a copy of them.
    ///
    /// # Errors
    /// The first error of an operator. The graph must not be pushed to again.
    pub fn push(&mut self, input: usize, message: Message, out: &mut Vec<(usize, Message)>) -> Result<()> {
        self.enqueue(input, message);
        while self.proceed(out)? {}
        Ok(())
    }

    /// Puts a message into an input; [`proceed`](Graph::proceed) works on it.
    pub fn enqueue(&mut self, input: usize, message: Message) {
        self.waiting.push_back((self.inputs[input], message));
    }

    /// Works on the messages that were put into inputs, and appends what comes out, until that is some ten
    /// thousand rows. Whether there is more to do: long results are handed out in several calls, so that the
    /// first can be used before the last is made.
    ///
    /// # Errors
    /// As [`push`](Graph::push).
    pub fn proceed(&mut self, out: &mut Vec<(usize, Message)>) -> Result<bool> {
        let mut rows = 0;
        while rows < PIECE_ROWS {
            match self.work.pop() {
                Some(Work::Delivery { node, message, target }) => {
                    rows += self.hand_on(node, message, target, out)?;
                }
                Some(Work::Results { node, messages }) => self.next_result(node, messages)?,
                None => match self.waiting.pop_front() {
                    Some((input, message)) => self.deliver(input, message),
                    None => return Ok(false),
                },
            }
        }
        Ok(true)
    }

    /// Hands a message of a node to its target of this number; the further ones get it when what this one
    /// makes of it is worked on. How many rows come out of the graph.
    fn hand_on(
        &mut self,
        node: usize,
        message: Message,
        target: usize,
        out: &mut Vec<(usize, Message)>,
    ) -> Result<usize> {
        let targets = &self.nodes[node].targets;
        let Some(to) = targets.get(target).copied() else { return Ok(0) };
        if target + 1 < targets.len() {
            self.work.push(Work::Delivery { node, message: message.clone(), target: target + 1 });
        }
        match to {
            Target::Output(output) => {
                let rows = if let Message::Batch(batch) = &message { batch.len() } else { 0 };
                out.push((output, message));
                Ok(rows)
            }
            Target::Node(node, input) => {
                let mut produced = Vec::new();
                self.operate(node, |operator| operator.push(input, message, &mut produced))?;
                if !produced.is_empty() {
                    self.work.push(Work::Results { node, messages: produced.into() });
                }
                Ok(0)
            }
        }
    }

    /// Delivers the next message of what a node has made, or lets it make more.
    fn next_result(&mut self, node: usize, mut messages: VecDeque<Message>) -> Result<()> {
        if let Some(message) = messages.pop_front() {
            self.work.push(Work::Results { node, messages });
            self.deliver(node, message);
            return Ok(());
        }
        let mut more = Vec::from(messages);
        self.operate(node, |operator| operator.proceed(&mut more))?;
        if !more.is_empty() {
            self.work.push(Work::Results { node, messages: more.into() });
        }
        Ok(())
    }

    /// Begins to hand a message of a node to all that it feeds.
    fn deliver(&mut self, node: usize, message: Message) {
        self.nodes[node].activity.hand_out(&message);
        self.work.push(Work::Delivery { node, message, target: 0 });
    }

    /// Calls the operator of a node.
    fn operate(&self, node: usize, call: impl FnOnce(&mut dyn Operator) -> Result<()>) -> Result<()> {
        self.nodes[node].operator.as_ref().map_or(Ok(()), |operator| call(lock(operator).as_mut()))
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
    /// `Internal` if a state cannot be encoded, or there is more to do.
    pub fn save(&self) -> Result<Vec<u8>> {
        if !(self.work.is_empty() && self.waiting.is_empty()) {
            return internal_err!("a graph is saved between two messages, and not while it works on one");
        }
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
