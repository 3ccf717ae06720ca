//! `insert`, `delete`, `update`, `truncate`: changes of tables in memory, each a query whose rows the table
//! gets.

use super::conflict::{conflict, returning};
use super::query::query_plan;
use super::target::{Target, assignments, is_default, only_table, writable};
use crate::catalog::Memory;
use crate::columns::with_unique_names;
use crate::session::planned::{Planned, Store, StoreMode};
use crate::session::state::Session;
use crate::syntax::Emit;
use crate::syntax::ast::contains_subquery;
use crate::syntax::normalize::normalize;
use crate::syntax::parse_query;
use crate::syntax::tokens::BY_NAME;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::{
    Expr as Expression, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, ident, lit, when,
};
use datafusion::sql::sqlparser::ast::{
    Delete, Expr, FromTable, Ident, Insert, ObjectName, SelectItem, SetExpr, Statement as Sql, TableObject,
    TableWithJoins, Truncate, Update, UpdateTableFromKind, Values,
};
use std::collections::HashSet;
use std::sync::Arc;

/// `insert into`.
///
/// # Errors
/// `Plan` if the table cannot be written into, or the rows do not have its columns.
pub(super) fn insert(session: &Session, mut insert: Insert) -> Result<Planned> {
    let TableObject::TableName(given) = &insert.table else {
        return plan_err!("insert into what? give the name of a table");
    };
    let table = writable(session, given)?;
    let alias = insert.table_alias.take().map(|alias| alias.alias);
    let target = Target { table: table.clone(), given: given.clone(), alias };
    let mode = if insert.overwrite { StoreMode::Replace } else { StoreMode::Append };
    let store = Store {
        conflict: conflict(session, &target, &mut insert)?,
        returning: returning(session, &target, insert.returning.take())?,
        ..Store::new(table.clone(), mode)
    };
    drop_default_columns(&mut insert, session.tables[&table].stream.schema())?;
    if let Some(query) = &mut insert.source {
        normalize(query);
        if by_name(&insert.columns) {
            let columns = query_plan(session, query.as_ref().clone(), Emit::Final)?.schema().columns();
            insert.columns = columns.iter().map(|column| quoted(&column.name)).collect();
        }
    }
    let rows = match insert.source {
        None => defaults(session, &table)?,
        Some(_) => {
            let planned =
                session.planner(Emit::Final, |p, _| p.sql_statement_to_plan(Sql::Insert(insert)))?;
            let LogicalPlan::Dml(dml) = planned else {
                return internal_err!("insert was planned as {}", planned.display());
            };
            Arc::unwrap_or_clone(dml.input)
        }
    };
    Ok(Planned::Store { stream: session.stream(rows)?, store: Box::new(store) })
}

/// Whether an insert has the columns of its query: `insert into t by name select …`.
fn by_name(columns: &[ObjectName]) -> bool {
    matches!(columns, [only] if only.to_string() == BY_NAME)
}

/// The quoted name of a column.
fn quoted(column: &str) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', column)])
}

/// One row of the defaults of a table.
fn defaults(session: &Session, table: &str) -> Result<LogicalPlan> {
    let defaults = &session.memory(table)?.defaults;
    let schema = session.tables[table].stream.schema();
    let values = schema.fields().iter().map(|field| {
        let value = defaults.get(field.name()).cloned().unwrap_or_else(|| lit(ScalarValue::Null));
        cast(value, field.data_type().clone()).alias(field.name())
    });
    LogicalPlanBuilder::empty(true).project(values.collect::<Vec<_>>())?.build()
}

/// Drops columns of `values` that are `default` in every row: the table fills them in.
fn drop_default_columns(insert: &mut Insert, schema: &Schema) -> Result<()> {
    let Some(SetExpr::Values(Values { rows, .. })) = insert.source.as_mut().map(|query| query.body.as_mut())
    else {
        return Ok(());
    };
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
            insert.columns = names.map(|f| quoted(f.name())).collect();
        }
        if at < insert.columns.len() {
            insert.columns.remove(at);
        }
        rows.iter_mut().for_each(|row| drop(row.content.remove(at)));
    }
    if width > 0 && rows.iter().all(|row| row.content.is_empty()) {
        if rows.len() > 1 {
            return plan_err!("insert: every value is default; insert such rows one by one");
        }
        insert.source = None;
    }
    Ok(())
}

/// The column that marks the changed or deleted rows.
const MARK: &str = "__changed";

/// `delete from`; `with` stands before it.
///
/// # Errors
/// `Plan` if the table cannot be written into, or the condition names something unknown.
pub(super) fn delete(session: &mut Session, with: &str, delete: Delete) -> Result<Planned> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    if delete.limit.is_some() {
        return plan_err!("delete takes a table and a condition; leave out limit");
    }
    let (given, relation) = only_table(from)?;
    let target = Target::of(session, given, relation)?;
    let condition = delete.selection.as_ref().map_or("true".to_string(), Expr::to_string);
    let rows = match &delete.using {
        Some(using) => {
            let using = comma_separated(using);
            format!(
                "{with} select *, false as {MARK} from {relation} where not exists (select 1 from {using} where {condition}) \
                 union all select *, true from {relation} where exists (select 1 from {using} where {condition})"
            )
        }
        None if delete.selection.as_ref().is_some_and(contains_subquery) => format!(
            "{with} select *, false as {MARK} from {relation} where ({condition}) is not true \
             union all select *, true from {relation} where {condition}"
        ),
        None => format!("{with} select *, ({condition}) is true as {MARK} from {relation}"),
    };
    write_all_rows(session, &target, StoreMode::Delete, delete.returning.clone(), &rows, &[])
}

