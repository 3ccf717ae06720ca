//! `create schema`, `drop schema`: a schema is the first part of names of tables.
//!
//! ```sql
//! create schema s;
//! create table s.t (x int);
//! drop schema s cascade;
//! ```

use crate::session::planned::Planned;
use crate::session::state::Session;
use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{ObjectName, SchemaName};

/// `create schema`.
///
/// # Errors
/// `Plan` if there is such a schema, unless `if not exists` is given.
pub(super) fn create(session: &mut Session, name: &SchemaName, if_not_exists: bool) -> Result<Planned> {
    let SchemaName::Simple(name) = name else {
        return plan_err!("create schema takes a name");
    };
    let name = crate::syntax::names::table(name)?;
    if matches!(name.as_str(), "main" | "public") || !session.schemas.insert(name.clone()) {
        return match if_not_exists {
            true => Ok(Planned::Done(format!("{name} is there already"))),
            false => plan_err!("there is a schema {name:?} already"),
        };
    }
    Ok(Planned::Done(format!("schema {name} created")))
}

/// `drop schema`, with its tables if `cascade` says so.
///
/// # Errors
/// `Plan` if there is no such schema, unless `if exists` is given, or it has tables, unless `cascade` is
/// given.
pub(super) fn drop(
    session: &mut Session,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<Planned> {
    for name in names {
        let name = crate::syntax::names::table(name)?;
        if !session.schemas.contains(&name) {
            match if_exists {
                true => continue,
                false => return plan_err!("there is no schema {name:?}"),
            }
        }
        let inside = |table: &String| table.split_once('.').is_some_and(|(schema, _)| schema == name);
        let tables: Vec<String> = session.tables.keys().filter(|table| inside(table)).cloned().collect();
        if let (false, Some(table)) = (cascade, tables.first()) {
            return plan_err!(
                "schema {name} has a table {table}; drop it first, or write drop schema … cascade"
            );
        }
        for table in &tables {
            session.tables.remove(table);
        }
        session.schemas.remove(&name);
    }
    Ok(Planned::Done("schema dropped".to_string()))
}
