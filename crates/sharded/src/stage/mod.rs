//! A plan cut into stages: fragments between two movements of data.
//!
//! Invariants: stages are numbered so that what a stage reads comes from stages before it; a stage's nodes
//! are numbered so that what a node reads comes from nodes before it or from the stage's inputs; all nodes of
//! a stage have the same number of shards, which is the number of its channels; a relational stage is a tree
//! with one output.

mod arrivals;
mod combine;
mod cut;
mod dag;
mod equal;
mod prune;
mod requirements;

pub use cut::cut;
pub use dag::Scan;

pub(crate) use arrivals::in_one_place;
pub(crate) use combine::combine;
pub(crate) use prune::prune;
pub(crate) use requirements::without_requirements;

use datafusion::common::DFSchemaRef;
use datafusion::logical_expr::LogicalPlan;
use whimbrel_plan::nodes::{Exchange, Ingress};
use whimbrel_temporal::Lifetimes;

/// A plan, cut.
#[derive(Debug)]
pub struct StageGraph {
    /// The stages, producers before consumers.
    pub stages: Vec<Stage>,
    /// The stage that makes the result, and which of its outputs that is.
    pub result: (usize, usize),
}

/// How a stage is lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To DataFusion's operators: no row has a lifetime.
    Relational,
    /// To ours.
    Temporal,
}

/// A fragment of a plan, which every one of its channels runs.
#[derive(Debug)]
pub struct Stage {
    /// How it is lowered.
    pub kind: Kind,
    /// In how many instances it runs.
    pub channels: usize,
    /// How many groups the channels are in, for movements of local scope.
    pub groups: usize,
    /// What it reads.
    pub inputs: Vec<Input>,
    /// What it computes.
    pub nodes: Vec<Node>,
    /// What it hands out.
    pub outputs: Vec<Output>,
}

/// Something that a stage reads.
#[derive(Debug)]
pub struct Input {
    /// Where it comes from.
    pub origin: Origin,
    /// How rows become events, if they do here.
    pub ingress: Option<Ingress>,
    /// The columns, before ingress.
    pub schema: DFSchemaRef,
}

/// Where an input comes from.
#[derive(Debug)]
pub enum Origin {
    /// A source.
    Scan(Scan),
    /// An output of an earlier stage.
    Edge {
        /// The stage.
        stage: usize,
        /// Which of its outputs.
        output: usize,
        /// How its rows are spread over the channels; none: each channel gets those of the channel of its own
        /// number.
        exchange: Option<Box<Exchange>>,
    },
}

/// A node of a stage.
#[derive(Debug)]
pub struct Node {
    /// What it computes. The inputs inside the plan say what they look like, not where they come from.
    pub plan: LogicalPlan,
    /// What it reads.
    pub inputs: Vec<Operand>,
}

/// What a node reads, or a stage hands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// A node of the stage.
    Node(usize),
    /// An input of the stage.
    Input(usize),
}

/// How what a stage hands out is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Row by row, as it is.
    AsItIs,
    /// A relation whose rows come and go, for who takes no row back: what is there in the end.
    LastSnapshot,
}

/// Something that a stage hands out.
#[derive(Debug)]
pub struct Output {
    /// What.
    pub operand: Operand,
    /// How it is told.
    pub form: Form,
    /// The columns.
    pub schema: DFSchemaRef,
    /// What is known of the rows' lifetimes.
    pub lifetimes: Lifetimes,
    /// The inputs of later stages that read it, as (stage, input).
    pub readers: Vec<(usize, usize)>,
}

impl StageGraph {
    /// How many edges leave a stage; the result is none.
    pub fn edges_out(&self, stage: usize) -> usize {
        self.stages[stage].outputs.iter().map(|o| o.readers.len()).sum()
    }
}
