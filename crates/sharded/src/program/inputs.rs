//! The inputs of a relational channel: messages are pushed, and the leaves of its DataFusion plan pull them.
//!
//! Invariants: a leaf hands out the messages of its lanes in their [order](super::lanes). Where there is
//! none, it records the lane that blocks it and wakes the driver of the plan; it never waits itself. A leaf
//! that is read several times keeps what it has handed out.

use super::lanes::{LaneOrder, Lanes, Next};
use crate::dataset::{Predicate, conform};
use crate::lower::{Leaf, LeafInfo};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::apply_expression_roots;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use futures::stream::poll_fn;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use whimbrel_temporal::Message;

/// The messages that were pushed to a channel and that its plan has not read yet.
#[derive(Debug)]
pub(super) struct ChannelInputs {
    state: Mutex<State>,
    /// The number of the first lane of each input.
    first_lanes: Vec<usize>,
}

/// What the lock guards.
#[derive(Debug)]
struct State {
    inputs: Vec<Lanes>,
    /// The rows that each input has handed out, if it is read several times.
    kept: Vec<Vec<RecordBatch>>,
    /// The lanes that leaves wait for.
    blocked: BTreeSet<usize>,
    /// The reader of each input, to be woken by a message.
    readers: Vec<Option<Waker>>,
    /// The driver of the plan, to be woken when a leaf is blocked.
    driver: Option<Waker>,
}

