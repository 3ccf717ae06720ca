//! The plan as a graph: equal subplans are one node.
//!
//! Invariants: a node comes after its inputs; a scan, with the projection that only picks and names its
//! columns, is one node; an exchange's input is a node that computes, never a scan or another exchange (a
//! relay is put between), and so is the root. Re-keying is a property of plans and vanishes here. The table
//! that a recursive query reads its own rows from belongs to that query alone: whatever reads it is a node of
//! its own; so is what reads a table at rest row by row.
//!
//! A live source is read once, whoever uses which of its columns: two readers would see different rows. So its scan
//! has all columns, and a relay stands above it, or the ingress that makes events of its rows.
//!
//! A node is *temporal* if its rows have lifetimes: those of a stream, and those of a relation over a live source
//! that our operators maintain. What they do not maintain (`unmaintained`), and the order in which a result is
//! shown, is computed of the last snapshots.

use super::equal::Equal;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, TableScan};
use std::collections::HashMap;
use std::sync::Arc;
use whimbrel_plan::nodes::{self, Exchange, Ingress, ReKey};
use whimbrel_plan::{Source, Stream, is_work_table, properties, source_of, unmaintained};
use whimbrel_temporal::Lifetimes;

/// A source as a plan reads it.
#[derive(Clone)]
pub struct Scan {
    /// The source.
    pub source: Arc<dyn Source>,
    /// Which of its columns, if not all of them in their order.
    pub columns: Option<Vec<usize>>,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "scan of {}", self.source.describe())
    }
}

/// What a node does.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Scan(Scan),
    Exchange(Exchange),
    Ingress(Ingress),
    /// Hands on what it gets.
    Relay,
    /// A node of the plan that computes.
    Plan(LogicalPlan),
}

/// A node and what the stages have to know of it.
#[derive(Debug)]
pub(crate) struct Node {
    pub operation: Operation,
    pub schema: DFSchemaRef,
    pub inputs: Vec<usize>,
    /// How many inputs of other nodes this node is.
    pub uses: usize,
    /// Whether its rows have lifetimes.
    pub temporal: bool,
    /// Whether these are those of a stream: a relation has its last snapshot for who is not temporal.
    pub timed: bool,
    pub lifetimes: Lifetimes,
    pub bounded: bool,
    pub shards: usize,
    pub groups: usize,
}

