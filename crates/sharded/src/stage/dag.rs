//! The plan as a directed acyclic graph, in which equal subplans are one node.
//!
//! Invariants: a node comes after its inputs. A scan is one node with the projection that only selects and
//! renames its columns. The input of an exchange is a node that computes, never a scan or another exchange: a
//! relay is put between. So is the root. Re-keying is a property of plans, and is no node here. The work
//! table of a recursive query belongs to that query alone, so each reader of it is a node of its own; so is
//! each reader of a bounded table.
//!
//! A live source is read once: two readers would see different rows. So its scan has all columns, and above
//! it is a relay, or the ingress that makes events of its rows.
//!
//! A node is *temporal* if its rows have lifetimes: those of a stream, or of a relation over a live source
//! that our operators maintain. Nodes that they do not maintain (`unmaintained`), and the order of the
//! result, are computed from the last snapshot.

use super::subplans::SubplanTable;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, TableScan};
use std::collections::HashMap;
use std::sync::Arc;
use whimbrel_plan::nodes::{self, Exchange, Ingress, ReKey, extension};
use whimbrel_plan::{Source, Stream, is_work_table, properties, source_of, unmaintained};
use whimbrel_temporal::Lifetimes;

/// A source as a plan reads it.
#[derive(Clone)]
pub struct Scan {
    /// The source.
    pub source: Arc<dyn Source>,
    /// The columns that are read, if not all in their order.
    pub columns: Option<Vec<usize>>,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "scan of {}", self.source.describe())
    }
}

/// The operation of a node.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Scan(Scan),
    Exchange(Exchange),
    Ingress(Ingress),
    /// Forwards its input.
    Relay,
    /// Computes a node of the plan.
    Plan(LogicalPlan),
}

/// A node, with the properties that decide about stages.
#[derive(Debug)]
pub(crate) struct Node {
    pub operation: Operation,
    pub schema: DFSchemaRef,
    pub inputs: Vec<usize>,
    /// How many times other nodes read it.
    pub uses: usize,
    /// Whether its rows have lifetimes.
    pub temporal: bool,
    /// Whether it is a stream. Readers that are not temporal get the last snapshot of a relation.
    pub timed: bool,
    pub lifetimes: Lifetimes,
    pub bounded: bool,
    pub shards: usize,
    pub machines: usize,
}

impl Node {
    /// Whether stages are cut here: the node is in none.
    pub fn is_boundary(&self) -> bool {
        matches!(self.operation, Operation::Scan(_) | Operation::Exchange(_))
    }

    /// Whether it is an exchange.
    pub fn is_exchange(&self) -> bool {
        matches!(self.operation, Operation::Exchange(_))
    }
}

/// The nodes of a plan, inputs first.
#[derive(Debug)]
pub(crate) struct Dag {
    pub nodes: Vec<Node>,
    pub root: usize,
}

impl Dag {
    /// The graph of a plan.
    ///
    /// # Errors
    /// `Plan` if a table has no source that can be read.
    pub fn of(plan: &LogicalPlan) -> Result<Dag> {
        let mut builder = Builder {
            nodes: Vec::new(),
            numbers: SubplanTable::within(plan)?,
            relays: HashMap::new(),
            live: HashMap::new(),
            ingresses: Vec::new(),
            final_steps: final_steps(plan),
        };
        let root = builder.add(plan)?;
        let root = builder.computed(root);
        let mut nodes = builder.nodes;
        for i in 0..nodes.len() {
            for input in nodes[i].inputs.clone() {
                nodes[input].uses += 1;
            }
        }
        Ok(Dag { nodes, root })
    }
}

/// A graph that is being built.
struct Builder<'a> {
    nodes: Vec<Node>,
    numbers: SubplanTable<'a>,
    /// The relay above each boundary that has one.
    relays: HashMap<usize, usize>,
    /// The scans of live sources, by their address.
    live: HashMap<usize, usize>,
    /// The ingress nodes of live sources.
    ingresses: Vec<(Arc<dyn Source>, Ingress, usize)>,
    /// The nodes at the root that order and limit the last snapshot.
    final_steps: Vec<&'a LogicalPlan>,
}

impl<'a> Builder<'a> {
    /// The node of a plan; equal plans have one node.
    fn add(&mut self, plan: &'a LogicalPlan) -> Result<usize> {
        if let Some(node) = self.numbers.get(plan) {
            return Ok(node);
        }
        let node = self.add_new(plan)?;
        if !reads_work_table(plan)? && !is_bounded_table(plan) {
            self.numbers.insert(plan, node);
        }
        Ok(node)
    }

