//! Subqueries in the condition of a join: DataFusion's optimizer has joins for those in filters and
//! projections only.
//!
//! In an inner join they become a filter above it. In an outer join each becomes a column of the side whose
//! columns it reads.
//!
//! ```sql
//! select * from t join u on t.k = u.k and t.x > (select avg(x) from v);
//! -- select * from t join u on t.k = u.k where t.x > (select avg(x) from v)
//! select * from t left join u on t.k = u.k and u.x > (select avg(x) from v);
//! -- select * from t left join (select *, u.x > (select avg(x) from v) as c from u) u on t.k = u.k and c
//! ```

use super::expressions::contains_subquery;
use crate::columns::fresh_name;
use crate::tree::{transform_up_with_subqueries, visit_expr};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, plan_err};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Subquery, ident, lit};
use std::sync::Arc;

/// The plan without subqueries in the conditions of joins.
///
/// # Errors
/// `Plan` if a subquery of an outer join reads columns of both sides.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up_with_subqueries(plan, &mut |plan| match plan {
        LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(contains_subquery) => {
            Ok(Transformed::yes(without_subqueries(join)?))
        }
        _ => Ok(Transformed::no(plan)),
    })
}

/// The join without subqueries in its condition.
fn without_subqueries(join: Join) -> Result<LogicalPlan> {
    let terms = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
    let (subqueries, mut conditions): (Vec<Expr>, Vec<Expr>) = terms.into_iter().partition(contains_subquery);
    if join.join_type == JoinType::Inner {
        let joined = LogicalPlan::Join(Join { filter: conjunction(conditions), ..join });
        let predicate = subqueries.into_iter().reduce(Expr::and).unwrap_or_else(|| lit(true));
        return Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(joined))?));
    }
    let outputs: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let (mut left, mut right) = (vec![], vec![]);
    for term in subqueries {
        let columns = columns_read(&term);
        let name = fresh_name("on");
        let only = |side: &LogicalPlan| columns.iter().all(|column| side.schema().has_column(column));
        match (only(&join.left), only(&join.right)) {
            (true, _) => left.push(term.alias(&name)),
            (false, true) => right.push(term.alias(&name)),
            (false, false) => {
                return plan_err!(
                    "a subquery in the condition of an outer join reads columns of both of its sides; compute its value on one \
                     of them before"
                );
            }
        }
        conditions.push(ident(name));
    }
    let joined = Join::try_new(
        with_columns(&join.left, left)?,
        with_columns(&join.right, right)?,
        join.on,
        conjunction(conditions),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(outputs)?.build()
}

/// The rows with more columns.
fn with_columns(rows: &Arc<LogicalPlan>, more: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    if more.is_empty() {
        return Ok(Arc::clone(rows));
    }
    let columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).chain(more).collect();
    Ok(Arc::new(LogicalPlanBuilder::from(rows.as_ref().clone()).project(columns)?.build()?))
}

/// The columns of the join that an expression reads, its subqueries included.
fn columns_read(expr: &Expr) -> Vec<Column> {
    let mut columns = Vec::new();
    // The visitor never fails.
    let _ = visit_expr(expr, &mut |e| {
        match e {
            Expr::Column(column) => columns.push(column.clone()),
            Expr::ScalarSubquery(Subquery { subquery, .. })
            | Expr::Exists(Exists { subquery: Subquery { subquery, .. }, .. })
            | Expr::InSubquery(InSubquery { subquery: Subquery { subquery, .. }, .. }) => {
                let read = subquery.all_out_ref_exprs();
                columns.extend(read.into_iter().filter_map(|e| match e {
                    Expr::OuterReferenceColumn(_, column) => Some(column),
                    _ => None,
                }));
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    columns
}
