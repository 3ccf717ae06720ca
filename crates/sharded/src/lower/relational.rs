//! A relational fragment: DataFusion's optimizer and physical planner, with the settings that make the answer
//! depend on nothing but the order of the inputs (the design's page on distribution, §2.3).

use super::compact_views::CompactStringViews;
use super::filters::FiltersOfAllColumns;
use super::groups::NumbersByPlace;
use super::leaf::{Leaf, LeafInfo};
use super::sequential_union::SequentialUnion;
use super::sliding::computed_anew;
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

static SESSION: LazyLock<SessionState> = LazyLock::new(|| deterministic(true));
/// The same, whose joins say nothing of their probe sides.
static NULL_SAFE: LazyLock<SessionState> = LazyLock::new(|| deterministic(false));

/// Physical rules that never find anything to do: there is one partition, nothing is known for sure of a fragment's
/// inputs, these take no order and no limit, and what other settings switch off. Each of them walks every plan.
const IDLE_RULES: [&str; 5] =
    ["aggregate_statistics", "LimitAggregation", "HashJoinBuffering", "TopKRepartition", "PushdownSort"];

/// The session all fragments are optimized in.
pub(crate) fn session() -> &'static SessionState {
    &SESSION
}

/// One partition, nothing that depends on timing.
fn deterministic(joins_tell: bool) -> SessionState {
    let mut config = SessionConfig::new().with_target_partitions(1);
    let options = config.options_mut();
    options.execution.enable_file_stream_work_stealing = false;
    options.execution.hash_join_buffering_capacity = 0;
    // Whole numbers as keys are found by their place, in joins and in what a join says of its probe side, where that takes
    // 16 MB at most or a twentieth of the places is taken.
    options.execution.perfect_hash_join_small_build_threshold = 4 << 20;
    options.execution.perfect_hash_join_min_key_density = 0.05;
    options.optimizer.enable_round_robin_repartition = false;
    // It looks groups up by `==`, and so does not find that of NaN again.
    options.optimizer.enable_topk_aggregation = false;
    // The sides of joins are put in order before, by what is known of all stages.
    options.optimizer.join_reordering = false;
    // Sources read columns, not fields of structs.
    options.optimizer.enable_leaf_expression_pushdown = false;
    // What a join says of its probe side is known before the first row of that is asked for; what the others say
    // changes as rows come.
    options.optimizer.enable_dynamic_filter_pushdown = true;
    options.optimizer.enable_join_dynamic_filter_pushdown = joins_tell;
    options.optimizer.enable_topk_dynamic_filter_pushdown = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = Vec::new();
    for rule in PhysicalOptimizer::new().rules {
        if rule.name() == "ProjectionPushdown" {
            rules.push(Arc::new(FiltersOfAllColumns));
        }
        if !IDLE_RULES.contains(&rule.name()) {
            rules.push(rule);
        }
    }
    rules.insert(0, Arc::new(SequentialUnion));
    rules.push(Arc::new(NumbersByPlace));
    rules.push(Arc::new(CompactStringViews));
    SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(rules)
        .build()
}

/// The optimized plan of a relational stage.
pub(crate) struct Fragment {
    pub plan: LogicalPlan,
    /// What is known of its inputs.
    pub leaves: Vec<LeafInfo>,
    /// What a channel is expected to get of each, if anything is known.
    pub inputs: Vec<Option<Estimate>>,
    /// What a channel is expected to hand out.
    pub expected: Estimate,
}

