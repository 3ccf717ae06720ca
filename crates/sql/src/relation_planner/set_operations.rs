//! `intersect all`, `except all`, and `order by all` over a star.
//!
//! - `intersect all` and `except all` count equal rows: these are numbered on both sides, so that a row with
//!   its number is unique.
//! - `order by all` over a star needs the columns of the star.

use crate::syntax::ast::derived_table;
use crate::syntax::desugar::{MULTISET, ORDERED};
use crate::syntax::parse_query;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, SortExpr, WindowFunctionDefinition,
};
use datafusion::sql::planner::NullOrdering;
use datafusion::sql::sqlparser::ast::{OrderBy, OrderByKind, Query, SetExpr, SetOperator, TableFactor};

/// The number of a row among equal ones.
const NUMBER: &str = "__multiset_number";

/// Plans relations with a reserved name, and leaves all others to others.
#[derive(Debug)]
pub(crate) struct SetOperations;

impl RelationPlanner for SetOperations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let name = match &relation {
            TableFactor::Derived { alias: Some(alias), .. } => alias.name.value.as_str(),
            _ => "",
        };
        let plan = match name {
            MULTISET => plan_multiset(relation, context)?,
            ORDERED => plan_ordered(relation, context)?,
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// `intersect all` or `except all`, by numbered rows.
fn plan_multiset(relation: TableFactor, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let TableFactor::Derived { subquery, .. } = relation else { return internal_err!("no query") };
    let Query { body, .. } = *subquery;
    let SetExpr::SetOperation { op, left, right, .. } = *body else {
        return internal_err!("no set operation");
    };
    let left = with_numbers(context.plan(derived(*left)?)?, context)?;
    let right = with_numbers(context.plan(derived(*right)?)?, context)?;
    let kept = match op {
        SetOperator::Intersect => LogicalPlanBuilder::intersect(left, right, true)?,
        _ => LogicalPlanBuilder::except(left, right, true)?,
    };
    let mut columns = kept.schema().columns();
    columns.pop();
    LogicalPlanBuilder::from(kept).project(columns.into_iter().map(Expr::Column))?.build()
}

/// The rows, each with its number among equal ones, in a last column.
fn with_numbers(rows: LogicalPlan, context: &dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let Some(row_number) = context.context_provider().get_window_meta("row_number") else {
        return plan_err!("there is no function row_number");
    };
    let columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let number = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number), vec![]);
    let number = Expr::from(number).partition_by(columns.clone()).build()?;
    let windowed = LogicalPlanBuilder::from(rows).window([number])?;
    // The number is the last column of a window.
    let last = windowed.schema().columns().pop().map(|column| Expr::Column(column).alias(NUMBER));
    windowed.project(columns.into_iter().chain(last))?.build()
}

/// The rows ordered by all of their columns.
fn plan_ordered(relation: TableFactor, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let TableFactor::Derived { mut subquery, .. } = relation else { return internal_err!("no query") };
    let Some(OrderBy { kind: OrderByKind::All(options), .. }) = subquery.order_by.take() else {
        return internal_err!("no order");
    };
    let rows = context.plan(derived_table(*subquery)?)?;
    let ascending = options.asc.unwrap_or(true);
    let default_order = &context.context_provider().options().sql_parser.default_null_ordering;
    let nulls_first = options
        .nulls_first
        .unwrap_or_else(|| NullOrdering::from(default_order.as_str()).nulls_first(ascending));
    let columns = rows.schema().columns().into_iter().map(Expr::Column);
    let order: Vec<SortExpr> = columns.map(|column| column.sort(ascending, nulls_first)).collect();
    // The planner drops a sort in a relation unless a limit is above it. The optimizer drops this one, which
    // limits nothing.
    LogicalPlanBuilder::from(rows).sort(order)?.limit(0, None)?.build()
}

/// A body as a derived table.
fn derived(body: SetExpr) -> Result<TableFactor> {
    let mut query = parse_query("select 1")?;
    *query.body = body;
    derived_table(query)
}
