//! Expressions in `rollup`, `cube` and `grouping sets`, which the runtimes have for columns only: computed
//! before.
//!
//! ```sql
//! select x + 1, count(*) from t group by rollup (x + 1);
//! -- select key, count(*) from (select x, x + 1 as key from t) group by rollup (key)
//! ```

use crate::columns::fresh_name;
use crate::tree::{is_same_expr, transform_expr_down, transform_up_with_subqueries};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, ident};
use std::sync::Arc;

/// The plan with grouping sets of columns.
///
/// # Errors
/// `Plan` if the columns cannot be computed.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up_with_subqueries(plan, &mut |plan| match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let keys = computed(&aggregate.group_expr);
            match keys.is_empty() {
                true => Ok(Transformed::no(LogicalPlan::Aggregate(aggregate))),
                false => Ok(Transformed::yes(over_columns(aggregate, keys)?)),
            }
        }
        plan => Ok(Transformed::no(plan)),
    })
}

/// The different expressions in grouping sets that are no columns.
fn computed(groups: &[Expr]) -> Vec<Expr> {
    let mut found: Vec<Expr> = vec![];
    for group in groups {
        let Expr::GroupingSet(sets) = group else { continue };
        let exprs: Vec<&Expr> = match sets {
            GroupingSet::Rollup(exprs) | GroupingSet::Cube(exprs) => exprs.iter().collect(),
            GroupingSet::GroupingSets(sets) => sets.iter().flatten().collect(),
        };
        for expr in exprs {
            if !matches!(expr, Expr::Column(_)) && !found.iter().any(|known| is_same_expr(known, expr)) {
                found.push(expr.clone());
            }
        }
    }
    found
}

/// The aggregate with its keys computed before it, and its columns under their names.
fn over_columns(aggregate: Aggregate, keys: Vec<Expr>) -> Result<LogicalPlan> {
    let names: Vec<String> = keys.iter().map(|_| fresh_name("key")).collect();
    let columns = aggregate.input.schema().columns().into_iter().map(Expr::Column);
    let values = keys.iter().zip(&names).map(|(key, name)| key.clone().alias(name));
    let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(aggregate.input))
        .project(columns.chain(values).collect::<Vec<_>>())?
        .build()?;
    let by_column = |expr: Expr| -> Result<Expr> {
        let replaced =
            transform_expr_down(expr, &mut |e| match keys.iter().position(|key| is_same_expr(key, &e)) {
                Some(at) => Ok(Transformed::new(ident(&names[at]), true, TreeNodeRecursion::Jump)),
                None => Ok(Transformed::no(e)),
            })?;
        Ok(replaced.data)
    };
    let groups = aggregate.group_expr.into_iter().map(by_column).collect::<Result<Vec<_>>>()?;
    let values = aggregate.aggr_expr.into_iter().map(by_column).collect::<Result<Vec<_>>>()?;
    let grouped = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, values)?);
    let known = aggregate.schema.columns();
    // The number of the set is for `grouping` alone, which becomes an expression of it later.
    let renamed = grouped.schema().columns().into_iter().zip(known);
    let renamed = renamed.filter(|(new, _)| new.name != Aggregate::INTERNAL_GROUPING_ID);
    let renamed = renamed.map(|(new, old)| Expr::Column(new).alias_qualified(old.relation, old.name));
    LogicalPlanBuilder::from(grouped.clone()).project(renamed.collect::<Vec<_>>())?.build()
}
