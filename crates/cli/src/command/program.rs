//! `whimbrel sql --as-python`: queries as Python programs.

use super::whole;
use crate::arguments::{Settings, Text};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::script::each_statement;
use whimbrel_sql::Planned;

/// Prints each query as a program that builds its plan; other statements are run, so that the queries can be planned.
pub fn run(text: &Text, settings: &Settings) -> Outcome {
    let mut client = Client::new(settings);
    let (text, name) = whole(text)?;
    each_statement(&text, name.as_deref(), 1, |sql| match client.plan(sql)? {
        Planned::Query(stream) | Planned::Copy { stream, .. } | Planned::Explain { stream, .. } => {
            let program = stream.to_python().map_err(|error| Failure::of(&error, sql))?;
            client.target.text(&program.to_string())
        }
        other @ Planned::Store { .. } => client.act(other, sql),
        Planned::Table(_) | Planned::Done(_) => Ok(()),
    })
}