impl Node {
    /// Whether it is a point where stages are cut, rather than a part of one.
    pub fn is_boundary(&self) -> bool {
        matches!(self.operation, Operation::Scan(_) | Operation::Exchange(_))
    }

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
    pub fn of(plan: &LogicalPlan) -> Result<Dag> {
        let mut builder = Builder {
            nodes: Vec::new(),
            known: Equal::within(plan)?,
            relays: HashMap::new(),
            live: HashMap::new(),
            events: Vec::new(),
            finishing: finishing(plan),
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

struct Builder<'a> {
    nodes: Vec<Node>,
    known: Equal<'a>,
    /// The relay above a boundary.
    relays: HashMap<usize, usize>,
    /// The scans of live sources, by their address.
    live: HashMap<usize, usize>,
    /// Where the rows of live sources become events, and how.
    events: Vec<(Arc<dyn Source>, Ingress, usize)>,
    /// The steps at the root that put the last snapshot into its order.
    finishing: Vec<&'a LogicalPlan>,
}

impl<'a> Builder<'a> {
    fn add(&mut self, plan: &'a LogicalPlan) -> Result<usize> {
        if let Some(node) = self.known.get(plan) {
            return Ok(node);
        }
        let node = self.add_new(plan)?;
        if !reads_work_table(plan)? && !is_rows_of_table(plan) {
            self.known.insert(plan, node);
        }
        Ok(node)
    }

    fn add_new(&mut self, plan: &'a LogicalPlan) -> Result<usize> {
        if let Some(scan) = scan_of(plan)? {
            return match scan.source.info().bounded {
                true => self.node(plan, Operation::Scan(scan), vec![]),
                false => self.live(plan, scan),
            };
        }
        if let Some(nodes::Node::Ingress(ingress)) = nodes::node(plan)
            && let Some(scan) = scan_of(&ingress.input)?
            && !scan.source.info().bounded
        {
            return self.events(plan, ingress, scan);
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

    /// The columns that are wanted of the events of a live source.
    fn events(&mut self, plan: &LogicalPlan, ingress: &Ingress, scan: Scan) -> Result<usize> {
        let Scan { source, .. } = scan;
        let whole = Stream::scan("live", source.clone())?;
        let all = whole.ingress(ingress.time.clone(), ingress.options.clone())?;
        let Some(nodes::Node::Ingress(events)) = nodes::node(all.plan()) else {
            return internal_err!("an ingress is one");
        };
        let same = |(of, known, _): &&(Arc<dyn Source>, Ingress, usize)| {
            Arc::ptr_eq(of, &source) && known.time == events.time && known.options == events.options
        };
        let node = match self.events.iter().find(same) {
            Some((_, _, node)) => *node,
            None => {
                let scan = Scan { source: source.clone(), columns: None };
                let input = self.node(&events.input, Operation::Scan(scan), vec![])?;
                let node = self.node(all.plan(), Operation::Ingress(events.clone()), vec![input])?;
                self.events.push((source, events.clone(), node));
                node
            }
        };
        if all.plan().schema().fields() == plan.schema().fields() {
            return Ok(node);
        }
        let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let picked = Projection::try_new(columns, Arc::new(all.plan().clone()))?;
        self.node(plan, Operation::Plan(LogicalPlan::Projection(picked)), vec![node])
    }

    /// The columns of a live source that are wanted.
    fn live(&mut self, plan: &LogicalPlan, scan: Scan) -> Result<usize> {
        let address = Arc::as_ptr(&scan.source).cast::<()>() as usize;
        let Scan { source, columns } = scan;
        let whole = Stream::scan("live", source.clone())?;
        let node = match self.live.get(&address) {
            Some(node) => *node,
            None => {
                let all = Scan { source, columns: None };
                let node = self.node(whole.plan(), Operation::Scan(all), vec![])?;
                self.live.insert(address, node);
                node
            }
        };
        let relay = self.computed(node);
        let schema = whole.plan().schema();
        let columns = columns.unwrap_or_else(|| (0..schema.fields().len()).collect());
        let named = columns.iter().zip(plan.schema().iter()).map(|(place, (qualifier, field))| {
            Expr::from(schema.qualified_field(*place)).alias_qualified(qualifier.cloned(), field.name())
        });
        let picked = Projection::try_new(named.collect(), Arc::new(whole.plan().clone()))?;
        self.node(plan, Operation::Plan(LogicalPlan::Projection(picked)), vec![relay])
    }

    fn node(&mut self, plan: &LogicalPlan, operation: Operation, inputs: Vec<usize>) -> Result<usize> {
        let known = properties(plan)?;
        // Who asks what changes in a table at rest is told that it came.
        let told = matches!(nodes::node(plan), Some(nodes::Node::Changes(_)));
        let maintained = !known.bounded
            && unmaintained(plan).is_none()
            && !self.finishing.contains(&plan)
            && inputs.iter().map(|i| &self.nodes[*i]).all(|input| input.bounded || input.temporal);
        self.nodes.push(Node {
            operation,
            schema: plan.schema().clone(),
            inputs,
            uses: 0,
            temporal: known.time.is_some() || maintained || told,
            timed: known.time.is_some(),
            lifetimes: known.lifetimes,
            bounded: known.bounded,
            shards: known.shards,
            groups: known.groups,
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
            groups: below.groups,
        };
        self.nodes.push(relay);
        self.relays.insert(node, self.nodes.len() - 1);
        self.nodes.len() - 1
    }
}

/// The steps from the root of a relation down to the last one that orders or limits its rows, those in each shard before
/// rows come together included. Rows that are shown have an order, rows that change have none.
fn finishing(plan: &LogicalPlan) -> Vec<&LogicalPlan> {
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

/// The scan that this plan is, if it is a table scan or only picks and names columns of one.
fn scan_of(plan: &LogicalPlan) -> Result<Option<Scan>> {
    match plan {
        LogicalPlan::TableScan(scan) if is_work_table(scan) => Ok(None),
        LogicalPlan::TableScan(scan) => Ok(Some(whole(scan)?)),
        LogicalPlan::Projection(projection) => {
            let LogicalPlan::TableScan(table) = projection.input.as_ref() else { return Ok(None) };
            if projection.expr.is_empty() || is_work_table(table) {
                return Ok(None);
            }
            let Some(picked) = picked(&projection.expr, &projection.input) else { return Ok(None) };
            let scan = whole(table)?;
            let all = scan.source.info().schema.fields().len();
            let columns: Vec<usize> = match &scan.columns {
                Some(columns) => picked.iter().map(|p| columns[*p]).collect(),
                None => picked,
            };
            let columns = (!columns.iter().copied().eq(0..all)).then_some(columns);
            Ok(Some(Scan { source: scan.source, columns }))
        }
        _ => Ok(None),
    }
}

/// Whether this is a table at rest and nothing is computed. Who reads it twice reads it twice: each reading leaves out
/// the rows that it does not want, which one for both could not.
fn is_rows_of_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => source_of(scan).is_some_and(|source| source.info().bounded),
        LogicalPlan::Projection(projection) => {
            let columns = picked(&projection.expr, &projection.input).is_some();
            columns && is_rows_of_table(&projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => is_rows_of_table(&alias.input),
        _ => false,
    }
}

fn reads_work_table(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::TableScan(scan) if is_work_table(scan))))
}

fn whole(table: &TableScan) -> Result<Scan> {
    // A limit on a scan says that no more rows are needed; the limit itself is a node above.
    if !table.filters.is_empty() {
        return internal_err!("filters are nodes of their own, not part of a scan");
    }
    match source_of(table) {
        Some(source) => Ok(Scan { source, columns: table.projection.clone() }),
        None => internal_err!("table `{}` has no source that can be read", table.table_name),
    }
}

/// The places of the columns that these expressions are, if they are nothing but different columns.
fn picked(exprs: &[Expr], input: &LogicalPlan) -> Option<Vec<usize>> {
    let mut places = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let place = input.schema().maybe_index_of_column(expr.clone().unalias_nested().data.try_as_col()?)?;
        if places.contains(&place) {
            return None;
        }
        places.push(place);
    }
    Some(places)
}
