//! `match_recognize`: patterns in the rows of a table or of a stream (ISO/IEC 9075-2:2016, *row pattern
//! recognition*).
//!
//! ```sql
//! select * from quotes match_recognize (
//!     partition by symbol order by time
//!     measures first(down.price) as high, last(down.price) as low, last(up.price) as now
//!     after match skip past last row
//!     pattern (start down+ up+) within interval '1' hour
//!     define down as price < prev(price), up as price > prev(price)
//! )
//! ```
//!
//! Over a stream with time it is a node of the plan, and a match comes when it is certain, at the time of its
//! last row. Over a table it is a window function: the rows of a partition in any order.
//!
//! Differences from the standard: `within` (Flink's) bounds the time of a match; a pattern that may match no
//! row, anchors, `next` and `with unmatched rows` are refused.
//!
//! Layers: `variables` reads the pattern; `register`, `navigation` compile expressions; `compiled` puts both
//! together; here the result becomes a plan.

mod compiled;
mod navigation;
mod register;
mod variables;

use super::table_function::length;
use super::time_column::check_time_column;
use crate::columns::with_unique_names;
use compiled::{Clauses, Compiled};
use datafusion::common::{Column, Result, plan_err};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, WindowFunctionDefinition,
};
use datafusion::sql::planner::NullOrdering;
use datafusion::sql::sqlparser::ast::{self, OrderByExpr, TableFactor};
use whimbrel_plan::{REGISTER, RowPatternFunction, Stream, column, properties};

/// The matches that end at a row.
const MATCHES: &str = "__matches";

/// Plans `match_recognize`, and leaves all other relations to others.
#[derive(Debug)]
pub(crate) struct MatchRecognize;

impl RelationPlanner for MatchRecognize {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::MatchRecognize {
            table,
            partition_by,
            order_by,
            measures,
            rows_per_match,
            after_match_skip,
            pattern,
            symbols,
            alias,
        } = relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let clauses = Clauses { measures, rows_per_match, after_match_skip, pattern, symbols };
        let input = with_unique_names(context.plan(clauses.table(*table)?)?)?;
        let mut partition = Vec::with_capacity(partition_by.len());
        for by in &partition_by {
            match context.sql_to_expr(by.clone(), input.schema())? {
                Expr::Column(column) => partition.push(column.name),
                _ => {
                    return plan_err!(
                        "match_recognize: {by} is no column; compute it before, and partition by its name"
                    );
                }
            }
        }
        let plan = match properties(&input)?.time {
            Some(clock) => {
                let order = stream_order(&order_by, &input, context)?;
                check_time_column(&Stream::from_plan(input.clone())?, &order, &clock)?;
                let mut within = |given: &ast::Expr| {
                    let planned = context.sql_to_expr(given.clone(), input.schema())?;
                    length(given, planned, "match_recognize: within")?
                        .positive_ticks(&clock, "match_recognize: within")
                };
                let within = clauses.within().map(&mut within).transpose()?;
                let compiled = Compiled::new(&clauses, input.schema(), context, None)?;
                over_stream(input, partition, compiled, within)?
            }
            None => {
                let compiled = Compiled::new(&clauses, input.schema(), context, order_by.first())?;
                let order = order_by.iter().map(|by| sort(by, &input, context)).collect::<Result<_>>()?;
                over_table(input, &partition, order, compiled)?
            }
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

/// The column that a stream is ordered by.
fn stream_order(
    order_by: &[OrderByExpr],
    input: &LogicalPlan,
    context: &mut dyn RelationPlannerContext,
) -> Result<String> {
    if let [by] = order_by
        && by.options.asc != Some(false)
        && let Expr::Column(column) = context.sql_to_expr(by.expr.clone(), input.schema())?
    {
        return Ok(column.name);
    }
    plan_err!(
        "match_recognize: the rows of a stream come in the order of its time, and those of one instant in that of their \
         values; write order by and the column that the stream has its time from"
    )
}

/// A part of the order of a table.
fn sort(by: &OrderByExpr, input: &LogicalPlan, context: &mut dyn RelationPlannerContext) -> Result<Sort> {
    let asc = by.options.asc.unwrap_or(true);
    let default = &context.context_provider().options().sql_parser.default_null_ordering;
    let nulls_first =
        by.options.nulls_first.unwrap_or_else(|| NullOrdering::from(default.as_str()).nulls_first(asc));
    Ok(context.sql_to_expr(by.expr.clone(), input.schema())?.sort(asc, nulls_first))
}

/// The matches in a stream.
fn over_stream(
    input: LogicalPlan,
    partition: Vec<String>,
    compiled: Compiled,
    within: Option<i64>,
) -> Result<LogicalPlan> {
    let rows = whimbrel_plan::RowPattern { within, ..compiled.pattern.clone() };
    let by = partition.iter().map(column).collect();
    let matches = Stream::from_plan(input)?.rekey(by)?.match_recognize(&rows)?;
    compiled.output(matches.plan().clone(), &partition, &|field| column(field))
}

/// The matches in the partitions of a table.
fn over_table(
    input: LogicalPlan,
    partition: &[String],
    order: Vec<Sort>,
    compiled: Compiled,
) -> Result<LogicalPlan> {
    let rows = compiled.pattern.typed(input.schema())?;
    let columns: Vec<String> = rows.columns_read().into_iter().collect();
    let arguments = columns.iter().map(column).collect();
    let function = RowPatternFunction::over_columns(rows, columns);
    let function = WindowFunctionDefinition::WindowUDF(function);
    let matches = Expr::from(WindowFunction::new(function, arguments))
        .partition_by(partition.iter().map(column).collect())
        .order_by(order)
        .build()?
        .alias(MATCHES);
    let kept: Vec<Expr> = partition.iter().map(column).chain([column(MATCHES)]).collect();
    let matches = LogicalPlanBuilder::from(input)
        .window([matches])?
        .project(kept)?
        .unnest_column(Column::from_name(MATCHES))?
        .filter(column(MATCHES).is_not_null())?
        .build()?;
    compiled.output(matches, partition, &|field| get_field(column(MATCHES), field))
}

/// Whether a column is one of the register.
fn is_of_register(column: &Column) -> bool {
    column.relation.as_ref().is_some_and(|table| table.table() == REGISTER)
}
