//! Rows of a table that were picked by their partners are picked once.
//!
//! `few join many on k join (select k, avg(x) from many group by k) on k` was narrowed before ([`super::reduce`]) so that
//! only the rows of `many` with a partner in `few` are aggregated. The join itself wants these rows too: here it takes them
//! instead of reading the table again (Zuzarte et al. 2003: a magic set that serves the query and its subquery).
//!
//! Invariant: a table is only replaced in inner joins that make its column equal to that of the partners.

use super::prefilter::is_read;
use super::semi::{pairs, partner, semi};
use super::share::{both, drops};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Join, LogicalPlan};
use std::sync::Arc;

/// The plan in which picked rows are taken wherever the same ones are joined.
pub(super) fn reused(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut picked = Vec::new();
    plan.apply(|plan| {
        if let LogicalPlan::Join(join) = plan
            && let Some(rows) = Picked::of(join)
        {
            picked.push(rows);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    picked.into_iter().try_fold(plan, |plan, picked| picked.taken_in(plan))
}

/// Rows of a table that have a partner.
struct Picked {
    /// The semi join that picks them, or rows that they were joined with.
    semi: LogicalPlan,
    table: LogicalPlan,
    column: Column,
    /// The partners as the semi join has them; the plan that they are of, and their column there.
    partners: LogicalPlan,
    few: LogicalPlan,
    few_column: Column,
}

impl Picked {
    fn of(join: &Join) -> Option<Picked> {
        let (few, few_column) = partner(join)?;
        let mut pairs = pairs(join);
        let (Some((column, _)), None) = (pairs.next(), pairs.next()) else { return None };
        let table = table_of(&join.left, column)?;
        Some(Picked {
            semi: LogicalPlan::Join(join.clone()),
            table: table.clone(),
            column: column.clone(),
            partners: join.right.as_ref().clone(),
            few: few.clone(),
            few_column: few_column.clone(),
        })
    }

    /// The plan in which these rows are taken, if there is another place for them.
    fn taken_in(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let mut places = 0;
        let taken = plan.clone().transform_down(|plan| {
            if plan == self.semi {
                let rows = plan.inputs()[0].clone();
                let rows = self.replaced(rows)?.data;
                return Ok(Transformed::new(rows, true, TreeNodeRecursion::Jump));
            }
            if !is_inner(&plan) || !self.is_joined_in(&plan)? {
                return Ok(Transformed::no(plan));
            }
            let taken = self.replaced(plan)?;
            places += usize::from(taken.transformed);
            Ok(Transformed::new(taken.data, taken.transformed, TreeNodeRecursion::Jump))
        });
        Ok(if places > 0 { taken.data()? } else { plan })
    }

    /// Whether inner joins at the top of a plan join the table with the partners by this column.
    fn is_joined_in(&self, plan: &LogicalPlan) -> Result<bool> {
        let (mut equal, mut few) = (Vec::new(), false);
        each_joined(plan, &mut |plan| {
            if let LogicalPlan::Join(join) = plan {
                equal.extend(pairs(join).map(|(left, right)| (left.clone(), right.clone())));
            }
            few |= *plan == self.few;
        });
        Ok(few && are_equal(&self.few_column, &self.column, &equal))
    }

    /// The table in inner joins replaced by its picked rows.
    fn replaced(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        plan.transform_down(|plan| {
            if plan == self.few {
                return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
            }
            if is_read(&plan) && plan.schema().has_column(&self.column) && both(&self.table, &plan)?.is_some()
            {
                let column = [self.column.clone()];
                let nulls = NullEquality::NullEqualsNothing;
                let picked = semi(Arc::new(plan), column, self.partners.clone(), nulls)?;
                return Ok(Transformed::new(picked, true, TreeNodeRecursion::Jump));
            }
            let next = if is_passed(&plan) { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Jump };
            Ok(Transformed::new(plan, false, next))
        })
    }
}

/// The table that a column is read from, through what passes rows on.
fn table_of<'a>(plan: &'a LogicalPlan, column: &Column) -> Option<&'a LogicalPlan> {
    if is_read(plan) {
        return plan.schema().has_column(column).then_some(plan);
    }
    if !is_passed(plan) {
        return None;
    }
    plan.inputs().into_iter().find_map(|input| table_of(input, column))
}

fn is_inner(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join)
        if join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing)
}

/// Whether a plan gives no rows but those that it gets, with the names that they have.
fn is_passed(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => drops(projection),
        LogicalPlan::Filter(_) => true,
        other => is_inner(other),
    }
}

fn each_joined<'a>(plan: &'a LogicalPlan, see: &mut impl FnMut(&'a LogicalPlan)) {
    see(plan);
    if is_passed(plan) {
        plan.inputs().into_iter().for_each(|input| each_joined(input, see));
    }
}

/// Whether two columns are equal if these pairs are.
fn are_equal(one: &Column, other: &Column, pairs: &[(Column, Column)]) -> bool {
    let mut equal = vec![one];
    let mut at = 0;
    while let Some(column) = equal.get(at).copied() {
        for (left, right) in pairs {
            let next = if left == column { right } else { left };
            if (left == column || right == column) && !equal.contains(&next) {
                equal.push(next);
            }
        }
        at += 1;
    }
    equal.contains(&other)
}
