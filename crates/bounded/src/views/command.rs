//! `create materialized view` and `drop materialized view`.

use crate::error::{Error, Result};
use crate::syntax::Parsed;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectType, Statement};

/// A statement about a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Create a view of this query.
    Create { name: String, sql: String, if_not_exists: bool },
    /// Drop a view and its rows.
    Drop { name: String, if_exists: bool },
}

impl Command {
    /// The statement, if it is one.
    ///
    /// # Errors
    /// `Invalid` if it is a view that is not materialized, or has clauses that are not supported.
    pub fn of(parsed: &Parsed) -> Result<Option<Command>> {
        match &parsed.statement {
            Statement::CreateView(create) if !create.materialized => Err(Error::invalid(
                "a view is kept: write create materialized view; what is computed anew in every query is part of the query",
            )),
            Statement::CreateView(create) => {
                if create.or_replace || !create.columns.is_empty() {
                    return Err(Error::invalid(
                        "create materialized view takes a name and a query: drop the old view first, name columns by `as`",
                    ));
                }
                let (name, sql) = (named(&create.name)?, create.query.to_string());
                Ok(Some(Command::Create { name, sql, if_not_exists: create.if_not_exists }))
            }
            Statement::Drop {
                object_type: ObjectType::MaterializedView | ObjectType::View,
                names,
                if_exists,
                ..
            } => {
                let [name] = names.as_slice() else { return Err(Error::invalid("drop one view at a time")) };
                Ok(Some(Command::Drop { name: named(name)?, if_exists: *if_exists }))
            }
            _ => Ok(None),
        }
    }
}

/// The one name that a view has.
fn named(name: &ObjectName) -> Result<String> {
    let of = |ident: &Ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    let [part] = name.0.as_slice() else {
        return Err(Error::invalid(format!("{name}: there is one schema; write the name of the view alone")));
    };
    part.as_ident().map(of).ok_or_else(|| Error::invalid(format!("{name} is not a name")))
}
