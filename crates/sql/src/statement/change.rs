//! `insert`, `delete`, `update`, `truncate`: changes of tables in memory, each a query whose rows the table
//! gets.

use super::{only_table, plan};
use crate::catalog::{Memory, TableKind, find};
use crate::dialect::{self, Spelling};
use crate::emit::Emit;
use crate::error::unknown_table;
use crate::names;
use crate::planned::{Planned, Store, StoreMode};
use crate::session::Session;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Delete, Expr, FromTable, Ident, Insert, ObjectName, SetExpr, Statement as Sql,
    TableObject, Truncate, Update, Values,
};
use std::sync::Arc;

/// The name of a table that can be written into, as the session knows it.
pub(super) fn writable(session: &Session, given: &ObjectName) -> Result<String> {
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
    leave_out_defaults(&mut insert, session.tables[&table].stream.schema())?;
    if let Some(query) = &mut insert.source {
        names::prepare(query);
    }
    let mode = if insert.overwrite { StoreMode::Replace } else { StoreMode::Append };
    let planned = session.planner(Emit::Final, |p, _| p.sql_statement_to_plan(Sql::Insert(insert)))?;
    let LogicalPlan::Dml(dml) = planned else {
        return internal_err!("insert was planned as {}", planned.display());
    };
    let stream = session.stream(Arc::unwrap_or_clone(dml.input))?;
    Ok(Planned::Store { stream, store: Store { table, mode } })
}

/// `values (1, default)` leaves out the column, which the table gives its default.
fn leave_out_defaults(insert: &mut Insert, schema: &Schema) -> Result<()> {
    let Some(SetExpr::Values(Values { rows, .. })) = insert.source.as_mut().map(|query| query.body.as_mut())
    else {
        return Ok(());
    };
    let is_default = |value: &Expr| matches!(value, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"));
    let width = rows.first().map_or(0, |row| row.content.len());
    for at in (0..width).rev() {
        let defaults = rows.iter().filter(|row| row.content.get(at).is_some_and(is_default)).count();
        if defaults == 0 {
            continue;
        }
        if defaults < rows.len() {
            return plan_err!(
                "insert: default stands for column {} in some rows and not in others; insert these by themselves",
                at + 1
            );
        }
        if insert.columns.is_empty() {
            let names = schema.fields().iter().take(width);
            insert.columns =
                names.map(|f| ObjectName::from(vec![Ident::with_quote('"', f.name())])).collect();
        }
        if at < insert.columns.len() {
            insert.columns.remove(at);
        }
        rows.iter_mut().for_each(|row| drop(row.content.remove(at)));
    }
    match width > 0 && rows.iter().all(|row| row.content.is_empty()) {
        true => plan_err!("insert: every value is default; give one of them"),
        false => Ok(()),
    }
}

pub(super) fn delete(session: &mut Session, delete: &Delete) -> Result<Planned> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    if delete.returning.is_some() || delete.limit.is_some() {
        return plan_err!("delete takes a table and a condition; leave out returning and limit");
    }
    let (given, relation) = only_table(from)?;
    let table = writable(session, given)?;
    let condition = delete.selection.as_ref().map_or("true".to_string(), Expr::to_string);
    let kept = match &delete.using {
        Some(using) => {
            let using: Vec<String> = using.iter().map(ToString::to_string).collect();
            format!("not exists (select 1 from {} where {condition})", using.join(", "))
        }
        None => format!("({condition}) is not true"),
    };
    rewritten(session, &table, &format!("insert into {given} select * from {relation} where {kept}"))
}

pub(super) fn update(session: &mut Session, update: &Update) -> Result<Planned> {
    if update.from.is_some() || update.returning.is_some() || update.limit.is_some() {
        return plan_err!(
            "update takes a table, values and a condition; leave out from, returning and limit"
        );
    }
    let (given, relation) = only_table(std::slice::from_ref(&update.table))?;
    let table = writable(session, given)?;
    let mut values: Vec<(String, &Expr)> = Vec::new();
    for assignment in &update.assignments {
        match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(column), value) => values.push((assigned(column)?, value)),
            (AssignmentTarget::Tuple(columns), Expr::Tuple(each)) if columns.len() == each.len() => {
                for (column, value) in columns.iter().zip(each) {
                    values.push((assigned(column)?, value));
                }
            }
            _ => {
                return plan_err!(
                    "update {table}: set as many columns as there are values, set a = …, b = …"
                );
            }
        }
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
    rewritten(session, &table, &format!("insert into {given} select {columns} from {relation}"))
}

/// The column that is given a value; it may stand behind the name of its table.
fn assigned(column: &ObjectName) -> Result<String> {
    match column.0.last().and_then(|part| part.as_ident()) {
        Some(name) => Ok(names::ident(name)),
        None => names::table(column),
    }
}

pub(super) fn truncate(session: &mut Session, truncate: &Truncate) -> Result<Planned> {
    for target in &truncate.table_names {
        let table = writable(session, &target.name)?;
        let schema = session.tables[&table].stream.schema().clone();
        let memory = Memory { rows: vec![], ..session.memory(&table)?.clone() };
        session.keep(&table, schema, memory)?;
    }
    Ok(Planned::Done("truncated".to_string()))
}

/// The insert that gives the table all rows it shall have, in place of those it has.
fn rewritten(session: &mut Session, table: &str, insert: &str) -> Result<Planned> {
    match plan(session, dialect::parse(insert, &Spelling::default())?)? {
        Planned::Store { stream, .. } => {
            let store = Store { table: table.to_string(), mode: StoreMode::Replace };
            Ok(Planned::Store { stream, store })
        }
        _ => internal_err!("an insert was planned as something else"),
    }
}
