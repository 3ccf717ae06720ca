//! `insert`, `delete`, `update`, `truncate`: changes of tables in memory, each a query whose rows the table
//! gets.

use super::{only_table, plan};
use crate::catalog::{TableKind, find};
use crate::dialect::{self, Spelling};
use crate::error::unknown_table;
use crate::names;
use crate::planned::{Planned, Store, StoreMode};
use crate::session::Session;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Delete, Expr, FromTable, Ident, Insert, ObjectName, Statement as Sql, TableObject,
    Truncate, Update,
};
use std::sync::Arc;

/// The name of a table that can be written into, as the session knows it.
fn writable(session: &Session, given: &ObjectName) -> Result<String> {
    let name = names::table(given)?;
    let Some((key, table)) = find(&session.tables, &name) else {
        let known: Vec<&str> = session.tables.keys().map(String::as_str).collect();
        return Err(unknown_table(&name, &known));
    };
    match table.kind {
        TableKind::Memory(_) => Ok(key.clone()),
        _ => plan_err!(
            "{key:?} cannot be written into, only tables made by create table can; copy (…) to '…' writes a file"
        ),
    }
}

pub(super) fn insert(session: &Session, mut insert: Insert) -> Result<Planned> {
    let TableObject::TableName(given) = &insert.table else {
        return plan_err!("insert into what? give the name of a table");
    };
    let table = writable(session, given)?;
    if insert.returning.is_some() || insert.on.is_some() {
        return plan_err!("insert into {table}: returning and on conflict are not there; leave them out");
    }
    if let Some(query) = &mut insert.source {
        names::prepare(query);
    }
    let mode = if insert.overwrite { StoreMode::Replace } else { StoreMode::Append };
    let planned = session.planner(|p, _| p.sql_statement_to_plan(Sql::Insert(insert)))?;
    let LogicalPlan::Dml(dml) = planned else {
        return internal_err!("insert was planned as {}", planned.display());
    };
    let stream = session.stream(Arc::unwrap_or_clone(dml.input))?;
    Ok(Planned::Store { stream, store: Store { table, mode } })
}

pub(super) fn delete(session: &mut Session, delete: &Delete) -> Result<Planned> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    if delete.using.is_some() || delete.returning.is_some() || delete.limit.is_some() {
        return plan_err!("delete takes a table and a condition; leave out using, returning and limit");
    }
    let given = only_table(from)?;
    let table = writable(session, given)?;
    let kept = match &delete.selection {
        Some(selection) => format!("({selection}) is not true"),
        None => "false".to_string(),
    };
    rewritten(session, &table, &format!("insert into {given} select * from {given} where {kept}"))
}

pub(super) fn update(session: &mut Session, update: &Update) -> Result<Planned> {
    if update.from.is_some() || update.returning.is_some() || update.limit.is_some() {
        return plan_err!(
            "update takes a table, values and a condition; leave out from, returning and limit"
        );
    }
    let given = only_table(std::slice::from_ref(&update.table))?;
    let table = writable(session, given)?;
    let mut values: Vec<(String, &Expr)> = Vec::new();
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(column) = &assignment.target else {
            return plan_err!("update {table}: set one column at a time, set a = …, b = …");
        };
        values.push((names::table(column)?, &assignment.value));
    }
    let schema = session.tables[&table].stream.schema().clone();
    if let Some((unknown, _)) = values.iter().find(|(c, _)| schema.field_with_name(c).is_err()) {
        let known: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        return Err(whimbrel_plan::names::unknown_column(unknown, &known));
    }
    let columns = schema.fields().iter().map(|field| {
        let name = Ident::with_quote('"', field.name());
        match (values.iter().find(|(c, _)| c == field.name()), &update.selection) {
            (None, _) => name.to_string(),
            (Some((_, value)), None) => format!("{value} as {name}"),
            (Some((_, value)), Some(only)) => {
                format!("case when {only} then {value} else {name} end as {name}")
            }
        }
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    rewritten(session, &table, &format!("insert into {given} select {columns} from {given}"))
}

pub(super) fn truncate(session: &mut Session, truncate: &Truncate) -> Result<Planned> {
    for target in &truncate.table_names {
        let table = writable(session, &target.name)?;
        let schema = session.tables[&table].stream.schema().clone();
        session.keep(&table, schema, vec![])?;
    }
    Ok(Planned::Done("truncated".to_string()))
}

/// The insert that gives the table all rows it shall have, in place of those it has.
fn rewritten(session: &mut Session, table: &str, insert: &str) -> Result<Planned> {
    match plan(session, dialect::parse(insert, &Spelling::new())?.0)? {
        Planned::Store { stream, .. } => {
            let store = Store { table: table.to_string(), mode: StoreMode::Replace };
            Ok(Planned::Store { stream, store })
        }
        _ => internal_err!("an insert was planned as something else"),
    }
}
