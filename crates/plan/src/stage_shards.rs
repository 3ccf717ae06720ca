//! The number of shards of each stage of a plan: of what lies between two exchanges. A planner takes one
//! number for all of them; who knows what machines cost may give each stage its own.
//!
//! Invariant: a stage is free only if no row's place within its shards is decided by their number alone: rows
//! come by key, in turns, to all shards, or from a source that can be cut anywhere. So the result is the same
//! in any number of them.

use crate::nodes::{Exchange, Movement, Node, Scope, extension, node};
use crate::properties::properties;
use crate::source::{PlanSource, source_of};
use crate::stack::with_room;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{LogicalPlan, TableScan};
use std::sync::Arc;

/// The shards of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageShards {
    /// How many there are.
    pub shards: usize,
    /// Whether there may be any number of them.
    pub is_free: bool,
    /// Whether it reads a source.
    pub reads_source: bool,
}

/// The stages of a plan without time, that of the result first. Equal stages are one.
///
/// ```
/// use std::sync::Arc;
/// use whimbrel_plan::nodes::Scope;
/// use whimbrel_plan::{Series, Source, Stream, StageShards, column, stage_shards, with_stage_shards};
///
/// let numbers = Series::new("n", 0, 100, 1, true)?.with_shards(8).expect("numbers have any shards");
/// let query = Stream::scan("numbers", numbers)?.rekey(vec![column("n")])?;
/// let query = query.redistribute(Some(8), Scope::Global)?.distinct()?.reshard(Some(1), Scope::Global)?;
/// let stages = stage_shards(query.plan())?;
/// let result = StageShards { shards: 1, is_free: false, reads_source: false };
/// let distinct = StageShards { shards: 8, is_free: true, reads_source: false };
/// assert_eq!(stages, [result, distinct, StageShards { reads_source: true, ..distinct }]);
/// let other = with_stage_shards(query.plan(), &[1, 2, 16])?;
/// assert_eq!(stage_shards(&other)?.iter().map(|stage| stage.shards).collect::<Vec<_>>(), [1, 2, 16]);
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
///
/// # Errors
/// `Plan` if the plan has a step that no stream has.
pub fn stage_shards(plan: &LogicalPlan) -> Result<Vec<StageShards>> {
    with_room(|| stage_roots(plan).into_iter().map(of_stage).collect())
}

/// The plan with so many shards in its stages, in the order of [`stage_shards`]. Those that are not free stay
/// as they are.
///
/// # Errors
/// `Plan` if there are other stages than numbers, or a stage without shards.
pub fn with_stage_shards(plan: &LogicalPlan, shards: &[usize]) -> Result<LogicalPlan> {
    with_room(|| {
        let roots = stage_roots(plan);
        if roots.len() != shards.len() || shards.contains(&0) {
            return plan_err!("{} stages cannot have the shards {shards:?}", roots.len());
        }
        let counts = roots.iter().zip(shards).map(|(root, shards)| {
            let stage = of_stage(root)?;
            Ok((*root, if stage.is_free { *shards } else { stage.shards }))
        });
        let counts = counts.collect::<Result<Vec<_>>>()?;
        rebuild(plan, counts[0].1, &counts)
    })
}

/// The last node of each stage, producers after consumers.
fn stage_roots(plan: &LogicalPlan) -> Vec<&LogicalPlan> {
    let mut roots = vec![plan];
    let mut next = 0;
    while let Some(root) = roots.get(next).copied() {
        for leaf in leaves(root) {
            if let Some(Node::Exchange(exchange)) = node(leaf)
                && !roots.contains(&&*exchange.input)
            {
                roots.push(&exchange.input);
            }
        }
        next += 1;
    }
    roots
}

/// The exchanges and sources that a stage reads.
fn leaves(root: &LogicalPlan) -> Vec<&LogicalPlan> {
    let (mut found, mut next) = (vec![], vec![root]);
    while let Some(plan) = next.pop() {
        let inputs = plan.inputs();
        match node(plan) {
            Some(Node::Exchange(_)) => found.push(plan),
            _ if inputs.is_empty() => found.push(plan),
            _ => next.extend(inputs.into_iter().rev()),
        }
    }
    found
}

fn of_stage(root: &LogicalPlan) -> Result<StageShards> {
    let known = properties(root)?;
    let is_relation = known.time.is_none() && known.bounded && known.shards > 1 && known.groups == 1;
    let leaves = leaves(root);
    Ok(StageShards {
        shards: known.shards,
        reads_source: leaves.iter().any(|leaf| matches!(leaf, LogicalPlan::TableScan(_))),
        is_free: is_relation && leaves.into_iter().all(is_free),
    })
}

/// Whether what a stage reads can come in any number of shards.
fn is_free(leaf: &LogicalPlan) -> bool {
    match (leaf, node(leaf)) {
        (LogicalPlan::TableScan(scan), _) => {
            source_of(scan).is_some_and(|source| source.ranges().is_none() && source.with_shards(1).is_some())
        }
        (_, Some(Node::Exchange(exchange))) => {
            let is_free_movement = matches!(
                *exchange.movement,
                Movement::ReDistribute { .. } | Movement::ReShard | Movement::Broadcast
            );
            is_free_movement && exchange.scope == Scope::Global && exchange.location.is_none()
        }
        _ => false,
    }
}

/// The plan of a stage with so many shards, over stages with those of `counts`.
fn rebuild(plan: &LogicalPlan, shards: usize, counts: &[(&LogicalPlan, usize)]) -> Result<LogicalPlan> {
    if let Some(Node::Exchange(exchange)) = node(plan) {
        let own = counts.iter().find(|(root, _)| **root == *exchange.input);
        let Some((_, below)) = own else { return plan_err!("a stage is not known: {}", plan.display()) };
        let input = rebuild(&exchange.input, *below, counts)?;
        return Ok(extension(Exchange::with_input(exchange, input, Some(shards))?));
    }
    if let LogicalPlan::TableScan(scan) = plan {
        let source = source_of(scan).filter(|source| source.info().shards != shards);
        return Ok(match source.and_then(|source| source.with_shards(shards)) {
            Some(source) => {
                LogicalPlan::TableScan(TableScan { source: Arc::new(PlanSource(source)), ..scan.clone() })
            }
            None => plan.clone(),
        });
    }
    let inputs = plan.inputs().into_iter().map(|input| rebuild(input, shards, counts));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    match inputs.is_empty() {
        true => Ok(plan.clone()),
        false => plan.with_new_exprs(plan.expressions(), inputs),
    }
}