    /// Adds a node for a plan.
    fn add_new(&mut self, plan: &'a LogicalPlan) -> Result<usize> {
        if let Some(scan) = scan_of(plan)? {
            return match scan.source.info().bounded {
                true => self.node(plan, Operation::Scan(scan), vec![]),
                false => self.live_scan(plan, scan),
            };
        }
        if let Some(nodes::Node::Ingress(ingress)) = nodes::node(plan)
            && let Some(scan) = scan_of(&ingress.input)?
            && !scan.source.info().bounded
        {
            return self.live_ingress(plan, ingress, scan);
        }
        let mut inputs = plan.inputs().into_iter().map(|p| self.add(p)).collect::<Result<Vec<_>>>()?;
        let LogicalPlan::Extension(extension) = plan else {
            return self.node(plan, Operation::Plan(plan.clone()), inputs);
        };
        let any = extension.node.as_any();
        if any.is::<ReKey>() {
            return Ok(inputs.remove(0));
        }
        if let Some(exchange) = any.downcast_ref::<Exchange>() {
            let input = self.computed(inputs[0]);
            return self.node(plan, Operation::Exchange(exchange.clone()), vec![input]);
        }
        if let Some(ingress) = any.downcast_ref::<Ingress>() {
            return self.node(plan, Operation::Ingress(ingress.clone()), inputs);
        }
        self.node(plan, Operation::Plan(plan.clone()), inputs)
    }

    /// The events of a live source, projected to the columns of the plan.
    fn live_ingress(&mut self, plan: &LogicalPlan, ingress: &Ingress, scan: Scan) -> Result<usize> {
        let Scan { source, .. } = scan;
        let stream = Stream::scan("live", source.clone())?;
        let events = Ingress::try_new(stream.plan().clone(), ingress.time.clone(), ingress.options.clone())?
            .partitioned(ingress.partitioning.clone())?;
        let all = extension(events.clone());
        let same = |(of, known, _): &&(Arc<dyn Source>, Ingress, usize)| {
            Arc::ptr_eq(of, &source)
                && known.time == events.time
                && known.options == events.options
                && known.partitioning == events.partitioning
        };
        let node = match self.ingresses.iter().find(same) {
            Some((_, _, node)) => *node,
            None => {
                let scan = Scan { source: source.clone(), columns: None };
                let input = self.node(&events.input, Operation::Scan(scan), vec![])?;
                let node = self.node(&all, Operation::Ingress(events.clone()), vec![input])?;
                self.ingresses.push((source, events, node));
                node
            }
        };
        if all.schema().fields() == plan.schema().fields() {
            return Ok(node);
        }
        let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let projection = Projection::try_new(columns, Arc::new(all))?;
        self.node(plan, Operation::Plan(LogicalPlan::Projection(projection)), vec![node])
    }

    /// A live source, projected to the columns of the plan.
    fn live_scan(&mut self, plan: &LogicalPlan, scan: Scan) -> Result<usize> {
        let address = Arc::as_ptr(&scan.source).cast::<()>() as usize;
        let Scan { source, columns } = scan;
        let stream = Stream::scan("live", source.clone())?;
        let node = match self.live.get(&address) {
            Some(node) => *node,
            None => {
                let all = Scan { source, columns: None };
                let node = self.node(stream.plan(), Operation::Scan(all), vec![])?;
                self.live.insert(address, node);
                node
            }
        };
        let relay = self.computed(node);
        let schema = stream.plan().schema();
        let columns = columns.unwrap_or_else(|| (0..schema.fields().len()).collect());
        let named = columns.iter().zip(plan.schema().iter()).map(|(index, (qualifier, field))| {
            Expr::from(schema.qualified_field(*index)).alias_qualified(qualifier.cloned(), field.name())
        });
        let projection = Projection::try_new(named.collect(), Arc::new(stream.plan().clone()))?;
        self.node(plan, Operation::Plan(LogicalPlan::Projection(projection)), vec![relay])
    }

    /// Adds a node.
    fn node(&mut self, plan: &LogicalPlan, operation: Operation, inputs: Vec<usize>) -> Result<usize> {
        let properties = properties(plan)?;
        // The changes of a bounded table are those of its arrival.
        let reads_changes = matches!(nodes::node(plan), Some(nodes::Node::Changes(_)));
        let maintained = !properties.bounded
            && unmaintained(plan).is_none()
            && !self.final_steps.contains(&plan)
            && inputs.iter().map(|i| &self.nodes[*i]).all(|input| input.bounded || input.temporal);
        self.nodes.push(Node {
            operation,
            schema: plan.schema().clone(),
            inputs,
            uses: 0,
            temporal: properties.time.is_some() || maintained || reads_changes,
            timed: properties.time.is_some(),
            lifetimes: properties.lifetimes,
            bounded: properties.bounded,
            shards: properties.shards,
            machines: properties.groups,
        });
        Ok(self.nodes.len() - 1)
    }

