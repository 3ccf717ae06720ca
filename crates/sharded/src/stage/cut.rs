//! Cuts a plan into stages.
//!
//! Stages are the connected parts that remain when the plan is cut
//! - at every exchange;
//! - where rows of a relation enter a temporal computation, unless they come straight from a source;
//! - in relational parts, below a node with several readers, so that each part is a tree;
//! - between a node and a reader on another level;
//! - where a computation reads the last snapshot of a relation that is maintained.
//!
//! One stage with one channel reads all live sources without time. Its clock gives rows the instant of their
//! arrival, so all shards have the same time, and rows that arrived together are seen together.
//!
//! The level of a node is the number of exchanges between the sources and the node, as high as its readers
//! allow. Without levels a stage could wait for itself: `s.join(s.redistribute())` reads `s` on both sides of
//! an exchange. An edge without an exchange connects channels of the same number.

use super::dag::{Dag, Node, Operation};
use super::{Input, Kind, Operand, Origin, Output, OutputMode, Stage, StageGraph};
use datafusion::common::{HashMap, Result, internal_err, plan_err};
use datafusion::logical_expr::LogicalPlan;
use std::collections::BTreeSet;
use std::sync::Arc;
use whimbrel_temporal::Lifetimes;

/// Cuts a plan into stages.
///
/// # Errors
/// `Plan` if the inputs of an operator have different numbers of shards, or the rows of a live source get
/// their time elsewhere than where they are read.
pub fn cut(plan: &LogicalPlan) -> Result<StageGraph> {
    let dag = Dag::of(plan)?;
    check(&dag)?;
    let parts = parts(&dag);
    let order = in_order(&dag, &parts);
    let mut stages = Vec::new();
    for part in order {
        let stage = StageBuilder::new(&dag, &parts, part, &stages).stage()?;
        stages.push((part, stage));
    }
    connect(&dag, &parts, stages)
}

/// Checks numbers of shards, and where live sources get their time.
fn check(dag: &Dag) -> Result<()> {
    for node in &dag.nodes {
        let computes = !node.is_boundary();
        let relation = |node: &Node| !node.timed && !node.bounded;
        if let (Operation::Ingress(_), Some(input)) =
            (&node.operation, node.inputs.first().map(|i| &dag.nodes[*i]))
            && relation(input)
            && !input.is_boundary()
        {
            return plan_err!("the rows of a live source get their time (`time=`) where they are read");
        }
        let shards = node.inputs.iter().map(|i| dag.nodes[*i].shards);
        if computes && shards.clone().any(|n| n != node.shards) {
            let shards: Vec<String> = shards.map(|n| n.to_string()).collect();
            return plan_err!(
                "the inputs of an operator have {} shards: bring them to the same number with \
                 `redistribute`, `reshard` or `broadcast`",
                shards.join(" and ")
            );
        }
    }
    Ok(())
}

/// The level of each node: as high as its readers allow. Live sources without time are on level 0.
fn levels(dag: &Dag) -> Vec<usize> {
    let step = |i: usize| dag.nodes[i].is_exchange() as usize;
    let mut lowest = vec![0; dag.nodes.len()];
    for (i, node) in dag.nodes.iter().enumerate() {
        lowest[i] = node.inputs.iter().map(|&j| lowest[j] + step(j)).max().unwrap_or(0);
    }
    let mut levels = vec![lowest[dag.root]; dag.nodes.len()];
    for (i, node) in dag.nodes.iter().enumerate().rev() {
        if is_arrival(dag, i) {
            levels[i] = 0;
        }
        for &j in &node.inputs {
            levels[j] = levels[j].min(levels[i] - step(j));
        }
    }
    levels
}

/// Whether a node reads a live source without time.
fn is_arrival(dag: &Dag, i: usize) -> bool {
    let node = &dag.nodes[i];
    let scans = |j: &usize| matches!(dag.nodes[*j].operation, Operation::Scan(_));
    let relation = !node.timed && !node.bounded;
    relation && matches!(node.operation, Operation::Relay) && node.inputs.iter().all(scans)
}

/// The part of each node, named by the first node of the part. Boundaries are in no part.
fn parts(dag: &Dag) -> Vec<usize> {
    let levels = levels(dag);
    let mut parts: Vec<usize> = (0..dag.nodes.len()).collect();
    for (i, node) in dag.nodes.iter().enumerate() {
        for &j in &node.inputs {
            let input = &dag.nodes[j];
            let stays_a_tree = node.temporal || input.uses == 1;
            if !node.is_boundary()
                && !input.is_boundary()
                && node.temporal == input.temporal
                && levels[i] == levels[j]
                && stays_a_tree
            {
                unite(&mut parts, i, j);
            }
        }
    }
    let arrivals: Vec<usize> = (0..dag.nodes.len()).filter(|i| is_arrival(dag, *i)).collect();
    arrivals.windows(2).for_each(|pair| unite(&mut parts, pair[0], pair[1]));
    parts
}

