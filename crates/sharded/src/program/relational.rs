//! The program of a relational stage: a DataFusion plan with one partition, polled on the thread that steps
//! it.
//!
//! DataFusion pulls; a channel program is pushed. So the plan is polled until it gives a batch, or until a
//! leaf is blocked: then the program names the lane that it needs. Operators that spawn tasks run them on a
//! runtime of the program's own, which makes progress only within a step.

use super::inputs::{ChannelInputs, LeafExec};
use super::lanes::LaneOrder;
use super::lint;
use super::memory::settings;
use super::sort::with_sorts_in_memory;
use super::spill::with_spilling;
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
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use whimbrel_plan::{has_long_conditions, with_room, with_room_if};
use whimbrel_temporal::Message;

/// The program of a relational channel.
pub struct RelationalProgram {
    /// Dropped before the runtime, on which its tasks run.
    stream: SendableRecordBatchStream,
    inputs: Arc<ChannelInputs>,
    runtime: Runtime,
    outputs: usize,
    /// The conditions that were pushed down to each lane.
    predicates: HashMap<usize, Predicate>,
    /// The lane that was needed last.
    needed: Option<usize>,
    /// Whether its expressions are so deep that walking over them may need more than the stack of a thread.
    is_deep: bool,
}

/// What a poll of the plan gave.
enum Polled {
    Rows(RecordBatch),
    /// A leaf waits for this lane.
    Blocked(usize),
    /// The plan computes on: it has given no row for so long that whoever runs it may want to stop it.
    Working,
    Ended,
}

/// How long a poll goes on without a row.
const POLL_LIMIT: Duration = Duration::from_millis(20);

impl RelationalProgram {
    /// A program that runs an optimized plan with [`Leaf`] nodes; `lanes` says how many lanes each input has.
    /// All `outputs` get the same rows.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no runtime for it; those of DataFusion's planner.
    pub(crate) fn new(
        fragment: &Fragment,
        session: &SessionState,
        memory: Arc<RuntimeEnv>,
        lanes: &[usize],
        outputs: usize,
    ) -> Result<RelationalProgram> {
        let runtime = new_runtime()?;
        let orders = fragment.leaves.iter().map(|leaf| match leaf.is_in_order {
            true => LaneOrder::Sequential,
            false => LaneOrder::RoundRobin,
        });
        let inputs = Arc::new(ChannelInputs::new(lanes, orders));
        let (plan, physical) = physical_plan(fragment, session, &memory, &runtime)?;
        let partitions = physical.output_partitioning().partition_count();
        if partitions != 1 {
            return internal_err!("a relational stage has one partition, not {partitions}");
        }
        let predicates = predicates(&physical, lanes)?;
        let context = task_context(session, memory, Arc::clone(&inputs));
        let stream = {
            let _guard = runtime.enter();
            physical.execute(0, context)?
        };
        let is_deep = has_long_conditions(&plan);
        Ok(RelationalProgram { stream, inputs, runtime, outputs, predicates, needed: None, is_deep })
    }

    /// Checks that programs of this plan can be replayed from their tapes.
    ///
    /// # Errors
    /// `Plan` if an operator or a function depends on more than its rows; as [`new`](RelationalProgram::new).
    pub(crate) fn check_replayable(
        fragment: &Fragment,
        session: &SessionState,
        memory: &RuntimeEnv,
    ) -> Result<()> {
        lint::check_replayable(&physical_plan(fragment, session, memory, &new_runtime()?)?.1)
    }

    /// Polls the plan until it gives rows, ends or is blocked, or has taken some time. A recursion without
    /// end gives no row, but it yields now and then.
    fn poll(&mut self) -> Result<Polled> {
        let RelationalProgram { stream, inputs, runtime, .. } = self;
        let begun = Instant::now();
        runtime.block_on(poll_fn(|context| match stream.poll_next_unpin(context) {
            Poll::Ready(Some(rows)) => Poll::Ready(rows.map(Polled::Rows)),
            Poll::Ready(None) => Poll::Ready(Ok(Polled::Ended)),
            Poll::Pending => match inputs.blocked_lane(context.waker()) {
                Some(lane) => Poll::Ready(Ok(Polled::Blocked(lane))),
                None if begun.elapsed() > POLL_LIMIT => Poll::Ready(Ok(Polled::Working)),
                None => Poll::Pending,
            },
        }))
    }
}

/// A runtime that makes progress only where it is waited for.
fn new_runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.map_err(|e| DataFusionError::ResourcesExhausted(format!("no runtime for a channel: {e}")))
}

/// Plans the operators of an optimized plan; the plan that they were made of, too.
fn physical_plan(
    Fragment { plan, leaves, .. }: &Fragment,
    session: &SessionState,
    memory: &RuntimeEnv,
    runtime: &Runtime,
) -> Result<(LogicalPlan, Arc<dyn ExecutionPlan>)> {
    let extension = StageNodePlanner { leaves: leaves.clone() };
    let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(extension)]);
    let plan = lower::rewrite_arithmetic(plan.clone())?;
    let physical = runtime.block_on(planner.create_physical_plan(&plan, session))?;
    let physical = match memory.memory_pool.memory_limit() {
        MemoryLimit::Infinite => with_sorts_in_memory(physical)?,
        _ => with_spilling(physical)?,
    };
    Ok((plan, physical))
}

/// Dropping deep expressions walks over them, too.
impl Drop for RelationalProgram {
    fn drop(&mut self) {
        if self.is_deep {
            let empty = Box::pin(EmptyRecordBatchStream::new(self.stream.schema()));
            let stream = std::mem::replace(&mut self.stream, empty);
            let predicates = std::mem::take(&mut self.predicates);
            with_room(|| drop((stream, predicates)));
        }
    }
}

