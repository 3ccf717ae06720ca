//! `create index`, `drop index`. An index makes no query faster here; a unique one is a constraint.
//!
//! ```sql
//! create unique index by_k on t (k);  -- from now on no two rows have the same k
//! drop index by_k;
//! ```

use super::target::writable;
use crate::catalog::{Constraints, Key, Memory, TableKind};
use crate::session::planned::Planned;
use crate::session::state::Session;
use crate::syntax::names;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, IndexColumn, ObjectName};

/// `create index`: a unique one is a key of the table.
///
/// # Errors
/// `Plan` if the table or a column is unknown; `Execution` if two rows have the same key.
pub(super) fn create(session: &mut Session, index: &CreateIndex) -> Result<Planned> {
    let table = writable(session, &index.table_name)?;
    let schema = session.tables[&table].stream.schema().clone();
    let mut memory = session.memory(&table)?.clone();
    let name = match &index.name {
        Some(name) => names::table(name)?,
        None => format!("{table}_index_{}", memory.constraints.indexes.len() + memory.constraints.keys.len()),
    };
    if constraints(session).any(|known| known.has_index(&name)) {
        return match index.if_not_exists {
            true => Ok(Planned::Done(format!("index {name} is there already"))),
            false => plan_err!("there is an index {name:?} already; drop it first"),
        };
    }
    for column in &index.columns {
        if let Ok(name) = column_name(column)
            && schema.index_of(&name).is_err()
        {
            return plan_err!("table {table} has no column {name:?}");
        }
    }
    if index.unique {
        if index.predicate.is_some() {
            return plan_err!("index {name}: a unique index is of all rows; leave out where");
        }
        let columns = index.columns.iter().map(|column| {
            let name = column_name(column)?;
            schema.index_of(&name).map_err(|_| plan_datafusion_err!("table {table} has no column {name:?}"))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        memory.constraints.keys.push(Key { index: Some(name.clone()), columns, primary: false });
    } else {
        memory.constraints.indexes.push(name.clone());
    }
    session.put_table(&table, schema, memory)?;
    Ok(Planned::Done(format!("index {name} created")))
}

/// The name of an indexed column; expressions are refused.
fn column_name(column: &IndexColumn) -> Result<String> {
    match &column.column.expr {
        Expr::Identifier(name) => Ok(names::ident(name)),
        other => plan_err!("a unique index is of columns, and {other} is none"),
    }
}

/// `drop index`.
///
/// # Errors
/// `Plan` if there is no such index, unless `if exists` is given.
pub(super) fn drop(session: &mut Session, if_exists: bool, listed: &[ObjectName]) -> Result<Planned> {
    for given in listed {
        let name = names::table(given)?;
        let mut memories = session.tables.values_mut().filter_map(|table| match &mut table.kind {
            TableKind::Memory(memory) => Some(memory),
            _ => None,
        });
        let dropped = memories.any(|memory| memory.constraints.drop_index(&name));
        if !dropped && !if_exists {
            return plan_err!("there is no index {name:?}");
        }
    }
    Ok(Planned::Done("index dropped".to_string()))
}

/// The constraints of all tables in memory.
fn constraints(session: &Session) -> impl Iterator<Item = &Constraints> {
    session.tables.values().filter_map(|table| match &table.kind {
        TableKind::Memory(Memory { constraints, .. }) => Some(constraints),
        _ => None,
    })
}