impl Fragment {
    /// The plan of a stage, over its inputs as leaves; `made` says what is expected of the channels of earlier stages.
    pub fn of(stages: &StageGraph, stage: usize, made: &[Option<Estimate>]) -> Result<Fragment> {
        let stage = &stages.stages[stage];
        let [output] = stage.outputs.as_slice() else {
            return internal_err!("a relational stage has one output, not {}", stage.outputs.len());
        };
        let inputs: Vec<Option<Estimate>> =
            stage.inputs.iter().map(|input| expected(stages, stage, input, made)).collect();
        let plan = session().optimize(&assemble(stage, output.operand, false)?).map_err(without_rules)?;
        let plan = flat_conditions(plan)?;
        let (plan, expected) = {
            let leaf = leaf_estimates(&inputs);
            let estimator = Estimator::with_leaves(&leaf);
            let plan = sums::checked(computed_anew(smaller_sides_first(plan, &estimator)?)?)?;
            let expected = estimator.estimate(&plan);
            (plan, expected)
        };
        let leaves = stage.inputs.iter().zip(&inputs).map(|(input, expected)| leaf_info(input, expected));
        let leaves = leaves.collect::<Result<_>>()?;
        Ok(Fragment { plan, leaves, inputs, expected })
    }

    /// The session that it is planned in. What a join says of its probe side leaves out the rows whose key is null, also where
    /// these have partners.
    pub fn session(&self) -> &'static SessionState {
        // The closure never fails.
        match self.plan.exists(|plan| Ok(takes_nulls(plan))).unwrap_or(true) {
            true => &NULL_SAFE,
            false => &SESSION,
        }
    }

    /// What a channel is expected to get from a part of the plan.
    pub fn estimate(&self, part: &LogicalPlan) -> Estimate {
        Estimator::with_leaves(&leaf_estimates(&self.inputs)).estimate(part)
    }

    /// The same plan, every operator of which is measured.
    pub fn instrumented(self) -> Result<Fragment> {
        Ok(Fragment { plan: instrument(self.plan)?, ..self })
    }
}

/// What is expected of leaves, by the numbers of their inputs.
fn leaf_estimates(inputs: &[Option<Estimate>]) -> impl Fn(&dyn UserDefinedLogicalNode) -> Option<Estimate> {
    |node| inputs[node.as_any().downcast_ref::<Leaf>()?.input].clone()
}

/// What a channel of a stage is expected to get of an input, if anything is known.
fn expected(
    stages: &StageGraph,
    stage: &Stage,
    input: &Input,
    made: &[Option<Estimate>],
) -> Option<Estimate> {
    let (all, shared) = match &input.origin {
        Origin::Scan(scan) => {
            let known = scan.source.statistics().as_ref().clone().project(scan.columns.as_ref());
            (Estimate::of_statistics(&known, input.schema.as_arrow()), true)
        }
        Origin::Edge { stage: from, exchange, .. } => {
            let each = made.get(*from)?.clone()?;
            let rows = each.rows * stages.stages[*from].channels as f64;
            let copied = matches!(exchange.as_ref().map(|e| &*e.movement), Some(Movement::Broadcast));
            (Estimate { rows, ..each }, !copied)
        }
    };
    let rows = if shared { all.rows / stage.channels as f64 } else { all.rows };
    Some(all.with_rows(rows))
}

/// What is known of an input when its stage is planned.
fn leaf_info(input: &Input, expected: &Option<Estimate>) -> Result<LeafInfo> {
    let filters = match &input.origin {
        Origin::Scan(scan) => dataset(scan.source.as_ref())?.filters(),
        Origin::Edge { .. } => false,
    };
    let mut statistics = Statistics::new_unknown(input.schema.as_arrow());
    if let Some(expected) = expected {
        statistics.num_rows = Precision::Inexact(expected.rows as usize);
        statistics.total_byte_size = Precision::Inexact(expected.bytes() as usize);
    }
    Ok(LeafInfo { filters, statistics: Arc::new(statistics) })
}

/// The plan of an operand. What is under the recursive part of a query is read `again` and again.
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
            let inputs = inputs.map(|(place, i)| assemble(stage, *i, again || recursive && place == 1));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            match inputs.is_empty() {
                true => Ok(plan.clone()),
                false => plan.with_new_exprs(plan.expressions(), inputs),
            }
        }
    }
}