/// The conditions that were pushed down to each lane, by its number.
fn predicates(plan: &Arc<dyn ExecutionPlan>, lanes: &[usize]) -> Result<HashMap<usize, Predicate>> {
    let mut predicates = HashMap::new();
    plan.apply(|plan| {
        if let Some(leaf) = plan.downcast_ref::<LeafExec>()
            && !leaf.predicate.is_empty()
        {
            let first: usize = lanes[..leaf.input].iter().sum();
            (first..first + lanes[leaf.input]).for_each(|lane| {
                predicates.insert(lane, leaf.predicate.clone());
            });
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(predicates)
}

/// The context of a plan, in which its leaves find the inputs of the channel.
fn task_context(
    session: &SessionState,
    memory: Arc<RuntimeEnv>,
    inputs: Arc<ChannelInputs>,
) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        None,
        session.session_id().to_string(),
        settings(session.config().clone(), &memory).with_extension(inputs),
        // A planned expression holds its functions, and looks up none by name.
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        memory,
    ))
}

impl ChannelProgram for RelationalProgram {
    fn push(&mut self, lane: usize, message: Message) -> Result<()> {
        self.inputs.push(lane, message);
        Ok(())
    }

    fn end(&mut self, lane: usize) -> Result<()> {
        self.inputs.end(lane);
        Ok(())
    }

    fn step(&mut self, out: &mut Vec<(usize, Message)>) -> Result<Step> {
        match with_room_if(self.is_deep, || self.poll())? {
            Polled::Rows(rows) => {
                out.extend((0..self.outputs).map(|output| (output, always(rows.clone()))));
                Ok(Step::Ready)
            }
            Polled::Blocked(lane) => {
                self.needed = Some(lane);
                Ok(Step::Needs(lane))
            }
            Polled::Working => Ok(Step::Ready),
            Polled::Ended => Ok(Step::Ended),
        }
    }

    fn candidate_lanes(&self) -> Vec<usize> {
        self.needed.map_or_else(Vec::new, |lane| self.inputs.candidate_lanes(lane))
    }

    fn give_turn(&mut self, lane: usize) {
        self.inputs.give_turn(lane);
    }

    fn predicate(&self, lane: usize) -> Option<Predicate> {
        self.predicates.get(&lane).cloned()
    }

    fn save(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn restore(&mut self, _state: &[u8]) -> Result<()> {
        plan_err!(
            "a relational program has no checkpoint; give a new one what the old one was given, in the same \
             order"
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::MemoryDataset;
    use crate::options::Options;
    use crate::program::Programs;
    use datafusion::arrow::array::{ArrayRef, Int64Array};
    use datafusion::logical_expr::{Expr, col, lit};
    use datafusion::physical_plan::displayable;
    use whimbrel_plan::{Agg, AggFunction, JoinKind, Stream};

    fn table(name: &str) -> Stream {
        let column = |to: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..to).chain(0..to))) };
        let rows =
            RecordBatch::try_from_iter([(format!("{name}_k"), column(9)), (format!("{name}_v"), column(9))]);
        let rows = rows.unwrap();
        Stream::scan(name, Arc::new(MemoryDataset::new(rows.schema(), vec![vec![rows]]).unwrap())).unwrap()
    }

    /// Queries to which the idle rules would apply elsewhere: aggregates that statistics know, distinct rows
    /// and groups under a limit, orders over orders, joins over large sides.
    fn queries() -> Vec<Stream> {
        let (a, b) = (table("a"), table("b"));
        let of = |function, name: &str| vec![("x".to_string(), Agg::of(function, col(name)))];
        let by = |name: &str| vec![col(name).sort(true, false)];
        let grouped = a.rekey(vec![col("a_k")]).unwrap().aggregate(of(AggFunction::Sum, "a_v")).unwrap();
        let on: Vec<(Expr, Expr)> = vec![(col("a_k"), col("b_k"))];
        let joined = a.join(&b, on, JoinKind::Inner, "_b").unwrap();
        vec![
            a.aggregate(vec![("n".to_string(), Agg::count())]).unwrap(),
            a.aggregate(of(AggFunction::Max, "a_v")).unwrap(),
            a.distinct().unwrap().limit(0, Some(3)).unwrap(),
            grouped.limit(0, Some(3)).unwrap(),
            grouped.sort(by("x")).unwrap().limit(0, Some(3)).unwrap(),
            a.sort(by("a_k")).unwrap().sort(by("a_v")).unwrap().limit(2, Some(3)).unwrap(),
            joined.sort(by("a_v")).unwrap().limit(0, Some(3)).unwrap(),
            joined.where_(col("b_v").gt(lit(3_i64))).unwrap(),
            a.union(&a).unwrap().sort(by("a_k")).unwrap(),
        ]
    }

    #[test]
    fn the_rules_that_are_left_out_change_no_plan() {
        let (memory, runtime) = (RuntimeEnv::default(), new_runtime().unwrap());
        for query in queries() {
            let programs = Programs::new(&query, &Options::default()).unwrap();
            let fragments = (0..programs.stages().stages.len()).filter_map(|stage| programs.fragment(stage));
            for fragment in fragments {
                let text = |session: &SessionState| {
                    let (_, plan) = physical_plan(fragment, session, &memory, &runtime).unwrap();
                    displayable(plan.as_ref()).indent(true).to_string()
                };
                assert_eq!(text(&lower::with_idle_rules(fragment)), text(fragment.session()));
            }
        }
    }
}
