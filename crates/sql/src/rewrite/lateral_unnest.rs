//! `from t, unnest(t.list) as u(x)`: the lists of a row as a table beside it.
//!
//! DataFusion plans the second table as a correlated subquery, for which its optimizer has no join. It needs
//! none: the lists are unnested in place, together with the other columns of their row.
//!
//! ```sql
//! select t.id, u.x from t, unnest(t.list) as u(x) where u.x > 0;
//! -- select id, x from (select *, unnest(list) as x from t) where x > 0
//! ```

use crate::tree::{transform_expr_up, transform_up_with_subqueries};
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery};

/// The plan with such tables unnested in place.
///
/// # Errors
/// `Plan` if a list cannot be unnested.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up_with_subqueries(plan, &mut |plan| match &plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && join.on.is_empty() => {
            match unnested_in_place(join)? {
                Some(unnested) => Ok(Transformed::yes(unnested)),
                None => Ok(Transformed::no(plan)),
            }
        }
        _ => Ok(Transformed::no(plan)),
    })
}

/// The rows of a join with such a table; `None` if the table is another.
fn unnested_in_place(join: &Join) -> Result<Option<LogicalPlan>> {
    let mut right = join.right.as_ref();
    while let LogicalPlan::SubqueryAlias(alias) = right {
        right = &alias.input;
    }
    let LogicalPlan::Subquery(Subquery { subquery, .. }) = right else { return Ok(None) };
    let Some(rows) = correlated_rows(subquery, &join.left)? else { return Ok(None) };
    let columns = rows.schema().columns().into_iter().zip(join.schema.iter());
    let named = columns.map(|(column, (qualifier, field))| {
        let same = column.relation.as_ref() == qualifier && column.name == *field.name();
        let value = Expr::Column(column);
        if same { value } else { value.alias_qualified(qualifier.cloned(), field.name()) }
    });
    let named = LogicalPlanBuilder::from(rows).project(named.collect::<Vec<_>>())?;
    Ok(Some(match &join.filter {
        Some(condition) => named.filter(condition.clone())?.build()?,
        None => named.build()?,
    }))
}

/// What a subquery computes of one outer row, for all rows at once, behind the columns of the rows. `None` if
/// it reads anything but the row.
fn correlated_rows(plan: &LogicalPlan, rows: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => Some(rows.clone()),
        LogicalPlan::Projection(projection) => {
            let Some(input) = correlated_rows(&projection.input, rows)? else { return Ok(None) };
            let own = projection.expr.iter().cloned().map(decorrelated).collect::<Result<Vec<_>>>()?;
            let columns = rows.schema().columns().into_iter().map(Expr::Column);
            Some(LogicalPlanBuilder::from(input).project(columns.chain(own).collect::<Vec<_>>())?.build()?)
        }
        LogicalPlan::Unnest(unnest) => {
            let Some(input) = correlated_rows(&unnest.input, rows)? else { return Ok(None) };
            let columns = unnest.exec_columns.clone();
            let unnested = LogicalPlanBuilder::from(input)
                .unnest_columns_with_options(columns, unnest.options.clone())?;
            Some(unnested.build()?)
        }
        _ => None,
    })
}

/// The expression with outer columns as plain columns; it keeps its name.
fn decorrelated(expr: Expr) -> Result<Expr> {
    let name = expr.schema_name().to_string();
    let decorrelated = transform_expr_up(expr, &mut |e| match e {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(match decorrelated.transformed && decorrelated.data.schema_name().to_string() != name {
        true => decorrelated.data.alias(name),
        false => decorrelated.data,
    })
}