    /// The node, or a relay above it if it is a boundary.
    fn computed(&mut self, node: usize) -> usize {
        if !self.nodes[node].is_boundary() {
            return node;
        }
        if let Some(relay) = self.relays.get(&node) {
            return *relay;
        }
        let below = &self.nodes[node];
        let relay = Node {
            operation: Operation::Relay,
            schema: below.schema.clone(),
            inputs: vec![node],
            uses: 0,
            temporal: below.temporal,
            timed: below.timed,
            lifetimes: below.lifetimes,
            bounded: below.bounded,
            shards: below.shards,
            machines: below.machines,
        };
        self.nodes.push(relay);
        self.relays.insert(node, self.nodes.len() - 1);
        self.nodes.len() - 1
    }
}

/// The nodes from the root down to the last that orders or limits rows, including those in each shard before
/// rows are brought together. The rows of a result have an order; the rows of a relation that changes have
/// none.
pub(crate) fn final_steps(plan: &LogicalPlan) -> Vec<&LogicalPlan> {
    let mut chain = Vec::new();
    let mut ordered = 0;
    let mut at = plan;
    loop {
        let input: &LogicalPlan = match at {
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Extension(_) => match nodes::node(at) {
                Some(nodes::Node::Exchange(exchange)) => &exchange.input,
                _ => break,
            },
            _ => break,
        };
        chain.push(at);
        if matches!(at, LogicalPlan::Sort(_) | LogicalPlan::Limit(_)) {
            ordered = chain.len();
        }
        at = input;
    }
    chain.truncate(ordered);
    chain
}

/// The scan of a plan that is a table scan, or only selects and renames columns of one.
pub(super) fn scan_of(plan: &LogicalPlan) -> Result<Option<Scan>> {
    match plan {
        LogicalPlan::TableScan(scan) if is_work_table(scan) => Ok(None),
        LogicalPlan::TableScan(scan) => Ok(Some(scan_of_table(scan)?)),
        LogicalPlan::Projection(projection) => {
            let LogicalPlan::TableScan(table) = projection.input.as_ref() else { return Ok(None) };
            if projection.expr.is_empty() || is_work_table(table) {
                return Ok(None);
            }
            let Some(selected) = selected_columns(&projection.expr, &projection.input) else {
                return Ok(None);
            };
            let scan = scan_of_table(table)?;
            let all = scan.source.info().schema.fields().len();
            let columns: Vec<usize> = match &scan.columns {
                Some(columns) => selected.iter().map(|p| columns[*p]).collect(),
                None => selected,
            };
            let columns = (!columns.iter().copied().eq(0..all)).then_some(columns);
            Ok(Some(Scan { source: scan.source, columns }))
        }
        _ => Ok(None),
    }
}

/// Whether a plan is a bounded table and computes nothing. Each reader scans it with a predicate of its own,
/// so readers do not share it.
fn is_bounded_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => source_of(scan).is_some_and(|source| source.info().bounded),
        LogicalPlan::Projection(projection) => {
            let columns = selected_columns(&projection.expr, &projection.input).is_some();
            columns && is_bounded_table(&projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => is_bounded_table(&alias.input),
        _ => false,
    }
}

/// Whether a plan reads the work table of a recursive query.
fn reads_work_table(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::TableScan(scan) if is_work_table(scan))))
}

/// The scan of a table.
fn scan_of_table(table: &TableScan) -> Result<Scan> {
    // The limit of a scan is a hint; the limit itself is a node above.
    if !table.filters.is_empty() {
        return internal_err!("filters are nodes of their own, not part of a scan");
    }
    match source_of(table) {
        Some(source) => Ok(Scan { source, columns: table.projection.clone() }),
        None => internal_err!("table `{}` has no source that can be read", table.table_name),
    }
}

/// The columns that a projection selects, if it does nothing else and selects none twice.
fn selected_columns(exprs: &[Expr], input: &LogicalPlan) -> Option<Vec<usize>> {
    let mut indices = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let index = input.schema().maybe_index_of_column(expr.clone().unalias_nested().data.try_as_col()?)?;
        if indices.contains(&index) {
            return None;
        }
        indices.push(index);
    }
    Some(indices)
}
