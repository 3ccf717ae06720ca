//! The leaves of a relational stage: where a DataFusion plan reads what its channel is given.
//!
//! Invariants: a leaf hands out the messages of its lanes in turn; when there is nothing it says which lane
//! it waits for and wakes whoever drives the plan. It never blocks. A leaf that is read again and again keeps
//! what it has handed out.

use super::turns::{Turn, Turns};
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

/// What a channel has been given and its plan has not read yet.
#[derive(Debug)]
pub(super) struct Feed {
    state: Mutex<State>,
    /// The lanes of each input begin at these numbers.
    first_lanes: Vec<usize>,
}

#[derive(Debug)]
struct State {
    inputs: Vec<Turns>,
    /// What each input has handed out, if it is to be read again.
    kept: Vec<Vec<RecordBatch>>,
    hungry: BTreeSet<usize>,
    /// Those to be woken: by each input's data its reader, by a leaf's hunger the driver.
    readers: Vec<Option<Waker>>,
    driver: Option<Waker>,
}

impl Feed {
    /// Inputs with so many lanes each.
    pub fn new(lanes: &[usize]) -> Feed {
        let first_lanes = lanes.iter().scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n))).collect();
        let state = State {
            inputs: lanes.iter().map(|n| Turns::new(*n)).collect(),
            kept: vec![vec![]; lanes.len()],
            hungry: BTreeSet::new(),
            readers: vec![None; lanes.len()],
            driver: None,
        };
        Feed { state: Mutex::new(state), first_lanes }
    }

    /// Every change is one step, so a panic elsewhere leaves the state whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn input_of(&self, lane: usize) -> (usize, usize) {
        let input = self.first_lanes.partition_point(|first| *first <= lane) - 1;
        (input, lane - self.first_lanes[input])
    }

    pub fn push(&self, lane: usize, message: Message) {
        let (input, number) = self.input_of(lane);
        self.with_reader(lane, input, |turns| match message {
            Message::Batch(_) => turns.push(number, message),
            // How often news of time come depends on when they were sent: they take no turn.
            Message::Punctuation(_) => {}
        });
    }

    pub fn end(&self, lane: usize) {
        let (input, number) = self.input_of(lane);
        self.with_reader(lane, input, |turns| turns.end(number));
    }

    fn with_reader(&self, lane: usize, input: usize, change: impl FnOnce(&mut Turns)) {
        let mut state = self.lock();
        change(&mut state.inputs[input]);
        state.hungry.remove(&lane);
        if let Some(reader) = state.readers[input].take() {
            reader.wake();
        }
    }

    /// A lane that a leaf waits for; if there is none, the driver is woken when there is.
    pub fn hungry(&self, driver: &Waker) -> Option<usize> {
        let mut state = self.lock();
        state.driver = Some(driver.clone());
        state.hungry.first().copied()
    }

    fn poll_next(&self, input: usize, context: &mut Context<'_>) -> Poll<Option<RecordBatch>> {
        let mut state = self.lock();
        loop {
            match state.inputs[input].next() {
                Turn::Message(Message::Batch(batch)) if batch.is_empty() => {}
                Turn::Message(Message::Batch(batch)) => return Poll::Ready(Some(batch.rows)),
                Turn::Message(Message::Punctuation(_)) => {}
                Turn::Over => return Poll::Ready(None),
                Turn::Wait(lane) => {
                    state.hungry.insert(self.first_lanes[input] + lane);
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

/// One reading of an input, from its beginning.
struct Reading {
    feed: Arc<Feed>,
    input: usize,
    /// How many batches it has given, where they are kept.
    given: Option<usize>,
}

impl Reading {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<RecordBatch>> {
        let Some(given) = &mut self.given else { return self.feed.poll_next(self.input, context) };
        if let Some(rows) = self.feed.lock().kept[self.input].get(*given) {
            *given += 1;
            return Poll::Ready(Some(rows.clone()));
        }
        let polled = self.feed.poll_next(self.input, context);
        if let Poll::Ready(Some(rows)) = &polled {
            *given += 1;
            self.feed.lock().kept[self.input].push(rows.clone());
        }
        polled
    }
}

/// A [`Leaf`] in a physical plan.
#[derive(Debug, Clone)]
pub(super) struct LeafExec {
    pub input: usize,
    again: bool,
    info: LeafInfo,
    /// The rows that are wanted of it.
    pub predicate: Predicate,
    properties: Arc<PlanProperties>,
}

impl LeafExec {
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

    /// Takes over a condition; says whether it will hold of all rows.
    fn take(&mut self, term: Arc<dyn PhysicalExpr>) -> PushedDown {
        if DynamicFilterTracking::classify(&term).contains_dynamic_filter() {
            self.predicate.hints.push(term);
            return PushedDown::No;
        }
        if is_volatile(&term) {
            return PushedDown::No;
        }
        self.predicate.required.push(term);
        PushedDown::Yes
    }
}

impl DisplayAs for LeafExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "LeafExec: input {}", self.input)?;
        for term in self.predicate.required.iter().chain(&self.predicate.hints) {
            write!(f, ", {term}")?;
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
        asked: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        if !self.info.filters || asked.parent_filters.is_empty() {
            return Ok(FilterPushdownPropagation::all_unsupported(asked));
        }
        let mut narrower = self.clone();
        let taken = asked.parent_filters.into_iter().map(|asked| narrower.take(asked.filter)).collect();
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(taken)
            .with_updated_node(Arc::new(narrower)))
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
        let Some(feed) = context.session_config().get_extension::<Feed>() else {
            return internal_err!("a leaf was run outside of a channel");
        };
        if partition != 0 {
            return internal_err!("a leaf has one partition, not number {partition}");
        }
        let mut reading = Reading { feed, input: self.input, given: self.again.then_some(0) };
        let schema = self.schema();
        // Tables from users need not say the same of nulls and metadata as the plan does.
        let columns = schema.clone();
        let rows = poll_fn(move |context| {
            reading.poll_next(context).map(|rows| rows.map(|rows| conform(rows, &columns)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
