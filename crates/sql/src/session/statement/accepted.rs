//! Statements that other engines need and this one has nothing to do for: `analyze`, `vacuum`, `checkpoint`; and schemas,
//! which are the first part of the names of tables.

use crate::session::planned::Planned;
use crate::session::state::Session;
use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{ObjectName, SchemaName};

/// Nothing is to be done: there are no statistics that are kept, and no files.
pub(super) fn nothing() -> Result<Planned> {
    Ok(Planned::Done("nothing to do".to_string()))
}

pub(super) fn create_schema(
    session: &mut Session,
    name: &SchemaName,
    if_not_exists: bool,
) -> Result<Planned> {
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

pub(super) fn drop_schema(
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
        tables.iter().for_each(|table| drop(session.tables.remove(table)));
        session.schemas.remove(&name);
    }
    Ok(Planned::Done("schema dropped".to_string()))
}

/// `pragma table_info('t')` and `show databases`, as queries.
pub(super) fn as_query(pragma: &str, argument: Option<&str>) -> Option<String> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match (pragma, argument) {
        ("table_info", Some(table)) => Some(format!("select * from pragma_table_info({})", quoted(table))),
        ("show_tables", None) => {
            Some("select table_name as name from information_schema.tables order by 1".to_string())
        }
        ("databases", None) => Some("select 'memory' as database_name".to_string()),
        _ => None,
    }
}
