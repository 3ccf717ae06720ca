//! The plan of a relational stage: DataFusion's optimizer and planner, with settings that make the answer
//! depend on nothing but the order of the inputs.

use super::compact_views::CompactStringViews;
use super::direct_index::DirectIndexAggregate;
use super::distinct_counts::merge_distinct_counts;
use super::filter_pushdown::GuardedFilterPushdown;
use super::leaf::{Leaf, LeafInfo};
use super::row_pattern::{RowPatternPartitions, lower_row_patterns};
use super::sequential_union::SequentialUnion;
use super::sliding::recompute_frames;
use super::specialize::SpecializedExpressions;
use super::split_filters::SplitFilterProjections;
use super::sums;
use crate::dataset::dataset;
use crate::metrics::instrument;
use crate::stage::{Input, Node, Operand, Origin, Stage, StageGraph};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{Extension, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;
use std::sync::{Arc, LazyLock};
use whimbrel_plan::estimate::{Estimate, Estimator, smaller_sides_first};
use whimbrel_plan::{Movement, flat_conditions, optimizer_rules, takes_nulls, without_rules};

/// The session in which plans are optimized and planned.
static SESSION: LazyLock<SessionState> = LazyLock::new(|| deterministic(true, &IDLE_RULES));
/// The same session, whose joins send no filters to their probe sides.
static NULL_SAFE: LazyLock<SessionState> = LazyLock::new(|| deterministic(false, &IDLE_RULES));

/// Physical rules that never apply here, each of which would walk every plan: there is one partition, inputs
/// have no exact statistics and take no order and no limit, and settings switch the others off.
const IDLE_RULES: [&str; 5] =
    ["aggregate_statistics", "LimitAggregation", "HashJoinBuffering", "TopKRepartition", "PushdownSort"];

/// The session in which the plans of stages are optimized.
pub(crate) fn session() -> &'static SessionState {
    &SESSION
}

/// The same session with the rules that never apply.
#[cfg(test)]
pub(crate) fn with_idle_rules(fragment: &Fragment) -> SessionState {
    deterministic(std::ptr::eq(fragment.session(), session()), &[])
}

/// A session with one partition and nothing that depends on timing; `without` these physical rules.
fn deterministic(join_filters: bool, without: &[&str]) -> SessionState {
    let mut config = SessionConfig::new().with_target_partitions(1);
    let options = config.options_mut();
    options.execution.enable_file_stream_work_stealing = false;
    options.execution.hash_join_buffering_capacity = 0;
    // Joins by integers use a direct index, if that takes at most 16 MB or a tenth of its entries is
    // used.
    options.execution.perfect_hash_join_small_build_threshold = 4 << 20;
    options.execution.perfect_hash_join_min_key_density = 0.1;
    options.optimizer.enable_round_robin_repartition = false;
    // It compares keys by `==`, and does not find the group of NaN again.
    options.optimizer.enable_topk_aggregation = false;
    // The sides of joins are ordered before, by the estimates of all stages.
    options.optimizer.join_reordering = false;
    // Sources read whole columns, not fields of structs.
    options.optimizer.enable_leaf_expression_pushdown = false;
    // The filter of a join is complete before the first row of its probe side is read; those of other
    // operators change as rows come.
    options.optimizer.enable_dynamic_filter_pushdown = true;
    options.optimizer.enable_join_dynamic_filter_pushdown = join_filters;
    options.optimizer.enable_topk_dynamic_filter_pushdown = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = Vec::new();
    for rule in PhysicalOptimizer::new().rules {
        if rule.name() == "ProjectionPushdown" {
            rules.push(Arc::new(SplitFilterProjections));
        }
        if rule.name().starts_with("FilterPushdown") {
            rules.push(Arc::new(GuardedFilterPushdown(rule)));
        } else if !without.contains(&rule.name()) {
            rules.push(rule);
        }
    }
    rules.insert(0, Arc::new(SequentialUnion));
    rules.push(Arc::new(DirectIndexAggregate));
    rules.push(Arc::new(RowPatternPartitions));
    rules.push(Arc::new(CompactStringViews));
    rules.push(Arc::new(SpecializedExpressions));
    SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(rules)
        .build()
}

/// The optimized plan of a relational stage.
pub(crate) struct Fragment {
    /// The optimized plan.
    pub plan: LogicalPlan,
    /// What is known of each input.
    pub leaves: Vec<LeafInfo>,
    /// The estimate of the rows of each input in all channels, if there is one.
    pub inputs: Vec<Option<Estimate>>,
    /// The estimate of the rows that all channels hand out.
    pub expected: Estimate,
    channels: usize,
}

