//! The groups of a pivot: the columns of its table that are neither aggregated nor pivoted. Aggregates and
//! pivoted values are in the tree already.

use crate::syntax::ast::derived_table;
use crate::syntax::desugar::PIVOTED;
use crate::syntax::names;
use datafusion::common::{Column, HashSet, Result, internal_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, TableFactor};

/// Adds the groups to pivots, and leaves all other relations to others.
#[derive(Debug)]
pub(crate) struct Pivot;

impl RelationPlanner for Pivot {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::Derived { subquery, alias: Some(alias), .. } if alias.name.value == PIVOTED => {
                let plan = plan_pivot(*subquery, context)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

/// The pivot with its groups selected and grouped by.
fn plan_pivot(mut query: Query, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let Some(select) = selected(&mut query) else { return internal_err!("a pivot is no select") };
    let Some(from) = select.from.first() else { return internal_err!("a pivot reads no table") };
    let rows = context.plan(from.relation.clone())?;
    let mut read: HashSet<Column> = HashSet::new();
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { expr, .. } = item {
            let value = context.sql_to_expr(expr.clone(), rows.schema())?;
            read.extend(value.column_refs().into_iter().cloned());
        }
    }
    let columns = rows.schema().columns().into_iter();
    let groups: Vec<Expr> = columns.filter(|column| !read.contains(column)).map(names::column).collect();
    let items = groups.iter().cloned().map(SelectItem::UnnamedExpr);
    select.projection = items.chain(std::mem::take(&mut select.projection)).collect();
    select.group_by = GroupByExpr::Expressions(groups, vec![]);
    context.plan(derived_table(query)?)
}

/// The select of a query.
fn selected(query: &mut Query) -> Option<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}
