//! The table that a statement changes, and the columns that it assigns.

use crate::catalog::{TableKind, find};
use crate::error::unknown_table;
use crate::session::state::Session;
use crate::syntax::names;
use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, ObjectName, TableFactor, TableWithJoins, VisitorMut,
};
use std::ops::ControlFlow;

/// The table that a statement changes.
pub(super) struct Target {
    /// Its name in the session.
    pub table: String,
    /// As it was written.
    pub given: ObjectName,
    /// Its alias in the statement.
    pub alias: Option<Ident>,
}

impl Target {
    /// The target of a statement.
    ///
    /// # Errors
    /// `Plan` if the table cannot be written into.
    pub fn of(session: &Session, given: &ObjectName, relation: &TableFactor) -> Result<Target> {
        let alias = match relation {
            TableFactor::Table { alias: Some(alias), .. } => Some(alias.name.clone()),
            _ => None,
        };
        Ok(Target { table: writable(session, given)?, given: given.clone(), alias })
    }

    /// The qualifier of its columns.
    pub fn qualifier(&self) -> String {
        self.alias.as_ref().map_or_else(|| self.given.to_string(), Ident::to_string)
    }

    /// The target as it stands in a `from`.
    pub fn relation(&self) -> String {
        match &self.alias {
            Some(alias) => format!("{} as {alias}", self.given),
            None => self.given.to_string(),
        }
    }
}

/// The name of a table in memory, as the session knows it.
///
/// # Errors
/// `Plan` if there is no table of this name, or it cannot be written into.
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

/// The only table of a `from`, and its relation with its alias.
///
/// # Errors
/// `Plan` if there are several tables, or joins.
pub(super) fn only_table(from: &[TableWithJoins]) -> Result<(&ObjectName, &TableFactor)> {
    match from {
        [TableWithJoins { relation: relation @ TableFactor::Table { name, args: None, .. }, joins }]
            if joins.is_empty() =>
        {
            Ok((name, relation))
        }
        _ => plan_err!("one table can be changed at a time, given by its name"),
    }
}

/// The assigned columns and their values.
///
/// # Errors
/// `Plan` if there are not as many values as columns.
pub(super) fn assignments<'a>(table: &str, assignments: &'a [Assignment]) -> Result<Vec<(String, &'a Expr)>> {
    let mut values: Vec<(String, &Expr)> = Vec::new();
    for assignment in assignments {
        match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(column), value) => values.push((assigned_column(column)?, value)),
            (AssignmentTarget::Tuple(columns), Expr::Tuple(each)) if columns.len() == each.len() => {
                for (column, value) in columns.iter().zip(each) {
                    values.push((assigned_column(column)?, value));
                }
            }
            _ => {
                return plan_err!(
                    "update {table}: set as many columns as there are values, set a = …, b = …"
                );
            }
        }
    }
    Ok(values)
}

/// Whether a value is the default of its column.
pub(super) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// The name of an assigned column, without that of its table.
///
/// # Errors
/// `Plan` if the name has too many parts.
pub(super) fn assigned_column(column: &ObjectName) -> Result<String> {
    match column.0.last().and_then(|part| part.as_ident()) {
        Some(name) => Ok(names::ident(name)),
        None => names::table(column),
    }
}

/// Qualifies columns without a table by the name of this one.
pub(super) struct Qualify {
    /// The name of the table.
    pub table: Ident,
}

impl VisitorMut for Qualify {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(column) = expr {
            *expr = Expr::CompoundIdentifier(vec![self.table.clone(), column.clone()]);
        }
        ControlFlow::Continue(())
    }
}