impl Fragment {
    /// Optimizes the plan of a stage over its inputs as leaves; `upstream` are the estimates of earlier
    /// stages.
    ///
    /// # Errors
    /// `Plan` if the plan cannot be optimized.
    pub fn of(stages: &StageGraph, stage: usize, upstream: &[Option<Estimate>]) -> Result<Fragment> {
        let stage = &stages.stages[stage];
        let [output] = stage.outputs.as_slice() else {
            return internal_err!("a relational stage has one output, not {}", stage.outputs.len());
        };
        let inputs: Vec<Option<Estimate>> =
            stage.inputs.iter().map(|input| expected(stages, stage, input, upstream)).collect();
        let plan = session().optimize(&assemble(stage, output.operand, false)?).map_err(without_rules)?;
        let plan = merge_distinct_counts(flat_conditions(plan)?)?;
        let (plan, expected) = {
            let leaf = leaf_estimates(&inputs);
            let estimator = Estimator::of_stage(&leaf, stage.channels);
            let plan = lower_row_patterns(sums::check_sums(recompute_frames(smaller_sides_first(
                plan, &estimator,
            )?)?)?)?;
            let expected = estimator.estimate(&plan);
            (plan, expected)
        };
        let leaf = |(input, expected)| leaf_info(input, expected, stage.channels);
        let leaves = stage.inputs.iter().zip(&inputs).map(leaf).collect::<Result<_>>()?;
        Ok(Fragment { plan, leaves, inputs, expected, channels: stage.channels })
    }

    /// The session in which it is planned. A join must send no filter to its probe side if null keys match:
    /// the filter drops them.
    pub fn session(&self) -> &'static SessionState {
        // The closure never fails.
        match self.plan.exists(|plan| Ok(takes_nulls(plan))).unwrap_or(true) {
            true => &NULL_SAFE,
            false => &SESSION,
        }
    }

    /// The estimate of the rows that a part of the plan gives in all channels.
    pub fn estimate(&self, part: &LogicalPlan) -> Estimate {
        Estimator::of_stage(&leaf_estimates(&self.inputs), self.channels).estimate(part)
    }

    /// The plan with every operator measured.
    ///
    /// # Errors
    /// If the plan cannot be rebuilt.
    pub fn instrumented(self) -> Result<Fragment> {
        Ok(Fragment { plan: instrument(self.plan)?, ..self })
    }
}

/// The estimates of leaves, by the numbers of their inputs.
fn leaf_estimates(inputs: &[Option<Estimate>]) -> impl Fn(&dyn UserDefinedLogicalNode) -> Option<Estimate> {
    |node| inputs[node.as_any().downcast_ref::<Leaf>()?.input].clone()
}

/// The estimate of the rows that all channels get from an input, if there is one.
fn expected(
    stages: &StageGraph,
    stage: &Stage,
    input: &Input,
    upstream: &[Option<Estimate>],
) -> Option<Estimate> {
    match &input.origin {
        Origin::Scan(scan) => {
            let statistics = scan.source.statistics().as_ref().clone().project(scan.columns.as_ref());
            let mut all = Estimate::of_statistics(&statistics, input.schema.as_arrow());
            let fields = input.schema.fields().iter();
            for (field, column) in fields.zip(&mut all.columns) {
                column.is_partition_key = scan.source.ranges().is_some_and(|r| r.column() == field.name());
            }
            Some(all)
        }
        Origin::Edge { stage: from, exchange, .. } => {
            let all = upstream.get(*from)?.clone()?;
            let Some(exchange) = exchange else { return Some(all) };
            let rows = all.rows_of_all(stages.stages[*from].channels);
            let mut moved = Estimate { rows, is_copied: false, ..all };
            moved.is_copied = matches!(*exchange.movement, Movement::Broadcast) && stage.channels > 1;
            let key = match &*exchange.movement {
                Movement::ReDistribute { key } => key.as_slice(),
                _ => &[],
            };
            for (column, estimate) in input.schema.columns().into_iter().zip(&mut moved.columns) {
                estimate.is_partition_key = key.iter().any(|key| key.try_as_col() == Some(&column));
            }
            Some(moved)
        }
    }
}

/// What is known of an input when its stage is planned.
fn leaf_info(input: &Input, expected: &Option<Estimate>, channels: usize) -> Result<LeafInfo> {
    let (filters, movement) = match &input.origin {
        Origin::Scan(scan) => (dataset(scan.source.as_ref())?.filters(), None),
        Origin::Edge { exchange, .. } => (false, exchange.as_ref().map(|exchange| &*exchange.movement)),
    };
    let mut statistics = Statistics::new_unknown(input.schema.as_arrow());
    if let Some(expected) = expected {
        let rows = expected.rows_of_channel(channels);
        statistics.num_rows = Precision::Inexact(rows as usize);
        statistics.total_byte_size = Precision::Inexact((rows * expected.row_bytes()) as usize);
    }
    let is_in_order = matches!(movement, Some(Movement::InOrder));
    Ok(LeafInfo { is_in_order, filters, statistics: Arc::new(statistics) })
}

/// The plan of an operand. Inputs below the recursive part of a query are read several times: `again`.
fn assemble(stage: &Stage, operand: Operand, again: bool) -> Result<LogicalPlan> {
    match operand {
        Operand::Input(input) => {
            let leaf = Leaf { input, again, schema: stage.inputs[input].schema.clone() };
            Ok(LogicalPlan::Extension(Extension { node: Arc::new(leaf) }))
        }
        Operand::Node(node) => {
            let Node { plan, inputs } = &stage.nodes[node];
            let recursive = matches!(plan, LogicalPlan::RecursiveQuery(_));
            let inputs = inputs.iter().enumerate();
            let inputs = inputs.map(|(index, i)| assemble(stage, *i, again || recursive && index == 1));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            match inputs.is_empty() {
                true => Ok(plan.clone()),
                false => plan.with_new_exprs(plan.expressions(), inputs),
            }
        }
    }
}
