//! `whimbrel sql --as-python`: queries as Python programs.

use super::input;
use crate::arguments::{Settings, Statements};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::statements::for_each_statement;
use whimbrel_sql::Planned;

/// Prints each query as a program that builds its plan. Statements that store rows are run: queries may read
/// them.
///
/// # Errors
/// `Query` if a statement fails, or a plan has no program.
pub fn run(statements: &Statements, settings: &Settings) -> Result {
    let mut client = Client::new(settings)?;
    let (text, file) = input::read(statements)?;
    for_each_statement(&text, file.as_deref(), 1, |sql| match client.plan(sql)?.planned {
        Planned::Query(stream) | Planned::Copy { stream, .. } | Planned::Explain { stream, .. } => {
            let program = stream.to_python().map_err(|error| Error::in_statement(&error, sql))?;
            client.target.write_text(&program.to_string())
        }
        store @ Planned::Store { .. } => client.execute(store.into(), sql),
        Planned::Table(_) | Planned::Done(_) => Ok(()),
    })
}