/// Tables as they stand in a `from`.
fn comma_separated(tables: &[TableWithJoins]) -> String {
    tables.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// `update`; `with` stands before it.
///
/// # Errors
/// `Plan` if the table cannot be written into, or a column is unknown or set twice.
pub(super) fn update(session: &mut Session, with: &str, update: Update) -> Result<Planned> {
    if update.limit.is_some() || update.or.is_some() {
        return plan_err!("update takes a table, values and a condition; leave out limit and or");
    }
    let (given, relation) = only_table(std::slice::from_ref(&update.table))?;
    let target = Target::of(session, given, relation)?;
    let values = assignments(&target.table, &update.assignments)?;
    let schema = session.tables[&target.table].stream.schema().clone();
    if let Some((unknown, _)) = values.iter().find(|(c, _)| schema.field_with_name(c).is_err()) {
        let known: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        return Err(whimbrel_plan::names::unknown_column(unknown, &known));
    }
    let mut set = HashSet::new();
    if let Some((twice, _)) = values.iter().find(|(column, _)| !set.insert(column)) {
        return plan_err!("update {}: column {twice:?} is set twice", target.table);
    }
    let defaults: Vec<&str> =
        values.iter().filter(|(_, value)| is_default(value)).map(|(column, _)| column.as_str()).collect();
    let table = target.qualifier();
    let given = |name: &str| values.iter().find(|(c, value)| c == name && !is_default(value));
    let columns = |condition: Option<&Expr>| {
        let columns = schema.fields().iter().map(|field| {
            let name = Ident::with_quote('"', field.name());
            match (given(field.name()), condition) {
                (None, _) => format!("{table}.{name}"),
                (Some((_, value)), None) => format!("{value} as {name}"),
                (Some((_, value)), Some(only)) => {
                    format!("case when {only} then {value} else {table}.{name} end as {name}")
                }
            }
        });
        columns.collect::<Vec<_>>().join(", ")
    };
    let rows = match (&update.from, &update.selection) {
        (None, None) => format!("{with} select {}, true as {MARK} from {relation}", columns(None)),
        (None, Some(only)) => {
            format!("{with} select {}, ({only}) is true as {MARK} from {relation}", columns(Some(only)))
        }
        (Some(UpdateTableFromKind::AfterSet(from) | UpdateTableFromKind::BeforeSet(from)), only) => {
            let from = comma_separated(from);
            let only = only.as_ref().map_or("true".to_string(), Expr::to_string);
            format!(
                "{with} select {}, true as {MARK} from {relation}, {from} where {only} \
                 union all select *, false from {relation} where not exists (select 1 from {from} where {only})",
                columns(None)
            )
        }
    };
    write_all_rows(session, &target, StoreMode::Update, update.returning.clone(), &rows, &defaults)
}

/// `truncate`.
///
/// # Errors
/// `Plan` if a table cannot be written into; `Execution` if others refer to its rows.
pub(super) fn truncate(session: &mut Session, truncate: &Truncate) -> Result<Planned> {
    for target in &truncate.table_names {
        let table = writable(session, &target.name)?;
        let schema = session.tables[&table].stream.schema().clone();
        let memory = Memory { rows: vec![], ..session.memory(&table)?.clone() };
        session.put_table(&table, schema, memory)?;
    }
    Ok(Planned::Done("truncated".to_string()))
}

/// Writes all rows of a table anew, as a query gives them. Its last column marks the changed ones, in which
/// the columns `reset` get their defaults.
fn write_all_rows(
    session: &Session,
    target: &Target,
    mode: StoreMode,
    returned: Option<Vec<SelectItem>>,
    rows: &str,
    reset: &[&str],
) -> Result<Planned> {
    let table = &target.table;
    let store =
        Store { returning: returning(session, target, returned)?, ..Store::new(table.to_string(), mode) };
    let rows = with_unique_names(query_plan(session, parse_query(rows)?, Emit::Final)?)?;
    let defaults = &session.memory(table)?.defaults;
    let columns = rows.schema().columns();
    let schema = session.tables[table].stream.schema();
    let mut values = Vec::new();
    for (column, field) in columns.iter().zip(schema.fields()) {
        let mut value = Expression::Column(column.clone());
        if reset.contains(&field.name().as_str()) {
            let default = defaults.get(field.name()).cloned().unwrap_or_else(|| lit(ScalarValue::Null));
            value = when(ident(MARK), cast(default, field.data_type().clone())).otherwise(value)?;
        }
        values.push(value.cast_to(field.data_type(), rows.schema())?.alias(field.name()));
    }
    values.push(ident(MARK));
    let stream = session.stream(LogicalPlanBuilder::from(rows).project(values)?.build()?)?;
    Ok(Planned::Store { stream, store: Box::new(store) })
}
