//! Rules of DataFusion's that forget of a join that it takes nulls for equal.
//!
//! Whether it does is said once for all columns that a join compares. A rule that adds `a = b` to those of a
//! join for `is not distinct from`, or puts such a join and others into one, makes `a = b` true of nulls.
//! Here these rules pass over such joins.
//!
//! All rules ask before each step whether the plan is still wanted (`interrupt`).

use crate::coalesce::Coalesce;
use crate::conditions::{FlatConditions, PushDown};
use crate::constants::ConstantFolding;
use crate::equal_projections::EqualProjections;
use crate::group_names::has_equal_names;
use crate::interrupt::interrupted;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, JoinType, NullEquality, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The rules of DataFusion's optimizer, in their order, with these kept from such joins, conditions where
/// they have to be (`conditions`), whole numbers that are looked at (`constants`), large arguments that are
/// computed once (`coalesce`), groups told apart by their names (`group_names`), and equal projections that
/// all apply (`equal_projections`). Wherever a plan is optimized, it is by them.
pub fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let rules = Optimizer::new().rules.into_iter().flat_map(|rule| match rule.name() {
        "push_down_filter" => vec![guarded(rule), Arc::new(FlatConditions)],
        _ => vec![guarded(rule)],
    });
    rules.map(|rule| Arc::new(Asking(rule)) as _).collect()
}

/// The error without the names of the rules that it happened in, which say nothing to who wrote the query.
pub fn without_rules(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(context, inner)
            if context.starts_with("Optimizer rule") || context.starts_with("Analyzer rule") =>
        {
            without_rules(*inner)
        }
        other => other,
    }
}

fn guarded(rule: Arc<dyn OptimizerRule + Send + Sync>) -> Arc<dyn OptimizerRule + Send + Sync> {
    match rule.name() {
        // It takes `a = b` from the conditions of a join to the columns that the join compares.
        "extract_equijoin_predicate" => Arc::new(PassingOver { rule, passes_over: takes_nulls }),
        "eliminate_cross_join" => Arc::new(Flatten(rule)),
        "eliminate_group_by_constant" => Arc::new(PassingOver { rule, passes_over: has_equal_names }),
        "optimize_projections" => Arc::new(EqualProjections(rule)),
        "push_down_filter" => Arc::new(PushDown(rule)),
        "simplify_expressions" => Arc::new(Coalesce(Arc::new(ConstantFolding(rule)))),
        _ => rule,
    }
}

/// Asks before every step whether the plan is still wanted.
#[derive(Debug)]
struct Asking(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for Asking {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        interrupted()?;
        self.0.rewrite(plan, config)
    }
}

/// A rule that passes over some nodes.
#[derive(Debug)]
struct PassingOver {
    rule: Arc<dyn OptimizerRule + Send + Sync>,
    /// Whether it passes over this one.
    passes_over: fn(&LogicalPlan) -> bool,
}

impl OptimizerRule for PassingOver {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match (self.passes_over)(&plan) {
            true => Ok(Transformed::no(plan)),
            false => self.rule.rewrite(plan, config),
        }
    }
}

/// Puts inner joins into another order. It goes down a plan by itself.
#[derive(Debug)]
struct Flatten(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for Flatten {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let inner = |plan: &LogicalPlan| {
            Ok(takes_nulls(plan) && matches!(plan, LogicalPlan::Join(j) if j.join_type == JoinType::Inner))
        };
        if !plan.exists(inner)? {
            return self.0.rewrite(plan, config);
        }
        let rewritten = plan.map_children(|child| self.rewrite(child, config))?;
        match rewritten.transformed {
            true => rewritten.map_data(LogicalPlan::recompute_schema),
            false => Ok(rewritten),
        }
    }
}

/// Whether this is a join that takes nulls for equal.
pub fn takes_nulls(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty())
}
