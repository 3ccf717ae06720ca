//! Queries of a session: their plans and streams.

use crate::session::state::Session;
use crate::syntax::{Emit, normalize};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Query, Statement as Sql};
use whimbrel_plan::{Stream, source_of};

/// The stream that a query is.
pub(super) fn query_stream(session: &Session, query: Query, emit: Emit) -> Result<Stream> {
    of_query(session, query, emit, |plan| session.stream(plan))
}

/// What is made of a query's plan. Streams that end are also tables: a query that cannot be said of them over time is made
/// over the tables of their rows.
pub(super) fn of_query<T>(
    session: &Session,
    query: Query,
    emit: Emit,
    make: impl Fn(LogicalPlan) -> Result<T>,
) -> Result<T> {
    let over_time = query_plan(session, query.clone(), emit).and_then(&make);
    if over_time.is_ok() || emit == Emit::Changes {
        return over_time;
    }
    let over_tables = || {
        let plan = query_plan(session, query, Emit::Changes)?;
        match ends(&plan)? {
            true => make(plan),
            false => plan_err!("rows are still coming"),
        }
    };
    // What was asked for was over time, and so is what is wrong with it.
    over_tables().or(over_time)
}

/// Whether all that a plan reads ends.
fn ends(plan: &LogicalPlan) -> Result<bool> {
    let mut ends = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            ends &= source_of(scan).is_none_or(|source| source.info().bounded);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(ends)
}

/// A query as DataFusion plans it, not yet optimized.
pub(super) fn query_plan(session: &Session, mut query: Query, emit: Emit) -> Result<LogicalPlan> {
    normalize::normalize(&mut query);
    session.planner(emit, |planner, _| planner.sql_statement_to_plan(Sql::Query(Box::new(query))))
}