/// Unites the parts of two nodes. Plans have tens of nodes, so a pass over all of them is cheap.
fn unite(parts: &mut [usize], i: usize, j: usize) {
    let (a, b) = (parts[i].min(parts[j]), parts[i].max(parts[j]));
    parts.iter_mut().filter(|p| **p == b).for_each(|p| *p = a);
}

/// The parts that the root depends on, producers first.
fn in_order(dag: &Dag, parts: &[usize]) -> Vec<usize> {
    fn visit(dag: &Dag, parts: &[usize], part: usize, order: &mut Vec<usize>) {
        if order.contains(&part) {
            return;
        }
        for (i, node) in dag.nodes.iter().enumerate() {
            if parts[i] != part || node.is_boundary() {
                continue;
            }
            for producer in node.inputs.iter().filter_map(|j| producer(dag, *j)) {
                if parts[producer] != part {
                    visit(dag, parts, parts[producer], order);
                }
            }
        }
        order.push(part);
    }
    let mut order = Vec::new();
    visit(dag, parts, parts[dag.root], &mut order);
    order
}

/// The node that computes the rows of `node`: itself, or the input of an exchange; none for a scan.
fn producer(dag: &Dag, node: usize) -> Option<usize> {
    match dag.nodes[node].operation {
        Operation::Scan(_) => None,
        Operation::Exchange(_) => Some(dag.nodes[node].inputs[0]),
        _ => Some(node),
    }
}

/// What identifies an input of a stage. A temporal stage has one input for a node, however often it uses it.
/// A relational stage has one for each place where it reads the node.
#[derive(PartialEq, Eq, Hash)]
enum InputKey {
    Node(usize),
    Place(usize, usize),
}

/// A stage that is being built.
struct StageBuilder<'a> {
    dag: &'a Dag,
    parts: &'a [usize],
    part: usize,
    /// The stages before this one, with their parts.
    stages: &'a [(usize, Stage)],
    inputs: Vec<Input>,
    nodes: Vec<super::Node>,
    input_numbers: HashMap<InputKey, usize>,
    operands: HashMap<usize, Operand>,
}

