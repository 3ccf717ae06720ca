//! `whimbrel explain`: the plan of a query.

use super::input;
use crate::arguments::{Settings, Statements};
use crate::client::Client;
use crate::error::Result;
use crate::statements::for_each_statement;
use whimbrel_sql::Planned;

/// Prints the plan of each query. Statements that store rows are run: queries may read them.
///
/// # Errors
/// `Query` if a statement fails; `Interrupted`.
pub fn run(statements: &Statements, analyze: bool, settings: &Settings) -> Result {
    let mut client = Client::new(settings)?;
    let (text, file) = input::read(statements)?;
    for_each_statement(&text, file.as_deref(), 1, |sql| {
        let statement = client.plan(sql)?;
        match &statement.planned {
            Planned::Query(stream) | Planned::Copy { stream, .. } => {
                client.explain(stream, &statement.choices, analyze, sql)
            }
            Planned::Explain { stream, analyze: in_statement } => {
                client.explain(stream, &statement.choices, analyze || *in_statement, sql)
            }
            Planned::Store { .. } => client.execute(statement, sql),
            Planned::Table(_) | Planned::Done(_) => Ok(()),
        }
    })
}

/// Prints the ways to run each query in shards. Statements that store rows are run: queries may read them.
///
/// # Errors
/// `Query` if a statement fails; `Interrupted`.
pub fn candidates(statements: &Statements, settings: &Settings) -> Result {
    let mut client = Client::new(settings)?;
    let (text, file) = input::read(statements)?;
    for_each_statement(&text, file.as_deref(), 1, |sql| {
        let statement = client.plan(sql)?;
        match &statement.planned {
            Planned::Query(_) | Planned::Explain { .. } => client.candidates(sql),
            Planned::Store { .. } => client.execute(statement, sql),
            Planned::Copy { .. } | Planned::Table(_) | Planned::Done(_) => Ok(()),
        }
    })
}
