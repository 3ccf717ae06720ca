//! What the bytes of a plan hold: its steps, each after its inputs.
//!
//! Invariants: a step names steps before it only, so a document can be read in one pass and holds no circle;
//! the last step is the plan. What several steps read is written once. Expressions and schemas are messages
//! of `datafusion-proto`; everything else is ours.

use crate::duration::Every;
use crate::nodes::{DetectSettings, HoppingWindows, Partitioning, QuantizeGrid, Scope, TimeSpec};
use crate::pattern::Pattern;
use crate::row_pattern::RowPattern;
use serde::{Deserialize, Serialize};
use whimbrel_temporal::operators::SessionCap;
use whimbrel_temporal::{DurationRule, IngressOptions, StartRule};

/// The place of a step in its document.
pub(super) type StepId = u32;

/// The place of a name in its document.
pub(super) type TableId = u32;

/// A whole plan.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Document {
    /// The names of tables.
    pub tables: Vec<TableName>,
    /// The sources, as [`References`](super::References) writes them.
    pub sources: Vec<Vec<u8>>,
    /// The steps, inputs first.
    pub steps: Vec<Step>,
}

/// A step of a plan.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Step {
    /// What it does.
    pub node: Node,
    /// Its columns, where they do not follow from the node and its inputs.
    pub schema: Option<Message>,
}

/// A message of `datafusion-proto`: an expression or a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message(pub Vec<u8>);

/// A name of a table: its catalog and schema, if it has them, and its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TableName {
    /// Only where there is a schema.
    pub catalog: Option<String>,
    /// The schema.
    pub schema: Option<String>,
    /// Its own name.
    pub table: String,
}

/// What a step does. The relational steps have DataFusion's names, the others those of our nodes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Node {
    /// Columns are computed.
    Projection { input: StepId, exprs: Vec<Message> },
    /// Rows for which a predicate is true.
    Filter { input: StepId, predicate: Message },
    /// Window functions are computed beside the rows.
    Window { input: StepId, exprs: Vec<Message> },
    /// Rows are put together by group.
    Aggregate { input: StepId, group: Vec<Message>, calls: Vec<Message> },
    /// Rows are put in order; the first of them, if a number is given.
    Sort { input: StepId, by: Vec<SortKey>, fetch: Option<u64> },
    /// Rows of two inputs are paired.
    Join(Join),
    /// Rows of all inputs.
    Union { inputs: Vec<StepId> },
    /// Rows of a source.
    Scan {
        table: TableId,
        rows: Rows,
        projection: Option<Vec<u32>>,
        filters: Vec<Message>,
        fetch: Option<u64>,
    },
    /// No rows, or one without columns.
    EmptyRelation { produce_one_row: bool },
    /// The columns get another table name.
    SubqueryAlias { input: StepId, alias: TableId },
    /// Some of the rows.
    Limit { input: StepId, skip: Option<Message>, fetch: Option<Message> },
    /// Rows that are written in the query.
    Values { rows: Vec<Vec<Message>> },
    /// Each row once.
    Distinct { input: StepId },
    /// The first row of each group.
    DistinctOn { input: StepId, on: Vec<Message>, select: Vec<Message>, sort: Option<Vec<SortKey>> },
    /// What follows from rows, and from that, and so on.
    RecursiveQuery { name: TableId, first: StepId, step: StepId, distinct: bool },
    /// A row for each item of a list.
    Unnest { input: StepId, columns: Vec<Message>, nulls: NullRows, depths: Vec<UnnestDepth> },
    /// Rows get lifetimes.
    Ingress { input: StepId, time: TimeSpec, options: IngressOptions, partitioning: Option<Partitioning> },
    /// Lifetimes are moved and resized.
    AlterLifetime { input: StepId, start: StartRule<Message>, duration: DurationRule<Message>, label: String },
    /// The start of the lifetime becomes a column. The type is in Arrow's notation.
    WithStart { input: StepId, name: String, time: String },
    /// Lifetimes reach to the end of their session; or rows come then, with its first instant in a column, of
    /// which this is the name and the type in Arrow's notation.
    Session {
        input: StepId,
        key: Vec<Message>,
        timeout: i64,
        cap: Option<SessionCap>,
        start: Option<(String, String)>,
    },
    /// Lifetimes are cut, moved or put together.
    ChangeLifetimes { input: StepId, change: Change },
    /// Lifetimes are cut by the events of another stream.
    Clip { left: StepId, right: StepId, on: Vec<(Message, Message)> },
    /// Sequences of events are matched.
    Detect {
        input: StepId,
        key: Vec<Message>,
        pattern: Pattern<Message>,
        register: Vec<(String, Message)>,
        settings: DetectSettings,
    },
    /// Sequences of rows are matched.
    MatchRecognize { input: StepId, key: Vec<Message>, rows: RowPattern<Message, Message> },
    /// Gaps of keys are filled.
    FillGaps { input: StepId, key: Vec<Message>, grid: (i64, i64), max_gap: Option<i64>, fills: Vec<Fill> },
    /// What comes into a relation and leaves it.
    Changes { input: StepId },
    /// Rows of a stream stay, and make up a relation that grows.
    Accumulate { input: StepId },
    /// Late rows are dropped, and old ones forgotten.
    AllowedLateness { input: StepId, time: String, lateness: i64, retention: i64 },
    /// The current key changes.
    ReKey { input: StepId, key: Vec<Message> },
    /// Something is asserted of the rows.
    Require { input: StepId, assertion: Assertion },
    /// Rows that are equal in some columns have to lie together.
    ColocatedRows { input: StepId, key: Vec<Message> },
    /// Rows that a join pairs have to lie together.
    ColocatedMatches { input: StepId },
    /// Rows of one group and instant are put together before they move.
    Combine { input: StepId, group: Vec<Message>, calls: Vec<Message> },
    /// Rows move between shards.
    Exchange {
        input: StepId,
        movement: Movement,
        shards: Option<u64>,
        scope: Scope,
        location: Option<String>,
    },
}

