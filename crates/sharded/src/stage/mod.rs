//! Stages: the parts of a plan between two exchanges.
//!
//! Invariants: a stage reads from stages before it only; a node reads from nodes before it and from inputs of
//! its stage only; all nodes of a stage have the same number of shards, which is the number of its channels;
//! a relational stage is a tree with one output.
//!
//! Before the cut a plan goes through rewrites that do not change its result, in this order: `requirements`
//! removes nodes that were checked when the plan was built; `one_sort` sorts in one shard where several would
//! need too much memory; `colocate` has one channel read a live source;
//! `prune` drops columns that no node uses; `temporal_partitioning` moves rows by time in place of their
//! key, if the shards of the result do not matter; `push_down` aggregates rows before they move. Then `dag`
//! finds equal subplans, and [`cut`] makes stages.

mod colocate;
mod cut;
mod dag;
mod one_sort;
mod prune;
mod push_down;
mod requirements;
mod subplans;
mod temporal_partitioning;

pub use cut::cut;
pub use dag::Scan;
pub(crate) use dag::final_steps;

pub(crate) use colocate::colocate_live_sources;
pub(crate) use one_sort::sort_in_one_shard;
pub(crate) use prune::prune;
pub(crate) use push_down::push_down_aggregates;
pub(crate) use requirements::without_requirements;
pub(crate) use temporal_partitioning::partition_by_time;

use crate::dataset::IdleShards;
use datafusion::common::DFSchemaRef;
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;
use whimbrel_plan::nodes::{Exchange, Ingress};
use whimbrel_temporal::Lifetimes;

/// A plan that is cut into stages.
///
/// ```
/// use datafusion::arrow::datatypes::{DataType, Field, Schema};
/// use std::sync::Arc;
/// use whimbrel_plan::nodes::Scope;
/// use whimbrel_plan::{Stream, column};
/// use whimbrel_sharded::dataset::MemoryDataset;
/// use whimbrel_sharded::stage::cut;
///
/// let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
/// let rows = Stream::scan("numbers", Arc::new(MemoryDataset::new(schema, vec![vec![], vec![]])?))?;
/// let distinct = rows.rekey(vec![column("n")])?.redistribute(Some(4), Scope::Global)?.distinct()?;
/// let stages = cut(distinct.plan())?;
/// let channels: Vec<usize> = stages.stages.iter().map(|stage| stage.channels).collect();
/// assert_eq!(channels, [2, 4], "one stage before the exchange, one behind it");
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug)]
pub struct StageGraph {
    /// The stages, producers before consumers.
    pub stages: Vec<Arc<Stage>>,
    /// The stage of the result, and the output of it.
    pub result: (usize, usize),
    /// The shards of sources that hold nobody back while they are idle.
    pub(crate) idle_shards: Arc<IdleShards>,
}

/// What a stage is lowered to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// DataFusion's operators: rows have no lifetimes.
    Relational,
    /// Our operators.
    Temporal,
}

/// A part of a plan, which each of its channels runs.
#[derive(Debug)]
pub struct Stage {
    /// What it is lowered to.
    pub kind: Kind,
    /// The number of its channels.
    pub channels: usize,
    /// The number of machines that the channels are divided among, for exchanges of local scope.
    pub machines: usize,
    /// The virtual cluster on which it runs, if the plan says so.
    pub location: Option<String>,
    /// Its inputs.
    pub inputs: Vec<Input>,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Its outputs.
    pub outputs: Vec<Output>,
}

/// An input of a stage.
#[derive(Debug)]
pub struct Input {
    /// Its origin.
    pub origin: Origin,
    /// How its rows become events, if they do here.
    pub ingress: Option<Ingress>,
    /// Its columns, before ingress.
    pub schema: DFSchemaRef,
}

/// The origin of an input.
#[derive(Debug)]
pub enum Origin {
    /// A source.
    Scan(Scan),
    /// An output of an earlier stage.
    Edge {
        /// The stage.
        stage: usize,
        /// The output of that stage.
        output: usize,
        /// The exchange. Without one, each channel reads from the channel of its own number.
        exchange: Option<Box<Exchange>>,
    },
}

/// A node of a stage.
#[derive(Debug)]
pub struct Node {
    /// The node with its expressions. The inputs within it have the right columns, and are not what it reads.
    pub plan: LogicalPlan,
    /// What it reads.
    pub inputs: Vec<Operand>,
}

/// An input of a node, or the node of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// A node of the stage.
    Node(usize),
    /// An input of the stage.
    Input(usize),
}

/// What an output hands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputMode {
    /// All rows and changes, as they become known.
    Changelog,
    /// The last snapshot of a relation that changes, for readers that cannot take rows back.
    FinalSnapshot,
}

/// An output of a stage.
#[derive(Debug)]
pub struct Output {
    /// The node or input that it hands out.
    pub operand: Operand,
    /// Whether it hands out changes or the last snapshot.
    pub mode: OutputMode,
    /// The columns.
    pub schema: DFSchemaRef,
    /// The kinds of lifetimes of its rows.
    pub lifetimes: Lifetimes,
    /// The inputs of later stages that read it, as (stage, input).
    pub readers: Vec<(usize, usize)>,
}

impl Stage {
    /// How many nodes and outputs of the stage read an operand.
    pub(crate) fn readers(&self, operand: Operand) -> usize {
        let nodes =
            self.nodes.iter().flat_map(|node| &node.inputs).filter(|input| **input == operand).count();
        nodes + self.outputs.iter().filter(|output| output.operand == operand).count()
    }
}

impl StageGraph {
    /// The number of edges that leave a stage; the result is none.
    pub fn edges_out(&self, stage: usize) -> usize {
        self.stages[stage].outputs.iter().map(|o| o.readers.len()).sum()
    }
}
