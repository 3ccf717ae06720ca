//! Operators wired together: what runs on one thread, and is saved and restored as one.
//!
//! Invariants: a node's inputs are nodes that were added before it, so the nodes are in topological order; a
//! message reaches all consumers of a node before the next message of that node is worked on.

use crate::batch::{Batch, Message};
use crate::checkpoint::{decode, encode, open, seal};
use crate::operator::{Operator, Role};
use datafusion::common::Result;

/// How many rows a chain of operators works on at once: what one of them writes is in the near caches when
/// the next one reads it.
const SLICE_ROWS: usize = 16_384;

/// A node of a [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(usize);

/// Where a node's messages go.
#[derive(Debug, Clone, Copy)]
enum Target {
    Node(usize, usize),
    Output(usize),
}

struct Node {
    /// None: an input of the graph.
    operator: Option<Box<dyn Operator>>,
    targets: Vec<Target>,
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
        self.nodes.push(Node { operator: None, targets: Vec::new() });
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
        self.nodes.push(Node { operator: Some(operator), targets: Vec::new() });
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
    ///
    /// # Errors
    /// The first error of an operator. The graph must not be pushed to again.
    pub fn push(&mut self, input: usize, message: Message, out: &mut Vec<(usize, Message)>) -> Result<()> {
        self.deliver(self.inputs[input], message, out)
    }

    /// Hands a message of `node` to all that it feeds, and what these make of it to all that they feed.
    fn deliver(&mut self, node: usize, message: Message, out: &mut Vec<(usize, Message)>) -> Result<()> {
        for i in 0..self.nodes[node].targets.len() {
            match (self.nodes[node].targets[i], &message) {
                (Target::Output(output), _) => out.push((output, message.clone())),
                (Target::Node(target, input), Message::Batch(batch)) if self.works_on_slices(target) => {
                    for slice in slices(batch) {
                        self.feed(target, input, Message::Batch(slice), out)?;
                    }
                }
                (Target::Node(target, input), _) => self.feed(target, input, message.clone(), out)?,
            }
        }
        Ok(())
    }

    /// Pushes a message into a node's operator, and delivers what it makes of it.
    fn feed(
        &mut self,
        node: usize,
        input: usize,
        message: Message,
        out: &mut Vec<(usize, Message)>,
    ) -> Result<()> {
        let mut produced = Vec::new();
        if let Some(operator) = &mut self.nodes[node].operator {
            operator.push(input, message, &mut produced)?;
        }
        produced.into_iter().try_for_each(|message| self.deliver(node, message, out))
    }

    /// Whether a node computes what only aggregates read. Rows that leave the graph, or that an operator
    /// keeps, stay in large batches.
    fn works_on_slices(&self, node: usize) -> bool {
        matches!(self.role(node), Role::Map | Role::MapReduce) && self.is_reduced(node)
    }

    /// Whether all that comes of a node's rows goes into aggregates.
    fn is_reduced(&self, node: usize) -> bool {
        let reduced = |target: &Target| matches!(target, Target::Node(node, _) if self.is_reduced(*node));
        match self.role(node) {
            Role::Reduce | Role::MapReduce => true,
            Role::Map | Role::Forward => self.nodes[node].targets.iter().all(reduced),
            Role::Other => false,
        }
    }

    fn role(&self, node: usize) -> Role {
        self.nodes[node].operator.as_ref().map_or(Role::Other, |operator| operator.role())
    }

    /// The state of all operators, [sealed](crate::checkpoint).
    ///
    /// # Errors
    /// `Internal` if a state cannot be encoded.
    pub fn save(&self) -> Result<Vec<u8>> {
        let operators = self.nodes.iter().filter_map(|n| n.operator.as_ref());
        let states: Vec<Vec<u8>> = operators.map(|o| o.save()).collect::<Result<_>>()?;
        seal(&self.describe(), &encode(&states)?)
    }

    /// Takes over a saved state of a graph built in the same way.
    ///
    /// # Errors
    /// `Execution` if the bytes are not a state of such a graph. If it is a checkpoint's seal that is refused
    /// the graph is as before; else it must not be pushed to.
    pub fn restore(&mut self, state: &[u8]) -> Result<()> {
        let states: Vec<Vec<u8>> = decode(open(&self.describe(), state)?)?;
        let operators = self.nodes.iter_mut().filter_map(|n| n.operator.as_mut());
        operators.zip(&states).try_for_each(|(operator, state)| operator.restore(state))
    }

    /// A line for each node: what it is, and what it feeds.
    fn describe(&self) -> String {
        let mut lines = String::from("graph of operators");
        for (number, Node { operator, targets }) in self.nodes.iter().enumerate() {
            let name = operator.as_ref().map_or("input", |o| o.name());
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

/// The rows of a batch, so many at a time; no copy.
fn slices(batch: &Batch) -> impl Iterator<Item = Batch> + '_ {
    let slice = |first: usize| batch.slice(first, SLICE_ROWS.min(batch.len() - first));
    (0..batch.len()).step_by(SLICE_ROWS).map(slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Other;
    use arrow::array::{RecordBatch, RecordBatchOptions};
    use arrow::datatypes::Schema;
    use std::sync::{Arc, Mutex};

    /// Hands rows on, and notes how many came at once.
    struct Noting(Role, Arc<Mutex<Vec<usize>>>);

    impl Operator for Noting {
        fn role(&self) -> Role {
            self.0
        }
        fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
            if let Message::Batch(batch) = &message {
                self.1.lock().unwrap().push(batch.len());
            }
            out.push(message);
            Ok(())
        }
        fn save(&self) -> Result<Vec<u8>> {
            Ok(Vec::new())
        }
        fn restore(&mut self, _state: &[u8]) -> Result<()> {
            Ok(())
        }
    }

    /// How many rows each operator of a chain is given at once; `output`: what the first one makes leaves the
    /// graph, too.
    fn rows_at_once<const N: usize>(roles: [Role; N], output: bool) -> [Vec<usize>; N] {
        let mut graph = Graph::new();
        let mut node = graph.input();
        let notes = roles.map(|role| (role, Arc::new(Mutex::new(Vec::new()))));
        for (place, (role, lengths)) in notes.iter().enumerate() {
            node = graph.add(Box::new(Noting(*role, Arc::clone(lengths))), &[node]);
            if place == 0 && output {
                graph.output(node);
            }
        }
        graph.output(node);
        let rows = SLICE_ROWS + 1;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
        let batch = Batch::new(vec![0; rows].into(), Other::After(1), batch);
        graph.push(0, Message::Batch(batch), &mut Vec::new()).unwrap();
        notes.map(|(_, lengths)| lengths.lock().unwrap().clone())
    }

    #[test]
    fn what_only_aggregates_read_is_computed_in_slices() {
        use Role::*;
        let (whole, slices) = (vec![SLICE_ROWS + 1], vec![SLICE_ROWS, 1]);
        let [forward, map, last] = rows_at_once([Forward, Map, Reduce], false);
        assert_eq!((forward, map, last), (whole.clone(), slices.clone(), slices.clone()));
        assert_eq!(rows_at_once([Forward, MapReduce], false), [whole.clone(), slices.clone()]);
        assert_eq!(rows_at_once([Map, Forward, Reduce], false), [slices.clone(), slices.clone(), slices]);
        assert_eq!(rows_at_once([Forward, Reduce], false), [whole.clone(), whole.clone()]);
        assert_eq!(rows_at_once([Map, Other], false), [whole.clone(), whole.clone()]);
        assert_eq!(rows_at_once([Map, Reduce], true), [whole.clone(), whole]);
    }
}