impl<'a> StageBuilder<'a> {
    /// An empty stage for a part.
    fn new(dag: &'a Dag, parts: &'a [usize], part: usize, stages: &'a [(usize, Stage)]) -> StageBuilder<'a> {
        let (input_numbers, operands) = (HashMap::new(), HashMap::new());
        StageBuilder { dag, parts, part, stages, inputs: vec![], nodes: vec![], input_numbers, operands }
    }

    /// The stage.
    fn stage(mut self) -> Result<Stage> {
        let first = &self.dag.nodes[self.part];
        let (channels, machines, temporal) = (first.shards, first.machines, first.temporal);
        let mut outputs = Vec::new();
        for (i, node) in self.dag.nodes.iter().enumerate() {
            if self.parts[i] != self.part || node.is_boundary() {
                continue;
            }
            let operand = self.operand(i, node)?;
            self.operands.insert(i, operand);
            for mode in output_modes(self.dag, self.parts, i) {
                let (schema, lifetimes) = (node.schema.clone(), node.lifetimes);
                outputs.push(Output { operand, mode, schema, lifetimes, readers: vec![] });
            }
        }
        let kind = if temporal { Kind::Temporal } else { Kind::Relational };
        let location = self.location()?;
        Ok(Stage { kind, channels, machines, location, inputs: self.inputs, nodes: self.nodes, outputs })
    }

    /// Where the stage runs: where its inputs are moved to, or are.
    fn location(&self) -> Result<Option<String>> {
        let of_input = |input: &Input| match &input.origin {
            Origin::Scan(_) => None,
            Origin::Edge { stage, exchange, .. } => {
                let moved = exchange.as_ref().and_then(|exchange| exchange.location.clone());
                Some(moved.or_else(|| self.stages[*stage].1.location.clone()))
            }
        };
        let locations: BTreeSet<Option<String>> = self.inputs.iter().filter_map(of_input).collect();
        if locations.len() > 1 {
            let name = |location: &Option<String>| match location {
                Some(location) => format!("on the virtual cluster `{location}`"),
                None => "where the query began".to_string(),
            };
            let names: Vec<String> = locations.iter().map(name).collect();
            return plan_err!(
                "the inputs of an operator are {}; move one of them with `location=`",
                names.join(" and ")
            );
        }
        Ok(locations.into_iter().next().flatten())
    }

    /// The operand of a node, which is added to the stage.
    fn operand(&mut self, i: usize, node: &Node) -> Result<Operand> {
        match &node.operation {
            Operation::Plan(plan) => {
                let inputs = node.inputs.iter().enumerate().map(|(place, j)| self.read(i, place, *j));
                let inputs = inputs.collect::<Result<Vec<_>>>()?;
                self.nodes.push(super::Node { plan: plan.clone(), inputs });
                Ok(Operand::Node(self.nodes.len() - 1))
            }
            Operation::Ingress(ingress) => {
                let origin = self.origin(i, node.inputs[0])?;
                let schema = self.dag.nodes[node.inputs[0]].schema.clone();
                self.inputs.push(Input { origin, ingress: Some(ingress.clone()), schema });
                Ok(Operand::Input(self.inputs.len() - 1))
            }
            Operation::Relay => self.read(i, 0, node.inputs[0]),
            Operation::Scan(_) | Operation::Exchange(_) => internal_err!("a boundary is in no stage"),
        }
    }

    /// The operand for node `j`, which node `i` reads at `place`.
    fn read(&mut self, i: usize, place: usize, j: usize) -> Result<Operand> {
        if let Some(operand) = self.operands.get(&j) {
            return Ok(*operand);
        }
        let key = match self.dag.nodes[i].temporal {
            true => InputKey::Node(j),
            false => InputKey::Place(i, place),
        };
        if let Some(input) = self.input_numbers.get(&key) {
            return Ok(Operand::Input(*input));
        }
        let origin = self.origin(i, j)?;
        self.inputs.push(Input { origin, ingress: None, schema: self.dag.nodes[j].schema.clone() });
        self.input_numbers.insert(key, self.inputs.len() - 1);
        Ok(Operand::Input(self.inputs.len() - 1))
    }

    /// The origin of node `j` for node `i`.
    fn origin(&self, i: usize, j: usize) -> Result<Origin> {
        let node = &self.dag.nodes[j];
        let exchange = match &node.operation {
            Operation::Scan(scan) => return Ok(Origin::Scan(scan.clone())),
            Operation::Exchange(exchange) => Some(Box::new(exchange.clone())),
            _ => None,
        };
        let producer = if exchange.is_some() { node.inputs[0] } else { j };
        let Some(stage) = self.stages.iter().position(|(part, _)| *part == self.parts[producer]) else {
            return internal_err!("a stage reads from one that comes after it");
        };
        let mode = output_mode(&self.dag.nodes[producer], Some(&self.dag.nodes[i]));
        let output = output_number(self.dag, self.parts, producer, mode);
        Ok(Origin::Edge { stage, output, exchange })
    }
}

/// The output mode of a node for a reader; without a reader, for the result.
fn output_mode(node: &Node, reader: Option<&Node>) -> OutputMode {
    let changes = node.temporal && !node.timed && node.lifetimes == Lifetimes::Any;
    match changes && reader.is_none_or(|reader| !reader.temporal) {
        true => OutputMode::FinalSnapshot,
        false => OutputMode::Changelog,
    }
}

/// The output modes of a node for its readers in other parts, directly or through an exchange, in order.
fn output_modes(dag: &Dag, parts: &[usize], i: usize) -> BTreeSet<OutputMode> {
    let readers = |j: usize| dag.nodes.iter().enumerate().filter(move |(_, node)| node.inputs.contains(&j));
    let own = &dag.nodes[i];
    let mut modes = BTreeSet::new();
    for (k, node) in readers(i) {
        match node.is_exchange() {
            true => modes.extend(readers(k).map(|(_, reader)| output_mode(own, Some(reader)))),
            false if parts[k] != parts[i] => _ = modes.insert(output_mode(own, Some(node))),
            false => {}
        }
    }
    if i == dag.root {
        modes.insert(output_mode(own, None));
    }
    modes
}

/// The number of the output of a node in this mode: outputs are in the order of nodes, then of modes.
fn output_number(dag: &Dag, parts: &[usize], i: usize, mode: OutputMode) -> usize {
    let before = (0..i).filter(|&k| parts[k] == parts[i] && !dag.nodes[k].is_boundary());
    let before: usize = before.map(|k| output_modes(dag, parts, k).len()).sum();
    before + output_modes(dag, parts, i).iter().position(|other| *other == mode).unwrap_or_default()
}

/// Adds its readers to every output.
fn connect(dag: &Dag, parts: &[usize], stages: Vec<(usize, Stage)>) -> Result<StageGraph> {
    let result_part = parts[dag.root];
    let Some(result) = stages.iter().position(|(part, _)| *part == result_part) else {
        return internal_err!("the stage of the result is missing");
    };
    let mut stages: Vec<Stage> = stages.into_iter().map(|(_, stage)| stage).collect();
    let mut edges = Vec::new();
    for (reader, stage) in stages.iter().enumerate() {
        for (input, Input { origin, .. }) in stage.inputs.iter().enumerate() {
            if let Origin::Edge { stage, output, .. } = origin {
                edges.push((*stage, *output, (reader, input)));
            }
        }
    }
    for (stage, output, reader) in edges {
        stages[stage].outputs[output].readers.push(reader);
    }
    let output = output_number(dag, parts, dag.root, output_mode(&dag.nodes[dag.root], None));
    Ok(StageGraph {
        stages: stages.into_iter().map(Arc::new).collect(),
        result: (result, output),
        idle_shards: Arc::default(),
    })
}