impl ChannelInputs {
    /// Inputs with so many lanes each, which are read in these orders.
    pub fn new(lanes: &[usize], orders: impl Iterator<Item = LaneOrder>) -> ChannelInputs {
        let first_lanes = lanes.iter().scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n))).collect();
        let state = State {
            inputs: lanes.iter().zip(orders).map(|(n, order)| Lanes::new(*n, order)).collect(),
            kept: vec![vec![]; lanes.len()],
            blocked: BTreeSet::new(),
            readers: vec![None; lanes.len()],
            driver: None,
        };
        ChannelInputs { state: Mutex::new(state), first_lanes }
    }

    /// A panic elsewhere leaves the state consistent: every change is made in one step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The input of a lane, and the number of the lane there.
    fn input_of(&self, lane: usize) -> (usize, usize) {
        let input = self.first_lanes.partition_point(|first| *first <= lane) - 1;
        (input, lane - self.first_lanes[input])
    }

    /// Takes the next message of a lane.
    pub fn push(&self, lane: usize, message: Message) {
        let (input, number) = self.input_of(lane);
        self.update(lane, input, |lanes| match message {
            Message::Batch(_) => lanes.push(number, message),
            // Punctuations come at no fixed rate: they must not change the order of batches.
            Message::Punctuation(_) => {}
        });
    }

    /// Takes the end of a lane.
    pub fn end(&self, lane: usize) {
        let (input, number) = self.input_of(lane);
        self.update(lane, input, |lanes| lanes.end(number));
    }

    /// Changes the lanes of an input and wakes its reader.
    fn update(&self, lane: usize, input: usize, change: impl FnOnce(&mut Lanes)) {
        let mut state = self.lock();
        change(&mut state.inputs[input]);
        state.blocked.remove(&lane);
        if let Some(reader) = state.readers[input].take() {
            reader.wake();
        }
    }

    /// The lanes of the input of a lane that may be read next, the one whose turn it is first.
    pub fn candidate_lanes(&self, lane: usize) -> Vec<usize> {
        let (input, _) = self.input_of(lane);
        self.lock().inputs[input].candidates().map(|lane| self.first_lanes[input] + lane).collect()
    }

    /// Gives a lane the next turn of its input.
    pub fn give_turn(&self, lane: usize) {
        let (input, number) = self.input_of(lane);
        let mut state = self.lock();
        state.inputs[input].give_turn(number);
        let lanes = self.first_lanes[input]..self.first_lanes.get(input + 1).copied().unwrap_or(usize::MAX);
        state.blocked.retain(|blocked| !lanes.contains(blocked));
    }

    /// A lane that a leaf is blocked by. If there is none, the driver is woken when there is one.
    pub fn blocked_lane(&self, driver: &Waker) -> Option<usize> {
        let mut state = self.lock();
        state.driver = Some(driver.clone());
        state.blocked.first().copied()
    }

    /// The next rows of an input, or which lane blocks it.
    fn poll_next(&self, input: usize, context: &mut Context<'_>) -> Poll<Option<RecordBatch>> {
        let mut state = self.lock();
        loop {
            match state.inputs[input].next() {
                Next::Message(Message::Batch(batch)) if batch.is_empty() => {}
                Next::Message(Message::Batch(batch)) => return Poll::Ready(Some(batch.rows)),
                Next::Message(Message::Punctuation(_)) => {}
                Next::Ended => return Poll::Ready(None),
                Next::Blocked(lane) => {
                    state.blocked.insert(self.first_lanes[input] + lane);
                    state.readers[input] = Some(context.waker().clone());
                    if let Some(driver) = state.driver.take() {
                        driver.wake();
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

/// One scan of an input, from its beginning.
struct InputScan {
    inputs: Arc<ChannelInputs>,
    input: usize,
    /// How many batches it has handed out, if the input keeps them.
    position: Option<usize>,
}

impl InputScan {
    /// The next rows: those that an earlier scan has kept, then new ones.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<RecordBatch>> {
        let Some(position) = &mut self.position else { return self.inputs.poll_next(self.input, context) };
        if let Some(rows) = self.inputs.lock().kept[self.input].get(*position) {
            *position += 1;
            return Poll::Ready(Some(rows.clone()));
        }
        let polled = self.inputs.poll_next(self.input, context);
        if let Poll::Ready(Some(rows)) = &polled {
            *position += 1;
            self.inputs.lock().kept[self.input].push(rows.clone());
        }
        polled
    }
}

/// A [`Leaf`] in a physical plan.
#[derive(Debug, Clone)]
pub(super) struct LeafExec {
    /// The number of the input.
    pub input: usize,
    again: bool,
    info: LeafInfo,
    /// The conditions that were pushed down to it.
    pub predicate: Predicate,
    properties: Arc<PlanProperties>,
}

impl LeafExec {
    /// A leaf without conditions.
    pub fn new(leaf: &Leaf, info: LeafInfo) -> LeafExec {
        let schema: SchemaRef = leaf.schema.inner().clone();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let (properties, predicate) = (Arc::new(properties), Predicate::default());
        LeafExec { input: leaf.input, again: leaf.again, info, predicate, properties }
    }

    /// Takes a condition; whether all rows that come out will satisfy it.
    fn push_down(&mut self, condition: Arc<dyn PhysicalExpr>) -> PushedDown {
        if DynamicFilterTracking::classify(&condition).contains_dynamic_filter() {
            self.predicate.hints.push(condition);
            return PushedDown::No;
        }
        if is_volatile(&condition) {
            return PushedDown::No;
        }
        self.predicate.required.push(condition);
        PushedDown::Yes
    }
}

impl DisplayAs for LeafExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "LeafExec: input {}", self.input)?;
        for condition in self.predicate.required.iter().chain(&self.predicate.hints) {
            write!(f, ", {condition}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for LeafExec {
    fn name(&self) -> &'static str {
        "LeafExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.predicate.required.iter().chain(&self.predicate.hints), f)
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&self.info.statistics))
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        child: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        if !self.info.filters || child.parent_filters.is_empty() {
            return Ok(FilterPushdownPropagation::all_unsupported(child));
        }
        let mut filtered = self.clone();
        let pushed =
            child.parent_filters.into_iter().map(|parent| filtered.push_down(parent.filter)).collect();
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(pushed)
            .with_updated_node(Arc::new(filtered)))
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(inputs) = context.session_config().get_extension::<ChannelInputs>() else {
            return internal_err!("a leaf was run outside of a channel");
        };
        if partition != 0 {
            return internal_err!("a leaf has one partition, not number {partition}");
        }
        let mut scan = InputScan { inputs, input: self.input, position: self.again.then_some(0) };
        let schema = self.schema();
        // Tables of users may differ from the plan in nullability and metadata.
        let columns = schema.clone();
        let rows = poll_fn(move |context| {
            scan.poll_next(context).map(|rows| rows.map(|rows| conform(rows, &columns)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
