//! Lists of a row as a table beside it: `from t, unnest(t.list) as u(x)`.
//!
//! DataFusion plans the second table as a subquery that reads columns from outside, for which its optimizer has no
//! join. It is no join: the lists are unnested where the rows are, and the other columns go along.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery};

/// The same plan, such tables unnested in place.
pub(crate) fn unnested(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| match &plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && join.on.is_empty() => {
            match in_place(join)? {
                Some(unnested) => Ok(Transformed::yes(unnested)),
                None => Ok(Transformed::no(plan)),
            }
        }
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

fn in_place(join: &Join) -> Result<Option<LogicalPlan>> {
    let mut right = join.right.as_ref();
    while let LogicalPlan::SubqueryAlias(alias) = right {
        right = &alias.input;
    }
    let LogicalPlan::Subquery(Subquery { subquery, .. }) = right else { return Ok(None) };
    let Some(rows) = along(subquery, &join.left)? else { return Ok(None) };
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

/// What is computed for one row from outside, for all rows at once: behind the columns of the rows. `None` if it reads
/// anything but the row.
fn along(plan: &LogicalPlan, rows: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => Some(rows.clone()),
        LogicalPlan::Projection(projection) => {
            let Some(input) = along(&projection.input, rows)? else { return Ok(None) };
            let own = projection.expr.iter().cloned().map(inside).collect::<Result<Vec<_>>>()?;
            let columns = rows.schema().columns().into_iter().map(Expr::Column);
            Some(LogicalPlanBuilder::from(input).project(columns.chain(own).collect::<Vec<_>>())?.build()?)
        }
        LogicalPlan::Unnest(unnest) => {
            let Some(input) = along(&unnest.input, rows)? else { return Ok(None) };
            let columns = unnest.exec_columns.clone();
            let unnested = LogicalPlanBuilder::from(input)
                .unnest_columns_with_options(columns, unnest.options.clone())?;
            Some(unnested.build()?)
        }
        _ => None,
    })
}

/// The expression where columns from outside are columns; it keeps its name.
fn inside(expr: Expr) -> Result<Expr> {
    let name = expr.schema_name().to_string();
    let inside = expr.transform_up(|e| match e {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(match inside.transformed && inside.data.schema_name().to_string() != name {
        true => inside.data.alias(name),
        false => inside.data,
    })
}
