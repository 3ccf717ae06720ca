//! `create view`, `create table`, `drop`.
//!
//! ```sql
//! create table t (k int primary key, x int check (x > 0), u int references u (k));
//! create table copied as select * from 'file.parquet';
//! create or replace view totals (k, total) as select k, sum(x) from t group by k;
//! ```

use super::query::{of_query, query_plan};
use super::target::writable;
use crate::catalog::{Check, Constraints, ForeignKey, Key, Memory, Table, TableKind, find, referring, views};
use crate::columns::with_unique_names;
use crate::error::unknown_table;
use crate::session::planned::{Planned, Store, StoreMode};
use crate::session::state::Session;
use crate::syntax::Emit;
use crate::syntax::names;
use crate::syntax::normalize::normalize;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Constraint, Constraints as Keys, DFSchema, Result, internal_err, plan_err};
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, ColumnOption, CreateTable, CreateView, ForeignKeyConstraint, ObjectName, ObjectType,
    ReferentialAction, Statement as Sql, TableConstraint, ViewColumnDef,
};
use std::sync::Arc;
use whimbrel_plan::names::unknown_column;

/// Whether a statement creates a table or view.
enum Creation {
    /// There is one already, which `if not exists` keeps.
    Keep,
    /// It is created.
    Create,
}

/// Decides by `if not exists` and `or replace`.
fn creation(session: &Session, name: &str, if_not_exists: bool, or_replace: bool) -> Result<Creation> {
    match find(&session.tables, name) {
        Some(_) if if_not_exists => Ok(Creation::Keep),
        Some(_) if !or_replace => {
            plan_err!("there is a table {name:?} already; drop it first, or write create or replace")
        }
        _ => Ok(Creation::Create),
    }
}

/// A view, bound to the tables that it names now.
///
/// # Errors
/// `Plan` if the name is taken, or the query has no plan.
pub(super) fn view(session: &mut Session, view: CreateView) -> Result<Planned> {
    let name = names::table(&view.name)?;
    if view.materialized {
        return plan_err!("a view does not keep its rows; create table {name} as … does");
    }
    if let Creation::Keep = creation(session, &name, view.if_not_exists, view.or_replace)? {
        return Ok(Planned::Done(format!("{name} is there already")));
    }
    let query = *view.query;
    let reads = views::read_by(&session.tables, &query);
    let rows = |plan| with_column_names(&name, &view.columns, with_unique_names(plan)?);
    let (plan, stream) = of_query(session, query.clone(), Emit::Final, |plan| {
        let plan = rows(plan)?;
        Ok((plan.clone(), session.stream(plan)?))
    })?;
    let over_tables = match stream.properties().time {
        Some(_) => query_plan(session, query, Emit::CHANGES).and_then(rows).ok(),
        None => None,
    };
    session.tables.insert(name.clone(), Table { stream, plan, kind: TableKind::View { over_tables, reads } });
    Ok(Planned::Done(format!("view {name} created")))
}

/// The rows of a view with the names that it gives its columns.
fn with_column_names(view: &str, columns: &[ViewColumnDef], plan: LogicalPlan) -> Result<LogicalPlan> {
    if columns.is_empty() {
        return Ok(plan);
    }
    let width = plan.schema().fields().len();
    if columns.len() != width {
        return plan_err!("view {view}: {} names for {width} columns", columns.len());
    }
    let exprs = plan.schema().columns().into_iter().zip(columns);
    let exprs: Vec<Expr> = exprs.map(|(c, n)| Expr::Column(c).alias(names::ident(&n.name))).collect();
    LogicalPlanBuilder::from(plan).project(exprs)?.build()
}

/// An empty table, or one of the rows of a query.
///
/// # Errors
/// `Plan` if the name is taken, or a column or constraint makes no sense.
pub(super) fn table(session: &mut Session, mut table: CreateTable) -> Result<Planned> {
    let name = names::table(&table.name)?;
    if let Creation::Keep = creation(session, &name, table.if_not_exists, table.or_replace)? {
        return Ok(Planned::Done(format!("{name} is there already")));
    }
    if let Some(query) = &mut table.query {
        normalize(query);
    }
    // All tables end with their session, temporary ones too.
    table.temporary = false;
    let generated = |option: &ColumnOption| {
        matches!(option, ColumnOption::Generated { .. } | ColumnOption::Materialized(_))
    };
    if let Some(column) =
        table.columns.iter().find(|column| column.options.iter().any(|option| generated(&option.option)))
    {
        return plan_err!(
            "table {name}: column {} is computed of others, which tables here do not do; make a view that computes it",
            column.name
        );
    }
    let clauses = ConstraintClauses::take(&mut table);
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
        return Ok(Planned::Store { stream, store: Box::new(Store::new(name, StoreMode::Create)) });
    }
    if input.schema().fields().is_empty() {
        return plan_err!("table {name} has no column; give it one");
    }
    if create.constraints.iter().filter(|key| matches!(key, Constraint::PrimaryKey(_))).count() > 1 {
        return plan_err!("table {name} has two primary keys; make one of them unique, or one key of both");
    }
    let constraints = clauses.into_constraints(session, &name, input.schema(), &create.constraints)?;
    let defaults = create.column_defaults.into_iter().collect();
    let empty = Memory { rows: vec![], defaults, constraints };
    session.put_table(&name, input.schema().inner().clone(), empty)?;
    Ok(Planned::Done(format!("table {name} created")))
}