/// Where the rows of a scan come from.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Rows {
    /// A source of the document.
    Source(u32),
    /// The rows that a recursive query has found in its last step, with their columns.
    WorkTable(Message),
}

/// A key of an order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SortKey {
    /// What rows are ordered by.
    pub expr: Message,
    /// Whether small values come first.
    pub asc: bool,
    /// Whether nulls come before all values.
    pub nulls_first: bool,
}

/// A join.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Join {
    /// One input.
    pub left: StepId,
    /// The other.
    pub right: StepId,
    /// The columns that have to be equal.
    pub on: Vec<(Message, Message)>,
    /// What else has to be true of a pair.
    pub filter: Option<Message>,
    /// Which rows come out.
    pub kind: JoinKind,
    /// Whether the equal columns are one column of the result.
    pub using: bool,
    /// Whether two nulls are equal.
    pub nulls_equal: bool,
    /// Whether a null on the other side makes the answer unknown, as in `not in`.
    pub null_aware: bool,
}

/// DataFusion's types of joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    LeftSemi,
    RightSemi,
    LeftAnti,
    RightAnti,
    LeftMark,
    RightMark,
}

/// What `unnest` makes of a row without values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NullRows {
    Drop,
    Preserve,
    PreserveAndExpandEmpty,
}

/// How many levels of a list `unnest` takes off.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UnnestDepth {
    /// The column of lists.
    pub input: Message,
    /// The column of items.
    pub output: Message,
    /// How many levels.
    pub depth: u32,
}

/// What a column has in a gap.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Fill {
    Constant(Message),
    Previous,
    Linear,
}

/// What becomes of each lifetime.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Change {
    Chop(Beats),
    Clip(i64),
    PointAtEnd,
    Extend(i64),
    Stitch,
    Quantize(QuantizeGrid),
    Hop(HoppingWindows),
}

/// What is asserted of the rows of a stream.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Assertion {
    Duration(Option<i64>),
    Sorted(Vec<Message>),
    DistinctStarts,
}

/// The grid of a chop.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Beats {
    Ticks { hop: i64, offset: i64 },
    Calendar { every: Every, offset: i64, time: String },
}

/// Which rows go to which shards.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Movement {
    ReDistribute { key: Vec<Message> },
    ReShard,
    Runs { key: Vec<Message> },
    Broadcast,
    Multicast { to: Message },
    Windows { size: i64, offset: i64 },
    Ranges { by: SortKey, bounds: Vec<Message> },
    InOrder,
}

/// What an expression reads of a subquery, which is a step of the same document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum SubqueryUse {
    /// Its only value.
    Scalar { plan: StepId },
    /// Whether it has rows.
    Exists { plan: StepId, negated: bool },
    /// Whether the first argument is among its rows.
    In { plan: StepId, negated: bool },
    /// How the first argument compares with any or all of its rows.
    Compare { plan: StepId, op: String, all: bool },
    /// A column of the query around it, with the message of its field.
    OuterColumn { field: Vec<u8> },
}
