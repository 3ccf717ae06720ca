//! `create view`, `create table`, `drop`.

use super::query_plan;
use crate::catalog::{Memory, Table, TableKind, find};
use crate::constraints::{Check, Constraints, Key};
use crate::emit::Emit;
use crate::error::unknown_table;
use crate::names;
use crate::optimize::plain;
use crate::planned::{Planned, Store, StoreMode};
use crate::session::Session;
use datafusion::common::{Constraint, Constraints as Keys, DFSchema, Result, internal_err, plan_err};
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, ColumnOption, CreateTable, CreateView, ObjectName, ObjectType, Statement as Sql, TableConstraint,
};
use std::sync::Arc;

/// What is to be done where there may be a table of that name already.
enum There {
    /// Nothing.
    Keep,
    /// What was asked for.
    Create,
}

fn there(session: &Session, name: &str, if_not_exists: bool, or_replace: bool) -> Result<There> {
    match find(&session.tables, name) {
        Some(_) if if_not_exists => Ok(There::Keep),
        Some(_) if !or_replace => {
            plan_err!("there is a table {name:?} already; drop it first, or write create or replace")
        }
        _ => Ok(There::Create),
    }
}

/// The view is bound when it is made: what its tables are called later does not matter to it.
pub(super) fn view(session: &mut Session, view: CreateView) -> Result<Planned> {
    let name = names::table(&view.name)?;
    if view.materialized {
        return plan_err!("a view does not keep its rows; create table {name} as … does");
    }
    if let There::Keep = there(session, &name, view.if_not_exists, view.or_replace)? {
        return Ok(Planned::Done(format!("{name} is there already")));
    }
    let mut plan = plain(query_plan(session, *view.query, Emit::Final)?)?;
    if !view.columns.is_empty() {
        let width = plan.schema().fields().len();
        if view.columns.len() != width {
            return plan_err!("view {name}: {} names for {width} columns", view.columns.len());
        }
        let columns = plan.schema().columns().into_iter().zip(&view.columns);
        let exprs: Vec<Expr> = columns.map(|(c, n)| Expr::Column(c).alias(names::ident(&n.name))).collect();
        plan = LogicalPlanBuilder::from(plan).project(exprs)?.build()?;
    }
    let stream = session.stream(plan.clone())?;
    session.tables.insert(name.clone(), Table { stream, plan, kind: TableKind::View });
    Ok(Planned::Done(format!("view {name} created")))
}

/// An empty table, or one of the rows of a query.
pub(super) fn table(session: &mut Session, mut table: CreateTable) -> Result<Planned> {
    let name = names::table(&table.name)?;
    if let There::Keep = there(session, &name, table.if_not_exists, table.or_replace)? {
        return Ok(Planned::Done(format!("{name} is there already")));
    }
    if let Some(query) = &mut table.query {
        names::prepare(query);
    }
    // The tables of a session are gone with it, and so are those that are called temporary.
    table.temporary = false;
    let told = Told::take(&mut table);
    let rows = table.query.is_some();
    let planned = session.planner(Emit::Final, |p, _| p.sql_statement_to_plan(Sql::CreateTable(table)))?;
    let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = planned else {
        return internal_err!("create table was planned as {}", planned.display());
    };
    if let (true, Some((column, _))) = (rows, create.column_defaults.first()) {
        return plan_err!(
            "table {name}: column {column:?} cannot have a default in create table … as; create the table, and insert the rows"
        );
    }
    let input = Arc::unwrap_or_clone(create.input);
    if rows {
        let stream = session.stream(input)?;
        return Ok(Planned::Store { stream, store: Store { table: name, mode: StoreMode::Create } });
    }
    let constraints = told.constraints(session, input.schema(), &create.constraints)?;
    let defaults = create.column_defaults.into_iter().collect();
    let empty = Memory { rows: vec![], defaults, constraints };
    session.keep(&name, input.schema().inner().clone(), empty)?;
    Ok(Planned::Done(format!("table {name} created")))
}

/// What was told of a table's rows that DataFusion's planner does not take.
struct Told {
    checks: Vec<ast::Expr>,
    indexes: Vec<String>,
}

impl Told {
    fn take(table: &mut CreateTable) -> Told {
        let mut told = Told { checks: vec![], indexes: vec![] };
        table.constraints.retain(|constraint| match constraint {
            TableConstraint::Check(check) => {
                told.checks.push(check.expr.as_ref().clone());
                false
            }
            TableConstraint::Index(index) => {
                told.indexes.extend(index.name.as_ref().map(names::ident));
                false
            }
            _ => true,
        });
        for column in &mut table.columns {
            column.options.retain(|option| match &option.option {
                ColumnOption::Check(check) => {
                    told.checks.push(check.expr.as_ref().clone());
                    false
                }
                _ => true,
            });
        }
        told
    }

    fn constraints(self, session: &Session, schema: &DFSchema, keys: &Keys) -> Result<Constraints> {
        let keys = keys.iter().map(|key| match key {
            Constraint::PrimaryKey(columns) => Key { index: None, columns: columns.clone(), primary: true },
            Constraint::Unique(columns) => Key { index: None, columns: columns.clone(), primary: false },
        });
        let checks = self.checks.into_iter().map(|check| {
            let text = check.to_string();
            let condition =
                session.planner(Emit::Final, |p, _| p.sql_to_expr(check, schema, &mut Default::default()))?;
            Ok(Check { text, condition })
        });
        Ok(Constraints {
            keys: keys.collect(),
            checks: checks.collect::<Result<_>>()?,
            indexes: self.indexes,
        })
    }
}

/// Takes names away. What a plan has read of them already stays.
pub(super) fn drop(
    session: &mut Session,
    what: ObjectType,
    if_exists: bool,
    listed: &[ObjectName],
) -> Result<Planned> {
    let mut dropped = Vec::new();
    for given in listed {
        let name = names::table(given)?;
        let Some((key, table)) = find(&session.tables, &name) else {
            if if_exists {
                continue;
            }
            let known: Vec<&str> = session.tables.keys().map(String::as_str).collect();
            return Err(unknown_table(&name, &known));
        };
        let view = matches!(table.kind, TableKind::View);
        match what {
            ObjectType::View if !view => return plan_err!("{key:?} is a table: drop table {key}"),
            ObjectType::Table if view => return plan_err!("{key:?} is a view: drop view {key}"),
            ObjectType::Table | ObjectType::View => {}
            other => return plan_err!("there is no {} to drop; there are tables and views", other),
        }
        let key = key.clone();
        session.tables.remove(&key);
        dropped.push(key);
    }
    Ok(Planned::Done(match dropped.as_slice() {
        [] => "nothing to drop".to_string(),
        names => format!("{} dropped", names.join(", ")),
    }))
}
