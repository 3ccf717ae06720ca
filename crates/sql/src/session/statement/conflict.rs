//! Clauses of a change: `on conflict`, `insert or ignore`, `replace into`; and `returning`.
//!
//! ```sql
//! insert into t values (1, 2) on conflict (k) do update set x = t.x + excluded.x where t.x < 10;
//! insert or replace into t values (1, 2) returning k, x;
//! ```

use super::query::query_plan;
use super::target::{Qualify, Target, assignments};
use crate::session::planned::{Conflict, Merge, Returning};
use crate::session::state::Session;
use crate::syntax::names;
use crate::syntax::walk::walk_mut;
use crate::syntax::{Emit, parse_query};
use datafusion::common::{DFSchema, Result, TableReference, plan_err};
use datafusion::logical_expr::{ExprSchemable, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    ConflictTarget, DoUpdate, Expr, Ident, Insert, OnConflict, OnConflictAction, OnInsert, SelectItem,
    SqliteOnConflict,
};
use std::sync::Arc;
use whimbrel_plan::names::unknown_column;

/// Takes the conflict clause from an insert.
///
/// # Errors
/// `Plan` if a column is unknown, or the clauses contradict each other.
pub(super) fn conflict(session: &Session, target: &Target, insert: &mut Insert) -> Result<Conflict> {
    let ignore = std::mem::take(&mut insert.ignore);
    let replace = std::mem::take(&mut insert.replace_into);
    match (insert.or.take(), insert.on.take()) {
        (Some(SqliteOnConflict::Replace), None) => Ok(Conflict::Replace),
        (Some(SqliteOnConflict::Ignore), None) => Ok(Conflict::Skip(None)),
        (Some(_), None) => Ok(Conflict::Fail),
        (None, None) if replace => Ok(Conflict::Replace),
        (None, None) if ignore => Ok(Conflict::Skip(None)),
        (None, None) => Ok(Conflict::Fail),
        (None, Some(OnInsert::OnConflict(on))) => on_conflict(session, target, on),
        (None, Some(_)) => {
            plan_err!("insert into {}: write on conflict (…) do update set …", target.table)
        }
        (Some(_), Some(_)) => {
            plan_err!("insert into {}: write either insert or …, or on conflict", target.table)
        }
    }
}

/// `on conflict (…) do nothing` or `do update`.
fn on_conflict(session: &Session, target: &Target, on: OnConflict) -> Result<Conflict> {
    let columns = match on.conflict_target {
        None => None,
        Some(ConflictTarget::Columns(columns)) => {
            let positions = columns.iter().map(|column| position(session, target, &names::ident(column)));
            Some(positions.collect::<Result<Vec<_>>>()?)
        }
        Some(ConflictTarget::OnConstraint(name)) => {
            return plan_err!("on conflict: constraints have no names; give the columns of {name}");
        }
    };
    match on.action {
        OnConflictAction::DoNothing => Ok(Conflict::Skip(columns)),
        OnConflictAction::DoUpdate(update) => {
            let keys = &session.memory(&target.table)?.constraints.keys;
            let key = match (columns, keys.as_slice()) {
                (Some(columns), _) => columns,
                (None, [only]) => only.columns.clone(),
                (None, _) => return plan_err!("on conflict do update: give the columns, on conflict (…)"),
            };
            Ok(Conflict::Update(merge(session, target, key, update)?))
        }
    }
}

/// The position of a column of the target.
fn position(session: &Session, target: &Target, column: &str) -> Result<usize> {
    let schema = session.tables[&target.table].stream.schema();
    schema.index_of(column).map_err(|_| {
        let known: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        unknown_column(column, &known)
    })
}

/// `do update set … where …`, over the columns of the existing row and of `excluded`.
fn merge(session: &Session, target: &Target, key: Vec<usize>, mut update: DoUpdate) -> Result<Merge> {
    let schema = session.tables[&target.table].stream.schema();
    let table = match &target.alias {
        Some(alias) => names::ident(alias),
        None => target.table.clone(),
    };
    let columns = DFSchema::try_from_qualified_schema(TableReference::bare(table.clone()), schema)?
        .join(&DFSchema::try_from_qualified_schema("excluded", schema)?)?;
    let mut qualify = Qualify { table: Ident::with_quote('"', table) };
    // The visitor never breaks off.
    let _ = walk_mut(&mut update.assignments, &mut qualify);
    let _ = walk_mut(&mut update.selection, &mut qualify);
    let value = |expr: &Expr| {
        session.planner(Emit::Final, |p, _| p.sql_to_expr(expr.clone(), &columns, &mut Default::default()))
    };
    let mut assigned = Vec::new();
    for (column, expr) in assignments(&target.table, &update.assignments)? {
        let at = position(session, target, &column)?;
        assigned.push((at, value(expr)?.cast_to(schema.field(at).data_type(), &columns)?));
    }
    let condition = update.selection.as_ref().map(value).transpose()?;
    Ok(Merge { key, assigned, condition, columns: Arc::new(columns) })
}

/// The `returning` clause: expressions over the written rows.
///
/// # Errors
/// Those of planning the expressions.
pub(super) fn returning(
    session: &Session,
    target: &Target,
    items: Option<Vec<SelectItem>>,
) -> Result<Option<Returning>> {
    let Some(items) = items else { return Ok(None) };
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    let query = format!("select {} from {}", items.join(", "), target.relation());
    match query_plan(session, parse_query(&query)?, Emit::Final)? {
        LogicalPlan::Projection(projection) => Ok(Some(Returning {
            columns: projection.input.schema().clone(),
            schema: projection.schema.inner().clone(),
            values: projection.expr,
        })),
        _ => plan_err!("returning takes columns of {}, and what is computed of one row of it", target.table),
    }
}