/// The constraints of `create table` that DataFusion's planner does not take.
struct ConstraintClauses {
    /// Check constraints.
    checks: Vec<ast::Expr>,
    /// The names of indexes.
    indexes: Vec<String>,
    /// Foreign keys.
    foreign_keys: Vec<ForeignKeyConstraint>,
}

impl ConstraintClauses {
    /// Takes them out of the statement.
    fn take(table: &mut CreateTable) -> ConstraintClauses {
        let mut clauses = ConstraintClauses { checks: vec![], indexes: vec![], foreign_keys: vec![] };
        table.constraints.retain(|constraint| match constraint {
            TableConstraint::Check(check) => {
                clauses.checks.push(check.expr.as_ref().clone());
                false
            }
            TableConstraint::ForeignKey(key) => {
                clauses.foreign_keys.push(key.clone());
                false
            }
            TableConstraint::Index(index) => {
                clauses.indexes.extend(index.name.as_ref().map(names::ident));
                false
            }
            _ => true,
        });
        for column in &mut table.columns {
            let name = column.name.clone();
            column.options.retain(|option| match &option.option {
                ColumnOption::ForeignKey(key) => {
                    clauses
                        .foreign_keys
                        .push(ForeignKeyConstraint { columns: vec![name.clone()], ..key.clone() });
                    false
                }
                ColumnOption::Check(check) => {
                    clauses.checks.push(check.expr.as_ref().clone());
                    false
                }
                _ => true,
            });
        }
        clauses
    }

    /// The constraints, with those that DataFusion's planner took.
    fn into_constraints(
        self,
        session: &Session,
        table: &str,
        schema: &DFSchema,
        keys: &Keys,
    ) -> Result<Constraints> {
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
        let foreign_keys = self.foreign_keys.iter().map(|key| foreign_key(session, table, schema, key));
        Ok(Constraints {
            keys: keys.collect(),
            checks: checks.collect::<Result<_>>()?,
            foreign_keys: foreign_keys.collect::<Result<_>>()?,
            indexes: self.indexes,
        })
    }
}

/// A foreign key, by the positions of its columns.
fn foreign_key(
    session: &Session,
    table: &str,
    schema: &DFSchema,
    clause: &ForeignKeyConstraint,
) -> Result<ForeignKey> {
    let changes_rows = |action: &Option<ReferentialAction>| {
        !matches!(action, None | Some(ReferentialAction::NoAction | ReferentialAction::Restrict))
    };
    if changes_rows(&clause.on_delete) || changes_rows(&clause.on_update) {
        return plan_err!(
            "table {table}: a foreign key cannot change other rows; leave out on delete and on update"
        );
    }
    let position = |schema: &Schema, column: &ast::Ident| {
        let name = names::ident(column);
        schema.index_of(&name).map_err(|_| {
            let known: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            unknown_column(&name, &known)
        })
    };
    let positions = |schema: &Schema, columns: &[ast::Ident]| {
        columns.iter().map(|column| position(schema, column)).collect::<Result<Vec<_>>>()
    };
    let columns = positions(schema.as_arrow(), &clause.columns)?;
    let other = names::table(&clause.foreign_table)?;
    if other == table {
        let key = positions(schema.as_arrow(), &clause.referred_columns)?;
        return Ok(ForeignKey { columns, table: other, key });
    }
    let other = writable(session, &clause.foreign_table)?;
    let keys = &session.memory(&other)?.constraints.keys;
    let key = match clause.referred_columns.as_slice() {
        [] => keys.iter().find(|key| key.primary).map(|key| key.columns.clone()).unwrap_or_default(),
        named => positions(session.tables[&other].stream.schema(), named)?,
    };
    let same =
        |known: &Key| known.columns.len() == key.len() && key.iter().all(|at| known.columns.contains(at));
    match columns.len() == key.len() && keys.iter().any(same) {
        true => Ok(ForeignKey { columns, table: other, key }),
        false => plan_err!(
            "table {table}: a foreign key refers to the primary key of {other}, or to columns that are unique in it"
        ),
    }
}

/// Drops tables and views.
///
/// # Errors
/// `Plan` if there is no such table or view, unless `if exists` is given, or another table refers to it.
pub(super) fn drop(
    session: &mut Session,
    what: ObjectType,
    if_exists: bool,
    names: &[ObjectName],
) -> Result<Planned> {
    let mut dropped = Vec::new();
    for given in names {
        let name = crate::syntax::names::table(given)?;
        let Some((key, table)) = find(&session.tables, &name) else {
            if if_exists {
                continue;
            }
            let known: Vec<&str> = session.tables.keys().map(String::as_str).collect();
            return Err(unknown_table(&name, &known));
        };
        let view = matches!(table.kind, TableKind::View { .. });
        if let Some(other) = referring(&session.tables, key) {
            return plan_err!("{key:?} cannot be dropped: table {other} refers to it; drop that first");
        }
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
        dropped => format!("{} dropped", dropped.join(", ")),
    }))
}
