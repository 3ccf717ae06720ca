//! The program of a relational stage: a DataFusion plan with one partition, polled on the thread of whoever
//! steps it.
//!
//! DataFusion pulls; a channel program is pushed. The plan is polled until it gives a batch or one of its
//! leaves has nothing to read, and then the program says which lane it needs. Where an operator of
//! DataFusion's spawns tasks they run on a runtime of the program's own, which makes progress only inside a
//! step.

use super::feed::{Feed, LeafExec};
use super::memory::settings;
use super::spill::spilling;
use super::{ChannelProgram, Step};
use crate::dataset::Predicate;
use crate::lower::{self, Fragment, Leaf, LeafInfo};
use crate::metrics::Instrumented;
use crate::relation::always;
use async_trait::async_trait;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, internal_err, plan_err};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;
use futures::future::poll_fn;
use std::collections::HashMap;
use std::sync::Arc;
use std::task::Poll;
use tokio::runtime::Runtime;
use whimbrel_plan::{has_long_conditions, with_room, with_room_if};
use whimbrel_temporal::Message;

/// A relational stage's channel.
pub struct RelationalProgram {
    /// Dropped before the runtime that its tasks run on.
    stream: SendableRecordBatchStream,
    feed: Arc<Feed>,
    runtime: Runtime,
    outputs: usize,
    /// The rows that are wanted of each lane.
    wanted: HashMap<usize, Predicate>,
    /// Whether a walk over its conditions may need more than a thread's stack.
    is_deep: bool,
}

enum Polled {
    Rows(RecordBatch),
    Hungry(usize),
    Over,
}

impl RelationalProgram {
    /// A program that runs an optimized plan whose leaves are [`Leaf`] nodes, over inputs with so many lanes
    /// each. What it computes goes to every one of its `outputs`.
    pub(crate) fn new(
        Fragment { plan, leaves, .. }: &Fragment,
        session: &SessionState,
        memory: Arc<RuntimeEnv>,
        lanes: &[usize],
        outputs: usize,
    ) -> Result<RelationalProgram> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|e| DataFusionError::ResourcesExhausted(format!("no runtime for a channel: {e}")))?;
        let feed = Arc::new(Feed::new(lanes));
        let extension = StageNodePlanner { leaves: leaves.clone() };
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(extension)]);
        let plan = lower::ours(plan.clone())?;
        let physical = runtime.block_on(planner.create_physical_plan(&plan, session))?;
        let physical = match memory.memory_pool.memory_limit() {
            MemoryLimit::Infinite => physical,
            _ => spilling(physical)?,
        };
        let partitions = physical.output_partitioning().partition_count();
        if partitions != 1 {
            return internal_err!("a relational stage has one partition, not {partitions}");
        }
        let wanted = wanted(&physical, lanes)?;
        let context = task_context(session, memory, feed.clone());
        let stream = {
            let _entered = runtime.enter();
            physical.execute(0, context)?
        };
        let is_deep = has_long_conditions(&plan);
        Ok(RelationalProgram { stream, feed, runtime, outputs, wanted, is_deep })
    }

    fn poll(&mut self) -> Result<Polled> {
        let RelationalProgram { stream, feed, runtime, .. } = self;
        runtime.block_on(poll_fn(|context| match stream.poll_next_unpin(context) {
            Poll::Ready(Some(rows)) => Poll::Ready(rows.map(Polled::Rows)),
            Poll::Ready(None) => Poll::Ready(Ok(Polled::Over)),
            Poll::Pending => match feed.hungry(context.waker()) {
                Some(lane) => Poll::Ready(Ok(Polled::Hungry(lane))),
                None => Poll::Pending,
            },
        }))
    }
}

/// The end of a condition is a walk over it, too.
impl Drop for RelationalProgram {
    fn drop(&mut self) {
        if self.is_deep {
            let nothing = Box::pin(EmptyRecordBatchStream::new(self.stream.schema()));
            let stream = std::mem::replace(&mut self.stream, nothing);
            let wanted = std::mem::take(&mut self.wanted);
            with_room(|| drop((stream, wanted)));
        }
    }
}

/// What each leaf wants of its lanes.
fn wanted(plan: &Arc<dyn ExecutionPlan>, lanes: &[usize]) -> Result<HashMap<usize, Predicate>> {
    let mut wanted = HashMap::new();
    plan.apply(|plan| {
        if let Some(leaf) = plan.downcast_ref::<LeafExec>()
            && !leaf.predicate.is_empty()
        {
            let first: usize = lanes[..leaf.input].iter().sum();
            (first..first + lanes[leaf.input]).for_each(|lane| {
                wanted.insert(lane, leaf.predicate.clone());
            });
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(wanted)
}

fn task_context(session: &SessionState, memory: Arc<RuntimeEnv>, feed: Arc<Feed>) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        None,
        session.session_id().to_string(),
        settings(session.config().clone(), &memory).with_extension(feed),
        // A planned expression has its functions, and asks for none by name.
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        memory,
    ))
}

impl ChannelProgram for RelationalProgram {
    fn push(&mut self, lane: usize, message: Message) -> Result<()> {
        self.feed.push(lane, message);
        Ok(())
    }

    fn end(&mut self, lane: usize) -> Result<()> {
        self.feed.end(lane);
        Ok(())
    }

    fn step(&mut self, out: &mut Vec<(usize, Message)>) -> Result<Step> {
        match with_room_if(self.is_deep, || self.poll())? {
            Polled::Rows(rows) => {
                out.extend((0..self.outputs).map(|output| (output, always(rows.clone()))));
                Ok(Step::Ready)
            }
            Polled::Hungry(lane) => Ok(Step::Needs(lane)),
            Polled::Over => Ok(Step::Ended),
        }
    }

    fn predicate(&self, lane: usize) -> Option<Predicate> {
        self.wanted.get(&lane).cloned()
    }

    fn save(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn restore(&mut self, _state: &[u8]) -> Result<()> {
        plan_err!(
            "a relational program has no checkpoint; give a new one what the old one was given, in the same order"
        )
    }
}

/// Plans the nodes that stages have beside DataFusion's: leaves, and nodes that measure.
struct StageNodePlanner {
    leaves: Vec<LeafInfo>,
}

#[async_trait]
impl ExtensionPlanner for StageNodePlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn datafusion::catalog::Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let (Some(measured), [input]) = (node.as_any().downcast_ref::<Instrumented>(), inputs) {
            return Ok(Some(measured.physical(Arc::clone(input))));
        }
        let leaf = node
            .as_any()
            .downcast_ref::<Leaf>()
            .ok_or_else(|| internal_datafusion_err!("{} has no place in a relational stage", node.name()))?;
        Ok(Some(Arc::new(LeafExec::new(leaf, self.leaves[leaf.input].clone()))))
    }
}
