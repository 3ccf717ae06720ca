//! Conditions that DataFusion takes below other steps, where they say something else.
//!
//! - `random() < 0.5` gives another value each time it is asked. Below an `unnest` or an aggregate it would
//!   be asked of other rows, and fewer of them; on one side of a join, of rows and not of pairs.
//! - A condition without columns is asked of the one row that an aggregate without groups gives. Below that,
//!   it would take away the rows that are summed up, and the one row would stay.

use crate::depth::{chain, depth};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::{
    conjunction, split_binary, split_binary_owned, split_conjunction, split_conjunction_owned,
};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Operator, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Takes conditions down, but for those that have to stay.
#[derive(Debug)]
pub(crate) struct PushDown(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for PushDown {
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
        let (filter, merged) = match plan {
            LogicalPlan::Filter(filter) => merged(filter)?,
            LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(Expr::is_volatile) => {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            }
            plan => return self.0.rewrite(plan, config),
        };
        let terms = split_conjunction_owned(filter.predicate.clone());
        let (staying, pushed): (Vec<Expr>, Vec<Expr>) =
            terms.into_iter().partition(|term| must_stay(term, &filter.input));
        let unchanged =
            |filter| Transformed::new(LogicalPlan::Filter(filter), merged, TreeNodeRecursion::Continue);
        let Some(staying) = conjunction(staying) else {
            let mut rewritten = self.0.rewrite(LogicalPlan::Filter(filter), config)?;
            rewritten.transformed |= merged;
            return Ok(rewritten);
        };
        let Some(pushed) = conjunction(pushed) else { return Ok(unchanged(filter)) };
        let below = LogicalPlan::Filter(Filter::try_new(pushed, Arc::clone(&filter.input))?);
        let below = self.0.rewrite(below, config)?;
        if !below.transformed {
            return Ok(unchanged(filter));
        }
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(staying, Arc::new(below.data))?)))
    }
}

/// The filter with those right below it in one; whether there are any. What is below is asked first.
fn merged(mut filter: Filter) -> Result<(Filter, bool)> {
    let mut merged = false;
    while let LogicalPlan::Filter(below) = filter.input.as_ref() {
        let predicate = below.predicate.clone().and(filter.predicate);
        filter = Filter::try_new(predicate, Arc::clone(&below.input))?;
        merged = true;
    }
    Ok((filter, merged))
}

/// Whether a condition has to be asked of just these rows.
fn must_stay(term: &Expr, rows: &LogicalPlan) -> bool {
    match rows {
        // What a source is asked, the rule knows.
        LogicalPlan::TableScan(_) => false,
        LogicalPlan::Aggregate(aggregate) => {
            let always = aggregate.group_expr.is_empty()
                || aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
            term.is_volatile() || always && term.column_refs().is_empty()
        }
        _ => term.is_volatile(),
    }
}

/// The same plan, in which long conditions are trees of few levels: rules take them apart, and put them
/// together one term after the other, so that they are as deep as they have terms.
///
/// # Errors
/// What DataFusion says of a plan that it has made itself.
pub fn flat_conditions(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| Ok(flat_node(plan))).data()
}

/// The same as a rule, for the rules that look at what this one has put together.
#[derive(Debug)]
pub(crate) struct FlatConditions;

impl OptimizerRule for FlatConditions {
    fn name(&self) -> &str {
        "flat_conditions"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        Ok(flat_node(plan))
    }
}

/// Flattens the deep conditions of one node.
fn flat_node(plan: LogicalPlan) -> Transformed<LogicalPlan> {
    match plan {
        LogicalPlan::Filter(mut filter) if is_deep(&filter.predicate) => {
            filter.predicate = flat(filter.predicate);
            Transformed::yes(LogicalPlan::Filter(filter))
        }
        LogicalPlan::Join(mut join) if join.filter.as_ref().is_some_and(is_deep) => {
            join.filter = join.filter.map(flat);
            Transformed::yes(LogicalPlan::Join(join))
        }
        plan => Transformed::no(plan),
    }
}

/// Whether any condition of a plan has so many terms that walks over it may need more than a thread's stack.
pub fn has_long_conditions(plan: &LogicalPlan) -> bool {
    const LONG: usize = 500;
    let long = |condition: &Expr| {
        split_conjunction(condition).len() > LONG || split_binary(condition, Operator::Or).len() > LONG
    };
    // The closure never fails.
    plan.exists(|plan| {
        Ok(match plan {
            LogicalPlan::Filter(filter) => long(&filter.predicate),
            LogicalPlan::Join(join) => join.filter.as_ref().is_some_and(long),
            _ => false,
        })
    })
    .unwrap_or(true)
}

/// Whether a condition has so many levels that it is made flat.
fn is_deep(condition: &Expr) -> bool {
    depth(condition) > 64
}

/// A condition as a tree of logarithmic depth.
fn flat(condition: Expr) -> Expr {
    let terms = split_conjunction_owned(condition).into_iter().map(|term| match is_deep(&term) {
        true => joined(Operator::Or, split_binary_owned(term, Operator::Or)),
        false => term,
    });
    joined(Operator::And, terms.collect())
}

fn joined(operator: Operator, terms: Vec<Expr>) -> Expr {
    // What was taken apart has a term at least.
    chain(operator, terms).unwrap_or_else(|| lit(true))
}
