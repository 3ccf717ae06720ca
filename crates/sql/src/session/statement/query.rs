//! Queries of a session: their plans and streams.

use crate::session::state::Session;
use crate::stream::{emit, forgettable};
use crate::syntax::{Emit, normalize};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Query, Statement as Sql};
use whimbrel_plan::{Stream, source_of};

/// The stream of a query.
///
/// # Errors
/// `Plan` and `NotImplemented` if the query has no plan that can run.
pub(super) fn query_stream(session: &Session, query: Query, emit: Emit) -> Result<Stream> {
    of_query(session, query, emit, |plan| session.stream(plan))
}

/// Applies `make` to the plan of a query. A bounded stream is also a table: a query that has no meaning over
/// time is planned over the tables of its rows.
///
/// # Errors
/// Those of planning, and of `make`.
pub(super) fn of_query<T>(
    session: &Session,
    query: Query,
    emit: Emit,
    make: impl Fn(LogicalPlan) -> Result<T>,
) -> Result<T> {
    if emit.forgets() {
        check_forgettable(session, query.clone())?;
    }
    let is_final = emit == Emit::Final;
    let over_time = query_plan(session, query.clone(), emit).and_then(&make);
    if !is_final || !over_time.as_ref().is_err_and(is_refusal) {
        return over_time;
    }
    let over_tables = || {
        let plan = query_plan(session, query, Emit::CHANGES)?;
        match is_bounded(&plan)? {
            true => make(plan),
            false => plan_err!("rows are still coming"),
        }
    };
    // The query was over time, so its error is reported.
    over_tables().or(over_time)
}

/// Whether an error says that a query is not possible; others are bugs, which must not pass for that.
fn is_refusal(error: &DataFusionError) -> bool {
    !matches!(error.find_root(), DataFusionError::Internal(_))
}

/// Refuses a query over live sources whose windows cannot be forgotten one by one, by its plan for final
/// rows.
fn check_forgettable(session: &Session, query: Query) -> Result<()> {
    let plan = query_plan(session, query, Emit::Final)?;
    match is_bounded(&plan)? {
        true => Ok(()),
        false => forgettable::check(session.stream(plan)?.plan()),
    }
}

/// Whether all sources of a plan are bounded.
fn is_bounded(plan: &LogicalPlan) -> Result<bool> {
    let mut bounded = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            bounded &= source_of(scan).is_none_or(|source| source.info().bounded);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bounded)
}

/// A query as DataFusion plans it, not yet rewritten.
///
/// # Errors
/// Those of DataFusion's planner.
pub(super) fn query_plan(session: &Session, mut query: Query, emit: Emit) -> Result<LogicalPlan> {
    normalize::normalize(&mut query);
    let forgets = emit.forgets();
    let plan =
        session.planner(emit, |planner, _| planner.sql_statement_to_plan(Sql::Query(Box::new(query))))?;
    if forgets { emit::with_one_retention(plan) } else { Ok(plan) }
}
