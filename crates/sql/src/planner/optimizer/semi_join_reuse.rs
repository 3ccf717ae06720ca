//! A semi-joined table serves a query and its subquery (Zuzarte et al. 2003).
//!
//! In `few join many on k join (select k, avg(x) from many group by k) on k`, [`super::semi_join_reduction`]
//! has reduced the aggregated `many` to rows with a partner in `few`. Here the other `many` is reduced to the
//! same rows, so that the table is read once.
//!
//! Invariant: a table is replaced only in inner joins that compare its column with that of the reducer.

use super::common_joins::{is_column_selection, unify};
use super::semi_join::{pairs, reducer, semi_join};
use super::semi_join_prefilter::is_scan;
use crate::tree::{is_same_plan, transform_down, visit_plan};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Join, LogicalPlan};
use std::sync::Arc;

/// Reuses semi-joined tables wherever the same rows are joined.
///
/// # Errors
/// `Plan` if a semi join cannot be built.
pub(super) fn reuse_semi_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut reduced = Vec::new();
    visit_plan(&plan, &mut |plan| {
        if let LogicalPlan::Join(join) = plan
            && let Some(table) = ReducedTable::of(join)
        {
            reduced.push(table);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    reduced.into_iter().try_fold(plan, |plan, table| table.reuse_in(plan))
}

/// The rows of a table that have a partner in a reducer.
struct ReducedTable {
    /// The semi join.
    semi: LogicalPlan,
    /// The scan of the table.
    table: LogicalPlan,
    /// The key column of the table.
    column: Column,
    /// The keys of the semi join; the reducer that they are of, and their column there.
    keys: LogicalPlan,
    /// The plan of the partners.
    reducer: LogicalPlan,
    /// The key column of the reducer.
    reducer_column: Column,
}

impl ReducedTable {
    /// The table that a semi join by one column reduces.
    fn of(join: &Join) -> Option<ReducedTable> {
        let (reducer, reducer_column) = reducer(join)?;
        let mut pairs = pairs(join);
        let (Some((column, _)), None) = (pairs.next(), pairs.next()) else { return None };
        let table = table_of(&join.left, column)?;
        Some(ReducedTable {
            semi: LogicalPlan::Join(join.clone()),
            table: table.clone(),
            column: column.clone(),
            keys: join.right.as_ref().clone(),
            reducer: reducer.clone(),
            reducer_column: reducer_column.clone(),
        })
    }

    /// The plan that reuses these rows, if they are joined elsewhere too.
    fn reuse_in(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let mut places = 0;
        let rewritten = transform_down(plan.clone(), &mut |plan| {
            if is_same_plan(&plan, &self.semi) {
                let rows = plan.inputs()[0].clone();
                let rows = self.replaced(rows)?.data;
                return Ok(Transformed::new(rows, true, TreeNodeRecursion::Jump));
            }
            if !is_inner(&plan) || !self.is_joined_in(&plan)? {
                return Ok(Transformed::no(plan));
            }
            let replaced = self.replaced(plan)?;
            places += usize::from(replaced.transformed);
            Ok(Transformed::new(replaced.data, replaced.transformed, TreeNodeRecursion::Jump))
        });
        Ok(if places > 0 { rewritten.data()? } else { plan })
    }

    /// Whether inner joins at the top of a plan join the table with the reducer by this column.
    fn is_joined_in(&self, plan: &LogicalPlan) -> Result<bool> {
        let (mut equal, mut has_reducer) = (Vec::new(), false);
        for_each_joined(plan, &mut |plan| {
            if let LogicalPlan::Join(join) = plan {
                equal.extend(pairs(join).map(|(left, right)| (left.clone(), right.clone())));
            }
            has_reducer |= is_same_plan(plan, &self.reducer);
        });
        Ok(has_reducer && are_equal(&self.reducer_column, &self.column, &equal))
    }

    /// The plan with the table in inner joins replaced by the rows that have a partner.
    fn replaced(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        transform_down(plan, &mut |plan| {
            if is_same_plan(&plan, &self.reducer) {
                return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
            }
            if is_scan(&plan)
                && plan.schema().has_column(&self.column)
                && unify(&self.table, &plan)?.is_some()
            {
                let column = [self.column.clone()];
                let nulls = NullEquality::NullEqualsNothing;
                let reduced = semi_join(Arc::new(plan), column, self.keys.clone(), nulls)?;
                return Ok(Transformed::new(reduced, true, TreeNodeRecursion::Jump));
            }
            let next = if passes_rows(&plan) { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Jump };
            Ok(Transformed::new(plan, false, next))
        })
    }
}

/// The scan that a column is read from, through operators that pass rows on.
fn table_of<'a>(plan: &'a LogicalPlan, column: &Column) -> Option<&'a LogicalPlan> {
    if is_scan(plan) {
        return plan.schema().has_column(column).then_some(plan);
    }
    if !passes_rows(plan) {
        return None;
    }
    plan.inputs().into_iter().find_map(|input| table_of(input, column))
}

/// Whether a plan is an inner join by `=`.
fn is_inner(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join)
        if join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing)
}

/// Whether an operator passes on rows of its inputs, with their names.
fn passes_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_column_selection(projection),
        LogicalPlan::Filter(_) => true,
        other => is_inner(other),
    }
}

/// Visits a plan and what is joined below operators that pass rows on.
fn for_each_joined<'a>(plan: &'a LogicalPlan, visit: &mut dyn FnMut(&'a LogicalPlan)) {
    visit(plan);
    if passes_rows(plan) {
        plan.inputs().into_iter().for_each(|input| for_each_joined(input, visit));
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
